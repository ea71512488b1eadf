//! The inner nodes of the tree: a relay passes a request on to its children and puts their answers
//! together with its own.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kgate_core::NodeId;
use smallvec::SmallVec;

use super::message::{About, Answers, Report};

/// One request that is passed on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Relay {
    pub(super) about: About,
    pub(super) parent: NodeId,
    /// The children that have not answered.
    pub(super) wait: SmallVec<[NodeId; 2]>,
    /// What has come so far, its own answer among it; none while that is the only one and empty, as
    /// it mostly is.
    answers: Option<Box<Answers>>,
    /// Whether it was there already when the time-out was last looked at.
    pub(super) aged: bool,
}

impl Relay {
    /// Just begun, with the answer of this process.
    pub(super) fn new(
        about: About,
        parent: NodeId,
        wait: SmallVec<[NodeId; 2]>,
        own: Report,
    ) -> Self {
        let answers = (!own.is_empty()).then(|| Box::new(Answers::of(own)));
        Self { about, parent, wait, answers, aged: false }
    }

    /// All that has come, at process `me`.
    pub(super) fn answers(self, me: NodeId) -> Answers {
        self.answers.map_or_else(|| Answers::nothing_of(me), |answers| *answers)
    }

    /// Whether `node` was waited for; it is no more.
    fn stop_waiting(&mut self, node: NodeId) -> bool {
        let place = self.wait.iter().position(|other| *other == node);
        place.map(|place| self.wait.remove(place)).is_some()
    }
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
        let newer = |relay: &Relay| {
            relay.about.stamp.node == about.stamp.node && relay.about.stamp > about.stamp
        };
        self.0.iter().any(newer)
    }

    /// `child` has answered.
    pub(super) fn answered(&mut self, about: About, me: NodeId, child: NodeId, answers: &Answers) {
        for relay in self.0.iter_mut().filter(|relay| relay.about == about) {
            if relay.stop_waiting(child) {
                let all = relay.answers.get_or_insert_with(|| Box::new(Answers::nothing_of(me)));
                all.extend(answers.clone());
            }
        }
    }

    /// `node` does not answer any more, asks nothing any more and wants no answers.
    pub(super) fn gone(&mut self, node: NodeId) {
        self.0.retain_mut(|relay| {
            relay.stop_waiting(node);
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
