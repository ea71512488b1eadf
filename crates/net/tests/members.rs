//! Links that may lose messages: members come, go, move and start again while the others go on, and
//! nothing ever breaks.
#![allow(missing_docs, reason = "a test's first line says its point")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{Node, Proxy, config, in_time, listener, runtime};
use kgate_core::{Incarnation, NodeId};
use kgate_net::{LinkConfig, LinkEvent, NotAdded, NotSent, WhenFull, Window};
use tokio::net::TcpListener;

fn dropping(me: u32, incarnation: u32, peers: &[(u32, SocketAddr)]) -> LinkConfig {
    LinkConfig {
        when_full: WhenFull::Drop,
        accepts_returns: false,
        ..config(me, incarnation, peers)
    }
}

/// Nodes 0 and 1 with a proxy between them.
async fn pair(change: impl Fn(&mut LinkConfig)) -> (Node, Node, Proxy) {
    let (first, here) = listener().await;
    let (second, there) = listener().await;
    let proxy = Proxy::to(there).await;
    let mut configs = [dropping(0, 1, &[(1, proxy.address)]), dropping(1, 1, &[(0, here)])];
    configs.iter_mut().for_each(change);
    let [zero, one] = configs;
    let (mut zero, mut one) = (Node::start(zero, first).await, Node::start(one, second).await);
    zero.up(1).await;
    one.up(0).await;
    (zero, one, proxy)
}

async fn works(here: &mut Node, me: u32, there: &mut Node, other: u32) {
    here.send(other, 11);
    assert_eq!(there.frame().await, (me, 11));
    there.send(me, 12);
    assert_eq!(here.frame().await, (other, 12));
}

/// A member that is added is connected to whoever has added it; the others are not disturbed.
#[test]
fn a_member_comes() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        assert_eq!(zero.links.send(NodeId(2), vec![]), Err(NotSent::NoPeer(NodeId(2))));
        let (third, beyond) = listener().await;
        let mut two = Node::start(dropping(2, 1, &[]), third).await;
        for node in [&mut zero, &mut one] {
            node.links.add(NodeId(2), &beyond.to_string()).unwrap();
        }
        // The greater id does not dial, and does not know them yet: it says whom it does not know,
        // and they go on calling.
        let (_, why) = two.refused().await;
        assert!(why.contains("p2 of cluster \"farm\" knows no p"), "{why}");
        two.links.add(NodeId(0), &proxy.address.to_string()).unwrap();
        two.links.add(NodeId(1), &proxy.address.to_string()).unwrap();
        two.up(0).await;
        zero.up(2).await;
        works(&mut zero, 0, &mut two, 2).await;
        works(&mut two, 2, &mut one, 1).await;
        works(&mut zero, 0, &mut one, 1).await;
    });
}

/// A member that is removed is cut off at once and refused by name, and comes back when it is added
/// again.
#[test]
fn a_member_goes() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        assert_eq!(one.links.remove(NodeId(0)), Ok(true));
        assert_eq!(one.links.remove(NodeId(0)), Ok(false), "it is none any more");
        assert_eq!(one.links.send(NodeId(0), vec![]), Err(NotSent::NoPeer(NodeId(0))));
        zero.down(1).await;
        let (peer, why) = zero.refused().await;
        assert_eq!(peer, Some(1));
        assert!(why.contains("p1 of cluster \"farm\" has removed p0 from its members"), "{why}");
        let (peer, here) = one.refused().await;
        assert!(peer.is_none() && why.contains(&here), "{here}");
        one.links.add(NodeId(0), &proxy.address.to_string()).unwrap();
        assert_eq!((zero.up(1).await, one.up(0).await), (1, 1));
        works(&mut zero, 0, &mut one, 1).await;
    });
}

/// A removed member that still dials from the greater side gets no call any more.
#[test]
fn a_removed_member_is_not_called() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        assert_eq!(zero.links.remove(NodeId(1)), Ok(true));
        one.down(0).await;
        proxy.cut();
        let silent = tokio::time::timeout(Duration::from_millis(300), one.events.recv()).await;
        assert!(silent.is_err(), "{silent:?}");
    });
}

