//! Links between nodes with real sockets: order, delivery exactly once, cut connections, full
//! windows, new incarnations, slow peers.
#![allow(missing_docs, reason = "a test's first line says its point")]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Node, Proxy, config, in_time, limits, listener, runtime};
use kgate_core::{Incarnation, NodeId};
use kgate_net::wire::RefuseCode;
use kgate_net::{ChannelError, LinkConfig, LinkEvent, LinkLimits, SendError, Window};

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

/// Messages arrive in order, each once, both ways, after `Up`, also those sent before the
/// connection.
#[test]
fn two_nodes_exchange_messages() {
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
            assert_eq!(one.message().await, (0, value));
            one.send(0, value * 2);
        }
        for value in 0..100 {
            assert_eq!(zero.message().await, (1, value * 2));
        }
    });
}

/// Three nodes: each receives from each, over exactly one connection per pair.
#[test]
fn three_nodes_have_one_connection_per_pair() {
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
                let (from, value) = node.message().await;
                assert_eq!(u64::from(from), value);
            }
        }
        let accepted = proxies.iter().map(|proxy| proxy.accepted.load(Ordering::Relaxed));
        assert_eq!(accepted.collect::<Vec<_>>(), [0, 1, 2], "the smaller id dials");
    });
}

/// Connections that are cut again and again, within frames: no loss, no duplicate, no reordering,
/// in both directions.
#[test]
fn cuts_neither_lose_nor_duplicate_messages() {
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
                assert_eq!(node.message().await, (from, value));
            }
        };
        tokio::join!(all(&mut one, 0), all(&mut zero, 1));
        let cuts = proxy.accepted.load(Ordering::Relaxed);
        assert!(cuts > 20, "only {cuts} connections: the test cuts too little");
    });
}

/// After a cut: `Down`, then `Up` of the same incarnation without help, and the messages sent in
/// between arrive.
#[test]
fn a_link_reconnects_by_itself() {
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
        assert_eq!((zero.message().await, one.message().await), ((1, 8), (0, 7)));
    });
}

/// An open connection that carries nothing is closed for its silence; an idle one that works is
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
        assert_eq!(one.message().await, (0, 5));
    });
}

/// A full window fails the link, with one event, and the other side learns why when it is reachable
/// again.
#[test]
fn a_full_window_fails_the_link() {
    runtime().block_on(async {
        let small =
            |config: &mut LinkConfig| config.limits.window = Window { frames: 10, bytes: 1 << 20 };
        let (mut zero, mut one, proxy) = pair(small).await;
        zero.up(1).await;
        one.up(0).await;
        proxy.shut();
        zero.down(1).await;
        (0..20).for_each(|value| zero.send(1, value));
        let error = ChannelError::WindowFull { frames: 10, bytes: 80 };
        let peer = NodeId(1);
        assert_eq!(zero.next().await, LinkEvent::Failed { peer, error: error.clone() });
        assert_eq!(zero.links.failure(peer), Ok(Some(error)));
        proxy.open();
        let (peer, refusal) = one.refused().await;
        assert_eq!((peer, refusal.code), (Some(0), RefuseCode::LinkFailed));
        assert!(refusal.by_peer && refusal.is_final());
        assert!(refusal.message.contains("10 messages of 80 bytes"), "{refusal}");
        // The failure is final: no message arrives, and the refusal is not reported again.
        zero.send(1, 99);
        let (peer, refusal) = zero.refused().await;
        assert_eq!((peer, refusal.code), (Some(1), RefuseCode::LinkFailed));
        assert!(!refusal.by_peer && !refusal.is_final());
        let more = tokio::time::timeout(Duration::from_millis(300), one.events.recv()).await;
        assert!(more.is_err(), "reported twice: {more:?}");
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
                assert_eq!(one.message().await, (0, round * 40 + value));
            }
        }
        assert_eq!(zero.links.failure(NodeId(1)), Ok(None));
    });
}

/// Stops one of the two and starts it again, as its next incarnation.
async fn restart(stops: Node, proxy: &Proxy, next: LinkConfig) -> Node {
    stops.links.stop().await;
    let (listener, address) = listener().await;
    if next.me == NodeId(1) {
        proxy.redirect(address);
    }
    Node::start(next, listener).await
}

