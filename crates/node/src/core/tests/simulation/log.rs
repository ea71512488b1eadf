//! The log as a total order: one state machine, and for each node the number of entries that it has
//! applied.

use std::collections::BTreeMap;

use kgate_control::log::{AppliedEntry, LogStatus, ProposeError, Unavailable};
use kgate_control::state::{
    Applied, Change, ClusterId, ClusterState, Command, DirectoryEntry, DurablePermit, PermitId,
    Rejected, State,
};
use kgate_control::timing::Timing;
use kgate_control::voters::Voters;
use kgate_core::NodeId;

use super::super::super::Input;
use super::{Event, MILLISECOND, Mutation, Proposer, SECOND, Simulation};

pub(super) struct TotalOrder {
    state: State,
    /// The changes of each entry, and the state after it.
    entries: Vec<(Vec<Change>, ClusterState)>,
    /// The number of entries that each node has applied.
    applied: BTreeMap<NodeId, usize>,
    /// Nothing is decided before this instant.
    pub(super) stalled_until: u64,
    /// The percentage of proposals that are decided late.
    pub(super) late: u64,
    /// The longest delay until a node applies an entry.
    pub(super) lag_most: u64,
}

impl TotalOrder {
    /// A bootstrapped log with one gate.
    pub(super) fn new(nodes: u32, voters: u32, k: u32, timing: Timing, protocol: &str) -> Self {
        let applied = (0..nodes).map(|node| (NodeId(node), 0)).collect();
        let (stalled_until, late, lag_most) = (0, 0, 20 * MILLISECOND);
        let (state, entries) = (State::default(), Vec::new());
        let mut log = Self { state, entries, applied, stalled_until, late, lag_most };
        let changes =
            log.state.set_voters(Voters::new(1, (0..voters).map(NodeId)), Default::default());
        log.entries.push((changes, log.state.cluster_state().clone()));
        let listed =
            |node: u32| DirectoryEntry { name: format!("n{node}"), ..DirectoryEntry::default() };
        let nodes = (0..nodes).map(|node| (NodeId(node), listed(node))).collect();
        let (cluster, name, terms) = (ClusterId(1), "world".to_owned(), timing.terms());
        log.append(Command::Bootstrap { cluster, name, nodes, terms }).expect("founded");
        let gate = Command::CreateGate {
            name: "gpu".into(),
            slots: k.into(),
            protocol: protocol.into(),
            lanes: 1,
            policy: Default::default(),
            weight_max: None,
            author: "the world".into(),
        };
        log.append(gate).expect("made");
        log
    }

    fn append(&mut self, command: Command) -> Result<Applied, Rejected> {
        let index = self.entries.len() as u64 + 1;
        let (came, changes) = self.state.apply(index, command);
        self.entries.push((changes, self.state.cluster_state().clone()));
        came
    }

    pub(super) fn permits(&self) -> &BTreeMap<PermitId, DurablePermit> {
        &self.state.cluster_state().permits
    }

    pub(super) fn once_keys(&self) -> Vec<String> {
        self.state.cluster_state().once_marks().map(|(_, key, _)| key.to_owned()).collect()
    }

    pub(super) fn cluster_state(&self) -> &ClusterState {
        self.state.cluster_state()
    }

    pub(super) fn voters(&self) -> Voters {
        self.state.cluster_state().voters.clone()
    }

    /// The state in a node's store at its start.
    pub(super) fn cluster_state_of(&self, node: NodeId) -> ClusterState {
        let applied = self.applied[&node];
        applied
            .checked_sub(1)
            .map_or_else(ClusterState::default, |last| self.entries[last].1.clone())
    }
}

impl Simulation {
    /// Whether a node and a majority of the voters are up and reach each other.
    fn has_quorum(&self, node: NodeId) -> bool {
        let reaches = |other: NodeId| {
            other == node
                || !self.cut.contains(&(node, other))
                    && !self.cut.contains(&(other, node))
                    && self.machines[&other].core.is_some()
                    && self.machines[&other].paused_until <= self.now
        };
        self.machines[&node].core.is_some() && self.log.voters().is_quorum(reaches)
    }

