//! A clean stop: all that a node knows, put away, and taken up again by the same incarnation (rule
//! R1).
//!
//! To its peers that is a pause in which messages were lost, and to its clients a stream that was
//! cut: they come back with their secrets and go on with what they hold. Whoever waits is asked for
//! anew. The lease is not put away: after the start the voters give a new one, or it turns out that
//! this incarnation was evicted.
//!
//! What was put away is taken up once, and its mark is erased durably before the first message
//! leaves: that is the business of whoever stores it. Its times are of the lease clock, and mean
//! nothing after the machine was booted.

use kgate_control::state::ClusterState;
use kgate_core::{Fence, GrantId, NodeId, Time};
use serde::{Deserialize, Serialize};

use super::action::StopReason;
use super::control::definition;
use super::failures::FailureModel;
use super::gate::UndecidedGrant;
use super::peer_message::PeerMessage;
use super::sessions::{RequestState, SuspendedSession};
use super::timers::Deadline;
use super::view::Process;
use super::{Action, CannotStart, Core, GateId, RequestKey, SessionId};

/// A node that has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspended {
    pub(super) start: u64,
    pub(super) cluster_state: ClusterState,
    pub(super) incarnations: Vec<(NodeId, u64)>,
    opened: u64,
    sessions: Vec<SuspendedSession>,
    gates: Vec<SuspendedGate>,
}

/// A gate of a node that has stopped: its protocol, and who holds what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SuspendedGate {
    pub(super) id: u32,
    pub(super) protocol: Vec<u8>,
    pub(super) holders: Vec<SuspendedHolder>,
    /// What the log is to hold.
    pub(super) undecided: Vec<(GrantId, UndecidedGrant)>,
}

/// A permit of a node that has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SuspendedHolder {
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

impl Suspended {
    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![FORMAT]).expect("what a node knows can be written")
    }

    /// From bytes; none if they are of another version, or damaged: then another incarnation
    /// begins.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (suspended, rest) = postcard::take_from_bytes(bytes.strip_prefix(&[FORMAT])?).ok()?;
        rest.is_empty().then_some(suspended)
    }
}

impl Core {
    /// This node stops cleanly. With leases, its state is stored for the next start. With
    /// crash-stop, its clients lose what they hold and its peers are told. Permits that are bound
    /// to processes outlive the node.
    pub(super) fn on_stop(&mut self, now: Time, actions: &mut Vec<Action>) {
        if self.stopped {
            return;
        }
        match &self.failures {
            FailureModel::Leases(_) => {
                if let Some(suspended) = self.suspend(now, actions) {
                    actions.push(Action::Suspend(Box::new(suspended)));
                }
            }
            FailureModel::CrashStop(_) if self.sessions.terms().valid_for.is_none() => {}
            FailureModel::CrashStop(_) => {
                self.stop_all(StopReason::Shutdown, actions);
                actions.pop_if(|action| matches!(action, Action::Stop(_)));
                self.broadcast(&PeerMessage::Leaving, actions);
            }
        }
        self.stopped = true;
    }

    /// All that this node knows; none if this incarnation does not take part.
    fn suspend(&mut self, now: Time, actions: &mut Vec<Action>) -> Option<Suspended> {
        if !self.takes_part() {
            return None;
        }
        // Whoever waits will ask anew. Those who wait for that elsewhere hear of it, if the
        // messages arrive, or ask again.
        for (session, _, requests) in self.sessions.all() {
            for (number, _) in
                requests.into_iter().filter(|(_, state)| *state == RequestState::Waiting)
            {
                self.withdraw(now, RequestKey { session, number }, actions);
            }
        }
        let gates =
            self.gates.iter().map(|(id, gate)| gate.suspend(id.0)).collect::<Option<_>>()?;
        let control = self.failures.control();
        let (opened, sessions) = self.sessions.suspend();
        let incarnations = control.incarnations.iter().map(|(node, at)| (*node, *at)).collect();
        Some(Suspended {
            start: control.start(),
            cluster_state: control.cluster_state.clone(),
            incarnations,
            opened,
            sessions,
            gates,
        })
    }

    /// Goes on where it stopped.
    pub(super) fn resume(
        &mut self,
        now: Time,
        suspended: Suspended,
        actions: &mut Vec<Action>,
    ) -> Result<(), CannotStart> {
        let Suspended { opened, sessions, gates, .. } = suspended;
        let over = self.sessions.terms().over_after();
        for session in &sessions {
            for (number, _, _) in session.requests.iter().filter(|(_, _, loses)| *loses) {
                let key = RequestKey { session: SessionId(session.id), number: *number };
                self.timers.arm(now, Deadline::Reclaim(key), over, over);
            }
        }
        self.sessions.restore(opened, sessions);
        for SuspendedGate { id, protocol, holders, undecided } in gates {
            let known = self.failures.control().cluster_state.gates.get(&GateId(id));
            let Some(definition) = known.map(definition) else { continue };
            self.catalogue.insert(definition.clone());
            self.open_gate(now, definition, Some(&protocol), actions)?;
            if let Some(gate) = self.gates.get_mut(&GateId(id)) {
                gate.resume(holders);
                gate.resume_undecided(undecided);
            }
        }
        Ok(())
    }
}
