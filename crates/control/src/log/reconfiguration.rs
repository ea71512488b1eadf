//! Changes of the voters and learners: made by the leader, one at a time.
//!
//! Learners follow the directory of the state: the leader adds the nodes that are in it, and
//! removes those that are not. Voters are an operator's choice and never change by themselves; an
//! eviction does not change them either.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kgate_core::NodeId;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, ServerState};
use serde::{Deserialize, Serialize};

use super::engine::Engine;
use super::error::Unavailable;
use super::proposals::not_written;
use super::raft::Peer;
use super::wire::{LeaderReply, Reply, Request};
use crate::membership::StoreId;
use crate::state::{InvalidVoters, Rejected};
use crate::voters::VOTERS_MAX;

/// The most entries that a node may lack when it becomes a voter: about one message.
const LAG_MAX: u64 = 64;

/// What an operator should know about the number of voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum VoterWarning {
    /// Both of two voters are needed.
    #[error(
        "2 voters: both are needed, so the failure of either stops everything; use 1, or add a \
        third as a witness"
    )]
    Two,
    /// An even number of voters tolerates no more failures than one voter less.
    #[error(
        "an even number of voters, {0}, tolerates no more failures than one voter less: use an \
        odd number"
    )]
    Even(usize),
}

impl VoterWarning {
    fn about(voters: &BTreeSet<NodeId>) -> Option<Self> {
        match voters.len() {
            2 => Some(Self::Two),
            even if even % 2 == 0 => Some(Self::Even(even)),
            _ => None,
        }
    }
}

impl Engine {
    pub(super) async fn add_learner(&self, node: NodeId) -> LeaderReply {
        if self.shared.roster().stores.contains_key(&node) {
            return LeaderReply::Changed(None);
        }
        let entry = self.shared.cluster_state().directory.get(&node).cloned();
        let Some(entry) = entry else {
            return LeaderReply::Rejected(Rejected::NotRegistered(node));
        };
        let store = match entry.store {
            Some(store) => store,
            // One of the first nodes, of which the log does not know the store yet.
            None => match self.identify(node).await {
                Some((store, _)) => store,
                None => return LeaderReply::Unavailable(Unavailable::NodeSilent(node)),
            },
        };
        let nodes = BTreeMap::from([(node.0, Peer { store })]);
        self.change(ChangeMembers::AddNodes(nodes)).await
    }

    pub(super) async fn remove_learner(&self, node: NodeId) -> LeaderReply {
        let roster = self.shared.roster();
        if roster.voters.has(node) {
            return LeaderReply::Rejected(Rejected::StillVoter(node));
        }
        if !roster.stores.contains_key(&node) {
            return LeaderReply::Changed(None);
        }
        self.change(ChangeMembers::RemoveNodes(BTreeSet::from([node.0]))).await
    }

    pub(super) async fn promote(&self, node: NodeId) -> LeaderReply {
        let voters = self.shared.roster().voters;
        let mut wanted = voters.sets.last().cloned().unwrap_or_default();
        wanted.insert(node);
        self.set_voters(wanted).await
    }

    pub(super) async fn demote(&self, node: NodeId) -> LeaderReply {
        let voters = self.shared.roster().voters;
        if !voters.has(node) {
            return LeaderReply::Changed(None);
        }
        let mut wanted = voters.sets.last().cloned().unwrap_or_default();
        wanted.remove(&node);
        self.set_voters(wanted).await
    }

    pub(super) async fn set_voters(&self, wanted: BTreeSet<NodeId>) -> LeaderReply {
        let roster = self.shared.roster();
        if wanted.is_empty() || wanted.len() > VOTERS_MAX {
            return rejected(InvalidVoters::Count(wanted.len()));
        }
        let unknown: BTreeSet<NodeId> =
            wanted.iter().copied().filter(|node| !roster.stores.contains_key(node)).collect();
        if !unknown.is_empty() {
            return rejected(InvalidVoters::NotLearners(unknown));
        }
        let warning = VoterWarning::about(&wanted);
        if roster.voters.sets == [wanted.clone()] {
            return LeaderReply::Changed(warning);
        }
        // A voter that lacks many entries could hold up every decision.
        let mut behind =
            wanted.iter().filter(|node| !roster.voters.has(**node) && !self.has_caught_up(**node));
        if let Some(node) = behind.next() {
            return LeaderReply::Unavailable(Unavailable::CatchingUp(*node));
        }
        let voters = wanted.into_iter().map(|node| node.0).collect();
        let reply = self.change(ChangeMembers::ReplaceAllVoters(voters)).await;
        if matches!(reply, LeaderReply::Changed(_)) { LeaderReply::Changed(warning) } else { reply }
    }

