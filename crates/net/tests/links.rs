//! Links between nodes with real sockets: order, exactly once, cuts, full windows, new
//! incarnations, slow peers.
#![allow(missing_docs, reason = "a test's first line says its point")]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Node, Proxy, config, in_time, limits, listener, runtime};
use kgate_core::{Incarnation, NodeId};
use kgate_net::{Broken, LinkConfig, LinkEvent, LinkLimits, NotSent, Window};

/// Nodes 0 and 1, with a proxy between them.
async fn pair(change: impl Fn(&mut LinkConfig)) -> (Node, Node, Proxy) {
    let (first, here) = listener().await;
    let (second, there) = listener().await;
    let proxy = Proxy::to(there).await;
    let mut configs = [config(0, 1, &[(1, proxy.address)]), config(1, 1, &[(0, here)])];
    configs.iter_mut().for_each(change);
    let [zero, one] = configs;
    (Node::start(zero, first).await, Node::start(one, second).await, proxy)
}

/// What is sent comes, in order, once, both ways, after `Up`; what was sent before that is kept for
/// it.
#[test]
fn two_nodes_talk() {
    runtime().block_on(async {
        let (mut zero, mut one, _proxy) = pair(|_| {}).await;
        (0..100).for_each(|value| zero.send(1, value));
        assert_eq!(
            one.next().await,
            LinkEvent::Up { peer: NodeId(0), incarnation: Incarnation(1) }
        );
        assert_eq!(
            zero.next().await,
            LinkEvent::Up { peer: NodeId(1), incarnation: Incarnation(1) }
        );
        for value in 0..100 {
            assert_eq!(one.frame().await, (0, value));
            one.send(0, value * 2);
        }
        for value in 0..100 {
            assert_eq!(zero.frame().await, (1, value * 2));
        }
    });
}

/// Three nodes: everybody hears everybody, over exactly one connection a pair.
#[test]
fn three_nodes_have_one_connection_a_pair() {
    runtime().block_on(async {
        let mut listeners = Vec::new();
        let mut proxies = Vec::new();
        for _ in 0..3 {
            let (listener, address) = listener().await;
            listeners.push(listener);
            proxies.push(Proxy::to(address).await);
        }
        let mut nodes = Vec::new();
        for (me, listener) in (0..).zip(listeners) {
            let others = (0..3).zip(&proxies).filter(|(id, _)| *id != me);
            let peers: Vec<_> = others.map(|(id, proxy)| (id, proxy.address)).collect();
            nodes.push(Node::start(config(me, 1, &peers), listener).await);
        }
        for (me, node) in (0..3u64).zip(&nodes) {
            (0..3).filter(|to| u64::from(*to) != me).for_each(|to| node.send(to, me));
        }
        for node in &mut nodes {
            for _ in 0..2 {
                let (from, value) = node.frame().await;
                assert_eq!(u64::from(from), value);
            }
        }
        let accepted = proxies.iter().map(|proxy| proxy.accepted.load(Ordering::Relaxed));
        assert_eq!(accepted.collect::<Vec<_>>(), [0, 1, 2], "the smaller id dials");
    });
}

/// Connections that are cut again and again, within frames: no loss, no duplicate, no disorder, in
/// both directions.
#[test]
fn cuts_lose_nothing_and_double_nothing() {
    runtime().block_on(async {
        const COUNT: u64 = 5000;
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        zero.up(1).await;
        one.up(0).await;
        proxy.cut_within(4000);
        proxy.cut();
        for value in 0..COUNT {
            zero.send(1, value);
            one.send(0, value);
            if value % 50 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let all = async |node: &mut Node, from| {
            for value in 0..COUNT {
                assert_eq!(node.frame().await, (from, value));
            }
        };
        tokio::join!(all(&mut one, 0), all(&mut zero, 1));
        let cuts = proxy.accepted.load(Ordering::Relaxed);
        assert!(cuts > 20, "only {cuts} connections: the test cuts too little");
    });
}

/// After a cut: `Down`, then `Up` of the same incarnation by itself, and what was sent in between
/// comes.
#[test]
fn a_link_comes_back_by_itself() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|_| {}).await;
        zero.up(1).await;
        one.up(0).await;
        proxy.shut();
        zero.down(1).await;
        one.down(0).await;
        zero.send(1, 7);
        one.send(0, 8);
        proxy.open();
        assert_eq!((zero.up(1).await, one.up(0).await), (1, 1));
        assert_eq!((zero.frame().await, one.frame().await), ((1, 8), (0, 7)));
    });
}

