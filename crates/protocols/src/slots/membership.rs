//! Incarnations and views, from the log.
//!
//! Each added member begins a view, and clocks continue above all earlier ones in each view. So a
//! new member's stamps are greater than all that were made before, and requests that are out need
//! not ask it: it asks every other member, and learns of those requests as ahead. A returning
//! process needs to learn nothing but the log, and requests only once it has installed the view
//! that adds it. Requests of a view that is not installed here are queued until it is: otherwise a
//! clock would run ahead of its view.

use kgate_core::{Fence, Incarnation, InitialMembers, MembershipSource, NodeId, Refusal, ViewId};

use super::defects::{S2, S5, S6, S12};
use super::fleet::Fleet;
use super::message::{About, Head, SlotsMessage};
use super::stamp::Clock;
use super::{Out, Slots};

/// The greatest number of requests queued for later views. Further ones are dropped as if the
/// network had lost them.
const KEPT: usize = 1 << 16;

impl Slots {
    /// This process returns without state: it waits for the log to add it, or announces itself to
    /// the others.
    pub(super) fn begin_return(&mut self, incarnation: Incarnation, out: &mut Out) {
        match self.membership() {
            MembershipSource::Log => self.incarnation = None,
            MembershipSource::Join => self.begin_join(incarnation, out),
        }
    }

    /// The log decides the members of a new gate. Other processes are added later.
    pub(super) fn begin_with_members(&mut self, initial_members: &InitialMembers) {
        self.fleet = Fleet::of_members(initial_members);
        self.clock = Clock { view: initial_members.view, ticks: 0 };
        self.incarnation = self.fleet.incarnation(self.me);
        self.returns = u32::from(self.incarnation.is_none());
    }

    /// Whether a message counts: its sender, and the process whose request it is about, are members
    /// in those incarnations.
    pub(super) fn accepts(
        &mut self,
        from: NodeId,
        head: Head,
        about: About,
        out: &mut Out,
    ) -> bool {
        if self.incarnation.is_none() {
            return false;
        }
        if self.defects.has(S12) || self.defects.has(S2) {
            return self.fleet.incarnation(from).is_some();
        }
        let root = about.stamp.node;
        self.notice_incarnation(from, head.incarnation, out);
        self.notice_incarnation(root, about.incarnation, out);
        let of_root = if root == self.me { self.incarnation } else { self.fleet.incarnation(root) };
        self.fleet.incarnation(from) == Some(head.incarnation) && of_root == Some(about.incarnation)
    }

    /// Queues a request until its view is installed. Of one process by one path, only the newest
    /// matters; a relay that receives an older one late must not be left waiting for an answer.
    pub(super) fn queue_for_later(&mut self, from: NodeId, request: SlotsMessage, out: &mut Out) {
        let about = |message: &SlotsMessage| match message {
            SlotsMessage::Request { about, .. } => Some(*about),
            SlotsMessage::Agg { .. }
            | SlotsMessage::Update { .. }
            | SlotsMessage::Join { .. }
            | SlotsMessage::Welcome { .. } => None,
        };
        let stamp = |message: &SlotsMessage| about(message).map(|about| about.stamp);
        let Some(new) = about(&request) else { return };
        let same_way = |(parent, other): &(NodeId, SlotsMessage)| {
            *parent == from && stamp(other).is_some_and(|other| other.node == new.stamp.node)
        };
        if self.queued.iter().any(|kept| same_way(kept) && stamp(&kept.1) > Some(new.stamp)) {
            self.answer_nothing(new, from, out);
            return;
        }
        self.queued.retain(|kept| !same_way(kept));
        if self.queued.len() < KEPT {
            let place = self.queued.partition_point(|(parent, message)| {
                (stamp(message), *parent) < (Some(new.stamp), from)
            });
            self.queued.insert(place, (from, request));
        }
    }

    /// A view was installed: processes the requests that were queued for it.
    fn process_queued(&mut self, out: &mut Out) {
        for (from, message) in core::mem::take(&mut self.queued) {
            // It was checked on arrival.
            let _ = self.on_deliver(from, message, out);
        }
    }

    pub(super) fn on_crashed(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        if node.0 >= self.fleet.nodes {
            return Err(Refusal::UnknownNode(node));
        }
        if node == self.me {
            if self.incarnation == Some(incarnation) {
                self.leave(incarnation, out);
            }
            return Ok(());
        }
        let is_current =
            incarnation >= self.fleet.latest(node) || self.defects.has(S5) || self.defects.has(S2);
        if is_current {
            self.gone(node, incarnation, out);
        }
        Ok(())
    }

    /// This process was evicted: it becomes a member again once the log adds it.
    fn leave(&mut self, incarnation: Incarnation, out: &mut Out) {
        self.fleet.remove(self.me, incarnation);
        self.incarnation = None;
        self.returns = 1;
        self.debts = super::Debts::default();
        self.relays = super::Relays::default();
        self.lose_everything(out);
    }

    /// `node` is no longer a member: it holds nothing, requests nothing, answers nothing.
    pub(super) fn gone(&mut self, node: NodeId, incarnation: Incarnation, out: &mut Out) {
        let was = self.fleet.incarnation(node).is_some();
        self.forget(node, incarnation);
        if was {
            self.stop_joining_with(node, out);
            self.go_on(out);
        }
    }

    fn forget(&mut self, node: NodeId, incarnation: Incarnation) {
        let was = self.fleet.incarnation(node).is_some();
        self.fleet.remove(node, incarnation);
        if was {
            self.debts.clear(node);
            self.relays.gone(node);
            if let Some(pending) = &mut self.pending {
                pending.gone(node);
            }
        }
    }

    /// The membership has changed: does what waited for that.
    pub(super) fn go_on(&mut self, out: &mut Out) {
        self.flush(out);
        self.cover(out);
        self.settle(out);
    }

    /// `node` becomes a member in that incarnation. Requests that are out are exempt from asking it
    /// if its stamps are certain to be greater. Nothing may be processed between the end of its
    /// earlier incarnation and this step: a joiner would conclude that no other process exists. So
    /// the caller continues, not this function.
    pub(super) fn added(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        exempt: bool,
        out: &mut Out,
    ) {
        if let Some(former) = self.fleet.incarnation(node) {
            self.forget(node, former);
        }
        self.fleet.add(node, incarnation);
        if let Some(pending) = &mut self.pending {
            pending.added(node, exempt);
        }
        self.join_with(node, out);
    }

    pub(super) fn on_joined(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        view: ViewId,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        if node.0 >= Fence::NODES {
            return Err(Refusal::UnknownNode(node));
        }
        if self.membership() == MembershipSource::Join {
            return Ok(()); // A returning process announces itself.
        }
        if self.defects.has(S2) {
            if node != self.me {
                self.added(node, Incarnation::default(), true, out);
                self.go_on(out);
            }
            return Ok(());
        }
        if view <= self.fleet.view {
            return Ok(()); // Already installed: the log may be delivered twice.
        }
        if node == self.me {
            self.fleet.add(node, incarnation);
            self.returns = self.returns.saturating_sub(1);
            if self.returns == 0 && self.incarnation.is_none() {
                self.incarnation = Some(incarnation);
            }
        } else {
            self.added(node, incarnation, true, out);
        }
        self.fleet.view = view;
        if !self.defects.has(S6) {
            self.clock = self.clock.max(Clock { view, ticks: 0 });
        }
        self.process_queued(out);
        self.go_on(out);
        Ok(())
    }
}