    fn has_caught_up(&self, node: NodeId) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let last = metrics.last_log_index.unwrap_or(0);
        let matching =
            metrics.replication.as_ref().and_then(|nodes| nodes.get(&node.0).copied().flatten());
        matching.is_some_and(|matching| matching.index + LAG_MAX >= last)
    }

    async fn change(&self, change: ChangeMembers<u32, Peer>) -> LeaderReply {
        // A change of voters has two steps, and the second must belong to the same change.
        let Ok(_guard) = self.reconfiguring.try_lock() else {
            return LeaderReply::Unavailable(Unavailable::ChangeInProgress);
        };
        match self.raft.change_membership(change, true).await {
            Ok(_) => LeaderReply::Changed(None),
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => match error
            {
                ChangeMembershipError::InProgress(_) => {
                    LeaderReply::Unavailable(Unavailable::ChangeInProgress)
                }
                ChangeMembershipError::EmptyMembership(_) => rejected(InvalidVoters::Count(0)),
                ChangeMembershipError::LearnerNotFound(error) => {
                    let node = NodeId(error.node_id);
                    rejected(InvalidVoters::NotLearners(BTreeSet::from([node])))
                }
            },
            Err(error) => LeaderReply::Unavailable(not_written(&error)),
        }
    }

    /// The store of that node, and the nodes that its log knows.
    pub(super) async fn identify(
        &self,
        node: NodeId,
    ) -> Option<(StoreId, BTreeMap<NodeId, StoreId>)> {
        match self.rpc.request(node, None, Request::Identify, self.election_max()).await {
            Ok((store, Reply::Identity(known))) => Some((store, known)),
            Ok(_) | Err(_) => None,
        }
    }

    /// While this node leads: finishes a change of voters that a former leader began, adds the
    /// nodes of the directory as learners, and removes those that are out of it. A leader that does
    /// not vote any more falls silent until one of the voters leads.
    pub(super) async fn reconcile(self: Arc<Self>) {
        let mut metrics = self.raft.metrics();
        let mut states = self.shared.states();
        loop {
            if !matches!(metrics.borrow_and_update().state, ServerState::Leader) {
                self.raft.runtime_config().heartbeat(true);
                if metrics.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let reply = self.reconcile_once().await;
            if let Some(LeaderReply::Unavailable(why)) = &reply {
                tracing::debug!(%why, "the learners do not follow the directory yet");
            }
            // After a step, look at once whether there is another. Otherwise wait for a change of
            // the state, or try again after a while.
            if !matches!(reply, Some(LeaderReply::Changed(_))) {
                let changed = tokio::time::timeout(self.election_max(), states.changed());
                let _ = changed.await;
            }
        }
    }

    async fn reconcile_once(&self) -> Option<LeaderReply> {
        let cluster_state = self.shared.cluster_state();
        let roster = self.shared.roster();
        // Only when everything in the log is applied: otherwise a change is in progress.
        cluster_state.cluster.as_ref()?;
        if roster.voters != cluster_state.voters {
            return None;
        }
        if let [_, wanted] = roster.voters.sets.as_slice() {
            let voters = wanted.iter().map(|node| node.0).collect();
            return Some(self.change(ChangeMembers::ReplaceAllVoters(voters)).await);
        }
        if !roster.voters.has(self.me) {
            // openraft lets it lead on; without its heartbeats the voters elect one of themselves.
            self.raft.runtime_config().heartbeat(false);
            return None;
        }
        let gone = roster.learners.iter().find(|node| !cluster_state.directory.contains_key(node));
        if let Some(node) = gone {
            return Some(self.remove_learner(*node).await);
        }
        let mut last = None;
        for node in cluster_state.directory.keys().filter(|node| !roster.stores.contains_key(node))
        {
            last = Some(self.add_learner(*node).await);
            if matches!(last, Some(LeaderReply::Changed(_))) {
                break;
            }
        }
        last
    }
}

fn rejected(why: InvalidVoters) -> LeaderReply {
    LeaderReply::Rejected(Rejected::Voters(why))
}
