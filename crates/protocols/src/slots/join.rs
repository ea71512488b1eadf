//! Without a log: who is back tells the others itself.
//!
//! JOIN goes to all, and each answers with its clock and counts the joiner in. Then a second round:
//! an answer of the first may have been given before its sender saw a request that is decided
//! without the joiner. Only after that does the joiner ask. Losses are told by a perfect detector,
//! which speaks of a process in one incarnation; incarnations are counted by each process for
//! itself. **Some process must always be up**: if all are down at once, nobody remembers the fences
//! (S4). And the detector of a joiner must tell it only of those that are down when it begins, or
//! later: told of the end of a former incarnation, it would do without a process that is up. The
//! log has no such limits, so this is for those who have none.

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
    /// Who has not answered in this round.
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

    /// JOIN goes to whoever has not answered.
    pub(super) fn join_again(&self, out: &mut Out) {
        let (Some(joining), Some(incarnation)) = (&self.joining, self.incarnation) else { return };
        if !joining.lacking.is_empty() {
            let join = SlotsMessage::Join { incarnation, round: joining.round };
            out.send_to(To::Many(joining.lacking.iter().collect()), join);
        }
    }

    /// Everybody has answered: the next round, or this process takes part.
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
        // Only its first JOIN exempts it: it waits for the answer before it asks, and a copy may
        // come much later.
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

    /// A message shows an incarnation that was not heard of: the former one is over. That alone
    /// exempts nobody from being asked.
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

    /// A joiner waits no longer for who has crashed.
    pub(super) fn joined_without(&mut self, node: NodeId, out: &mut Out) {
        if let Some(joining) = &mut self.joining {
            joining.lacking.remove(node);
            self.end_round(out);
        }
    }

    /// A joiner hears that another is back too: that one must hear of it, in its new incarnation.
    pub(super) fn join_with(&mut self, node: NodeId, out: &mut Out) {
        if let (Some(joining), Some(incarnation)) = (&mut self.joining, self.incarnation) {
            joining.lacking.insert(node);
            out.send(node, SlotsMessage::Join { incarnation, round: joining.round });
        }
    }
}
