//! The inner nodes of the tree: a relay passes a request on to its children and puts their answers together with its own.

use alloc::vec::Vec;

use kgate_core::NodeId;

use super::message::{About, Answers};
use crate::collections::NodeList;

/// One request that is passed on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Relay {
    pub(super) about: About,
    pub(super) parent: NodeId,
    /// The children that have not answered.
    pub(super) wait: NodeList,
    pub(super) answers: Answers,
    /// Whether it was there already when the time-out was last looked at.
    pub(super) aged: bool,
}

/// The requests that this process passes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Relays(Vec<Relay>);

impl Relays {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, relay: Relay) {
        self.0.push(relay);
    }

    /// Whether that very request from that parent is being passed on.
    pub(super) fn has(&self, about: About, parent: NodeId) -> bool {
        self.0.iter().any(|relay| relay.about == about && relay.parent == parent)
    }

    /// Whether a newer request of the same process is.
    pub(super) fn has_newer(&self, about: About) -> bool {
        let newer =
            |relay: &Relay| relay.about.stamp.node == about.stamp.node && relay.about.stamp > about.stamp;
        self.0.iter().any(newer)
    }

    /// `child` has answered.
    pub(super) fn answered(&mut self, about: About, child: NodeId, answers: &Answers) {
        for relay in self.0.iter_mut().filter(|relay| relay.about == about) {
            if relay.wait.remove(child) {
                relay.answers.extend(answers.clone());
            }
        }
    }

    /// `node` does not answer any more, asks nothing any more and wants no answers.
    pub(super) fn gone(&mut self, node: NodeId) {
        self.0.retain_mut(|relay| {
            relay.wait.remove(node);
            relay.about.stamp.node != node && relay.parent != node
        });
    }

    /// Takes out those for which `pick` says so; it may change them.
    pub(super) fn take(&mut self, pick: impl FnMut(&mut Relay) -> bool) -> Vec<Relay> {
        self.0.extract_if(.., pick).collect()
    }

    /// Whose requests, in the order in which they came.
    pub(super) fn roots(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.iter().map(|relay| relay.about.stamp.node)
    }
}