/// A new address is used for the next connection, at once if none works; one that works is left
/// alone.
#[test]
fn a_member_moves() {
    runtime().block_on(async {
        let slow = |config: &mut LinkConfig| {
            config.limits.pause_least = Duration::from_secs(3600);
            config.limits.pause_most = Duration::from_secs(3600);
        };
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        let detour = Proxy::to(proxy.address).await;
        zero.links.add(NodeId(1), &detour.address.to_string()).unwrap();
        works(&mut zero, 0, &mut one, 1).await;
        proxy.cut();
        zero.up(1).await;
        works(&mut zero, 0, &mut one, 1).await;
        assert_eq!(detour.accepted.load(std::sync::atomic::Ordering::Relaxed), 1);
        // A node that has just failed to reach a dead address does not sleep its pause out.
        let (dead, nobody) = listener().await;
        drop(dead);
        let mut late = dropping(0, 2, &[(1, nobody)]);
        slow(&mut late);
        late.limits.pause_least = Duration::from_millis(1);
        zero.links.stop().await;
        one.down(0).await;
        let (first, _) = listener().await;
        let mut late = Node::start(late, first).await;
        late.links.add(NodeId(1), &proxy.address.to_string()).unwrap();
        assert_eq!((late.up(1).await, one.up(0).await), (1, 2));
    });
}

/// LEASES 11: beyond the bound the oldest is dropped and counted, the link does not break, and the
/// newest come.
#[test]
fn a_full_link_drops_the_oldest() {
    runtime().block_on(async {
        let small =
            |config: &mut LinkConfig| config.limits.window = Window { frames: 10, bytes: 1 << 20 };
        let (mut zero, mut one, proxy) = pair(small).await;
        proxy.shut();
        zero.down(1).await;
        (0..25).for_each(|value| zero.send(1, value));
        assert_eq!(
            (zero.links.dropped(NodeId(1)), zero.links.broken(NodeId(1))),
            (Ok(15), Ok(None))
        );
        proxy.open();
        one.up(0).await;
        for value in 15..25 {
            assert_eq!(one.frame().await, (0, value));
        }
        zero.links.forget(NodeId(1), "it never breaks").unwrap();
        assert_eq!(zero.links.broken(NodeId(1)), Ok(None));
        zero.up(1).await;
        works(&mut zero, 0, &mut one, 1).await;
    });
}

/// A peer that reads nothing costs its bound and no more, however much is sent, and is never held
/// for broken.
#[test]
fn a_peer_that_reads_nothing() {
    runtime().block_on(async {
        let (first, here) = listener().await;
        let (second, there) = listener().await;
        let small = |mut config: LinkConfig| {
            config.limits.window = Window { frames: 16, bytes: 1 << 20 };
            config
        };
        let mut zero = Node::start(small(dropping(0, 1, &[(1, there)])), first).await;
        let mut deaf = Node::with_queue(small(dropping(1, 1, &[(0, here)])), second, 1).await;
        zero.up(1).await;
        const COUNT: u64 = 2000;
        for value in 0..COUNT {
            let mut bytes = vec![0; 50_000];
            bytes[..8].copy_from_slice(&value.to_le_bytes());
            zero.links.send(NodeId(1), bytes).unwrap();
            tokio::task::yield_now().await;
        }
        assert!(zero.links.dropped(NodeId(1)).unwrap() > 0, "the test sends too little");
        assert_eq!(zero.links.broken(NodeId(1)), Ok(None));
        let mut last = None;
        while last != Some(COUNT - 1) {
            if let LinkEvent::Frame { bytes, .. } = deaf.next().await {
                let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(last.is_none_or(|last| last < value), "{value} after {last:?}");
                last = Some(value);
            }
        }
    });
}

/// Cuts within frames may lose messages and nothing else: what comes is in order, each once, and
/// the link is up again by itself.
#[test]
fn cuts_keep_the_order() {
    runtime().block_on(async {
        const COUNT: u64 = 3000;
        let (zero, mut one, proxy) = pair(|_| {}).await;
        proxy.cut_within(4000);
        proxy.cut();
        for value in 0..COUNT {
            zero.send(1, value);
            if value % 20 == 0 {
                tokio::task::yield_now().await;
            }
        }
        // The last may be lost: so it is sent until it comes.
        let last = async {
            let mut last = None;
            while last != Some(COUNT) {
                let next = tokio::time::timeout(Duration::from_millis(20), one.events.recv()).await;
                match next {
                    Ok(Some(LinkEvent::Frame { bytes, .. })) => {
                        let value = common::value(&bytes);
                        assert!(last.is_none_or(|last| last < value), "{value} after {last:?}");
                        last = Some(value);
                    }
                    Ok(Some(event)) => {
                        assert!(
                            matches!(event, LinkEvent::Up { .. } | LinkEvent::Down { .. }),
                            "{event:?}"
                        );
                    }
                    Ok(None) => panic!("the links run"),
                    Err(_) => zero.send(1, COUNT),
                }
            }
        };
        in_time("the last", last).await;
    });
}

