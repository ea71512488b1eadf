//! Applied entries are never forgotten, and are published without a gap.

use super::*;
use crate::state::Change;

/// Takes all entries that were published: each has the index after the last.
fn follow(node: &mut Node, last: &mut u64) -> Vec<Change> {
    let mut changes = Vec::new();
    while let Ok(entry) = node.entries.try_recv() {
        assert_eq!(entry.index, *last + 1, "no gap");
        *last = entry.index;
        changes.extend(entry.changes);
    }
    changes
}

/// N3: all nodes restart, one after the other and then all at once. Each opens with the state that
/// it had applied, and entries are published from there on.
#[tokio::test]
async fn all_restart() {
    let mut cluster = TestCluster::bootstrapped("restart", 3, 3).await;
    for node in 0..3 {
        cluster.log(node).propose(add(&cluster, node, 1)).await.unwrap();
    }
    let suspect = Command::Suspect { node: NodeId(1), incarnation: Incarnation(1) };
    assert!(matches!(cluster.log(0).propose(suspect).await, Ok(Applied::Suspected(_))));
    cluster.level(0).await;
    for round in 0..2 {
        let mut applied = BTreeMap::new();
        for node in 0..3 {
            let cluster_state = cluster.log(node).cluster_state();
            let voters = cluster.log(node).voters_appended();
            cluster.stop(node).await;
            applied.insert(node, (cluster_state, voters));
            if round == 0 {
                cluster.start(node);
            }
        }
        if round == 1 {
            for node in 0..3 {
                cluster.start(node);
            }
        }
        for (node, (before, voters)) in applied {
            let opened = &cluster.nodes[&NodeId(node)].cluster_state;
            assert!(
                opened.applied >= before.applied,
                "applied {} before the restart was {}",
                opened.applied,
                before.applied
            );
            assert_eq!((&opened.membership, &opened.voters), (&before.membership, &voters));
        }
        cluster.log(1).propose(gate(&format!("round{round}"), 1)).await.unwrap();
        cluster.level(1).await;
    }
    for (node, it) in &mut cluster.nodes {
        let mut last = it.cluster_state.applied;
        let changes = follow(it, &mut last);
        assert!(
            changes
                .iter()
                .any(|change| matches!(change, Change::GateCreated(gate) if gate.name == "round1"))
        );
        assert_eq!(last, it.log.cluster_state().applied, "{node} published all entries");
    }
}

/// Many proposals from all nodes: every node publishes the same changes in the same order, each
/// once.
#[tokio::test]
async fn entries_have_no_gap() {
    let mut cluster = TestCluster::bootstrapped("entries", 3, 3).await;
    cluster.log(0).propose(gate("build", 1)).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for k in 2..32 {
        let log = cluster.log(k % 3).clone();
        calls.spawn(async move { log.propose(set("build", k)).await });
    }
    assert!(calls.join_all().await.iter().all(Result::is_ok));
    let last = cluster.level(0).await;
    let mut published = Vec::new();
    for it in cluster.nodes.values_mut() {
        // The first entry has index 0: a node that opened an empty log publishes it too.
        let first = it.entries.try_recv().unwrap();
        assert_eq!(first.index, 0);
        let mut index = 0;
        let changes = follow(it, &mut index);
        assert!(index >= last);
        published.push(changes);
    }
    assert!(published.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(
        published[0].iter().filter(|change| matches!(change, Change::GateChanged(_))).count(),
        30
    );
}

/// A node that was away for longer than entries are kept receives a snapshot, and publishes one
/// entry with everything that it missed.
#[tokio::test]
async fn a_node_that_was_away_receives_a_snapshot() {
    let mut cluster = TestCluster::new("snapshot");
    cluster.retention = Retention { snapshot_every: 20, entries: 5 };
    for node in 0..3 {
        cluster.start(node);
    }
    cluster.bootstrap(3, 3).await;
    for node in 0..3 {
        cluster.log(node).propose(add(&cluster, node, 1)).await.unwrap();
    }
    cluster.log(0).propose(gate("build", 1)).await.unwrap();
    cluster.level(0).await;
    cluster.stop(2).await;
    for k in 2..80 {
        cluster.log(0).propose(set("build", k)).await.unwrap();
    }
    cluster.log(0).propose(gate("late", 3)).await.unwrap();
    let leave = Command::Leave { node: NodeId(1), incarnation: Incarnation(1) };
    cluster.log(0).propose(leave).await.unwrap();
    cluster.start(2);
    cluster.level(0).await;
    let it = cluster.nodes.get_mut(&NodeId(2)).unwrap();
    let opened = it.cluster_state.applied;
    let mut all = Vec::new();
    let mut indices = Vec::new();
    while let Ok(entry) = it.entries.try_recv() {
        indices.push(entry.index);
        all.extend(entry.changes);
    }
    assert!(
        indices.windows(2).all(|pair| pair[0] < pair[1]) && indices[0] > opened + 1,
        "{opened}: {indices:?}"
    );
    let changed = |wanted: &dyn Fn(&Change) -> bool| all.iter().any(wanted);
    assert!(changed(&|it| matches!(it, Change::GateCreated(gate) if gate.name == "late")));
    assert!(changed(&|it| matches!(it, Change::GateChanged(gate) if gate.k == 79)));
    assert!(changed(&|it| matches!(
        it,
        Change::Membership { change: crate::membership::MembershipChange::Gone(NodeId(1), _), .. }
    )));
    assert_eq!(cluster.log(2).cluster_state().gates, cluster.log(0).cluster_state().gates);
    // It keeps the state, although it never had the entries.
    let before = cluster.log(2).cluster_state();
    cluster.stop(2).await;
    assert_eq!(cluster.start(2).cluster_state.gates, before.gates);
    // Old entries are purged.
    cluster.stop(0).await;
    let opened = super::super::store::open(&cluster.home(0), NodeId(0)).unwrap();
    let kept = opened.store.entries(.., usize::MAX).unwrap().len();
    assert!(kept < 60, "{kept} entries are kept");
}
