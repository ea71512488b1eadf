//! With a majority everything goes on, without one nothing is decided, and that is said in time.

use super::*;

/// The leader is lost; the others go on; it comes back and learns what it missed.
#[tokio::test]
async fn the_leader_is_lost() {
    let mut world = World::founded("leader", 3, 3).await;
    let leader = world.leader(&[0, 1, 2]).await;
    world.kill(leader).await;
    let others: Vec<u32> = (0..3).filter(|node| *node != leader).collect();
    world.log(others[0]).propose(gate("build", 2)).await.unwrap();
    world.start(leader);
    assert!(world.log(leader).read().await.unwrap().gate("build").is_some());
}

/// A leader that is cut off decides nothing, the others go on without it; what it was asked
/// meanwhile is void or done once, never half.
#[tokio::test]
async fn a_minority_decides_nothing() {
    let world = World::founded("minority", 3, 3).await;
    let leader = world.leader(&[0, 1, 2]).await;
    world.level(leader).await;
    world.cut(leader, true);
    let patience = Span(1_000_000_000);
    let begun = tokio::time::Instant::now();
    let alone = world.log(leader).propose_within(gate("build", 1), patience).await;
    assert!(
        matches!(&alone, Err(ProposeError::NoQuorum(why)) if why.contains("p0, p1, p2")),
        "{alone:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let others: Vec<u32> = (0..3).filter(|node| *node != leader).collect();
    world.leader(&others).await;
    world.log(others[1]).propose(gate("build", 2)).await.unwrap();
    world.cut(leader, false);
    // The old leader's entry was never agreed on: the others' stays.
    assert_eq!(world.log(leader).read().await.unwrap().gate("build").unwrap().k, 2);
}

/// A voter that was cut off has not raised the term when it is back: the leader leads on.
#[tokio::test]
async fn who_was_away_disturbs_nobody() {
    let world = World::founded("away", 3, 3).await;
    let leader = world.leader(&[0, 1, 2]).await;
    world.level(leader).await;
    let away = (leader + 1) % 3;
    let before = world.log(away).status().borrow().term;
    world.cut(away, true);
    // Long enough to stand several times.
    let alone = world.log(away).propose_within(gate("build", 1), Span(3_000_000_000)).await;
    assert!(matches!(alone, Err(ProposeError::NoQuorum(_))), "{alone:?}");
    assert_eq!(world.log(away).status().borrow().term, before, "nobody was asked to elect it");
    world.cut(away, false);
    world.log(away).propose(gate("build", 2)).await.unwrap();
    assert_eq!(world.leader(&[0, 1, 2]).await, leader);
    assert_eq!(world.log(leader).status().borrow().term, before);
}

/// However much clients cause, what is about nodes does not queue behind it.
#[tokio::test]
async fn a_crowd_of_clients_delays_no_suspicion() {
    const CROWD: u64 = 2000;
    let world = World::founded("crowd", 1, 1).await;
    let answered = Arc::new(AtomicU64::new(0));
    let mut crowd = tokio::task::JoinSet::new();
    for permit in 0..CROWD {
        let (log, answered) = (world.log(0).clone(), answered.clone());
        crowd.spawn(async move {
            let renew =
                Command::RenewPermit { permit: PermitId((1 << 40) + permit), secret: [0; 32] };
            let void = log.propose(renew).await;
            assert!(matches!(void, Err(ProposeError::Rejected(_))), "{void:?}");
            answered.fetch_add(1, Ordering::SeqCst);
        });
    }
    assert!(crowd.join_next().await.expect("one of them").is_ok());
    let suspect = Command::Suspect { node: NodeId(0), incarnation: Incarnation(1) };
    let void = world.log(0).propose(suspect).await;
    assert!(matches!(void, Err(ProposeError::Rejected(_))), "nobody takes part yet: {void:?}");
    let before = answered.load(Ordering::SeqCst);
    assert!(before < CROWD / 2, "{before} of {CROWD} were answered before it");
}

/// Two voters: both are needed.
#[tokio::test]
async fn two_voters_need_each_other() {
    let mut world = World::founded("two", 2, 2).await;
    world.stop(1).await;
    let alone = world.log(0).propose_within(gate("build", 1), Span(800_000_000)).await;
    assert!(matches!(alone, Err(ProposeError::NoQuorum(_))), "{alone:?}");
    world.start(1);
    world.log(0).propose(gate("build", 1)).await.unwrap();
}

/// A node without a log says so at once, and a stopped one too.
#[tokio::test]
async fn an_empty_or_stopped_log() {
    let mut world = World::new("empty");
    world.start(0);
    let empty = world.log(0).propose_within(gate("build", 1), Span(200_000_000)).await;
    assert!(
        matches!(&empty, Err(ProposeError::NoQuorum(why)) if why.contains("p0 has no log yet")),
        "{empty:?}"
    );
    let log = world.log(0).clone();
    world.stop(0).await;
    assert_eq!(log.propose(gate("build", 1)).await, Err(ProposeError::Stopped));
    assert!(log.status().borrow().stopped.is_some());
}

/// Bytes that nobody has sent are junk, not the end; nor are answers that nobody asked for.
#[tokio::test]
async fn junk() {
    let world = World::founded("junk", 1, 1).await;
    let log = world.log(0);
    let mut junk =
        vec![Vec::new(), vec![0], vec![1], vec![9; 100], vec![1; 100], vec![1; (1 << 20) + 1]];
    let mut rng = 7_u64;
    for length in 0..300 {
        let byte = |_| {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u8::try_from(rng >> 56).unwrap()
        };
        junk.push(std::iter::once(1).chain((0..length).map(byte)).collect());
    }
    let refused = junk.iter().filter(|bytes| log.receive(NodeId(5), bytes).is_err()).count();
    assert!(refused > 100, "{refused}");
    log.propose(gate("build", 1)).await.unwrap();
}
