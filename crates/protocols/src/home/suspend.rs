//! A clean stop: the state of a process is stored, and the same incarnation resumes with it.
//!
//! To the others it is a pause in which messages were lost. So it needs links that may lose
//! messages ([`SlotOptions::ask_again`](kgate_core::SlotOptions)); what others repeat is not
//! stored. The process resumes without a lease, with what the log says by then: if it was evicted
//! meanwhile, it learns so before it does anything.
//!
//! **Stored state is resumed at most once.** A process that has sent anything since must never
//! return to it: the caller that stored it erases it durably before the first message leaves.

use alloc::boxed::Box;

use kgate_core::{Incarnation, LogIndex, NodeId, Placement, Term};
use serde::{Deserialize, Serialize};

use super::coordinator::Coordinator;
use super::member::Member;
use super::witness::Known;
use super::{Home, Out};

/// A suspended process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Suspended {
    me: NodeId,
    /// What the log said: how far it was applied, how many changes its directory had seen, and
    /// which node was home.
    index: LogIndex,
    changes: Term,
    home: Option<Placement>,
    witness: Option<Placement>,
    known: Option<Box<Known>>,
    incarnation: Incarnation,
    is_member: bool,
    granted: u64,
    member: Member,
    coordinator: Option<Box<Coordinator>>,
}

impl Home {
    pub(super) fn to_suspended(&self) -> Option<Suspended> {
        self.options.ask_again?;
        Some(Suspended {
            me: self.me,
            index: self.log.index,
            changes: self.log.directory.changes(),
            home: self.home,
            witness: self.witness,
            known: self.known.clone(),
            incarnation: self.incarnation,
            is_member: self.is_member,
            granted: self.granted,
            member: self.member.clone(),
            coordinator: self.coordinator.clone(),
        })
    }

    /// Resumes from the suspended state, in a process that was just made and has done nothing.
    pub(super) fn resume_from(&mut self, suspended: Suspended, out: &mut Out) {
        assert_eq!(suspended.me, self.me, "another process has put this away");
        assert!(suspended.index <= self.log.index, "the log has lost entries");
        self.lease = false;
        self.home = suspended.home;
        (self.witness, self.known) = (suspended.witness, suspended.known);
        self.incarnation = suspended.incarnation;
        self.is_member = suspended.is_member;
        self.granted = suspended.granted;
        self.member = suspended.member;
        self.coordinator = suspended.coordinator;
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.resume(self.options, self.defects);
        }
        self.follow_log(suspended.changes, out);
        // Its requests do not count without a lease.
        self.member.report();
    }
}