/// A connection that is open and carries nothing is found by its silence; an idle one that works is
/// not.
#[test]
fn silence_closes_and_idleness_does_not() {
    runtime().block_on(async {
        let times = |config: &mut LinkConfig| {
            config.limits.keep_alive = Duration::from_millis(40);
            config.limits.silence = Duration::from_millis(400);
            config.limits.handshake = Duration::from_millis(200);
        };
        let (mut zero, mut one, proxy) = pair(times).await;
        zero.up(1).await;
        one.up(0).await;
        // Idle for several times the silence: nothing happens.
        let idle = tokio::time::timeout(Duration::from_secs(2), zero.events.recv()).await;
        assert!(idle.is_err(), "an idle link: {idle:?}");
        proxy.hold();
        zero.send(1, 5);
        zero.down(1).await;
        one.down(0).await;
        proxy.cut();
        assert_eq!(one.frame().await, (0, 5));
    });
}

/// A window that is full breaks the link, loudly and once, and the other side learns why when it is
/// back.
#[test]
fn a_full_window_breaks_the_link() {
    runtime().block_on(async {
        let small =
            |config: &mut LinkConfig| config.limits.window = Window { frames: 10, bytes: 1 << 20 };
        let (mut zero, mut one, proxy) = pair(small).await;
        zero.up(1).await;
        one.up(0).await;
        proxy.shut();
        zero.down(1).await;
        (0..20).for_each(|value| zero.send(1, value));
        let why = Broken::Overrun { frames: 10, bytes: 80 };
        assert_eq!(zero.next().await, LinkEvent::Broken { peer: NodeId(1), why: why.clone() });
        assert_eq!(zero.links.broken(NodeId(1)), Ok(Some(why)));
        proxy.open();
        let (peer, text) = one.refused().await;
        assert_eq!(peer, Some(0));
        assert!(text.contains("p0 has broken off with incarnation 1 of p1"), "{text}");
        assert!(text.contains("10 messages of 80 bytes"), "{text}");
        // It stays broken: nothing more comes through, and nothing is told again.
        zero.send(1, 99);
        let (peer, _) = zero.refused().await;
        assert_eq!(peer, Some(1));
        let more = tokio::time::timeout(Duration::from_millis(300), one.events.recv()).await;
        assert!(more.is_err(), "told twice: {more:?}");
    });
}

/// Acknowledgements alone make room: a one-way stream many times the window passes.
#[test]
fn a_one_way_stream_is_acknowledged() {
    runtime().block_on(async {
        let small = |config: &mut LinkConfig| {
            config.limits.window = Window { frames: 100, bytes: 1 << 20 };
            config.limits.ack_frames = 10;
        };
        let (mut zero, mut one, _proxy) = pair(small).await;
        zero.up(1).await;
        for round in 0..50 {
            (0..40).for_each(|value| zero.send(1, round * 40 + value));
            for value in 0..40 {
                assert_eq!(one.frame().await, (0, round * 40 + value));
            }
        }
        assert_eq!(zero.links.broken(NodeId(1)), Ok(None));
    });
}

/// Stops one of the two and starts it again, as its next incarnation.
async fn restart(dies: Node, proxy: &Proxy, next: LinkConfig) -> Node {
    dies.links.stop().await;
    let (listener, address) = listener().await;
    if next.me == NodeId(1) {
        proxy.redirect(address);
    }
    Node::start(next, listener).await
}

