//! Links that may lose messages: members are added, removed, moved and restarted while the others
//! go on, and no link ever fails.
#![allow(missing_docs, reason = "a test's first line says its point")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{Node, Proxy, config, in_time, listener, runtime};
use kgate_core::{Incarnation, NodeId};
use kgate_net::wire::RefuseCode;
use kgate_net::{LinkConfig, LinkEvent, MembershipError, SendError, StartError, WhenFull, Window};
use tokio::net::TcpListener;

fn dropping(me: u32, incarnation: u32, peers: &[(u32, SocketAddr)]) -> LinkConfig {
    LinkConfig {
        when_full: WhenFull::Drop,
        accepts_restarts: false,
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

async fn check_link(here: &mut Node, me: u32, there: &mut Node, other: u32) {
    here.send(other, 11);
    assert_eq!(there.message().await, (me, 11));
    there.send(me, 12);
    assert_eq!(here.message().await, (other, 12));
}

/// A new member is connected to the nodes that added it; the other links are not disturbed.
#[test]
fn a_member_is_added() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        assert_eq!(zero.links.send(NodeId(2), vec![]), Err(SendError::UnknownPeer(NodeId(2))));
        let (third, beyond) = listener().await;
        let mut two = Node::start(dropping(2, 1, &[]), third).await;
        for node in [&mut zero, &mut one] {
            node.links.add(NodeId(2), &beyond.to_string()).unwrap();
        }
        // The greater id does not dial, and does not know the others yet: it refuses them, and they
        // keep dialling.
        assert_eq!(two.refused().await.1.code, RefuseCode::UnknownNode);
        two.links.add(NodeId(0), &proxy.address.to_string()).unwrap();
        two.links.add(NodeId(1), &proxy.address.to_string()).unwrap();
        two.up(0).await;
        zero.up(2).await;
        check_link(&mut zero, 0, &mut two, 2).await;
        check_link(&mut two, 2, &mut one, 1).await;
        check_link(&mut zero, 0, &mut one, 1).await;
    });
}

/// A removed member loses its connection at once and is refused, until it is added again.
#[test]
fn a_member_is_removed() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        assert!(one.links.remove(NodeId(0)).unwrap());
        assert!(!one.links.remove(NodeId(0)).unwrap(), "it is no member any more");
        assert_eq!(one.links.send(NodeId(0), vec![]), Err(SendError::UnknownPeer(NodeId(0))));
        zero.down(1).await;
        let (peer, refusal) = zero.refused().await;
        assert_eq!((peer, refusal.code, refusal.by_peer), (Some(1), RefuseCode::RemovedNode, true));
        let (peer, refusal) = one.refused().await;
        assert_eq!((peer, refusal.code, refusal.by_peer), (None, RefuseCode::RemovedNode, false));
        one.links.add(NodeId(0), &proxy.address.to_string()).unwrap();
        assert_eq!((zero.up(1).await, one.up(0).await), (1, 1));
        check_link(&mut zero, 0, &mut one, 1).await;
    });
}

/// A removed member is not dialled any more.
#[test]
fn a_removed_member_is_not_dialled() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        assert!(zero.links.remove(NodeId(1)).unwrap());
        one.down(0).await;
        proxy.cut();
        let silent = tokio::time::timeout(Duration::from_millis(300), one.events.recv()).await;
        assert!(silent.is_err(), "{silent:?}");
    });
}

/// A new address is used for the next connection, at once if there is none; a connection that works
/// stays.
#[test]
fn a_member_moves() {
    runtime().block_on(async {
        let slow = |config: &mut LinkConfig| {
            config.limits.backoff_min = Duration::from_secs(3600);
            config.limits.backoff_max = Duration::from_secs(3600);
        };
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        let detour = Proxy::to(proxy.address).await;
        zero.links.add(NodeId(1), &detour.address.to_string()).unwrap();
        check_link(&mut zero, 0, &mut one, 1).await;
        proxy.cut();
        zero.up(1).await;
        check_link(&mut zero, 0, &mut one, 1).await;
        assert_eq!(detour.accepted.load(std::sync::atomic::Ordering::Relaxed), 1);
        // A node that has just failed to reach a dead address does not wait for its backoff.
        let (dead, nobody) = listener().await;
        drop(dead);
        let mut late = dropping(0, 2, &[(1, nobody)]);
        slow(&mut late);
        late.limits.backoff_min = Duration::from_millis(1);
        zero.links.stop().await;
        one.down(0).await;
        let (first, _) = listener().await;
        let mut late = Node::start(late, first).await;
        late.links.add(NodeId(1), &proxy.address.to_string()).unwrap();
        assert_eq!((late.up(1).await, one.up(0).await), (1, 2));
    });
}

/// LEASES 11: beyond the bound the oldest message is dropped and counted, the link does not fail,
/// and the newest messages arrive.
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
            (zero.links.dropped(NodeId(1)), zero.links.failure(NodeId(1))),
            (Ok(15), Ok(None))
        );
        proxy.open();
        one.up(0).await;
        for value in 15..25 {
            assert_eq!(one.message().await, (0, value));
        }
        zero.links.declare_dead(NodeId(1), "has no effect").unwrap();
        assert_eq!(zero.links.failure(NodeId(1)), Ok(None));
        zero.up(1).await;
        check_link(&mut zero, 0, &mut one, 1).await;
    });
}

