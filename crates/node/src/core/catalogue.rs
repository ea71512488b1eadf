//! The gates of a cluster without a log, and how a new gate is created.
//!
//! All nodes must agree on the definition of a gate before it is used. Gates of the configuration
//! are the same at all nodes. Any other gate is created by the holder of the *catalogue*'s permit,
//! a gate with one slot that always exists. The holder asks all nodes whether they know the name,
//! then announces to all of them the definition that it has found or made. So of two nodes that
//! create a gate at once, the second one finds it; and a definition that reached only a few nodes
//! before its creator crashed is found too.

use std::collections::{BTreeMap, BTreeSet};

use super::definition::Definition;
use super::peer_message::{GateId, PeerMessage};
use kgate_control::state::{Policy, Slots};
use kgate_core::NodeId;

/// The id of the gate that guards the catalogue.
pub const CATALOGUE: GateId = GateId(0);

/// The creation of a gate by this node.
#[derive(Debug)]
pub(super) struct Creation {
    pub(super) name: String,
    slots: Slots,
    author: String,
    round: u64,
    /// The nodes that have not answered in this round.
    awaited: BTreeSet<NodeId>,
    found: Option<Definition>,
    last: GateId,
    /// The definition that is being announced, once all have answered.
    telling: Option<Definition>,
}

/// All gates that this node knows, and the gate that it creates.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    known: BTreeMap<String, Definition>,
    last: u32,
    rounds: u64,
    /// Gates that are requested here and unknown, with the slots of the first request and its
    /// author. The first one is created as soon as this node holds the permit.
    wanted: Vec<(String, Slots, String)>,
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

    /// Adds a gate. Returns false if it is known already.
    pub(super) fn insert(&mut self, definition: Definition) -> bool {
        if self.known.contains_key(&definition.name) {
            return false;
        }
        self.last = self.last.max(definition.id.0);
        self.known.insert(definition.name.clone(), definition).is_none()
    }

    /// Changes slots and policy of a gate.
    pub(super) fn alter(&mut self, name: &str, slots: Slots, policy: Policy, author: &str) {
        if let Some(known) = self.known.get_mut(name) {
            (known.k, known.source) = (slots.k, slots.source);
            (known.policy, known.author) = (policy, author.to_owned());
        }
    }

    /// Removes a gate.
    pub(super) fn remove(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// Requests an unknown gate. Returns true if the permit of the catalogue must be acquired.
    pub(super) fn want(&mut self, name: &str, slots: Slots, author: String) -> bool {
        if self.creation.as_ref().is_some_and(|creation| creation.name == name)
            || self.wanted.iter().any(|wanted| wanted.0 == name)
        {
            return false;
        }
        self.wanted.push((name.to_owned(), slots, author));
        self.wanted.len() == 1 && self.creation.is_none()
    }

    /// This node holds the permit: begins with the first requested gate. None if no requested gate
    /// is unknown any more.
    pub(super) fn begin(&mut self, others: BTreeSet<NodeId>) -> Option<PeerMessage> {
        while !self.wanted.is_empty() {
            let (name, slots, author) = self.wanted.remove(0);
            if self.known.contains_key(&name) {
                continue;
            }
            self.rounds += 1;
            let (round, last) = (self.rounds, self.last());
            let message = PeerMessage::Collect { round, name: name.clone() };
            let creation = Creation {
                name,
                slots,
                author,
                round,
                awaited: others,
                found: None,
                last,
                telling: None,
            };
            self.creation = Some(creation);
            return Some(message);
        }
        None
    }

    /// A node has answered; or, without an answer, it has crashed.
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

    /// The gate to define, if all have answered and no node knows it: its id, name, slots and
    /// author.
    pub(super) fn planned(&self) -> Option<(GateId, &str, Slots, String)> {
        let creation = self.creation.as_ref()?;
        let new =
            creation.awaited.is_empty() && creation.found.is_none() && creation.telling.is_none();
        let Creation { name, slots, author, last, .. } = creation;
        new.then(|| (GateId(last.0 + 1), name.as_str(), slots.clone(), author.clone()))
    }

    /// The next step once all have answered: first to announce the definition that was found, or
    /// else the `plan`; then the gate is created.
    pub(super) fn proceed(
        &mut self,
        others: BTreeSet<NodeId>,
        plan: Option<Definition>,
    ) -> NextStep {
        let Some(creation) = self.creation.as_mut().filter(|creation| creation.awaited.is_empty())
        else {
            return NextStep::Wait;
        };
        let Some(definition) = creation.found.take().or(plan) else {
            let made = self.creation.take().and_then(|creation| creation.telling);
            return NextStep::Created(made.expect("all nodes were notified"));
        };
        self.rounds += 1;
        creation.round = self.rounds;
        creation.awaited = others;
        creation.telling = Some(definition.clone());
        NextStep::ServerMessage(PeerMessage::Define { round: creation.round, definition })
    }
}

/// An answer of another node.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) round: u64,
    /// To a question: the gate, if known, and the greatest id.
    pub(super) known: Option<(Option<Definition>, GateId)>,
}

/// The next step in the creation of a gate.
#[derive(Debug)]
pub(super) enum NextStep {
    /// Wait for answers.
    Wait,
    /// Broadcast this message.
    ServerMessage(PeerMessage),
    /// The gate is created.
    Created(Definition),
}
