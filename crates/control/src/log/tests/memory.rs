//! What was applied is never forgotten, and news have no gap.

use super::*;
use crate::state::Change;

/// Takes all news that have come, each of the index after the last.
fn follow(node: &mut Node, last: &mut u64) -> Vec<Change> {
    let mut changes = Vec::new();
    while let Ok(news) = node.news.try_recv() {
        assert_eq!(news.index, *last + 1, "no gap");
        *last = news.index;
        changes.extend(news.changes);
    }
    changes
}

/// N3: all nodes restart, one after the other and all at once; the cluster_state that each opens
/// with is what it had applied, and news go on behind it.
#[tokio::test]
async fn all_restart() {
    let mut world = World::founded("restart", 3, 3).await;
    for node in 0..3 {
        world.log(node).propose(add(&world, node, 1)).await.unwrap();
    }
    let suspect = Command::Suspect { node: NodeId(1), incarnation: Incarnation(1) };
    assert!(matches!(world.log(0).propose(suspect).await, Ok(Applied::Suspected(_))));
    world.level(0).await;
    for round in 0..2 {
        let mut applied = BTreeMap::new();
        for node in 0..3 {
            let cluster_state = world.log(node).cluster_state();
            let voters = world.log(node).voters_appended();
            world.stop(node).await;
            applied.insert(node, (cluster_state, voters));
            if round == 0 {
                world.start(node);
            }
        }
        if round == 1 {
            for node in 0..3 {
                world.start(node);
            }
        }
        for (node, (before, voters)) in applied {
            let opened = &world.nodes[&NodeId(node)].cluster_state;
            assert!(
                opened.applied >= before.applied,
                "{} is not before {}",
                opened.applied,
                before.applied
            );
            assert_eq!((&opened.membership, &opened.voters), (&before.membership, &voters));
        }
        world.log(1).propose(gate(&format!("round{round}"), 1)).await.unwrap();
        world.level(1).await;
    }
    for (node, it) in &mut world.nodes {
        let mut last = it.cluster_state.applied;
        let changes = follow(it, &mut last);
        assert!(
            changes
                .iter()
                .any(|change| matches!(change, Change::GateCreated(gate) if gate.name == "round1"))
        );
        assert_eq!(last, it.log.cluster_state().applied, "{node} was told everything");
    }
}

/// Many proposals from all nodes: every node is told the same, in the same order, and each counts
/// once.
#[tokio::test]
async fn news_have_no_gap() {
    let mut world = World::founded("news", 3, 3).await;
    world.log(0).propose(gate("build", 1)).await.unwrap();
    let mut asked = tokio::task::JoinSet::new();
    for k in 2..32 {
        let log = world.log(k % 3).clone();
        asked.spawn(async move { log.propose(set("build", k)).await });
    }
    assert!(asked.join_all().await.iter().all(Result::is_ok));
    let last = world.level(0).await;
    let mut told = Vec::new();
    for it in world.nodes.values_mut() {
        // The first entry is 0: whoever opened empty is told it too.
        let first = it.news.try_recv().unwrap();
        assert_eq!(first.index, 0);
        let mut index = 0;
        let changes = follow(it, &mut index);
        assert!(index >= last);
        told.push(changes);
    }
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(
        told[0].iter().filter(|change| matches!(change, Change::GateChanged(_))).count(),
        30
    );
}

/// A node that was away for longer than the log is kept gets the whole state, and one piece of news
/// that tells what it missed.
#[tokio::test]
async fn a_snapshot_for_a_late_node() {
    let mut world = World::new("snapshot");
    world.keeping = Keeping { snapshot_every: 20, entries: 5 };
    for node in 0..3 {
        world.start(node);
    }
    world.found(3, 3).await;
    for node in 0..3 {
        world.log(node).propose(add(&world, node, 1)).await.unwrap();
    }
    world.log(0).propose(gate("build", 1)).await.unwrap();
    world.level(0).await;
    world.stop(2).await;
    for k in 2..80 {
        world.log(0).propose(set("build", k)).await.unwrap();
    }
    world.log(0).propose(gate("late", 3)).await.unwrap();
    let leave = Command::Leave { node: NodeId(1), incarnation: Incarnation(1) };
    world.log(0).propose(leave).await.unwrap();
    world.start(2);
    world.level(0).await;
    let it = world.nodes.get_mut(&NodeId(2)).unwrap();
    let opened = it.cluster_state.applied;
    let mut all = Vec::new();
    let mut indices = Vec::new();
    while let Ok(news) = it.news.try_recv() {
        indices.push(news.index);
        all.extend(news.changes);
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
    assert_eq!(world.log(2).cluster_state().gates, world.log(0).cluster_state().gates);
    // And it remembers, though the entries before were never there.
    let before = world.log(2).cluster_state();
    world.stop(2).await;
    assert_eq!(world.start(2).cluster_state.gates, before.gates);
    // Nobody keeps the whole log.
    world.stop(0).await;
    let found = super::super::store::open(&world.home(0), NodeId(0)).unwrap();
    let kept = found.store.entries(.., usize::MAX).unwrap().len();
    assert!(kept < 60, "{kept} entries are kept");
}
