//! How a cluster begins, and who is refused.

use super::*;
use crate::state::Rejected;

/// Three nodes found one cluster; a follower proposes, and everybody reads it.
#[tokio::test]
async fn three_found_a_cluster() {
    let world = World::founded("three", 3, 3).await;
    let leader = world.leader(&[0, 1, 2]).await;
    let follower = (leader + 1) % 3;
    let done = world.log(follower).propose(gate("build", 2)).await.unwrap();
    assert!(matches!(done, Applied::Gate { .. }), "{done:?}");
    for node in 0..3 {
        assert_eq!(world.log(node).read().await.unwrap().gate("build").unwrap().k, 2);
        assert_eq!(world.log(node).voters_appended().all(), (0..3).map(NodeId).collect());
    }
    let again = world.log(follower).propose(gate("build", 3)).await;
    assert!(
        matches!(again, Err(ProposeError::Rejected(Rejected::Conflict { k: 2, wanted: 3, .. }))),
        "{again:?}"
    );
}

/// A single node is its own voter.
#[tokio::test]
async fn one_founds_a_cluster() {
    let mut world = World::founded("one", 1, 1).await;
    world.log(0).propose(gate("build", 2)).await.unwrap();
    world.stop(0).await;
    world.start(0);
    assert_eq!(world.log(0).read().await.unwrap().gates.len(), 1);
}

/// Nodes that do not vote are taken up by the leader; founding again changes nothing; another list
/// is refused.
#[tokio::test]
async fn listeners_follow_the_directory() {
    let world = World::founded("listeners", 3, 1).await;
    world.until(2, |status| status.learners.len() == 2).await;
    world.log(2).propose(gate("build", 2)).await.unwrap();
    assert!(world.log(1).read().await.unwrap().gate("build").is_some());
    world.found(3, 1).await;
    let other = world.log(0).bootstrap(initial_members(7, 2, 1)).await;
    assert!(
        matches!(&other, Err(ProposeError::Rejected(Rejected::Refused(why))) if why.contains("p0, p1, p2")),
        "{other:?}"
    );
}

/// The first time all voters must be there, and whoever is missing is named.
#[tokio::test]
async fn founding_awaits_all_voters() {
    let mut world = World::new("awaits");
    world.start(0);
    world.start(1);
    let ask = initial_members(1, 3, 3);
    let log = world.log(0).clone();
    let asked = tokio::spawn(async move { log.bootstrap(ask).await });
    // Nothing is written while one is missing: a node that is away now may have a store that
    // somebody knows.
    assert!(world.log(0).voters_appended().sets.is_empty());
    world.start(2);
    world.found(3, 3).await;
    asked.await.unwrap().unwrap();
}

/// R4: a voter that has lost its store can neither found the cluster again nor vote under its old
/// number.
#[tokio::test]
async fn a_lost_store_is_refused() {
    let mut world = World::founded("lost", 3, 3).await;
    for node in 0..3 {
        world.log(node).propose(add(&world, node, 1)).await.unwrap();
    }
    world.stop(2).await;
    std::fs::remove_dir_all(world.home(2)).unwrap();
    world.start(2);
    let refused = world.log(2).bootstrap(initial_members(9, 3, 3)).await;
    assert_eq!(refused, Err(ProposeError::Rejected(Rejected::StoreMismatch(NodeId(2)))));
    world.until(2, |status| status.store_mismatch).await;
    // One of the others stops: with the empty store there would be a majority, without it there is
    // none.
    world.stop(1).await;
    let alone = world.log(0).propose_within(gate("build", 1), Span(1_500_000_000)).await;
    assert!(matches!(alone, Err(ProposeError::NoQuorum(_))), "{alone:?}");
    assert!(world.log(2).voters_appended().sets.is_empty(), "nothing came into the new store");
    // With the other back there is a majority, and the state refuses the new store too.
    world.start(1);
    world.log(0).propose(gate("build", 1)).await.unwrap();
    let stranger = world.log(0).propose(add(&world, 2, 2)).await;
    assert_eq!(stranger, Err(ProposeError::Rejected(Rejected::StoreMismatch(NodeId(2)))));
}

/// R4: a store is of one node, and one process.
#[tokio::test]
async fn a_store_is_of_one_node() {
    let mut world = World::new("foreign");
    world.start(0);
    let open = |me| {
        Log::open(&world.home(0), NodeId(me), Arc::new(Wire(NodeId(me), Arc::default())), TIMING)
    };
    assert!(open(0).is_err_and(|error| error.to_string().contains("control.redb")));
    world.log(0).stop().await;
    assert!(open(1).is_err_and(|error| error.to_string().contains("store of p0, not of p1")));
}
