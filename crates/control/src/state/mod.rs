//! The replicated state: a state machine without clock, random numbers or sockets, the same at
//! every node that has applied the same entries.
//!
//! [`State::apply`] takes one [`Command`] and returns what it did ([`Applied`]) or why it changed
//! nothing ([`Rejected`]), and what is different now ([`Change`], for the node). Every command is a
//! compare-and-set: one that arrives late, twice, or from a proposer that knew less than the log
//! changes nothing and says why. A proposer that received no answer may therefore propose again.
//!
//! - Members: the directory of the nodes that may become members, the membership of those that are,
//!   suspicions and evictions (rules E1 to E6, R2, R4).
//! - Homes: which node is home of a gate, and since which term, for gates whose protocol has homes.
//! - Gates: the first command to create one wins. The version of a gate is the entry that changed
//!   it last.
//! - Keys that are used at most once, under the permits of a gate.
//! - Durable permits: in the log before they are granted (docs/internals/leases.md, `hold`).
//!
//! The voters are the log's own business. The state learns of a change when it is applied
//! ([`State::set_voters`]), because an eviction is bound to the voters in force (rule E4).
//! Everything has a bound ([`bounds`]), so that no proposer can fill the memory of the fleet.

mod cluster_state;
mod command;
mod gates;
mod homes;
mod members;
mod once;
mod permits;
mod rejected;
mod slots;
#[cfg(test)]
mod tests;

pub use cluster_state::{
    Admission, Cluster, ClusterId, ClusterState, DirectoryEntry, DurablePermit, ForcedEviction,
    Gate, GateId, PermitId, Policy, SecretHash,
};
pub use command::{Applied, Change, Command, FreeReason};
pub use homes::Homes;
pub use once::OnceMark;
pub use rejected::{Invalid, InvalidVoters, Limit, Outdated, Rejected, TextField};
pub use slots::{BadSlots, KSource, Slots};

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Fence, NodeId, Term};
use serde::{Deserialize, Serialize};

use crate::membership::MembershipChange;
use crate::voters::Voters;
use gates::GateChange;

/// The bounds of the state.
pub mod bounds {
    /// The most bytes of a name, an address, an author or a holder.
    pub const TEXT: usize = 128;
    /// The most nodes in the directory at once.
    pub const NODES: usize = 1024;
    /// Numbers of nodes are below this: a fence has 16 bits for them.
    pub const NODE_NUMBERS: u32 = 1 << 16;
    /// The most gates at once.
    pub const GATES: usize = 4096;
    /// The most slots of a gate.
    pub const SLOTS: u32 = 1 << 16;
    /// The most bytes of the name of a slot, and of an expression for k.
    pub const SLOT_NAME: usize = 64;
    /// The most named slots of a gate.
    pub const NAMES: usize = 1024;
    /// The most named slots of all gates. Their names fit into one message between nodes.
    pub const NAMES_IN_ALL: usize = 8192;
    /// The most keys of a gate that are used at once.
    pub const ONCE_KEYS: usize = 1024;
    /// The most keys of all gates that are used at once.
    pub const ONCE_KEYS_IN_ALL: usize = 16_384;
    /// The most durable permits at once.
    pub const PERMITS: usize = 16_384;
    /// The most slots of one durable permit.
    pub const WEIGHT: usize = 1024;
    /// The most slots whose last fence is remembered. With all the bounds above, a state stays well
    /// below the longest snapshot.
    pub const FENCES: usize = 1 << 20;
}

/// What applying one command returns.
type Outcome = Result<(Applied, Vec<Change>), Rejected>;

/// The replicated state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    cluster_state: ClusterState,
    /// The lowest number that no node ever had.
    next_node: u32,
    /// The number of the gate that was created last.
    last_gate: u32,
    /// The greatest fence under which a durable permit ever held each slot: a decision under a
    /// smaller fence, or the same, comes too late.
    fences: BTreeMap<(GateId, u32), Fence>,
}

