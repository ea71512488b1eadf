//! What the model checker may know of `home`.

use alloc::vec::Vec;

use kgate_core::{Explorable, Inventory, NodeId};

use super::Home;
use super::defects::{H1, H3, H4_ASSIGNMENTS, H4_REPORTS, H19_INCARNATION};
use super::member::Usage;
use super::message::{Assignment, Head, HomeMessage, Report};

impl Explorable for Home {
    /// Terms, incarnations and versions only grow (H1, H3, H4).
    fn is_outdated(&self, neighbour: NodeId, message: &HomeMessage) -> bool {
        let path = message.head().path;
        if path.is_some_and(|path| path.to != self.me || self.defects.has(H19_INCARNATION)) {
            return false; // A relay knows nothing of it.
        }
        self.is_outdated_here(message.origin(neighbour), message)
    }

    /// Only the length of a timer depends on how often it has fired. A relay that was used is
    /// forgotten later, as if the timer had fired later.
    fn forget_times(&mut self) {
        self.repeats = self.repeats.map(|_| 0);
        self.links.forget_use();
    }

    fn inventory(&self) -> Inventory {
        let holds = self.member.holds.iter();
        let (cached, used): (Vec<_>, Vec<_>) = holds.partition(|hold| hold.usage == Usage::Cached);
        let home = self.coordinator.as_ref();
        Inventory {
            assigned: home.map(|home| home.assigned()).unwrap_or_default(),
            cached: cached.iter().flat_map(|hold| hold.slots.as_slice()).copied().collect(),
            pending: used.len() + self.member.asks.len(),
        }
    }
}

impl Home {
    /// Whether a message to this process changes nothing, now or later.
    pub(super) fn is_outdated_here(&self, from: NodeId, message: &HomeMessage) -> bool {
        let head = message.head();
        let is_old = self.home.is_some_and(|home| head.term < home.term);
        if is_old && !self.defects.has(H1) || self.is_of_the_past(from, head) {
            return true;
        }
        if self.home.is_none_or(|home| head.term != home.term) {
            return false;
        }
        match message {
            HomeMessage::Assignment(assignment) => self.knows_assignment(assignment),
            HomeMessage::Report(report) => self.knows_report(from, report),
            // Kept, whatever the receiver knows: the options are few messages.
            HomeMessage::Pass(_) | HomeMessage::Note(_) | HomeMessage::Noted(_) => false,
        }
    }

    /// Whether the message is from or to an incarnation that has ended. Its sender was a member at
    /// the log index that the message names.
    fn is_of_the_past(&self, from: NodeId, head: Head) -> bool {
        let present = self.log.directory.incarnation(from);
        let ended = present != Some(head.from) && head.index <= self.log.index;
        (ended || head.to < self.incarnation) && !self.defects.has(H3)
    }

    fn knows_assignment(&self, assignment: &Assignment) -> bool {
        let (seen, acked) = (self.member.seen, self.member.acked);
        let again = assignment.version == seen
            && assignment.seen >= seen
            && assignment.acked.min(self.member.version) <= acked;
        (assignment.version < seen || again) && !self.defects.has(H4_ASSIGNMENTS)
    }

    fn knows_report(&self, from: NodeId, report: &Report) -> bool {
        let Some(home) = &self.coordinator else { return false };
        let last = home.version_from(from, report.head.from);
        let again = report.version == last && report.acked >= report.version;
        (report.version < last || again) && !self.defects.has(H4_REPORTS)
    }
}