    /// A proposal reaches the leader. Some wait there, and some of those are decided only after
    /// their node was told that there is no quorum.
    pub(super) fn proposal(&mut self, from: Proposer, command: Command) {
        let leads = self.has_quorum(from.node) && self.log.stalled_until <= self.now;
        if !leads {
            return self.answer(from, Err(ProposeError::NoQuorum(Unavailable::LeaderStopped)));
        }
        if !self.rng.percent(self.log.late) {
            return self.decided(from, command);
        }
        let after = self.rng.below(4 * SECOND);
        let is_unheard = self.rng.percent(50);
        let number = if is_unheard { 0 } else { from.number };
        if is_unheard {
            self.answer(from, Err(ProposeError::NoQuorum(Unavailable::LeaderStopped)));
        }
        self.at(after, Event::Decided { from: Proposer { number, ..from }, command });
    }

    /// Sends the result of a proposal, if its node waits for it.
    fn answer(&mut self, to: Proposer, came: Result<Applied, ProposeError>) {
        let after = if came.is_ok() {
            self.rng.within(MILLISECOND, 10 * MILLISECOND)
        } else {
            200 * MILLISECOND
        };
        if to.number > 0 {
            self.at(after, Event::Answer { to, came });
        }
    }

    /// The number of entries.
    pub(super) fn decided_entries(&self) -> u64 {
        self.log.entries.len() as u64
    }

    /// A question how far the log goes reaches the leader, which asks a quorum.
    pub(super) fn read_index(&mut self, to: Proposer) {
        let leads = self.has_quorum(to.node) && self.log.stalled_until <= self.now;
        let (result, after) = if leads {
            (Ok(self.decided_entries()), self.rng.within(MILLISECOND, 10 * MILLISECOND))
        } else {
            (Err(ProposeError::NoQuorum(Unavailable::LeaderStopped)), 200 * MILLISECOND)
        };
        self.at(after, Event::ReadAt { to, result });
    }

    /// A proposal becomes an entry, which reaches the nodes one by one.
    pub(super) fn decided(&mut self, from: Proposer, command: Command) {
        let came = self.log.append(command).map_err(ProposeError::Rejected);
        let nodes: Vec<NodeId> = self.machines.keys().copied().collect();
        for node in nodes {
            let after = self.rng.within(MILLISECOND, self.log.lag_most);
            self.at(after, Event::Entry(node));
        }
        self.answer(from, came);
    }

    /// A node applies its next entry, if it is connected to a quorum.
    pub(super) fn entry(&mut self, node: NodeId) {
        let applied = self.log.applied[&node];
        let Some((changes, cluster_state)) = self.log.entries.get(applied).cloned() else { return };
        if self.machines[&node].core.is_none() {
            return;
        }
        if !self.has_quorum(node) || self.log.stalled_until > self.now {
            return self.at(50 * MILLISECOND, Event::Entry(node));
        }
        self.log.applied.insert(node, applied + 1);
        let index = applied as u64 + 1;
        let changes = if self.mutation == Some(Mutation::GoneAtSuspect) {
            gone_at_suspect(changes)
        } else {
            changes
        };
        let leader = NodeId(0);
        let status = LogStatus {
            leader: Some(leader),
            is_leader: node == leader,
            applied: index,
            committed: index,
            appended: cluster_state.voters.clone(),
            ..LogStatus::default()
        };
        self.input(node, Input::Applied(AppliedEntry { index, changes }));
        self.input(node, Input::LogStatus(status));
        // Where the disk is slow, the next entry takes as long again.
        let after = if self.log.lag_most > 20 * MILLISECOND {
            self.rng.below(self.log.lag_most)
        } else {
            0
        };
        self.at(after, Event::Entry(node));
    }
}

/// The entries as if a suspicion were an eviction.
fn gone_at_suspect(changes: Vec<Change>) -> Vec<Change> {
    use kgate_control::membership::MembershipChange;
    let suspected: Vec<_> = changes
        .iter()
        .filter_map(|change| {
            let Change::Membership { change, .. } = change else { return None };
            let MembershipChange::Suspected(node, incarnation, _) = change else { return None };
            Some((*node, *incarnation))
        })
        .collect();
    let gone = |change: Change| {
        if let Change::Homes(mut homes) = change {
            for (node, incarnation) in &suspected {
                homes.directory.evict(*node, *incarnation);
            }
            return Change::Homes(homes);
        }
        if let Change::Membership {
            at,
            change: MembershipChange::Suspected(node, incarnation, _),
        } = change
        {
            Change::Membership { at, change: MembershipChange::Gone(node, incarnation) }
        } else {
            change
        }
    };
    changes.into_iter().map(gone).collect()
}
