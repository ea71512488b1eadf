//! A clean stop: the node stores its whole state, and the same incarnation resumes from it (rule
//! R1).
//!
//! To its peers that is a pause in which messages were lost. To its clients it is a stream that
//! ended: they resume their sessions by their secrets and keep their permits. Waiting requests are
//! sent again. The lease is not stored: after the start the voters give a new one, or this
//! incarnation turns out to be evicted.
//!
//! The state must be used at most once: the store erases it durably before the first
//! message leaves. Its times are of the lease clock, and mean nothing after a reboot of the
//! machine.

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

/// The state of a node at a clean stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspended {
    pub(super) start: u64,
    pub(super) cluster_state: ClusterState,
    pub(super) incarnations: Vec<(NodeId, u64)>,
    opened: u64,
    sessions: Vec<SuspendedSession>,
    gates: Vec<SuspendedGate>,
    /// The permits that were to lapse: gate, session, number of the request.
    lapses: Vec<(u32, u64, u64)>,
}

/// The state of a gate at a clean stop: its protocol and its holders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SuspendedGate {
    pub(super) id: u32,
    /// None if the gate was not used.
    pub(super) protocol: Option<Vec<u8>>,
    pub(super) holders: Vec<SuspendedHolder>,
    /// The grants that await a decision of the log.
    pub(super) undecided: Vec<(GrantId, UndecidedGrant)>,
}

/// A holder at a clean stop.
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

/// The first byte of the stored state. It changes with the format.
const FORMAT: u8 = 3;

impl Suspended {
    /// Encodes the state.
    pub fn bytes(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![FORMAT]).expect("what a node knows can be written")
    }

    /// Decodes the state; none if it is damaged, or of another version. Then another incarnation
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
    pub(super) fn on_stop(&mut self) {
        if self.stopped {
            return;
        }
        match &self.failures {
            FailureModel::Leases(_) => {
                if let Some(suspended) = self.suspend() {
                    self.actions.push(Action::Suspend(Box::new(suspended)));
                }
            }
            FailureModel::CrashStop(_) if self.sessions.terms().valid_for.is_none() => {}
            FailureModel::CrashStop(_) => {
                self.stop_all(StopReason::Shutdown);
                self.actions.pop_if(|action| matches!(action, Action::Stop(_)));
                self.broadcast(&PeerMessage::Leaving);
            }
        }
        self.stopped = true;
    }

    /// The state of this node; none if this incarnation is no member.
    fn suspend(&mut self) -> Option<Suspended> {
        if !self.log.is_member() {
            return None;
        }
        // Clients send their waiting requests again. Other nodes learn of the withdrawals if the
        // messages arrive, and ask again otherwise.
        for (session, _, requests) in self.sessions.all() {
            for (number, _) in
                requests.into_iter().filter(|(_, state)| *state == RequestState::Waiting)
            {
                self.withdraw(RequestKey { session, number });
            }
        }
        let gates =
            self.gates.iter().map(|(id, gate)| gate.suspend(id.0)).collect::<Option<_>>()?;
        let control = self.failures.control();
        let (opened, sessions) = self.sessions.suspend();
        let incarnations = self.log.incarnations.iter().map(|(node, at)| (*node, *at)).collect();
        Some(Suspended {
            start: control.start(),
            cluster_state: self.log.state.clone(),
            incarnations,
            opened,
            sessions,
            gates,
            lapses: self.log.lapses.suspend(),
        })
    }

    /// Resumes from the state of a clean stop.
    pub(super) fn resume(&mut self, suspended: Suspended) -> Result<(), CannotStart> {
        let Suspended { opened, sessions, gates, lapses, .. } = suspended;
        let over = self.sessions.terms().over_after();
        for session in &sessions {
            for (number, _, _) in session.requests.iter().filter(|(_, _, loses)| *loses) {
                let key = RequestKey { session: SessionId(session.id), number: *number };
                self.timers.arm(self.now, Deadline::Reclaim(key), over, over);
            }
        }
        self.sessions.restore(opened, sessions);
        for SuspendedGate { id, protocol, holders, undecided } in gates {
            let known = self.log.state.gates.get(&GateId(id));
            let Some(definition) = known.map(definition) else { continue };
            self.catalogue.insert(definition.clone());
            self.open_gate(definition, protocol.as_deref())?;
            if let Some(gate) = self.gates.get_mut(&GateId(id)) {
                gate.resume(holders);
                gate.resume_undecided(undecided);
            }
        }
        self.log.lapses.resume(lapses);
        self.ask_barrier();
        Ok(())
    }
}
