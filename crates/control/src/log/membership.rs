//! Who votes and who listens: changed by the leader, one change at a time.
//!
//! Listeners follow the directory of the state: the leader takes up whoever is on it, and drops
//! whoever is not any more. Voters are an operator's choice and never change by themselves (an
//! eviction does not change them either, rule E6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kgate_core::NodeId;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::{ChangeMembers, ServerState};

use super::engine::Engine;
use super::orders::{named, not_led};
use super::raft::Peer;
use super::wire::{Reply, Request, Ruling};
use crate::membership::StoreId;
use crate::state::Rejected;

/// More voters cost more than they give.
const VOTERS: usize = 7;
/// So many entries may a node lack that is to vote: about one message.
const BEHIND: u64 = 64;

impl Engine {
    pub(super) async fn add_learner(&self, node: NodeId) -> Ruling {
        if self.shared.roster().stores.contains_key(&node) {
            return Ruling::Changed(None);
        }
        let listed = self.shared.cluster_state().directory.get(&node).cloned();
        let Some(listed) = listed else {
            return refused(format!("{node} is not on the directory: add it there first"));
        };
        let store = match listed.store {
            Some(store) => store,
            // One of the first nodes, which has not said yet.
            None => match self.hello(node).await {
                Some((store, _)) => store,
                None => return Ruling::NotNow(format!("{node} does not answer")),
            },
        };
        let nodes = BTreeMap::from([(node.0, Peer { store })]);
        self.change(ChangeMembers::AddNodes(nodes)).await
    }

    pub(super) async fn remove_learner(&self, node: NodeId) -> Ruling {
        let roster = self.shared.roster();
        if roster.voters.has(node) {
            return refused(format!("{node} votes: demote it first"));
        }
        if !roster.stores.contains_key(&node) {
            return Ruling::Changed(None);
        }
        self.change(ChangeMembers::RemoveNodes(BTreeSet::from([node.0]))).await
    }

    pub(super) async fn promote(&self, node: NodeId) -> Ruling {
        let voters = self.shared.roster().voters;
        let mut wanted = voters.sets.last().cloned().unwrap_or_default();
        wanted.insert(node);
        self.set_voters(wanted).await
    }

    pub(super) async fn demote(&self, node: NodeId) -> Ruling {
        let voters = self.shared.roster().voters;
        if !voters.has(node) {
            return Ruling::Changed(None);
        }
        let mut wanted = voters.sets.last().cloned().unwrap_or_default();
        wanted.remove(&node);
        self.set_voters(wanted).await
    }

    pub(super) async fn set_voters(&self, wanted: BTreeSet<NodeId>) -> Ruling {
        let roster = self.shared.roster();
        if wanted.is_empty() || wanted.len() > VOTERS {
            return refused(format!(
                "1 to {VOTERS} nodes vote, best 1, 3 or 5: not {}",
                wanted.len()
            ));
        }
        let unknown: Vec<NodeId> =
            wanted.iter().copied().filter(|node| !roster.stores.contains_key(node)).collect();
        if !unknown.is_empty() {
            return refused(format!("{} does not hear the log yet: add it first", named(unknown)));
        }
        if roster.voters.sets == [wanted.clone()] {
            return Ruling::Changed(warning(&wanted));
        }
        // A voter that lacks much could hold everything up.
        let behind =
            wanted.iter().filter(|node| !roster.voters.has(**node) && !self.has_caught_up(**node));
        if let Some(node) = behind.copied().next() {
            return Ruling::NotNow(format!("{node} has not caught up with the log yet"));
        }
        let warning = warning(&wanted);
        let voters = wanted.into_iter().map(|node| node.0).collect();
        let ruling = self.change(ChangeMembers::ReplaceAllVoters(voters)).await;
        if let Ruling::Changed(_) = ruling { Ruling::Changed(warning) } else { ruling }
    }

    fn has_caught_up(&self, node: NodeId) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let last = metrics.last_log_index.unwrap_or(0);
        let matching =
            metrics.replication.as_ref().and_then(|nodes| nodes.get(&node.0).copied().flatten());
        matching.is_some_and(|matching| matching.index + BEHIND >= last)
    }

    async fn change(&self, change: ChangeMembers<u32, Peer>) -> Ruling {
        // A change of voters has two steps; nobody takes the second for another's.
        let Ok(_alone) = self.changing.try_lock() else { return under_way() };
        match self.raft.change_membership(change, true).await {
            Ok(_) => Ruling::Changed(None),
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => match error
            {
                ChangeMembershipError::InProgress(_) => under_way(),
                ChangeMembershipError::EmptyMembership(_)
                | ChangeMembershipError::LearnerNotFound(_) => refused(error.to_string()),
            },
            Err(error) => not_led(&error),
        }
    }

    /// Which store that node has, and whom its log knows.
    pub(super) async fn hello(&self, node: NodeId) -> Option<(StoreId, BTreeMap<NodeId, StoreId>)> {
        match self.post.ask(node, None, Request::Hello, self.election_max()).await {
            Ok((store, Reply::Hello(known))) => Some((store, known)),
            _ => None,
        }
    }

    /// While this node leads: ends a change of voters that a former leader began, takes up who is
    /// on the directory, drops who is not. If it votes no more, it falls silent until one of the
    /// voters leads.
    pub(super) async fn tend(self: Arc<Self>) {
        let mut metrics = self.raft.metrics();
        let mut pictures = self.shared.pictures();
        loop {
            if !matches!(metrics.borrow_and_update().state, ServerState::Leader) {
                self.raft.runtime_config().heartbeat(true);
                if metrics.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let ruling = self.tend_once().await;
            if let Some(Ruling::NotNow(why)) = &ruling {
                tracing::debug!("the roster is not as the directory says: {why}");
            }
            // One step done: look at once whether there is another. Else wait for a change, or try
            // again after a while.
            if !matches!(ruling, Some(Ruling::Changed(_))) {
                let changed = tokio::time::timeout(self.election_max(), pictures.changed());
                let _ = changed.await;
            }
        }
    }

    async fn tend_once(&self) -> Option<Ruling> {
        let cluster_state = self.shared.cluster_state();
        let roster = self.shared.roster();
        // Only when everything that is in the log is agreed: else a change is under way.
        cluster_state.cluster.as_ref()?;
        if roster.voters != cluster_state.voters {
            return None;
        }
        if let [_, wanted] = roster.voters.sets.as_slice() {
            let voters = wanted.iter().map(|node| node.0).collect();
            return Some(self.change(ChangeMembers::ReplaceAllVoters(voters)).await);
        }
        if !roster.voters.has(self.me) {
            // openraft lets it lead on; without its heartbeats the voters choose one of themselves.
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
            if matches!(last, Some(Ruling::Changed(_))) {
                break;
            }
        }
        last
    }
}

/// What an operator should know of so many voters.
fn warning(voters: &BTreeSet<NodeId>) -> Option<String> {
    match voters.len() {
        2 => Some(
            "2 voters: both are needed, so either one's failure stops everything; use 1, or add a third as a witness"
                .to_owned(),
        ),
        even if even % 2 == 0 => {
            Some(format!("{even} voters tolerate no more failures than {}: use an odd number", even - 1))
        }
        _ => None,
    }
}

fn under_way() -> Ruling {
    Ruling::NotNow("another change of voters is under way".to_owned())
}

fn refused(why: String) -> Ruling {
    Ruling::Rejected(Rejected::Refused(why))
}
