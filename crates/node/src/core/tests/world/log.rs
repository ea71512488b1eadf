//! The log as a total order: one state machine, and for each node how far it has heard.

use std::collections::BTreeMap;

use kgate_control::log::{LogStatus, News, NotDone};
use kgate_control::state::{Change, ClusterId, Command, Listed, Permit, PermitId, Picture, State};
use kgate_control::timing::Timing;
use kgate_control::voters::Voters;
use kgate_core::NodeId;

use super::{Event, Flaw, MILLISECOND, World};

pub(super) struct TotalOrder {
    state: State,
    /// Each entry: what it changed, and what all of it was then.
    entries: Vec<(Vec<Change>, Picture)>,
    /// How many entries each node has applied.
    applied: BTreeMap<NodeId, usize>,
    /// Nothing is decided before that.
    pub(super) stalled_until: u64,
}

impl TotalOrder {
    /// Founded, with one gate.
    pub(super) fn new(nodes: u32, voters: u32, permits: u32, timing: Timing) -> Self {
        let applied = (0..nodes).map(|node| (NodeId(node), 0)).collect();
        let mut log = Self { state: State::default(), entries: Vec::new(), applied, stalled_until: 0 };
        let changes = log.state.vote(Voters::new(1, (0..voters).map(NodeId)), Default::default());
        log.entries.push((changes, log.state.picture().clone()));
        let listed = |node: u32| Listed { name: format!("n{node}"), ..Listed::default() };
        let nodes = (0..nodes).map(|node| (NodeId(node), listed(node))).collect();
        let (cluster, name, terms) = (ClusterId(1), "world".to_owned(), timing.terms());
        log.append(Command::Found { cluster, name, nodes, terms }).expect("founded");
        let gate = Command::CreateGate {
            name: "gpu".into(),
            k: permits,
            protocol: "slots".into(),
            lanes: 1,
            policy: Default::default(),
            weight_max: None,
            author: "the world".into(),
        };
        log.append(gate).expect("made");
        log
    }

    fn append(&mut self, command: Command) -> Result<kgate_control::state::Done, kgate_control::state::Void> {
        let index = self.entries.len() as u64 + 1;
        let (came, changes) = self.state.apply(index, command);
        self.entries.push((changes, self.state.picture().clone()));
        came
    }

    pub(super) fn permits(&self) -> &BTreeMap<PermitId, Permit> {
        &self.state.picture().permits
    }

    pub(super) fn voters(&self) -> Voters {
        self.state.picture().voters.clone()
    }

    /// What a node finds in its store when it starts.
    pub(super) fn picture_of(&self, node: NodeId) -> Picture {
        let applied = self.applied[&node];
        applied.checked_sub(1).map_or_else(Picture::default, |last| self.entries[last].1.clone())
    }
}

impl World {
    /// Whether a node and a majority of the voters reach each other, and all those are up.
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

    pub(super) fn proposal(&mut self, from: NodeId, boot: u64, number: u64, command: Command) {
        let came = if self.has_quorum(from) && self.log.stalled_until <= self.now {
            self.log.append(command).map_err(NotDone::Void)
        } else {
            // Sometimes it is only thought to be lost.
            Err(NotDone::NoQuorum("nobody answers".into()))
        };
        let nodes: Vec<NodeId> = self.machines.keys().copied().collect();
        for node in nodes {
            let after = self.dice.within(MILLISECOND, 20 * MILLISECOND);
            self.at(after, Event::Entry(node));
        }
        let after =
            if came.is_ok() { self.dice.within(MILLISECOND, 10 * MILLISECOND) } else { 200 * MILLISECOND };
        if number > 0 {
            self.at(after, Event::Answer { to: from, boot, number, came });
        }
    }

    /// The next entries reach a node, if it can hear of them.
    pub(super) fn entry(&mut self, node: NodeId) {
        let applied = self.log.applied[&node];
        let Some((changes, picture)) = self.log.entries.get(applied).cloned() else { return };
        if self.machines[&node].core.is_none() {
            return;
        }
        if !self.has_quorum(node) || self.log.stalled_until > self.now {
            return self.at(50 * MILLISECOND, Event::Entry(node));
        }
        self.log.applied.insert(node, applied + 1);
        let index = applied as u64 + 1;
        let changes = if self.flaw == Some(Flaw::GoneAtSuspect) { gone_at_suspect(changes) } else { changes };
        let leader = NodeId(0);
        let status = LogStatus {
            leader: Some(leader),
            leading: node == leader,
            applied: index,
            committed: index,
            appended: picture.voters.clone(),
            ..LogStatus::default()
        };
        self.with(node, |core, now, actions| {
            core.news(now, News { index, changes }, actions);
            core.log_status(now, status, actions);
        });
        self.at(0, Event::Entry(node));
    }
}

/// What the entries would say if a suspicion were an eviction.
fn gone_at_suspect(changes: Vec<Change>) -> Vec<Change> {
    use kgate_control::roll::RollChange;
    let gone = |change: Change| {
        if let Change::Roll { at, change: RollChange::Suspected(node, incarnation, _) } = change {
            Change::Roll { at, change: RollChange::Gone(node, incarnation) }
        } else {
            change
        }
    };
    changes.into_iter().map(gone).collect()
}