/// A peer that comes back as a new incarnation: `Down`, `Reborn`, `Up`, in this order; what was
/// meant for the old incarnation never comes. Whichever of the two it is.
#[test]
fn a_new_incarnation_takes_the_place_of_the_old() {
    for reborn in [0, 1] {
        runtime().block_on(async {
            let (mut zero, mut one, proxy) = pair(|_| {}).await;
            let other = 1 - reborn;
            zero.up(1).await;
            one.up(0).await;
            let (dies, mut stays) = if reborn == 0 { (zero, one) } else { (one, zero) };
            dies.send(other, 1);
            let mut new = restart(dies, &proxy, config(reborn, 2, &[(other, proxy.address)])).await;
            let peer = NodeId(reborn);
            assert_eq!(stays.frame().await, (reborn, 1), "what was sent before the stop comes");
            assert_eq!(stays.next().await, LinkEvent::Down { peer });
            stays.send(reborn, 2);
            let (was, now) = (Incarnation(1), Incarnation(2));
            assert_eq!(stays.next().await, LinkEvent::Reborn { peer, was, now });
            assert_eq!(stays.next().await, LinkEvent::Up { peer, incarnation: now });
            stays.send(reborn, 3);
            stays.links.welcome(peer, was).unwrap();
            stays.send(reborn, 4);
            stays.links.welcome(peer, now).unwrap();
            stays.send(reborn, 5);
            assert_eq!(
                new.frame().await,
                (other, 5),
                "the first that was meant for the new incarnation"
            );
            new.send(other, 6);
            assert_eq!(stays.frame().await, (reborn, 6));
        });
    }
}

/// Without returns a new incarnation is refused, on both sides with the reason, and stays refused;
/// others are not touched by it.
#[test]
fn a_new_incarnation_is_refused_where_returns_are_not_accepted() {
    for reborn in [0, 1] {
        runtime().block_on(async {
            let no_returns = |config: &mut LinkConfig| config.accepts_returns = false;
            let (mut zero, mut one, proxy) = pair(no_returns).await;
            let other = 1 - reborn;
            zero.up(1).await;
            one.up(0).await;
            let (dies, mut stays) = if reborn == 0 { (zero, one) } else { (one, zero) };
            let mut next = config(reborn, 2, &[(other, proxy.address)]);
            no_returns(&mut next);
            let mut new = restart(dies, &proxy, next).await;
            stays.down(reborn).await;
            let ((here, why), (there, heard)) = (stays.refused().await, new.refused().await);
            assert_eq!((here, there), (Some(reborn), Some(other)));
            for part in [
                &format!("p{reborn} was here as incarnation 1 and returns as incarnation 2"),
                "a restarted node cannot take part again until membership is agreed",
                "start them together",
            ] {
                assert!(why.contains(part) && heard.contains(part), "{why} / {heard}");
            }
            // A third incarnation is refused as the second was: several attempts, each with its own
            // connection.
            let before = proxy.accepted.load(Ordering::Relaxed);
            let mut next = config(reborn, 3, &[(other, proxy.address)]);
            no_returns(&mut next);
            let mut third = restart(new, &proxy, next).await;
            assert!(third.refused().await.1.contains("returns as incarnation 3"));
            let again = async {
                while proxy.accepted.load(Ordering::Relaxed) < before + 3 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            in_time("more attempts", again).await;
            assert!(third.events.try_recv().is_err(), "up or told again");
        });
    }
}

/// An incarnation that was outlived is told to stop, whichever side finds out.
#[test]
fn an_older_incarnation_is_refused() {
    for old in [0, 1] {
        runtime().block_on(async {
            let (mut zero, mut one, proxy) =
                pair(|config| config.incarnation = Incarnation(5)).await;
            let other = 1 - old;
            zero.up(1).await;
            one.up(0).await;
            let (dies, mut stays) = if old == 0 { (zero, one) } else { (one, zero) };
            let mut late = restart(dies, &proxy, config(old, 4, &[(other, proxy.address)])).await;
            for (_, why) in [stays.refused().await, late.refused().await] {
                assert!(why.contains("incarnation 4") && why.contains("incarnation 5"), "{why}");
                assert!(why.contains("stop the older one"), "{why}");
            }
        });
    }
}

/// An older incarnation that goes on calling does not cost the newer one its connection.
#[test]
fn an_older_incarnation_does_not_disturb_the_newer() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|config| config.incarnation = Incarnation(5)).await;
        zero.up(1).await;
        one.up(0).await;
        let (listener, _) = listener().await;
        let mut late = Node::start(config(0, 4, &[(1, proxy.address)]), listener).await;
        assert!(late.refused().await.1.contains("stop the older one"));
        assert!(one.refused().await.1.contains("p0 calls as incarnation 4"));
        zero.send(1, 1);
        let next = one.next().await;
        assert!(matches!(next, LinkEvent::Frame { .. }), "the newer one was disturbed: {next:?}");
    });
}