/// A peer that restarts as a new incarnation: `Down`, `NewIncarnation`, `Up`, in this order;
/// messages meant for the earlier incarnation never arrive. For either of the two nodes.
#[test]
fn a_new_incarnation_replaces_the_earlier_one() {
    for restarted in [0, 1] {
        runtime().block_on(async {
            let (mut zero, mut one, proxy) = pair(|_| {}).await;
            let other = 1 - restarted;
            zero.up(1).await;
            one.up(0).await;
            let (stops, mut stays) = if restarted == 0 { (zero, one) } else { (one, zero) };
            stops.send(other, 1);
            let mut new =
                restart(stops, &proxy, config(restarted, 2, &[(other, proxy.address)])).await;
            let peer = NodeId(restarted);
            assert_eq!(stays.message().await, (restarted, 1), "sent before the stop");
            assert_eq!(stays.next().await, LinkEvent::Down { peer });
            stays.send(restarted, 2);
            let (was, now) = (Incarnation(1), Incarnation(2));
            assert_eq!(stays.next().await, LinkEvent::NewIncarnation { peer, was, now });
            assert_eq!(stays.next().await, LinkEvent::Up { peer, incarnation: now });
            stays.send(restarted, 3);
            stays.links.accept(peer, was).unwrap();
            stays.send(restarted, 4);
            stays.links.accept(peer, now).unwrap();
            stays.send(restarted, 5);
            assert_eq!(
                new.message().await,
                (other, 5),
                "the first message for the new incarnation"
            );
            new.send(other, 6);
            assert_eq!(stays.message().await, (restarted, 6));
        });
    }
}

