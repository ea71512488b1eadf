//! Which gates there are, and how a new one is made.
//!
//! All nodes must agree on what a gate is before anybody uses it. Gates of the configuration are
//! the same at all nodes. Any other is made by whoever holds the permit of the *catalogue*, a gate
//! with one slot that is always there: it asks all nodes whether they know the name, and tells all
//! what it has made, or what it has learnt. So of two that make a gate at once one comes second and
//! finds it; and what somebody told to a few before it crashed is found too.

use std::collections::{BTreeMap, BTreeSet};

use super::definition::Definition;
use super::peer_message::{GateId, PeerMessage};
use kgate_control::state::Policy;
use kgate_core::NodeId;

/// The number of the gate that guards the catalogue.
pub const CATALOGUE: GateId = GateId(0);

/// A gate that is being made here, by steps.
#[derive(Debug)]
pub(super) struct Creation {
    pub(super) name: String,
    k: u32,
    round: u64,
    /// Who has not answered in this round.
    awaited: BTreeSet<NodeId>,
    found: Option<Definition>,
    last: GateId,
    /// What is being told, after all have answered.
    telling: Option<Definition>,
}

/// All gates that this node knows, and what it is making.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    known: BTreeMap<String, Definition>,
    last: u32,
    rounds: u64,
    /// Gates that somebody here wants and nobody knows, with the k of the first who asked; the
    /// first is being made once the permit is here.
    wanted: Vec<(String, u32)>,
    pub(super) creation: Option<Creation>,
}

impl Catalogue {
    pub(super) fn get(&self, name: &str) -> Option<&Definition> {
        self.known.get(name)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Definition> {
        self.known.values()
    }

    pub(super) fn last(&self) -> GateId {
        GateId(self.last)
    }

    /// There is this gate; false if it is known already.
    pub(super) fn insert(&mut self, definition: Definition) -> bool {
        if self.known.contains_key(&definition.name) {
            return false;
        }
        self.last = self.last.max(definition.id.0);
        self.known.insert(definition.name.clone(), definition).is_none()
    }

    /// A gate has another k, or another policy.
    pub(super) fn alter(&mut self, name: &str, k: u32, policy: Policy, author: &str) {
        if let Some(known) = self.known.get_mut(name) {
            (known.k, known.policy, known.author) = (k, policy, author.to_owned());
        }
    }

    /// A gate is gone.
    pub(super) fn remove(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// Somebody wants a gate that is not known. True if the permit of the catalogue must be asked
    /// for.
    pub(super) fn want(&mut self, name: &str, k: u32) -> bool {
        if self.creation.as_ref().is_some_and(|creation| creation.name == name)
            || self.wanted.iter().any(|wanted| wanted.0 == name)
        {
            return false;
        }
        self.wanted.push((name.to_owned(), k));
        self.wanted.len() == 1 && self.creation.is_none()
    }

    /// The permit is here: begins with the first gate that is wanted. None if there is none left
    /// that is not known.
    pub(super) fn begin(&mut self, others: BTreeSet<NodeId>) -> Option<PeerMessage> {
        while !self.wanted.is_empty() {
            let (name, k) = self.wanted.remove(0);
            if self.known.contains_key(&name) {
                continue;
            }
            self.rounds += 1;
            let (round, last) = (self.rounds, self.last());
            let message = PeerMessage::Collect { round, name: name.clone() };
            let creation =
                Creation { name, k, round, awaited: others, found: None, last, telling: None };
            self.creation = Some(creation);
            return Some(message);
        }
        None
    }

    /// A node has answered; or, with no answer, it has crashed and will not.
    pub(super) fn answered(&mut self, from: NodeId, answer: Option<Answer>) {
        let Some(creation) = &mut self.creation else { return };
        match answer {
            Some(Answer { round, .. }) if round != creation.round => return,
            Some(Answer { known: Some((definition, last)), .. }) => {
                creation.found = creation.found.take().or(definition);
                creation.last = creation.last.max(last);
            }
            Some(Answer { known: None, .. }) | None => {}
        }
        creation.awaited.remove(&from);
    }

    /// The gate that is to be made anew, if all have answered and nobody knows it: its number, its
    /// name and its k.
    pub(super) fn planned(&self) -> Option<(GateId, String, u32)> {
        let creation = self.creation.as_ref()?;
        let new =
            creation.awaited.is_empty() && creation.found.is_none() && creation.telling.is_none();
        new.then(|| (GateId(creation.last.0 + 1), creation.name.clone(), creation.k))
    }

    /// If all have answered: what is to be told to all next (what was found, or else the `plan`),
    /// or, once that is done too, the gate that there is now.
    pub(super) fn proceed(&mut self, others: BTreeSet<NodeId>, plan: Option<Definition>) -> Step {
        let Some(creation) = self.creation.as_mut().filter(|creation| creation.awaited.is_empty())
        else {
            return Step::Wait;
        };
        let Some(definition) = creation.found.take().or(plan) else {
            let made = self.creation.take().and_then(|creation| creation.telling);
            return Step::Made(made.expect("all were told"));
        };
        self.rounds += 1;
        creation.round = self.rounds;
        creation.awaited = others;
        creation.telling = Some(definition.clone());
        Step::ServerMessage(PeerMessage::Define { round: creation.round, definition })
    }
}

/// An answer to what was asked or told.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) round: u64,
    /// To a question: the gate, if known, and the last number.
    pub(super) known: Option<(Option<Definition>, GateId)>,
}

/// What comes next in making a gate.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing, until somebody answers.
    Wait,
    /// This is to be told to all others.
    ServerMessage(PeerMessage),
    /// The gate is made.
    Made(Definition),
}