/// A peer that reads nothing costs at most its bound, however much is sent, and its link never
/// fails.
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
        let mut slow = Node::with_queue(small(dropping(1, 1, &[(0, here)])), second, 1).await;
        zero.up(1).await;
        const COUNT: u64 = 2000;
        for value in 0..COUNT {
            let mut bytes = vec![0; 50_000];
            bytes[..8].copy_from_slice(&value.to_le_bytes());
            zero.links.send(NodeId(1), bytes).unwrap();
            tokio::task::yield_now().await;
        }
        assert!(zero.links.dropped(NodeId(1)).unwrap() > 0, "the test sends too little");
        assert_eq!(zero.links.failure(NodeId(1)), Ok(None));
        let mut last = None;
        while last != Some(COUNT - 1) {
            if let LinkEvent::Message { bytes, .. } = slow.next().await {
                let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(last.is_none_or(|last| last < value), "{value} after {last:?}");
                last = Some(value);
            }
        }
    });
}

/// Cuts within frames may only lose messages: the others arrive in order, each once, and the link
/// reconnects by itself.
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
        // The last message may be lost, so it is sent until it arrives.
        let last = async {
            let mut last = None;
            while last != Some(COUNT) {
                let next = tokio::time::timeout(Duration::from_millis(20), one.events.recv()).await;
                match next {
                    Ok(Some(LinkEvent::Message { bytes, .. })) => {
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

/// R1, R2: the same incarnation after a clean stop, and a new one after a crash, are connected
/// again; no event reports a crash.
#[test]
fn a_restart_is_a_new_connection() {
    for restarted in [0, 1] {
        for incarnation in [1, 2] {
            runtime().block_on(async {
                let (zero, one, proxy) = pair(|_| {}).await;
                let other = 1 - restarted;
                let (stops, mut stays) = if restarted == 0 { (zero, one) } else { (one, zero) };
                stops.send(other, 1);
                stops.links.stop().await;
                let (listener, address): (TcpListener, _) = listener().await;
                if restarted == 1 {
                    proxy.redirect(address);
                }
                let mut new = Node::start(
                    dropping(restarted, incarnation, &[(other, proxy.address)]),
                    listener,
                )
                .await;
                let (peer, incarnation) = (NodeId(restarted), Incarnation(incarnation));
                assert_eq!(stays.message().await, (restarted, 1));
                assert_eq!(stays.next().await, LinkEvent::Down { peer });
                assert_eq!(stays.next().await, LinkEvent::Up { peer, incarnation });
                new.up(other).await;
                check_link(&mut stays, other, &mut new, restarted).await;
            });
        }
    }
}

/// An incarnation older than the known one is still refused: a newer process of that name runs.
#[test]
fn an_older_incarnation_is_refused() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|config| config.incarnation = Incarnation(5)).await;
        let (listener, _) = listener().await;
        let mut late = Node::start(dropping(0, 4, &[(1, proxy.address)]), listener).await;
        for node in [&mut late, &mut one] {
            assert_eq!(node.refused().await.1.code, RefuseCode::StaleIncarnation);
        }
        check_link(&mut zero, 0, &mut one, 1).await;
    });
}

/// A node with fixed nodes and one with changing members refuse each other, and both report why.
#[test]
fn both_sides_must_agree_on_fixed_nodes() {
    for fixed in [0, 1] {
        runtime().block_on(async {
            let (first, here) = listener().await;
            let (second, there) = listener().await;
            let mut configs = [dropping(0, 1, &[(1, there)]), dropping(1, 1, &[(0, here)])];
            configs[fixed].when_full = WhenFull::Break;
            let [zero, one] = configs;
            let (mut zero, mut one) =
                (Node::start(zero, first).await, Node::start(one, second).await);
            for (_, refusal) in [zero.refused().await, one.refused().await] {
                assert_eq!(refusal.code, RefuseCode::Membership);
            }
        });
    }
}

/// A wrong call fails at once and changes nothing.
#[test]
fn wrong_calls_fail() {
    runtime().block_on(async {
        let (mut zero, mut one, _proxy) = pair(|_| {}).await;
        let own = zero.links.add(NodeId(0), "127.0.0.1:1");
        assert!(matches!(own, Err(MembershipError::OwnNode(NodeId(0)))), "{own:?}");
        let plain = zero.links.add(NodeId(1), "10.0.0.1:1");
        let Err(MembershipError::Address(StartError::Plain { address })) = plain else {
            panic!("{plain:?}")
        };
        assert_eq!(address, "10.0.0.1:1");
        check_link(&mut zero, 0, &mut one, 1).await;
        let (fixed, address) = listener().await;
        let mut fixed = Node::start(config(0, 1, &[(1, address)]), fixed).await;
        for refused in
            [fixed.links.add(NodeId(2), "127.0.0.1:1"), fixed.links.remove(NodeId(1)).map(drop)]
        {
            assert!(matches!(refused, Err(MembershipError::Fixed(_))), "{refused:?}");
        }
    });
}