/// Where restarts are not accepted, both sides report the refusal of a new incarnation, and it
/// stays refused.
#[test]
fn a_new_incarnation_is_refused_where_restarts_are_not_accepted() {
    for restarted in [0, 1] {
        runtime().block_on(async {
            let no_restarts = |config: &mut LinkConfig| config.accepts_restarts = false;
            let (mut zero, mut one, proxy) = pair(no_restarts).await;
            let other = 1 - restarted;
            zero.up(1).await;
            one.up(0).await;
            let (stops, mut stays) = if restarted == 0 { (zero, one) } else { (one, zero) };
            let mut next = config(restarted, 2, &[(other, proxy.address)]);
            no_restarts(&mut next);
            let mut new = restart(stops, &proxy, next).await;
            stays.down(restarted).await;
            let ((peer, here), (of, there)) = (stays.refused().await, new.refused().await);
            assert_eq!((peer, of), (Some(restarted), Some(other)));
            assert_eq!([here.code, there.code], [RefuseCode::RestartNotAccepted; 2]);
            assert!(!here.is_final() && there.is_final());
            let part = format!("p{restarted} was incarnation 1 and has restarted as incarnation 2");
            assert!(here.message.contains(&part) && there.message.contains(&part), "{here}");
            // A third incarnation is refused as the second was: several attempts, each with its own
            // connection.
            let before = proxy.accepted.load(Ordering::Relaxed);
            let mut next = config(restarted, 3, &[(other, proxy.address)]);
            no_restarts(&mut next);
            let mut third = restart(new, &proxy, next).await;
            let refusal = third.refused().await.1;
            assert!(refusal.message.contains("has restarted as incarnation 3"), "{refusal}");
            let again = async {
                while proxy.accepted.load(Ordering::Relaxed) < before + 3 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            in_time("more attempts", again).await;
            assert!(third.events.try_recv().is_err(), "up, or reported again");
        });
    }
}

/// An incarnation older than the known one is refused, whichever side detects it.
#[test]
fn an_older_incarnation_is_refused() {
    for old in [0, 1] {
        runtime().block_on(async {
            let (mut zero, mut one, proxy) =
                pair(|config| config.incarnation = Incarnation(5)).await;
            let other = 1 - old;
            zero.up(1).await;
            one.up(0).await;
            let (stops, mut stays) = if old == 0 { (zero, one) } else { (one, zero) };
            let mut late = restart(stops, &proxy, config(old, 4, &[(other, proxy.address)])).await;
            for (_, refusal) in [stays.refused().await, late.refused().await] {
                assert_eq!(refusal.code, RefuseCode::StaleIncarnation);
                let message = refusal.message;
                assert!(message.contains("incarnation 4"), "{message}");
                assert!(message.contains("incarnation 5"), "{message}");
            }
        });
    }
}

/// An older incarnation that keeps dialling does not cost the newer one its connection.
#[test]
fn an_older_incarnation_does_not_disturb_the_newer() {
    runtime().block_on(async {
        let (mut zero, mut one, proxy) = pair(|config| config.incarnation = Incarnation(5)).await;
        zero.up(1).await;
        one.up(0).await;
        let (listener, _) = listener().await;
        let mut late = Node::start(config(0, 4, &[(1, proxy.address)]), listener).await;
        for node in [&mut late, &mut one] {
            assert_eq!(node.refused().await.1.code, RefuseCode::StaleIncarnation);
        }
        zero.send(1, 1);
        let next = one.next().await;
        assert!(matches!(next, LinkEvent::Message { .. }), "the newer one was disturbed: {next:?}");
    });
}

/// A peer whose owner reads nothing delays no other peer, and loses no message itself.
#[test]
fn a_stopped_reader_delays_no_other_peer() {
    runtime().block_on(async {
        let (first, here) = listener().await;
        let (second, there) = listener().await;
        let (third, beyond) = listener().await;
        let mut zero = Node::start(config(0, 1, &[(1, there), (2, beyond)]), first).await;
        let mut stopped =
            Node::with_queue(config(1, 1, &[(0, here), (2, beyond)]), second, 1).await;
        let mut two = Node::start(config(2, 1, &[(0, here), (1, there)]), third).await;
        zero.up(2).await;
        // More bytes than the sockets between them hold.
        const COUNT: u64 = 300;
        for value in 0..COUNT {
            let mut bytes = vec![0; 50_000];
            bytes[..8].copy_from_slice(&value.to_le_bytes());
            zero.links.send(NodeId(1), bytes).unwrap();
            zero.send(2, value);
            assert_eq!(two.message().await, (0, value));
            two.send(0, value);
            assert_eq!(zero.message().await, (2, value));
        }
        assert_eq!(zero.links.failure(NodeId(1)), Ok(None));
        let mut expected = 0;
        while expected < COUNT {
            if let LinkEvent::Message { from: NodeId(0), bytes } = stopped.next().await {
                assert_eq!(bytes[..8], expected.to_le_bytes());
                expected += 1;
            }
        }
    });
}

/// A peer that the owner declares dead is refused from then on, with the reason.
#[test]
fn a_dead_peer_is_refused() {
    runtime().block_on(async {
        let (mut zero, mut one, _proxy) = pair(|_| {}).await;
        zero.up(1).await;
        one.up(0).await;
        zero.links.declare_dead(NodeId(1), "no answer to probes").unwrap();
        let error = ChannelError::DeclaredDead("no answer to probes".into());
        zero.down(1).await;
        assert_eq!(zero.next().await, LinkEvent::Failed { peer: NodeId(1), error });
        let refusal = one.refused().await.1;
        assert_eq!(refusal.code, RefuseCode::DeclaredDead);
        assert!(refusal.is_final() && refusal.message.contains("no answer to probes"), "{refusal}");
    });
}

/// A stop writes the messages that were sent before it.
#[test]
fn a_stop_writes_sent_messages() {
    runtime().block_on(async {
        let (mut zero, mut one, _proxy) = pair(|_| {}).await;
        zero.up(1).await;
        (0..500).for_each(|value| zero.send(1, value));
        in_time("the stop", zero.links.stop()).await;
        for value in 0..500 {
            assert_eq!(one.message().await, (0, value));
        }
        one.down(0).await;
    });
}

/// A wrong call fails at once and changes nothing.
#[test]
fn wrong_calls_fail() {
    runtime().block_on(async {
        let (zero, _one, _proxy) = pair(|_| {}).await;
        assert_eq!(zero.links.send(NodeId(0), vec![]), Err(SendError::UnknownPeer(NodeId(0))));
        assert_eq!(zero.links.send(NodeId(7), vec![]), Err(SendError::UnknownPeer(NodeId(7))));
        let limit = LinkLimits { ..limits() }.frame_max - 17;
        let length = limit + 1;
        assert_eq!(
            zero.links.send(NodeId(1), vec![0; length]),
            Err(SendError::TooLong { length, limit })
        );
        zero.links.send(NodeId(1), vec![0; limit]).unwrap();
    });
}
