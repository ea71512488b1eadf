//! Bootstrapping a cluster, and which stores are refused.

use super::*;
use crate::state::Rejected;

/// Three nodes bootstrap one cluster. A follower proposes, and all nodes read the result.
#[tokio::test]
async fn three_nodes_bootstrap_a_cluster() {
    let cluster = TestCluster::bootstrapped("three", 3, 3).await;
    let leader = cluster.leader(&[0, 1, 2]).await;
    let follower = (leader + 1) % 3;
    let done = cluster.log(follower).propose(gate("build", 2)).await.unwrap();
    assert!(matches!(done, Applied::Gate { .. }), "{done:?}");
    for node in 0..3 {
        assert_eq!(cluster.log(node).read().await.unwrap().gate("build").unwrap().k, 2);
        assert_eq!(cluster.log(node).voters_appended().all(), (0..3).map(NodeId).collect());
    }
    let again = cluster.log(follower).propose(gate("build", 3)).await;
    let Err(ProposeError::Rejected(Rejected::Conflict { slots, wanted, .. })) = again else {
        panic!("{again:?}")
    };
    assert_eq!((slots.k, wanted.k), (2, 3));
}

/// A single node is the only voter.
#[tokio::test]
async fn one_node_bootstraps_a_cluster() {
    let mut cluster = TestCluster::bootstrapped("one", 1, 1).await;
    cluster.log(0).propose(gate("build", 2)).await.unwrap();
    cluster.stop(0).await;
    cluster.start(0);
    assert_eq!(cluster.log(0).read().await.unwrap().gates.len(), 1);
}

/// The leader adds nodes that do not vote as learners. Bootstrapping again changes nothing, and
/// another list of nodes is rejected.
#[tokio::test]
async fn learners_follow_the_directory() {
    let cluster = TestCluster::bootstrapped("learners", 3, 1).await;
    cluster.until(2, |status| status.learners.len() == 2).await;
    cluster.log(2).propose(gate("build", 2)).await.unwrap();
    assert!(cluster.log(1).read().await.unwrap().gate("build").is_some());
    cluster.bootstrap(3, 1).await;
    let other = cluster.log(0).bootstrap(initial_members(7, 2, 1)).await;
    let Err(ProposeError::Rejected(Rejected::OtherCluster {
        initial_members, wanted_members, ..
    })) = other
    else {
        panic!("{other:?}")
    };
    assert_eq!((initial_members.len(), wanted_members.len()), (3, 2));
}

/// The bootstrap waits until all voters run.
#[tokio::test]
async fn bootstrap_waits_for_all_voters() {
    let mut cluster = TestCluster::new("waits");
    cluster.start(0);
    cluster.start(1);
    let members = initial_members(1, 3, 3);
    let log = cluster.log(0).clone();
    let bootstrapped = tokio::spawn(async move { log.bootstrap(members).await });
    // Nothing is written while one is missing: other nodes may know its store already.
    assert!(cluster.log(0).voters_appended().sets.is_empty());
    cluster.start(2);
    cluster.bootstrap(3, 3).await;
    bootstrapped.await.unwrap().unwrap();
}

/// R4: a voter that has lost its store can neither bootstrap the cluster again nor vote under its
/// old number.
#[tokio::test]
async fn a_lost_store_is_refused() {
    let mut cluster = TestCluster::bootstrapped("lost", 3, 3).await;
    for node in 0..3 {
        cluster.log(node).propose(add(&cluster, node, 1)).await.unwrap();
    }
    cluster.stop(2).await;
    std::fs::remove_dir_all(cluster.home(2)).unwrap();
    cluster.start(2);
    let refused = cluster.log(2).bootstrap(initial_members(9, 3, 3)).await;
    assert_eq!(refused, Err(ProposeError::Rejected(Rejected::StoreMismatch(NodeId(2)))));
    cluster.until(2, |status| status.store_mismatch).await;
    // One of the others stops: if the empty store counted, there would still be a majority.
    cluster.stop(1).await;
    let alone = cluster.log(0).propose_within(gate("build", 1), Span(1_500_000_000)).await;
    assert!(matches!(alone, Err(ProposeError::NoQuorum(_))), "{alone:?}");
    assert!(cluster.log(2).voters_appended().sets.is_empty(), "the new store stays empty");
    // With the other voter back there is a majority, and the state rejects the new store too.
    cluster.start(1);
    cluster.log(0).propose(gate("build", 1)).await.unwrap();
    let added = cluster.log(0).propose(add(&cluster, 2, 2)).await;
    assert_eq!(added, Err(ProposeError::Rejected(Rejected::StoreMismatch(NodeId(2)))));
}

/// R4: a store belongs to one node, and one process opens it.
#[tokio::test]
async fn a_store_belongs_to_one_node() {
    let mut cluster = TestCluster::new("foreign");
    cluster.start(0);
    let open = |me| {
        Log::open(
            &cluster.home(0),
            NodeId(me),
            Arc::new(NodeTransport(NodeId(me), Arc::default())),
            TIMING,
        )
    };
    let error = open(0).expect_err("another process has it open");
    let LogError::Store { path, source: StoreError::Database(source) } = error else {
        panic!("{error}")
    };
    assert!(path.ends_with("control.redb"), "{}", path.display());
    assert!(matches!(*source, redb::Error::DatabaseAlreadyOpen), "{source}");
    cluster.log(0).stop().await;
    let error = open(1).expect_err("it belongs to node 0");
    let LogError::Store { source: StoreError::OtherNode { owner, node }, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((owner, node), (NodeId(0), NodeId(1)));
}
