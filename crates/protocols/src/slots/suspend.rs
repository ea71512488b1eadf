//! A clean stop: all that a process knows, put away, and taken up again by the same incarnation
//! (LEASES R1).
//!
//! To the others it is a pause in which messages were lost. So what is put away is what the lemmas
//! of `docs/internals/slots.md` speak of: the clock, which no later stamp may fall below; the grants and what
//! the log holds, which others were told of or not; the request that is out, under its own stamp;
//! and the debts. What others can say again is not: who has answered is asked anew, and relays and
//! requests of later views are as good as lost. Hence it is for links that lose messages
//! ([`SlotOptions::ask_again`](kgate_core::SlotOptions)), and for members by the log, which is told
//! anew as far as it goes beyond the view.
//!
//! **What was put away is taken up once.** A process that has said anything since must never go
//! back to it: whoever stores it erases it durably before the first message leaves.

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

/// A lane of a process that has stopped.
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
    wishes: VecDeque<u32>,
    /// The request that is out: its stamp, what its clients want, and the count of its next fence.
    pending: Option<(Stamp, VecDeque<u32>, u16)>,
    grants: Grants,
    reserved: SlotSet,
    debts: Debts,
    crowd: u32,
}

/// A process that has stopped, with all its lanes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Suspended {
    pub(super) lanes: Vec<SuspendedLane>,
    pub(super) several: Option<SuspendedQueues>,
}

/// Who waits in which lanes, where there are several.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct SuspendedQueues {
    pub(super) k: u32,
    /// Each by its number, with its weight and where it has asked.
    pub(super) waiters: Vec<(u64, u32, Vec<u8>)>,
    pub(super) queues: Vec<VecDeque<u64>>,
    pub(super) asked: u64,
}

impl Slots {
    pub(super) fn put_away(&self) -> Option<SuspendedLane> {
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
            wishes: self.wishes.clone(),
            pending: pending.map(|pending| (pending.stamp, pending.parts.clone(), pending.uses)),
            grants: self.grants.clone(),
            reserved: self.reserved.clone(),
            debts: self.debts.clone(),
            crowd: self.crowd,
        })
    }

    /// Goes on where it stopped, as a process that was just made and has done nothing. It has no
    /// lease, whatever it had.
    pub(super) fn take_up(&mut self, suspended: SuspendedLane, setup: &Setup, out: &mut Out) {
        assert_eq!(suspended.me, self.me, "another process has put this away");
        self.lease = false;
        self.k = suspended.k;
        self.returns = suspended.returns;
        self.incarnation = suspended.incarnation;
        self.fleet = suspended.fleet;
        self.clock = suspended.clock;
        self.version = suspended.version;
        self.granted = suspended.granted;
        self.wishes = suspended.wishes;
        self.grants = suspended.grants;
        self.reserved = suspended.reserved;
        self.debts = suspended.debts;
        self.crowd = suspended.crowd;
        self.pending = suspended.pending.map(|(stamp, parts, uses)| {
            let mut asks_everybody_anew = Box::new(Pending::new(stamp, parts, &self.fleet));
            asks_everybody_anew.uses = uses;
            asks_everybody_anew
        });
        self.ask_again(out);
        if self.k != setup.k {
            self.on_resize(setup.k, out);
        }
    }
}

#[cfg(test)]
impl SuspendedLane {
    /// Planted: who comes back does not know what its clients hold.
    pub(super) fn forget_grants(&mut self) {
        self.grants = Grants::default();
    }

    /// Planted: who comes back does not know when it was.
    pub(super) fn forget_clock(&mut self) {
        self.clock = Clock { ticks: 0, ..self.clock };
    }
}
