//! With a majority the log goes on. Without one nothing is decided, and proposals time out.

use super::*;
use crate::log::StopReason;
use crate::log::wire::VERSION;

/// The leader is killed and the others go on. It comes back and catches up.
#[tokio::test]
async fn the_leader_is_lost() {
    let mut cluster = TestCluster::bootstrapped("leader", 3, 3).await;
    let leader = cluster.leader(&[0, 1, 2]).await;
    cluster.kill(leader).await;
    let others: Vec<u32> = (0..3).filter(|node| *node != leader).collect();
    cluster.log(others[0]).propose(gate("build", 2)).await.unwrap();
    cluster.start(leader);
    assert!(cluster.log(leader).read().await.unwrap().gate("build").is_some());
}

/// A leader that is cut off decides nothing, and the others go on without it. What was proposed to
/// it meanwhile is either dropped or applied once.
#[tokio::test]
async fn a_minority_decides_nothing() {
    let cluster = TestCluster::bootstrapped("minority", 3, 3).await;
    let leader = cluster.leader(&[0, 1, 2]).await;
    cluster.level(leader).await;
    cluster.cut(leader, true);
    let timeout = Span(1_000_000_000);
    let begun = tokio::time::Instant::now();
    let alone = cluster.log(leader).propose_within(gate("build", 1), timeout).await;
    let Err(ProposeError::NoQuorum(
        Unavailable::NoMajority { voters, .. }
        | Unavailable::NoLeader { voters, .. }
        | Unavailable::LeaderSilent { voters, .. },
    )) = alone
    else {
        panic!("{alone:?}")
    };
    assert_eq!(voters, (0..3).map(NodeId).collect());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let others: Vec<u32> = (0..3).filter(|node| *node != leader).collect();
    cluster.leader(&others).await;
    cluster.log(others[1]).propose(gate("build", 2)).await.unwrap();
    cluster.cut(leader, false);
    // The old leader's entry was never committed: the others' stays.
    assert_eq!(cluster.log(leader).read().await.unwrap().gate("build").unwrap().k, 2);
}

/// A voter that was cut off has not raised the term when it is back: the leader stays leader.
#[tokio::test]
async fn a_voter_that_was_away_deposes_no_leader() {
    let cluster = TestCluster::bootstrapped("away", 3, 3).await;
    let leader = cluster.leader(&[0, 1, 2]).await;
    cluster.level(leader).await;
    let away = (leader + 1) % 3;
    let before = cluster.log(away).status().borrow().term;
    cluster.cut(away, true);
    // Long enough for several elections.
    let alone = cluster.log(away).propose_within(gate("build", 1), Span(3_000_000_000)).await;
    assert!(matches!(alone, Err(ProposeError::NoQuorum(_))), "{alone:?}");
    assert_eq!(cluster.log(away).status().borrow().term, before, "it stood for no election");
    cluster.cut(away, false);
    cluster.log(away).propose(gate("build", 2)).await.unwrap();
    assert_eq!(cluster.leader(&[0, 1, 2]).await, leader);
    assert_eq!(cluster.log(leader).status().borrow().term, before);
}

/// However many commands clients cause, commands about nodes do not queue behind them.
#[tokio::test]
async fn a_crowd_of_clients_delays_no_suspicion() {
    const CROWD: u64 = 2000;
    let cluster = TestCluster::bootstrapped("crowd", 1, 1).await;
    let answered = Arc::new(AtomicU64::new(0));
    let mut crowd = tokio::task::JoinSet::new();
    for permit in 0..CROWD {
        let (log, answered) = (cluster.log(0).clone(), answered.clone());
        crowd.spawn(async move {
            let renew =
                Command::RenewPermit { permit: PermitId((1 << 40) + permit), secret: [0; 32] };
            let rejected = log.propose(renew).await;
            assert!(matches!(rejected, Err(ProposeError::Rejected(_))), "{rejected:?}");
            answered.fetch_add(1, Ordering::SeqCst);
        });
    }
    assert!(crowd.join_next().await.expect("one of them").is_ok());
    let suspect = Command::Suspect { node: NodeId(0), incarnation: Incarnation(1) };
    let rejected = cluster.log(0).propose(suspect).await;
    assert!(matches!(rejected, Err(ProposeError::Rejected(_))), "no member yet: {rejected:?}");
    let before = answered.load(Ordering::SeqCst);
    assert!(before < CROWD / 2, "{before} of {CROWD} were answered before it");
}

/// Of two voters both are needed.
#[tokio::test]
async fn two_voters_need_each_other() {
    let mut cluster = TestCluster::bootstrapped("two", 2, 2).await;
    cluster.stop(1).await;
    let alone = cluster.log(0).propose_within(gate("build", 1), Span(800_000_000)).await;
    assert!(matches!(alone, Err(ProposeError::NoQuorum(_))), "{alone:?}");
    cluster.start(1);
    cluster.log(0).propose(gate("build", 1)).await.unwrap();
}

/// An empty log and a stopped one say so.
#[tokio::test]
async fn an_empty_or_stopped_log() {
    let mut cluster = TestCluster::new("empty");
    cluster.start(0);
    let empty = cluster.log(0).propose_within(gate("build", 1), Span(200_000_000)).await;
    assert_eq!(empty, Err(ProposeError::NoQuorum(Unavailable::NoLog(NodeId(0)))));
    let log = cluster.log(0).clone();
    cluster.stop(0).await;
    assert_eq!(log.propose(gate("build", 1)).await, Err(ProposeError::Stopped));
    assert_eq!(log.status().borrow().stopped, Some(StopReason::Requested));
}

/// Malformed messages and unexpected replies are dropped, and the log goes on.
#[tokio::test]
async fn malformed_messages_are_dropped() {
    let cluster = TestCluster::bootstrapped("malformed", 1, 1).await;
    let log = cluster.log(0);
    let result = |bytes: &[u8]| log.receive(NodeId(5), bytes);
    assert_eq!(result(&[]), Err(MalformedMessage::Empty));
    assert_eq!(result(&[VERSION + 1; 100]), Err(MalformedMessage::Version(VERSION + 1)));
    assert_eq!(result(&[VERSION]), Err(MalformedMessage::Undecodable));
    assert_eq!(result(&[VERSION; (1 << 20) + 1]), Err(MalformedMessage::TooLong));
    let mut random = Vec::new();
    let mut rng = 7_u64;
    for length in 0..300 {
        let byte = |_| {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u8::try_from(rng >> 56).unwrap()
        };
        random.push(std::iter::once(VERSION).chain((0..length).map(byte)).collect::<Vec<u8>>());
    }
    let malformed = random.iter().filter(|bytes| result(bytes).is_err()).count();
    assert!(malformed > 100, "{malformed}");
    log.propose(gate("build", 1)).await.unwrap();
}
