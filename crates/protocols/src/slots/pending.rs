//! The request of this process that is out and undecided.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use kgate_core::NodeId;

use super::fleet::Fleet;
use super::message::{Answers, Report};
use super::ranges::Ranges;
use super::slot_set::SlotSet;
use super::stamp::Stamp;
use crate::collections::NodeList;

/// Which reports count: all checks are on, except for defects.
#[derive(Clone, Copy)]
pub(super) struct Checks {
    /// The newest report of a process counts; otherwise the last to arrive does (S1).
    pub(super) newest: bool,
    /// Reports of earlier incarnations do not count; otherwise they do (S12).
    pub(super) incarnations: bool,
}

/// A request that is out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pending {
    pub(super) stamp: Stamp,
    /// The weights of its clients, in their order. Mostly there is one.
    pub(super) parts: VecDeque<u32>,
    /// The count of the next fence under this stamp: one request may be granted part by part.
    pub(super) uses: u16,
    /// The processes that have answered; some of them may have left since.
    heard: Ranges,
    /// The obstacles reported by the processes that have answered, by their ids.
    reports: Vec<Report>,
    /// The number of members that have not answered, and the number that are ahead.
    lacking: u32,
    ahead: u32,
    /// The children in the tree that have not answered.
    pub(super) wait: NodeList,
    /// The processes that were asked for their cached slots and have not sent anything since.
    called: NodeList,
    /// The number of repetitions to all processes that might have missed the request.
    pub(super) repeats: u8,
}

impl Pending {
    /// A new request of a process that is itself a member.
    pub(super) fn new(stamp: Stamp, parts: VecDeque<u32>, fleet: &Fleet) -> Self {
        let (lacking, wait) = (fleet.count_in(0, fleet.nodes) - 1, NodeList::default());
        let mut heard = Ranges::default();
        heard.insert_one(stamp.node);
        let called = NodeList::default();
        Self {
            stamp,
            parts,
            uses: 0,
            heard,
            reports: Vec::new(),
            lacking,
            ahead: 0,
            wait,
            called,
            repeats: 0,
        }
    }

    /// The total weight.
    pub(super) fn weight(&self) -> u32 {
        self.parts.iter().sum()
    }

    /// The request is first, and there are too few free slots: the processes with cached slots to
    /// ask for them, each once.
    pub(super) fn call(&mut self) -> Box<[NodeId]> {
        let idle = self.reports.iter().filter(|report| report.idle).map(|report| report.node);
        idle.filter(|&node| self.called.insert(node)).collect()
    }

    /// Takes answers in. Those of earlier incarnations do not count; a request goes to members
    /// only, and later members are exempt, so that an empty answer needs no incarnation beside it.
    pub(super) fn take(&mut self, answers: Answers, fleet: &Fleet, checks: Checks) {
        for range in answers.empty.iter() {
            self.heard.insert(range, |new| self.lacking -= fleet.count_in(new.start, new.end));
        }
        if !self.reports.is_empty() {
            let settled = |report: &Report| answers.empty.contains(report.node);
            let ahead =
                self.reports.iter().filter(|report| settled(report) && report.ahead).count();
            self.ahead -= u32::try_from(ahead).expect("no more than processes");
            self.reports.retain(|report| !settled(report));
        }
        for report in answers.reports {
            self.take_report(report, fleet, checks);
        }
    }

    /// Takes one report in: the newest one of each process counts.
    pub(super) fn take_report(&mut self, report: Report, fleet: &Fleet, checks: Checks) {
        if fleet
            .incarnation(report.node)
            .is_none_or(|incarnation| checks.incarnations && incarnation != report.incarnation)
        {
            return;
        }
        self.called.remove(report.node);
        let place = self.reports.binary_search_by_key(&report.node, |known| known.node);
        let heard = self.heard.contains(report.node);
        match place {
            Ok(at) if checks.newest && report.version < self.reports[at].version => return,
            Err(_) if checks.newest && heard => return, // An empty answer is final.
            Ok(at) => {
                self.ahead -= u32::from(self.reports[at].ahead);
                self.reports.remove(at);
            }
            Err(_) => {}
        }
        if !heard {
            self.heard.insert_one(report.node);
            self.lacking -= 1;
        }
        if !report.is_empty() {
            self.ahead += u32::from(report.ahead);
            let at = self.reports.partition_point(|known| known.node < report.node);
            self.reports.insert(at, report);
        }
    }

    /// `node`, a member until now, has left.
    pub(super) fn gone(&mut self, node: NodeId) {
        if !self.heard.contains(node) {
            self.lacking -= 1;
        }
        self.heard.remove(node);
        if let Ok(at) = self.reports.binary_search_by_key(&node, |known| known.node) {
            self.ahead -= u32::from(self.reports.remove(at).ahead);
        }
        self.wait.remove(node);
    }

    /// `node` is a new member. Its stamps are greater than this one's, so it need not be asked;
    /// unless it is not certain that they are.
    pub(super) fn added(&mut self, node: NodeId, exempt: bool) {
        if exempt {
            self.heard.insert_one(node);
        } else {
            // A late answer of an earlier incarnation may have put it there.
            self.heard.remove(node);
            self.lacking += 1;
        }
    }

    /// `node`, a member that was not exempt, becomes exempt.
    pub(super) fn exempt(&mut self, node: NodeId) {
        if !self.heard.contains(node) {
            self.heard.insert_one(node);
            self.lacking -= 1;
        }
    }

    /// The members that have not answered.
    pub(super) fn lacking<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = NodeId> + 'a {
        fleet.others(self.stamp.node).filter(|&node| !self.heard.contains(node))
    }

    /// Whether some member has not answered.
    pub(super) fn is_lacking(&self) -> bool {
        self.lacking > 0
    }

    /// The members that have not answered, or whose report is an obstacle.
    pub(super) fn unsettled<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = NodeId> + 'a {
        self.lacking(fleet).chain(self.reports.iter().map(|report| report.node))
    }

    /// Whether all members have answered and none is ahead.
    pub(super) fn is_first(&self, checks_ahead: bool) -> bool {
        self.lacking == 0 && (self.ahead == 0 || !checks_ahead)
    }

    /// The slots that others hold, in order.
    pub(super) fn taken(&self) -> SlotSet {
        let mut taken = SlotSet::default();
        self.reports.iter().for_each(|report| taken.extend(&report.holds));
        taken
    }
}
