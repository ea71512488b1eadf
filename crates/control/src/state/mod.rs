//! What the log says: a state machine without clock, rng or sockets, the same at every node that
//! has applied the same entries.
//!
//! [`State::apply`] takes one [`Command`] and says what came of it ([`Applied`] or [`Rejected`])
//! and what it changed ([`Change`], for the node). Everything is compare-and-set: a command that
//! comes late, twice, or from somebody who knew less than the log does changes nothing and says
//! why. So a proposer that has heard nothing may simply propose again.
//!
//! - members: who may take part (the directory), who does (the membership), who is suspected and
//!   evicted (rules E1 to E5, R2, R4);
//! - gates: the first to create one wins; its version is the entry that changed it last;
//! - permits that outlive their node: in the log or not at all (docs/internals/leases.md, `hold`).
//!
//! Who votes is the business of the log itself; the state is told when a change is applied, because
//! an eviction is bound to the voters (rule E4). Everything has a bound, so that no proposer can
//! fill the memory of the fleet.

mod cluster_state;
mod command;
mod gates;
mod members;
mod permits;
#[cfg(test)]
mod tests;

pub use cluster_state::{
    Admission, Cluster, ClusterId, ClusterState, DirectoryEntry, DurablePermit, ForcedEviction,
    Gate, GateId, PermitId, Policy, SecretHash,
};
pub use command::{Applied, Change, Command, FreeReason, Rejected};

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Fence, NodeId};
use serde::{Deserialize, Serialize};

use crate::membership::{Eviction, MembershipChange};
use crate::voters::Voters;

/// The most of everything.
pub mod bounds {
    /// The longest name, address, author or holder, in bytes.
    pub const TEXT: usize = 128;
    /// The most nodes on the directory at once.
    pub const NODES: usize = 1024;
    /// Numbers of nodes are below this: they have so much room in a fence.
    pub const NODE_NUMBERS: u32 = 1 << 16;
    /// The most gates at once.
    pub const GATES: usize = 4096;
    /// The most slots of a gate.
    pub const SLOTS: u32 = 1 << 16;
    /// The most permits that the log holds at once.
    pub const PERMITS: usize = 16_384;
    /// The most slots of one permit that the log holds.
    pub const WEIGHT: usize = 1024;
    /// The most slots whose last fence is remembered. With all that is above, a state stays well
    /// below the longest snapshot.
    pub const FENCES: usize = 1 << 20;
}

/// What one command comes to.
type Outcome = Result<(Applied, Vec<Change>), Rejected>;

/// The state that the log makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    cluster_state: ClusterState,
    /// The next number of a node that nobody has had.
    next_node: u32,
    /// The last number of a gate.
    last_gate: u32,
    /// The greatest fence under which each slot was ever held here: what was decided before is too
    /// late.
    fences: BTreeMap<(GateId, u32), Fence>,
}

impl State {
    /// One that says that, and is not gone on with.
    fn of(cluster_state: ClusterState) -> Self {
        Self { cluster_state, ..Self::default() }
    }

    /// What it says.
    pub fn cluster_state(&self) -> &ClusterState {
        &self.cluster_state
    }

    /// Applies the entry of that index. Entries come in order, each once.
    pub fn apply(
        &mut self,
        index: u64,
        command: Command,
    ) -> (Result<Applied, Rejected>, Vec<Change>) {
        self.advance(index);
        match self.outcome(index, command) {
            Ok((done, changes)) => (Ok(done), changes),
            Err(void) => (Err(void), Vec::new()),
        }
    }

    /// An entry without a command.
    pub fn pass(&mut self, index: u64) {
        self.advance(index);
    }

    /// A change of who votes and who listens is applied. Voters that are the same as before keep
    /// the index of the entry that made them voters: that somebody listens from now on is no reason
    /// to wait anew for an eviction (rule E3).
    pub fn vote(&mut self, voters: Voters, learners: BTreeSet<NodeId>) -> Vec<Change> {
        self.advance(voters.at);
        self.cluster_state.learners = learners;
        if voters.sets == self.cluster_state.voters.sets {
            return Vec::new();
        }
        self.cluster_state.voters = voters.clone();
        vec![Change::Voters(voters)]
    }

