//! A clean stop: the state of a process is stored, and the same incarnation resumes with it (LEASES
//! R1).
//!
//! To the others it is a pause in which messages were lost. So the stored state is the one that the
//! lemmas of `docs/internals/slots.md` rely on: the clock, which no later stamp may fall below; the
//! grants and the slots that the log holds, whether they were reported to others or not; the
//! request that is out, under its own stamp; and the debts. What others can repeat is not stored:
//! the request is sent again to every process, and relays and requests of later views count as
//! lost. Hence suspending needs links that may lose messages
//! ([`SlotOptions::ask_again`](kgate_core::SlotOptions)), and members by the log, whose entries
//! after the stored view are delivered again.
//!
//! **Stored state is resumed at most once.** A process that has sent anything since must never
//! return to it: the caller that stored it erases it durably before the first message leaves.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use kgate_core::{Incarnation, MembershipSource, NodeId, Setup};
use serde::{Deserialize, Serialize};

use super::debts::Debts;
use super::fleet::Fleet;
use super::grants::Grants;
use super::pending::Pending;
use super::slot_set::SlotSet;
use super::stamp::{Clock, Stamp};
use super::{Out, Slots};

/// A suspended lane of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SuspendedLane {
    me: NodeId,
    pub(super) k: u32,
    returns: u32,
    incarnation: Option<Incarnation>,
    /// Members and view.
    fleet: Fleet,
    clock: Clock,
    version: u64,
    granted: u64,
    waiting: VecDeque<u32>,
    /// The request that is out: its stamp, the weights of its clients, and the count of its next
    /// fence.
    pending: Option<(Stamp, VecDeque<u32>, u16)>,
    grants: Grants,
    reserved: SlotSet,
    debts: Debts,
    contention: u32,
}

/// A suspended process, with all its lanes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Suspended {
    pub(super) lanes: Vec<SuspendedLane>,
    pub(super) several: Option<SuspendedQueues>,
}

/// The waiting clients and their lanes, where there are several.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct SuspendedQueues {
    pub(super) k: u32,
    /// Each by its number, with its weight and the lanes it has entered.
    pub(super) waiters: Vec<(u64, u32, Vec<u8>)>,
    pub(super) queues: Vec<VecDeque<u64>>,
    pub(super) asked: u64,
}

impl Slots {
    pub(super) fn to_suspended(&self) -> Option<SuspendedLane> {
        let can = self.membership() == MembershipSource::Log && self.options.ask_again.is_some();
        let pending = self.pending.as_ref();
        can.then(|| SuspendedLane {
            me: self.me,
            k: self.k,
            returns: self.returns,
            incarnation: self.incarnation,
            fleet: self.fleet.clone(),
            clock: self.clock,
            version: self.version,
            granted: self.granted,
            waiting: self.waiting.clone(),
            pending: pending.map(|pending| (pending.stamp, pending.parts.clone(), pending.uses)),
            grants: self.grants.clone(),
            reserved: self.reserved.clone(),
            debts: self.debts.clone(),
            contention: self.contention,
        })
    }

    /// Resumes from the suspended state, in a process that was just made and has done nothing. It
    /// has no lease, whatever it had before.
    pub(super) fn resume_from(&mut self, suspended: SuspendedLane, setup: &Setup, out: &mut Out) {
        assert_eq!(suspended.me, self.me, "another process has put this away");
        self.lease = false;
        self.k = suspended.k;
        self.returns = suspended.returns;
        self.incarnation = suspended.incarnation;
        self.fleet = suspended.fleet;
        self.clock = suspended.clock;
        self.version = suspended.version;
        self.granted = suspended.granted;
        self.waiting = suspended.waiting;
        self.grants = suspended.grants;
        self.reserved = suspended.reserved;
        self.debts = suspended.debts;
        self.contention = suspended.contention;
        self.pending = suspended.pending.map(|(stamp, parts, uses)| {
            let mut repeated = Box::new(Pending::new(stamp, parts, &self.fleet));
            repeated.uses = uses;
            repeated
        });
        self.ask_again(out);
        if self.k != setup.k {
            self.on_resize(setup.k, out);
        }
    }
}

#[cfg(test)]
impl SuspendedLane {
    /// Planted: the resumed process has lost its clients' grants.
    pub(super) fn forget_grants(&mut self) {
        self.grants = Grants::default();
    }

    /// Planted: the resumed process has lost its clock.
    pub(super) fn forget_clock(&mut self) {
        self.clock = Clock { ticks: 0, ..self.clock };
    }
}
