//! What this process has told others about their requests: whoever was told that something stands
//! in its way is owed any change.

use alloc::vec::Vec;

use kgate_core::NodeId;
use serde::{Deserialize, Serialize};

use super::message::About;
use super::slot_set::SlotSet;
use super::stamp::Stamp;

/// What one process was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Debt {
    pub(super) about: About,
    pub(super) holds: SlotSet,
    pub(super) ahead: bool,
    /// Whether it knows that something is only kept.
    pub(super) idle: bool,
    /// How many units it wants.
    pub(super) weight: u32,
    /// Whether it has asked again: it needs what is here.
    pub(super) called: bool,
    /// Whether it was told at all; otherwise the answer itself is owed.
    pub(super) sent: bool,
}

/// The debts, by who is owed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Debts(Vec<Debt>);

impl Debts {
    fn place(&self, root: NodeId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&root, |debt| debt.about.stamp.node)
    }

    /// What is owed to `root`.
    pub(super) fn of(&self, root: NodeId) -> Option<&Debt> {
        self.place(root).ok().map(|at| &self.0[at])
    }

    /// The only debt to that process from now on.
    pub(super) fn set(&mut self, debt: Debt) {
        match self.place(debt.about.stamp.node) {
            Ok(at) => self.0[at] = debt,
            Err(at) => self.0.insert(at, debt),
        }
    }

    /// Whoever is owed something has asked again.
    pub(super) fn call(&mut self, root: NodeId) {
        if let Ok(at) = self.place(root) {
            self.0[at].called = true;
        }
    }

    /// Nothing is owed to `root` any more.
    pub(super) fn clear(&mut self, root: NodeId) {
        if let Ok(at) = self.place(root) {
            self.0.remove(at);
        }
    }

    /// How many units all those want that are owed something; none if one of them has asked again.
    pub(super) fn wanted(&self) -> Option<u64> {
        let called = self.0.iter().any(|debt| debt.called);
        (!called).then(|| self.0.iter().map(|debt| u64::from(debt.weight)).sum())
    }

    /// Whether nothing is owed to anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all those that are owed something asked before `stamp`.
    pub(super) fn all_before(&self, stamp: Stamp) -> bool {
        self.0.iter().all(|debt| debt.about.stamp < stamp)
    }

    /// Keeps those for which `keep` says so; it may change them.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut Debt) -> bool) {
        self.0.retain_mut(keep);
    }

    /// To whom, in the order of ids.
    pub(super) fn whom(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.iter().map(|debt| debt.about.stamp.node)
    }
}
