//! What the log says to the protocols that follow it by snapshots (docs/internals/home.md).
//!
//! An entry changes what the log says of a gate if it changes the gate itself, which of its slots
//! durable permits hold, or the members or their fitness. The protocol counts positions in the log
//! by such entries alone, and they are a part of the replicated state: two nodes that have applied
//! the same ones have the same index, however many others they have applied.

use std::collections::BTreeSet;
use std::sync::Arc;

use kgate_control::state::Change;
use kgate_core::{LogIndex, LogView, Setup};
use kgate_protocols::registry;

use crate::core::clients::closed;
use crate::core::messages::ErrorCode;
use crate::core::{CannotStart, Core, Gate, GateId};

impl Core {
    /// Passes on what an entry changes, in one input for each gate that it concerns.
    pub(super) fn follow_log(&mut self, changes: &[Change]) {
        let (mut reserved, mut gates) = (BTreeSet::new(), BTreeSet::new());
        let mut moves = false;
        for change in changes {
            match change {
                Change::PermitHeld(_, permit) | Change::PermitFreed { permit, .. } => {
                    reserved.insert(permit.gate);
                }
                Change::PermitRenewed(..) => {}
                Change::Homes(_) => moves = true,
                Change::GateChanged(gate) => {
                    if gate.k == 0 {
                        let text = closed(&gate.name, &gate.author);
                        self.refuse_waiting(Some(gate.id), ErrorCode::TooLarge, &text);
                    }
                    gates.insert(gate.id);
                }
                Change::Bootstrapped(_)
                | Change::Membership { .. }
                | Change::DirectoryUpdated(..)
                | Change::DirectoryRemoved(_)
                | Change::GateCreated(_)
                | Change::GateDeleted(..)
                | Change::OnceMarked(..)
                | Change::OnceExpired(..)
                | Change::Voters(_) => continue,
            }
            self.log.state.follow(change);
        }
        reserved.iter().for_each(|gate| self.reserve(*gate));
        if moves {
            self.log.directory = Arc::new(self.log.state.homes.directory.clone());
            gates.extend(self.gates.keys());
        }
        gates.extend(reserved);
        gates.into_iter().for_each(|id| self.pass_on(id));
    }

    /// Tells a gate in use what the log says of it.
    fn pass_on(&mut self, id: GateId) {
        let follows = |gate: &Gate| gate.follows_log() && gate.is_started();
        if self.gates.get(&id).is_some_and(follows)
            && let Some(view) = self.log_view(id)
        {
            self.at_gate(id, |gate| gate.applied(view));
        }
    }

    /// All that the log says of a gate. The key of the gate is its number, which is never used
    /// again. A closed gate keeps one slot, which no request may take.
    fn log_view(&self, id: GateId) -> Option<Arc<LogView>> {
        let gate = self.log.state.gates.get(&id)?;
        let reserved = self.log.state.held_slots(id).into_iter();
        #[cfg(test)]
        let reserved = reserved.filter(|_| !self.mutations.never_reserves);
        Some(Arc::new(LogView {
            index: LogIndex(self.log.state.homes.at.max(gate.touched)),
            gate: u64::from(id.0),
            created: gate.created_in,
            k: gate.k.max(1),
            reserved: reserved.collect(),
            directory: Arc::clone(&self.log.directory),
        }))
    }

    /// Starts the protocol of a gate that is not in use yet.
    pub(in crate::core) fn start_at_first_use(&mut self, id: GateId) {
        let is_unused = |gate: &Gate| gate.follows_log() && !gate.is_started();
        if self.gates.get(&id).is_some_and(is_unused) {
            self.start_following(id, None).expect("nothing is stored that could be unreadable");
        }
    }

    /// Starts a protocol that follows the log, from the state of a clean stop if there is one.
    pub(in crate::core) fn start_following(
        &mut self,
        id: GateId,
        stored: Option<&[u8]>,
    ) -> Result<(), CannotStart> {
        let entry = registry::entry(&self.gates[&id].definition.protocol);
        let entry = entry.expect("checked when the gate was opened");
        let log = self.log_view(id);
        let incarnation = self.log.incarnation;
        let setup = Setup { log, incarnation, ..self.setup(id, entry) };
        self.start_protocol(id, entry, &setup, stored)?;
        let granting = self.is_granting();
        self.at_gate(id, |gate| gate.lease(granting));
        Ok(())
    }
}