/// A peer whose owner reads nothing delays nobody else, and loses nothing itself.
#[test]
fn a_stopped_reader_delays_nobody_else() {
    runtime().block_on(async {
        let (first, here) = listener().await;
        let (second, there) = listener().await;
        let (third, beyond) = listener().await;
        let mut zero = Node::start(config(0, 1, &[(1, there), (2, beyond)]), first).await;
        let mut stopped =
            Node::with_queue(config(1, 1, &[(0, here), (2, beyond)]), second, 1).await;
        let mut two = Node::start(config(2, 1, &[(0, here), (1, there)]), third).await;
        zero.up(2).await;
        // More than the sockets between them hold.
        const COUNT: u64 = 300;
        for value in 0..COUNT {
            let mut bytes = vec![0; 50_000];
            bytes[..8].copy_from_slice(&value.to_le_bytes());
            zero.links.send(NodeId(1), bytes).unwrap();
            zero.send(2, value);
            assert_eq!(two.frame().await, (0, value));
            two.send(0, value);
            assert_eq!(zero.frame().await, (2, value));
        }
        assert_eq!(zero.links.broken(NodeId(1)), Ok(None));
        let mut expected = 0;
        while expected < COUNT {
            if let LinkEvent::Frame { from: NodeId(0), bytes } = stopped.next().await {
                assert_eq!(bytes[..8], expected.to_le_bytes());
                expected += 1;
            }
        }
    });
}

/// A peer that is counted as crashed by the owner is refused from then on, and hears why.
#[test]
fn a_forgotten_peer_is_refused() {
    runtime().block_on(async {
        let (mut zero, mut one, _proxy) = pair(|_| {}).await;
        zero.up(1).await;
        one.up(0).await;
        zero.links.forget(NodeId(1), "it did not answer tests").unwrap();
        let why = Broken::GivenUp("it did not answer tests".into());
        zero.down(1).await;
        assert_eq!(zero.next().await, LinkEvent::Broken { peer: NodeId(1), why });
        assert!(one.refused().await.1.contains("it did not answer tests"));
    });
}

/// A stop writes what was sent before it.
#[test]
fn a_stop_writes_what_was_sent() {
    runtime().block_on(async {
        let (mut zero, mut one, _proxy) = pair(|_| {}).await;
        zero.up(1).await;
        (0..500).for_each(|value| zero.send(1, value));
        in_time("the stop", zero.links.stop()).await;
        for value in 0..500 {
            assert_eq!(one.frame().await, (0, value));
        }
        one.down(0).await;
    });
}

/// A caller's mistakes are told at once and change nothing.
#[test]
fn mistakes_of_the_caller() {
    runtime().block_on(async {
        let (zero, _one, _proxy) = pair(|_| {}).await;
        assert_eq!(zero.links.send(NodeId(0), vec![]), Err(NotSent::NoPeer(NodeId(0))));
        assert_eq!(zero.links.send(NodeId(7), vec![]), Err(NotSent::NoPeer(NodeId(7))));
        let limit = LinkLimits { ..limits() }.frame_max - 17;
        let length = limit + 1;
        assert_eq!(
            zero.links.send(NodeId(1), vec![0; length]),
            Err(NotSent::TooLong { length, limit })
        );
        zero.links.send(NodeId(1), vec![0; limit]).unwrap();
    });
}