/// R1, R2: the same incarnation after a clean stop, and a new one after a crash, are simply
/// connected again; no event says that anybody crashed.
#[test]
fn a_restart_is_a_new_connection() {
    for reborn in [0, 1] {
        for incarnation in [1, 2] {
            runtime().block_on(async {
                let (zero, one, proxy) = pair(|_| {}).await;
                let other = 1 - reborn;
                let (dies, mut stays) = if reborn == 0 { (zero, one) } else { (one, zero) };
                dies.send(other, 1);
                dies.links.stop().await;
                let (listener, address): (TcpListener, _) = listener().await;
                if reborn == 1 {
                    proxy.redirect(address);
                }
                let mut new =
                    Node::start(dropping(reborn, incarnation, &[(other, proxy.address)]), listener)
                        .await;
                let (peer, incarnation) = (NodeId(reborn), Incarnation(incarnation));
                assert_eq!(stays.frame().await, (reborn, 1));
                assert_eq!(stays.next().await, LinkEvent::Down { peer });
                assert_eq!(stays.next().await, LinkEvent::Up { peer, incarnation });
                new.up(other).await;
                works(&mut stays, other, &mut new, reborn).await;
            });
        }
    }
}

/// An older incarnation than the one that was met is still refused: a newer process of that name
/// runs.
#[test]
fn an_older_incarnation_is_refused() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|config| config.incarnation = Incarnation(5)).await;
        let (listener, _) = listener().await;
        let mut late = Node::start(dropping(0, 4, &[(1, proxy.address)]), listener).await;
        assert!(late.refused().await.1.contains("stop the older one"));
        assert!(one.refused().await.1.contains("p0 calls as incarnation 4"));
        works(&mut zero, 0, &mut one, 1).await;
    });
}

/// A node with fixed nodes and one whose members come and go do not meet, and both hear why.
#[test]
fn both_sides_must_agree_on_it() {
    for fixed in [0, 1] {
        runtime().block_on(async {
            let (first, here) = listener().await;
            let (second, there) = listener().await;
            let mut configs = [dropping(0, 1, &[(1, there)]), dropping(1, 1, &[(0, here)])];
            configs[fixed].when_full = WhenFull::Break;
            let [zero, one] = configs;
            let (mut zero, mut one) =
                (Node::start(zero, first).await, Node::start(one, second).await);
            for (_, why) in [zero.refused().await, one.refused().await] {
                for part in
                    ["p0", "p1", "fixed", "members come and go", "give both the same `faults`"]
                {
                    assert!(why.contains(part), "{part}: {why}");
                }
            }
        });
    }
}

/// A caller's mistakes are told at once and change nothing.
#[test]
fn mistakes_of_the_caller() {
    runtime().block_on(async {
        let (mut zero, mut one, _proxy) = pair(|_| {}).await;
        assert_eq!(zero.links.add(NodeId(0), "127.0.0.1:1"), Err(NotAdded::Myself(NodeId(0))));
        let plain = zero.links.add(NodeId(1), "10.0.0.1:1").unwrap_err().to_string();
        assert!(plain.contains("10.0.0.1:1") && plain.contains("kgate certs new"), "{plain}");
        works(&mut zero, 0, &mut one, 1).await;
        let (fixed, address) = listener().await;
        let mut fixed = Node::start(config(0, 1, &[(1, address)]), fixed).await;
        for refused in
            [fixed.links.add(NodeId(2), "127.0.0.1:1"), fixed.links.remove(NodeId(1)).map(drop)]
        {
            assert!(matches!(refused, Err(NotAdded::Fixed(_))), "{refused:?}");
        }
    });
}
