//! Which node is home of a gate, as a function of the agreed log alone.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::split_mix::split_mix64;
use crate::{Incarnation, NodeId};

/// A period in which one node is home of a gate: the number of changes that the directory had seen
/// when it began. Later terms of a gate are greater, also if the same node is home again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Term(pub u32);

/// The home of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// The node.
    pub node: NodeId,
    /// The incarnation in which it is a member.
    pub incarnation: Incarnation,
    /// The term in which it is home.
    pub term: Term,
}

/// The members, and which of them are fit to be home, after some prefix of the log. One directory
/// serves all gates: the home of each is the fit member with the greatest hash of gate and node, or
/// of all members if none is fit. Every node that has applied the same entries computes the same
/// home and the same term.
///
/// A node is fit while it is a member that the log neither suspects nor drains nor declares unfit;
/// who keeps the log calls [`set_fit`](Self::set_fit) with `true` only when none of these holds.
/// Losing fitness moves home roles and frees nothing, and says nothing about leases: only an
/// eviction ends what a node holds, and unfitness is no ground for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Directory {
    /// The number of changes so far.
    changes: Term,
    /// Every node that was ever a member, in ascending order.
    nodes: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Entry {
    node: NodeId,
    /// Its latest incarnation, ended or not.
    incarnation: Incarnation,
    /// The change that made this incarnation a member; `None` while it is not one.
    member_since: Option<Term>,
    fit: bool,
    /// The last change of its fitness.
    fit_changed: Term,
}

impl Directory {
    /// These members at the start of the log, all fit, each in its incarnation.
    pub fn new(members: impl IntoIterator<Item = (NodeId, Incarnation)>) -> Self {
        let mut directory = Self::default();
        for (node, incarnation) in members {
            *directory.entry(node) = Entry {
                node,
                incarnation,
                member_since: Some(Term::default()),
                fit: true,
                fit_changed: Term::default(),
            };
        }
        directory
    }

    /// The number of changes so far: the term of a gate whose home changed with the last one.
    pub fn changes(&self) -> Term {
        self.changes
    }

    /// The log adds `node`: it becomes a fit member in its next incarnation. Ignored if it is a
    /// member.
    pub fn join(&mut self, node: NodeId) {
        let next = self.find(node).map_or(0, |entry| entry.incarnation.0 + 1);
        self.add(node, Incarnation(next));
    }

    /// The log adds this incarnation of `node`, where nodes number their incarnations themselves.
    /// Ignored if the node is a member, or was one in this incarnation or a later one.
    pub fn add(&mut self, node: NodeId, incarnation: Incarnation) {
        let is_outdated =
            |entry: &Entry| entry.member_since.is_some() || incarnation <= entry.incarnation;
        if self.find(node).is_some_and(is_outdated) {
            return;
        }
        let now = self.change();
        let entry = self.entry(node);
        entry.incarnation = incarnation;
        (entry.member_since, entry.fit, entry.fit_changed) = (Some(now), true, now);
    }

    /// The log evicts this incarnation of `node`. Ignored if it is not a member.
    pub fn evict(&mut self, node: NodeId, incarnation: Incarnation) {
        if self.incarnation(node) != Some(incarnation) {
            return;
        }
        let now = self.change();
        let entry = self.entry(node);
        entry.member_since = None;
        // The eviction of an unfit node moves no home, so it must not begin a term.
        if core::mem::take(&mut entry.fit) {
            entry.fit_changed = now;
        }
    }

    /// The log declares a member fit or unfit to be home. Ignored if it is not a member, or already
    /// so.
    pub fn set_fit(&mut self, node: NodeId, incarnation: Incarnation, fit: bool) {
        let changes = self.incarnation(node) == Some(incarnation)
            && self.find(node).is_some_and(|entry| entry.fit != fit);
        if changes {
            let now = self.change();
            let entry = self.entry(node);
            (entry.fit, entry.fit_changed) = (fit, now);
        }
    }

    /// The incarnation in which `node` is a member.
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.find(node).filter(|entry| entry.member_since.is_some()).map(|entry| entry.incarnation)
    }

    /// All members with their incarnations, in the order of ids.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, Incarnation)> + '_ {
        self.founders(self.changes)
    }

    /// The members that were already members, in the same incarnation, when `term` began.
    pub fn founders(&self, term: Term) -> impl Iterator<Item = (NodeId, Incarnation)> + '_ {
        let nodes = self.nodes.iter();
        nodes
            .filter(move |entry| entry.member_since.is_some_and(|since| since <= term))
            .map(|entry| (entry.node, entry.incarnation))
    }

    /// The home of the gate with this key; `None` without members.
    ///
    /// Its term is the last change of its fitness or of that of a node with a greater hash: since
    /// then this node was fit and all better ones were not, and at that change one of them
    /// differed, so another node was home before. If no node is fit, every change begins a term.
    pub fn home(&self, gate: u64) -> Option<Placement> {
        let best = |fit: bool| {
            let candidates =
                self.nodes.iter().filter(|entry| entry.member_since.is_some() && entry.fit == fit);
            candidates.max_by_key(|entry| rank(gate, entry.node))
        };
        let placed =
            |home: &Entry, term| Placement { node: home.node, incarnation: home.incarnation, term };
        let Some(home) = best(true) else {
            return best(false).map(|home| placed(home, self.changes));
        };
        let worst = rank(gate, home.node);
        let better = self.nodes.iter().filter(|entry| rank(gate, entry.node) >= worst);
        let term = better.map(|entry| entry.fit_changed).max();
        term.map(|term| placed(home, term))
    }

    /// The witness of the gate with this key: the fit member with the greatest hash after the home,
    /// which is home next if that loses its fitness. `None` if fewer than two members are fit. Its
    /// term is the period in which these two are home and witness; it begins with the last change
    /// of the fitness of either or of a node with a greater hash, for the same reason.
    pub fn witness(&self, gate: u64) -> Option<Placement> {
        let home = self.home(gate)?;
        let fit = self.nodes.iter().filter(|entry| entry.fit && entry.node != home.node);
        let witness = fit.max_by_key(|entry| rank(gate, entry.node))?;
        let worst = rank(gate, witness.node);
        let better = self.nodes.iter().filter(|entry| rank(gate, entry.node) >= worst);
        let term = better.map(|entry| entry.fit_changed).max()?;
        Some(Placement { node: witness.node, incarnation: witness.incarnation, term })
    }

    fn change(&mut self) -> Term {
        self.changes.0 = self.changes.0.checked_add(1).expect("a log of fewer than 2^32 changes");
        self.changes
    }

    fn find(&self, node: NodeId) -> Option<&Entry> {
        self.nodes
            .binary_search_by_key(&node, |entry| entry.node)
            .ok()
            .map(|place| &self.nodes[place])
    }

    fn entry(&mut self, node: NodeId) -> &mut Entry {
        let place = self.nodes.binary_search_by_key(&node, |entry| entry.node);
        let place = place.unwrap_or_else(|place| {
            let (incarnation, fit_changed) = Default::default();
            let member_since = None;
            self.nodes
                .insert(place, Entry { node, incarnation, member_since, fit: false, fit_changed });
            place
        });
        &mut self.nodes[place]
    }
}

/// The hash of a gate and a node, and the node for the case of equal ones.
fn rank(gate: u64, node: NodeId) -> (u64, NodeId) {
    let mut state = gate ^ u64::from(node.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (split_mix64(&mut state), node)
}

#[cfg(test)]
mod tests;
