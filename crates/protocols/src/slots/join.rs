//! Membership without a log: a returning process announces itself.
//!
//! JOIN goes to all, and each answers with its clock and counts the joiner as a member. Then a
//! second round: an answer of the first may have been given before its sender saw a request that is
//! decided without the joiner. Only after that the joiner requests. A perfect detector reports
//! losses, each for one incarnation; each process counts its own incarnations. **At least one
//! process must always be up**: if all are down at once, no process remembers the fences (S4). And
//! the detector of a joiner must report to it only crashes of processes that are down when it
//! begins, or later: a report about the end of an earlier incarnation would make the joiner ignore
//! a process that is up. The log has no such limits, so this mode is for deployments without one.

use alloc::boxed::Box;

use kgate_core::{Incarnation, MembershipSource, NodeId, To};

use super::defects::{S3, S5};
use super::message::{Head, SlotsMessage};
use super::stamp::Clock;
use super::{Out, Slots, SlotsTimer};
use crate::collections::NodeList;

/// A process that is not yet sure that its stamps are greater than all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Joining {
    /// The first or the second round.
    round: u8,
    /// The processes that have not answered in this round.
    lacking: NodeList,
}

impl Slots {
    pub(super) fn begin_join(&mut self, incarnation: Incarnation, out: &mut Out) {
        self.incarnation = Some(incarnation);
        self.returns = 0;
        self.fleet.add(self.me, incarnation);
        self.begin_round(1, out);
    }

    fn begin_round(&mut self, round: u8, out: &mut Out) {
        let lacking: NodeList = self.fleet.others(self.me).collect();
        self.joining = Some(Box::new(Joining { round, lacking }));
        self.join_again(out);
        self.arm(SlotsTimer::AskAgain, out);
        self.end_round(out);
    }

    /// Sends JOIN to the processes that have not answered.
    pub(super) fn join_again(&self, out: &mut Out) {
        let (Some(joining), Some(incarnation)) = (&self.joining, self.incarnation) else { return };
        if !joining.lacking.is_empty() {
            let join = SlotsMessage::Join { incarnation, round: joining.round };
            out.send_to(To::Many(joining.lacking.iter().collect()), join);
        }
    }

    /// All have answered: begins the next round, or becomes a full member.
    fn end_round(&mut self, out: &mut Out) {
        let Some(joining) = self.joining.take_if(|joining| joining.lacking.is_empty()) else {
            return;
        };
        if joining.round == 1 && !self.defects.has(S3) {
            self.begin_round(2, out);
        } else {
            self.settle(out);
        }
    }

    pub(super) fn on_join(
        &mut self,
        from: NodeId,
        incarnation: Incarnation,
        round: u8,
        out: &mut Out,
    ) {
        if self.membership() == MembershipSource::Log || incarnation < self.fleet.latest(from) {
            return;
        }
        let known = incarnation == self.fleet.latest(from);
        if known && self.fleet.incarnation(from).is_none() {
            return; // It has crashed since.
        }
        // Only the first JOIN exempts the sender: it waits for the answer before it requests, and a
        // copy may arrive much later.
        let noticed = self.noticed.remove(from);
        if !known {
            self.added(from, incarnation, true, out);
        } else if noticed && let Some(pending) = &mut self.pending {
            pending.exempt(from);
        }
        self.go_on(out);
        let (head, clock) = (self.head(), self.clock);
        out.send(from, SlotsMessage::Welcome { head, incarnation, round, clock });
    }

    pub(super) fn on_welcome(
        &mut self,
        from: NodeId,
        head: Head,
        incarnation: Incarnation,
        round: u8,
        clock: Clock,
        out: &mut Out,
    ) {
        if self.membership() == MembershipSource::Log || self.incarnation != Some(incarnation) {
            return;
        }
        self.notice_incarnation(from, head.incarnation, out);
        if self.fleet.incarnation(from) != Some(head.incarnation) {
            return;
        }
        self.clock = self.clock.max(clock);
        if let Some(joining) = self.joining.as_mut().filter(|joining| joining.round == round) {
            joining.lacking.remove(from);
        }
        self.end_round(out);
    }

    /// A message shows an unknown incarnation: the earlier one has ended. That alone does not
    /// exempt the sender from being asked.
    pub(super) fn notice_incarnation(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        out: &mut Out,
    ) {
        if self.membership() == MembershipSource::Join
            && node != self.me
            && incarnation > self.fleet.latest(node)
        {
            self.noticed.insert(node);
            self.added(node, incarnation, self.defects.has(S5), out);
            self.go_on(out);
        }
    }

    /// A joiner stops waiting for a process that has crashed.
    pub(super) fn stop_joining_with(&mut self, node: NodeId, out: &mut Out) {
        if let Some(joining) = &mut self.joining {
            joining.lacking.remove(node);
            self.end_round(out);
        }
    }

    /// A joiner learns that another process is back too: that one must get a JOIN as well, in its
    /// new incarnation.
    pub(super) fn join_with(&mut self, node: NodeId, out: &mut Out) {
        if let (Some(joining), Some(incarnation)) = (&mut self.joining, self.incarnation) {
            joining.lacking.insert(node);
            out.send(node, SlotsMessage::Join { incarnation, round: joining.round });
        }
    }
}