impl State {
    /// The part of the state that nodes and people read.
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
            Ok((applied, mut changes)) => {
                changes.extend(self.follow_members(index, &changes));
                (Ok(applied), changes)
            }
            Err(rejected) => (Err(rejected), Vec::new()),
        }
    }

    /// Applies an entry that has no command.
    pub fn apply_blank(&mut self, index: u64) {
        self.advance(index);
    }

    /// Applies a change of the voters and learners, by the entry of index `voters.at`. Voters that
    /// are the same as before keep the index of the entry that made them voters: a new learner is
    /// no reason to begin the wait before an eviction anew (rule E3).
    pub fn set_voters(&mut self, voters: Voters, learners: BTreeSet<NodeId>) -> Vec<Change> {
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
        let bootstraps = matches!(command, Command::Bootstrap { .. });
        if self.cluster_state.cluster.is_none() && !bootstraps {
            return Err(Rejected::NotBootstrapped);
        }
        match command {
            Command::Bootstrap { cluster, name, nodes, terms } => {
                self.bootstrap(cluster, name, nodes, terms)
            }
            Command::RegisterNode { node, name, address, store } => {
                self.register(node, name, address, store)
            }
            Command::Add { node, incarnation, store, start, terms, address } => {
                let admission = Admission { incarnation, at: index, start };
                self.add(node, admission, store, terms, address)
            }
            Command::Leave { node, incarnation } => self.leave(index, node, incarnation),
            Command::RemoveNode { node } => self.remove(node),
            Command::Suspect { node, incarnation } => self.suspect(index, node, incarnation),
            Command::ForceEvict { node, incarnation, author, for_good } => {
                self.force_evict(index, node, ForcedEviction { incarnation, author, for_good })
            }
            Command::Unsuspect { node, incarnation, at } => {
                self.unsuspect(index, node, incarnation, at)
            }
            Command::Evict(eviction) => self.evict(index, eviction),
            Command::CreateGate { name, slots, protocol, lanes, policy, weight_max, author } => {
                let (id, created_in) = (GateId(0), Term::default());
                let (created, version, touched) = (index, index, index);
                self.create_gate(Gate {
                    id,
                    name,
                    k: slots.k,
                    source: slots.source,
                    protocol,
                    lanes,
                    policy,
                    weight_max,
                    author,
                    created,
                    version,
                    touched,
                    created_in,
                })
            }
            Command::SetGate { name, k, source, policy, version, author } => {
                self.set_gate(index, &name, GateChange { k, source, policy, version, author })
            }
            Command::DeleteGate { name, version } => self.delete_gate(index, &name, version),
            Command::HoldPermit { gate, slots, fence, by, holder, secret, ttl } => {
                let renewals = 0;
                let permit =
                    DurablePermit { gate, slots, fence, by, holder, secret, ttl, renewals };
                self.hold(PermitId(index), permit)
            }
            Command::ReleasePermit { permit, secret, renewals } => {
                self.release(permit, secret, renewals)
            }
            Command::RenewPermit { permit, secret } => self.renew(permit, secret),
            Command::ExpirePermit { permit, renewals } => self.expire(permit, renewals),
            Command::EvictPermit { permit, author } => self.evict_permit(permit, author),
            Command::MarkOnce { gate, key, token, by, ttl } => {
                self.mark_once(gate, key, OnceMark { at: index, token, by, ttl })
            }
            Command::ExpireOnce { gate, key, at } => self.expire_once(gate, key, at),
        }
    }
}

fn invalid<T>(field: Invalid) -> Result<T, Rejected> {
    Err(Rejected::Invalid(field))
}

/// A text for people has `least` to [`bounds::TEXT`] bytes and no control characters.
fn check_text(field: TextField, text: &str, least: u8) -> Result<(), Rejected> {
    let fits = (usize::from(least)..=bounds::TEXT).contains(&text.len());
    if fits && !text.chars().any(char::is_control) {
        return Ok(());
    }
    invalid(Invalid::Text { field, least, start: start(text) })
}

/// As much of a text as an error shows.
fn start(text: &str) -> String {
    text.chars().take(40).collect()
}

fn membership_change(at: u64, change: MembershipChange) -> Change {
    Change::Membership { at, change }
}
