//! Obstacles that this process has reported to others: every process with an outstanding report is
//! owed all changes.

use alloc::vec::Vec;

use kgate_core::NodeId;
use serde::{Deserialize, Serialize};

use super::message::About;
use super::slot_set::SlotSet;
use super::stamp::Stamp;

/// The report that one process has got.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Debt {
    pub(super) about: About,
    pub(super) holds: SlotSet,
    pub(super) ahead: bool,
    /// Whether the process knows that a slot is only cached.
    pub(super) idle: bool,
    /// The weight of its request.
    pub(super) weight: u32,
    /// Whether it has repeated its request: it needs the slots that are here.
    pub(super) called: bool,
    /// Whether it has got an answer at all; otherwise the answer itself is owed.
    pub(super) sent: bool,
}

/// The debts, by creditor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Debts(Vec<Debt>);

impl Debts {
    fn place(&self, root: NodeId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&root, |debt| debt.about.stamp.node)
    }

    /// The debt to `root`.
    pub(super) fn of(&self, root: NodeId) -> Option<&Debt> {
        self.place(root).ok().map(|at| &self.0[at])
    }

    /// Sets the only debt to that process.
    pub(super) fn set(&mut self, debt: Debt) {
        match self.place(debt.about.stamp.node) {
            Ok(at) => self.0[at] = debt,
            Err(at) => self.0.insert(at, debt),
        }
    }

    /// A creditor has repeated its request.
    pub(super) fn call(&mut self, root: NodeId) {
        if let Ok(at) = self.place(root) {
            self.0[at].called = true;
        }
    }

    /// Removes the debt to `root`.
    pub(super) fn clear(&mut self, root: NodeId) {
        if let Ok(at) = self.place(root) {
            self.0.remove(at);
        }
    }

    /// The total weight of all creditors; `None` if one of them has repeated its request.
    pub(super) fn wanted(&self) -> Option<u64> {
        let called = self.0.iter().any(|debt| debt.called);
        (!called).then(|| self.0.iter().map(|debt| u64::from(debt.weight)).sum())
    }

    /// Whether there are no debts.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the requests of all creditors are older than `stamp`.
    pub(super) fn all_before(&self, stamp: Stamp) -> bool {
        self.0.iter().all(|debt| debt.about.stamp < stamp)
    }

    /// Keeps the debts for which `keep` returns true; it may change them.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut Debt) -> bool) {
        self.0.retain_mut(keep);
    }

    /// The creditors, in the order of ids.
    pub(super) fn whom(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.iter().map(|debt| debt.about.stamp.node)
    }
}
