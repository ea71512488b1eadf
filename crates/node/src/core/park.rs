//! A clean stop: all that a node knows, put away, and taken up again by the same life (rule R1).
//!
//! To its peers that is a pause in which letters were lost, and to its clients a stream that was cut: they come back with their secrets and go on with what they
//! hold. Whoever waits is asked for anew. The lease is not put away: after the start the voters give a new one, or it turns out that this life was evicted.
//!
//! What was put away is taken up once, and its mark is erased durably before the first letter leaves: that is the business of whoever stores it. Its times are of
//! the lease clock, and mean nothing after the machine was booted.

use kgate_control::state::Picture;
use kgate_core::{Fence, GrantId, NodeId, Time};
use serde::{Deserialize, Serialize};

use super::control::definition;
use super::gate::Deciding;
use super::sessions::{ParkedSession, RequestState};
use super::timers::Due;
use super::view::Process;
use super::{Action, CannotStart, Core, GateId, RequestKey, SessionId};

/// A node that has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    pub(super) start: u64,
    pub(super) picture: Picture,
    pub(super) lives: Vec<(NodeId, u64)>,
    opened: u64,
    sessions: Vec<ParkedSession>,
    gates: Vec<ParkedGate>,
}

/// A gate of a node that has stopped: its protocol, and who holds what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ParkedGate {
    pub(super) id: u32,
    pub(super) protocol: Vec<u8>,
    pub(super) holders: Vec<ParkedHolder>,
    /// What the log is to hold.
    pub(super) deciding: Vec<(GrantId, Deciding)>,
}

/// A permit of a node that has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ParkedHolder {
    pub(super) grant: GrantId,
    pub(super) session: u64,
    pub(super) number: u64,
    pub(super) weight: u32,
    pub(super) since: Time,
    pub(super) process: Process,
    pub(super) slots: Vec<u32>,
    pub(super) fence: Option<Fence>,
}

/// The first byte of what is put away; changes with its form.
const FORMAT: u8 = 2;

impl Parked {
    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![FORMAT]).expect("what a node knows can be written")
    }

    /// From bytes; none if they are of another version, or damaged: then another life begins.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (parked, rest) = postcard::take_from_bytes(bytes.strip_prefix(&[FORMAT])?).ok()?;
        rest.is_empty().then_some(parked)
    }
}

impl Core {
    /// This node stops cleanly: all that it knows, to be put away. From now on nothing happens here. None if there is nothing that could go on: no log, or this life
    /// does not take part.
    pub fn park(&mut self, now: Time, actions: &mut Vec<Action>) -> Option<Parked> {
        self.heed_lease(now, actions);
        if self.stopped || !self.takes_part() {
            return None;
        }
        // Whoever waits will ask anew. Those who wait for that elsewhere hear of it, if the letters arrive, or ask again.
        for (session, _, requests) in self.sessions.all() {
            for (number, _) in requests.into_iter().filter(|(_, state)| *state == RequestState::Waits) {
                self.withdraw(now, RequestKey { session, number }, actions);
            }
        }
        self.stopped = true;
        let gates = self.gates.iter().map(|(id, gate)| gate.park(id.0)).collect::<Option<_>>()?;
        let control = self.control.as_ref()?;
        let (opened, sessions) = self.sessions.park();
        let lives = control.lives.iter().map(|(node, at)| (*node, *at)).collect();
        Some(Parked {
            start: control.start(),
            picture: control.picture.clone(),
            lives,
            opened,
            sessions,
            gates,
        })
    }

    /// Goes on where it stopped.
    pub(super) fn unpark(
        &mut self,
        now: Time,
        parked: Parked,
        actions: &mut Vec<Action>,
    ) -> Result<(), CannotStart> {
        let Parked { opened, sessions, gates, .. } = parked;
        let over = self.sessions.terms().over_after();
        for session in &sessions {
            for (number, _, _) in session.requests.iter().filter(|(_, _, loses)| *loses) {
                let key = RequestKey { session: SessionId(session.id), number: *number };
                self.timers.arm(now, Due::Reclaim(key), over, over);
            }
        }
        self.sessions.unpark(opened, sessions);
        for ParkedGate { id, protocol, holders, deciding } in gates {
            let known = self
                .control
                .as_ref()
                .and_then(|control| control.picture.gates.get(&kgate_control::state::GateId(id)));
            let Some(definition) = known.map(definition) else { continue };
            self.catalogue.insert(definition.clone());
            self.open_gate(now, definition, Some(&protocol), actions)?;
            if let Some(gate) = self.gates.get_mut(&GateId(id)) {
                gate.unpark(holders);
                gate.go_on_deciding(deciding);
            }
        }
        Ok(())
    }
}