    fn advance(&mut self, index: u64) {
        assert!(
            index > self.cluster_state.applied || self.cluster_state == ClusterState::default(),
            "entry {index} comes after entry {}",
            self.cluster_state.applied
        );
        self.cluster_state.applied = index;
    }

    fn outcome(&mut self, index: u64, command: Command) -> Outcome {
        if let Command::Bootstrap { cluster, name, nodes, terms } = command {
            return self.found(cluster, name, nodes, terms);
        }
        if self.cluster_state.cluster.is_none() {
            return Err(Rejected::NotBootstrapped);
        }
        match command {
            Command::Bootstrap { .. } => unreachable!("it was taken above"),
            Command::RegisterNode { node, name, address, store } => {
                self.admit(node, name, address, store)
            }
            Command::Add { node, incarnation, store, start, terms, address } => self.add(
                index,
                node,
                Admission { incarnation, at: index, start },
                store,
                terms,
                address,
            ),
            Command::Leave { node, incarnation } => self.leave(index, node, incarnation),
            Command::RemoveNode { node } => self.remove(node),
            Command::Suspect { node, incarnation } => self.suspect(index, node, incarnation),
            Command::ForceEvict { node, incarnation, author, for_good } => {
                self.condemn(index, node, ForcedEviction { incarnation, author, for_good })
            }
            Command::Unsuspect { node, incarnation, at } => {
                self.unsuspect(index, node, incarnation, at)
            }
            Command::Evict { node, incarnation, at, voters_at, waited } => {
                self.evict(index, Eviction { node, incarnation, at, voters_at, waited })
            }
            Command::CreateGate { name, k, protocol, lanes, policy, weight_max, author } => {
                let (id, made, version) = (GateId(0), index, index);
                self.create(Gate {
                    id,
                    name,
                    k,
                    protocol,
                    lanes,
                    policy,
                    weight_max,
                    author,
                    made,
                    version,
                })
            }
            Command::SetGate { name, k, policy, version, author } => {
                self.set(index, &name, k, policy, version, author)
            }
            Command::DeleteGate { name, version } => self.delete(index, &name, version),
            Command::HoldPermit { gate, slots, fence, by, holder, secret, ttl } => {
                let renewals = 0;
                self.hold(
                    PermitId(index),
                    DurablePermit { gate, slots, fence, by, holder, secret, ttl, renewals },
                )
            }
            Command::ReleasePermit { permit, secret, renewals } => {
                self.release(permit, secret, renewals)
            }
            Command::RenewPermit { permit, secret } => self.renew(permit, secret),
            Command::ExpirePermit { permit, renewals } => self.expire(permit, renewals),
            Command::EvictPermit { permit, author } => self.evict_held(permit, author),
        }
    }

    /// What leads from an older state to this one, for a node that was away for longer than the log
    /// is kept: first what ended, then what is new, in the order of the entries.
    pub fn changes_since(&self, older: &ClusterState) -> Vec<Change> {
        let mut changes = Vec::new();
        self.members_since(older, &mut changes);
        self.gates_since(older, &mut changes);
        self.permits_since(older, &mut changes);
        if self.cluster_state.voters != older.voters {
            changes.push(Change::Voters(self.cluster_state.voters.clone()));
        }
        changes
    }
}

/// Rejected, in words.
fn refused<T>(why: impl Into<String>) -> Result<T, Rejected> {
    Err(Rejected::Refused(why.into()))
}

/// Texts for people have a bound, and are for reading.
fn check_text(what: &str, text: &str, may_be_empty: bool) -> Result<(), Rejected> {
    let fine = text.len() <= bounds::TEXT && (may_be_empty || !text.is_empty());
    if fine && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let shown: String = text.chars().take(40).collect();
    refused(format!(
        "{what} has {} to {} bytes without control characters: not `{}`",
        usize::from(!may_be_empty),
        bounds::TEXT,
        shown.escape_debug()
    ))
}

/// One change of the membership, by the entry of that index.
fn membership(at: u64, change: MembershipChange) -> Change {
    Change::Membership { at, change }
}
