//! Voters and listeners change.

use super::*;
use crate::state::{Change, Rejected};

fn voters(nodes: impl IntoIterator<Item = u32>) -> BTreeSet<NodeId> {
    nodes.into_iter().map(NodeId).collect()
}

/// One voter becomes three, one at a time, with a warning at two; then the first is demoted, though
/// it leads.
#[tokio::test]
async fn one_to_three_voters() {
    let world = World::founded("grow", 3, 1).await;
    for (node, warned) in [(1, true), (2, false)] {
        world.log(node).add_learner(NodeId(node)).await.unwrap();
        let warning = world.log(2).promote(NodeId(node)).await.unwrap();
        assert_eq!(warning.is_some(), warned, "{warning:?}");
    }
    let index = world.level(0).await;
    for node in 0..3 {
        let status = world.until(node, |status| status.applied >= index).await;
        assert_eq!(status.voters.sets, [voters(0..3)]);
        assert_eq!(world.log(node).voters_appended(), status.voters);
    }
    assert!(world.log(1).demote(NodeId(0)).await.unwrap().is_some());
    world.leader(&[1, 2]).await;
    world.log(0).propose(gate("build", 2)).await.unwrap();
    assert_eq!(world.log(0).read().await.unwrap().voters.sets, [voters(1..3)]);
}

/// E3, N4: that somebody listens is no change of voters, so evictions need not begin anew.
#[tokio::test]
async fn a_listener_does_not_change_the_voters() {
    let mut world = World::founded("listens", 1, 1).await;
    let before = world.log(0).voters_appended();
    let store = world.start(3).store;
    let admit = Command::RegisterNode {
        node: Some(NodeId(3)),
        name: "late".to_owned(),
        address: "there".to_owned(),
        store: Some(store),
    };
    assert_eq!(world.log(0).propose(admit.clone()).await, Ok(Applied::Registered(NodeId(3))));
    assert_eq!(
        world.log(0).propose(admit).await,
        Ok(Applied::Registered(NodeId(3))),
        "again is the same"
    );
    // The leader takes it up by itself, so that it can take part.
    world.until(3, |status| status.learners.contains(&NodeId(3))).await;
    world.log(3).propose(add(&world, 3, 1)).await.unwrap();
    assert_eq!(world.log(3).voters_appended(), before);
    assert_eq!(world.log(0).cluster_state().voters, before);
    // Off the directory it hears nothing any more.
    let leave = Command::Leave { node: NodeId(3), incarnation: Incarnation(1) };
    world.log(3).propose(leave).await.unwrap();
    world.log(0).propose(Command::RemoveNode { node: NodeId(3) }).await.unwrap();
    world.until(0, |status| status.learners.is_empty()).await;
    assert_eq!(world.log(0).voters_appended(), before);
}

/// What cannot be is refused in words.
#[tokio::test]
async fn refused_changes() {
    let world = World::founded("refused", 1, 1).await;
    let refused = |answer: Result<Option<String>, ProposeError>, words: &str| match answer {
        Err(ProposeError::Rejected(Rejected::Refused(why))) => {
            assert!(why.contains(words), "{why}")
        }
        other => panic!("{other:?}"),
    };
    let log = world.log(0);
    refused(log.demote(NodeId(0)).await, "1 to 7 nodes vote");
    refused(log.set_voters(voters(0..8)).await, "1 to 7 nodes vote");
    refused(log.promote(NodeId(1)).await, "p1 does not hear the log yet");
    refused(log.add_learner(NodeId(1)).await.map(|()| None), "p1 is not on the directory");
    refused(log.remove_learner(NodeId(0)).await.map(|()| None), "p0 votes");
}

/// Three voters are replaced by three others while the log is used, and news tell each set once, in
/// order.
#[tokio::test]
async fn all_voters_are_replaced() {
    let mut world = World::founded("replace", 6, 3).await;
    for node in 3..6 {
        world.log(0).add_learner(NodeId(node)).await.unwrap();
    }
    world.log(0).propose(gate("build", 1)).await.unwrap();
    world.log(5).set_voters(voters(3..6)).await.unwrap();
    world.leader(&[3, 4, 5]).await;
    for node in 0..3 {
        world.stop(node).await;
    }
    world.log(3).propose(set("build", 5)).await.unwrap();
    let mut sets = Vec::new();
    let node = world.nodes.get_mut(&NodeId(4)).unwrap();
    while let Ok(news) = node.news.try_recv() {
        for change in news.changes {
            if let Change::Voters(voters) = change {
                assert_eq!(voters.at, news.index);
                sets.push(voters.sets);
            }
        }
    }
    // The first set may have come with an entry or with a snapshot; then both at once, then the new
    // one.
    let joint = vec![voters(0..3), voters(3..6)];
    assert_eq!(sets, [vec![voters(0..3)], joint, vec![voters(3..6)]]);
}

/// N4: voters that are only in a node's log are seen at once, also after a restart, and not any
/// more once the others have decided otherwise.
#[tokio::test]
async fn appended_voters_come_and_go() {
    let mut world = World::founded("appended", 4, 3).await;
    let leader = world.leader(&[0, 1, 2]).await;
    world.log(leader).add_learner(NodeId(3)).await.unwrap();
    world.level(leader).await;
    world.cut(leader, true);
    let alone = world.log(leader).clone();
    let asked = tokio::spawn(async move { alone.promote(NodeId(3)).await });
    let joint = [voters(0..3), voters(0..4)];
    world.until(leader, |status| status.appended.sets == joint).await;
    assert_eq!(
        world.log(leader).cluster_state().voters.sets,
        [voters(0..3)],
        "it is not agreed on"
    );
    world.stop(leader).await;
    assert_eq!(asked.await.unwrap(), Err(ProposeError::Stopped));
    world.start(leader);
    assert_eq!(world.log(leader).voters_appended().sets, joint);
    let others: Vec<u32> = (0..3).filter(|node| *node != leader).collect();
    world.leader(&others).await;
    world.log(others[0]).propose(gate("build", 1)).await.unwrap();
    world.cut(leader, false);
    world.until(leader, |status| status.appended.sets == [voters(0..3)]).await;
    world.level(others[0]).await;
    assert_eq!(world.log(leader).voters_appended(), world.log(others[0]).voters_appended());
}
