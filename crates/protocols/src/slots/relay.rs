//! The inner nodes of the tree: a relay forwards a request to its children and combines their
//! answers with its own.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kgate_core::NodeId;
use smallvec::SmallVec;

use super::message::{About, Answers, Report};

/// One request that is forwarded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Relay {
    pub(super) about: About,
    pub(super) parent: NodeId,
    /// The children that have not answered.
    pub(super) wait: SmallVec<[NodeId; 2]>,
    /// The answers so far, its own among them; `None` while its own is the only one and empty, as
    /// it mostly is.
    answers: Option<Box<Answers>>,
    /// Whether it was there already at the last expiry of the timer.
    pub(super) aged: bool,
}

impl Relay {
    /// A new relay, with the answer of this process.
    pub(super) fn new(
        about: About,
        parent: NodeId,
        wait: SmallVec<[NodeId; 2]>,
        own: Report,
    ) -> Self {
        let answers = (!own.is_empty()).then(|| Box::new(Answers::of(own)));
        Self { about, parent, wait, answers, aged: false }
    }

    /// All answers so far, at process `me`.
    pub(super) fn answers(self, me: NodeId) -> Answers {
        self.answers.map_or_else(|| Answers::nothing_of(me), |answers| *answers)
    }

    /// Stops waiting for `node`; whether it was waited for.
    fn stop_waiting(&mut self, node: NodeId) -> bool {
        let place = self.wait.iter().position(|other| *other == node);
        place.map(|place| self.wait.remove(place)).is_some()
    }
}

/// The requests that this process forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Relays(Vec<Relay>);

impl Relays {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, relay: Relay) {
        self.0.push(relay);
    }

    /// Whether this very request from this parent is being forwarded.
    pub(super) fn has(&self, about: About, parent: NodeId) -> bool {
        self.0.iter().any(|relay| relay.about == about && relay.parent == parent)
    }

    /// Whether a newer request of the same process is being forwarded.
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

    /// `node` has left: it answers nothing, requests nothing and expects no answers.
    pub(super) fn gone(&mut self, node: NodeId) {
        self.0.retain_mut(|relay| {
            relay.stop_waiting(node);
            relay.about.stamp.node != node && relay.parent != node
        });
    }

    /// Removes the relays for which `pick` returns true; it may change them.
    pub(super) fn take(&mut self, pick: impl FnMut(&mut Relay) -> bool) -> Vec<Relay> {
        self.0.extract_if(.., pick).collect()
    }

    /// The processes whose requests are forwarded, in the order of arrival.
    pub(super) fn roots(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.iter().map(|relay| relay.about.stamp.node)
    }
}
