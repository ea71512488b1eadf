//! Changes of the voters and learners.

use super::*;
use crate::log::VoterWarning;
use crate::state::{Change, InvalidVoters, Rejected};

fn voters(nodes: impl IntoIterator<Item = u32>) -> BTreeSet<NodeId> {
    nodes.into_iter().map(NodeId).collect()
}

/// One voter becomes three, one at a time, with a warning at two. Then the first is demoted
/// although it leads.
#[tokio::test]
async fn one_to_three_voters() {
    let cluster = TestCluster::bootstrapped("grow", 3, 1).await;
    for (node, expected) in [(1, Some(VoterWarning::Two)), (2, None)] {
        cluster.log(node).add_learner(NodeId(node)).await.unwrap();
        let warning = cluster.log(2).promote(NodeId(node)).await.unwrap();
        assert_eq!(warning, expected);
    }
    let index = cluster.level(0).await;
    for node in 0..3 {
        let status = cluster.until(node, |status| status.applied >= index).await;
        assert_eq!(status.voters.sets, [voters(0..3)]);
        assert_eq!(cluster.log(node).voters_appended(), status.voters);
    }
    assert_eq!(cluster.log(1).demote(NodeId(0)).await, Ok(Some(VoterWarning::Two)));
    cluster.leader(&[1, 2]).await;
    cluster.log(0).propose(gate("build", 2)).await.unwrap();
    assert_eq!(cluster.log(0).read().await.unwrap().voters.sets, [voters(1..3)]);
}

/// E3, N4: a new learner is no change of voters, so an eviction need not begin anew.
#[tokio::test]
async fn a_learner_does_not_change_the_voters() {
    let mut cluster = TestCluster::bootstrapped("learner", 1, 1).await;
    let before = cluster.log(0).voters_appended();
    let store = cluster.start(3).store;
    let register = Command::RegisterNode {
        node: Some(NodeId(3)),
        name: "late".to_owned(),
        address: "there".to_owned(),
        store: Some(store),
    };
    assert_eq!(cluster.log(0).propose(register.clone()).await, Ok(Applied::Registered(NodeId(3))));
    assert_eq!(
        cluster.log(0).propose(register).await,
        Ok(Applied::Registered(NodeId(3))),
        "again is the same"
    );
    // The leader adds it by itself, so that it can become a member.
    cluster.until(3, |status| status.learners.contains(&NodeId(3))).await;
    cluster.log(3).propose(add(&cluster, 3, 1)).await.unwrap();
    assert_eq!(cluster.log(3).voters_appended(), before);
    assert_eq!(cluster.log(0).cluster_state().voters, before);
    // Out of the directory it receives nothing any more.
    let leave = Command::Leave { node: NodeId(3), incarnation: Incarnation(1) };
    cluster.log(3).propose(leave).await.unwrap();
    cluster.log(0).propose(Command::RemoveNode { node: NodeId(3) }).await.unwrap();
    cluster.until(0, |status| status.learners.is_empty()).await;
    assert_eq!(cluster.log(0).voters_appended(), before);
}

/// Impossible changes are rejected with the reason.
#[tokio::test]
async fn impossible_changes_are_rejected() {
    let cluster = TestCluster::bootstrapped("rejected", 1, 1).await;
    let rejected = |result: Result<Option<VoterWarning>, ProposeError>, expected: Rejected| {
        assert_eq!(result, Err(ProposeError::Rejected(expected)));
    };
    let invalid = |why| Rejected::Voters(why);
    let log = cluster.log(0);
    rejected(log.demote(NodeId(0)).await, invalid(InvalidVoters::Count(0)));
    rejected(log.set_voters(voters(0..8)).await, invalid(InvalidVoters::Count(8)));
    rejected(log.promote(NodeId(1)).await, invalid(InvalidVoters::NotLearners(voters([1]))));
    let added = log.add_learner(NodeId(1)).await.map(|()| None);
    rejected(added, Rejected::NotRegistered(NodeId(1)));
    let removed = log.remove_learner(NodeId(0)).await.map(|()| None);
    rejected(removed, Rejected::StillVoter(NodeId(0)));
}

/// Three voters are replaced by three others while the log is used. Each set of voters is published
/// once, in order.
#[tokio::test]
async fn all_voters_are_replaced() {
    let mut cluster = TestCluster::bootstrapped("replace", 6, 3).await;
    for node in 3..6 {
        cluster.log(0).add_learner(NodeId(node)).await.unwrap();
    }
    cluster.log(0).propose(gate("build", 1)).await.unwrap();
    cluster.log(5).set_voters(voters(3..6)).await.unwrap();
    cluster.leader(&[3, 4, 5]).await;
    for node in 0..3 {
        cluster.stop(node).await;
    }
    cluster.log(3).propose(set("build", 5)).await.unwrap();
    let mut sets = Vec::new();
    let node = cluster.nodes.get_mut(&NodeId(4)).unwrap();
    while let Ok(entry) = node.entries.try_recv() {
        for change in entry.changes {
            if let Change::Voters(voters) = change {
                assert_eq!(voters.at, entry.index);
                sets.push(voters.sets);
            }
        }
    }
    // The first set came with an entry or with a snapshot. Then come both sets, then the new one.
    let joint = vec![voters(0..3), voters(3..6)];
    assert_eq!(sets, [vec![voters(0..3)], joint, vec![voters(3..6)]]);
}

/// N4: voters that are only in a node's log are visible at once, also after a restart, until the
/// others overwrite their entry.
#[tokio::test]
async fn appended_voters_come_and_go() {
    let mut cluster = TestCluster::bootstrapped("appended", 4, 3).await;
    let leader = cluster.leader(&[0, 1, 2]).await;
    cluster.log(leader).add_learner(NodeId(3)).await.unwrap();
    cluster.level(leader).await;
    cluster.cut(leader, true);
    let alone = cluster.log(leader).clone();
    let promoted = tokio::spawn(async move { alone.promote(NodeId(3)).await });
    let joint = [voters(0..3), voters(0..4)];
    cluster.until(leader, |status| status.appended.sets == joint).await;
    assert_eq!(
        cluster.log(leader).cluster_state().voters.sets,
        [voters(0..3)],
        "it is not committed"
    );
    cluster.stop(leader).await;
    assert_eq!(promoted.await.unwrap(), Err(ProposeError::Stopped));
    cluster.start(leader);
    assert_eq!(cluster.log(leader).voters_appended().sets, joint);
    let others: Vec<u32> = (0..3).filter(|node| *node != leader).collect();
    cluster.leader(&others).await;
    cluster.log(others[0]).propose(gate("build", 1)).await.unwrap();
    cluster.cut(leader, false);
    cluster.until(leader, |status| status.appended.sets == [voters(0..3)]).await;
    cluster.level(others[0]).await;
    assert_eq!(cluster.log(leader).voters_appended(), cluster.log(others[0]).voters_appended());
}
