//! Permits that are bound to processes instead of time. On one machine the node can see whether a
//! process still uses a slot.
//!
//! Such a session does not expire. When its stream ends, the shell finds out when no process uses
//! the slots any more. After a restart the node learns which slots are in use, and keeps them for
//! holders that it does not know.

use std::collections::BTreeMap;
use std::sync::Arc;

use kgate_control::state::Slots;

use super::peer_message::GateId;
use super::sessions::{Request, RequestState};
use super::view::Process;
use super::{Action, Core, Definition, RequestKey, SessionId};

/// A gate of an earlier incarnation of this node, which is the only node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredGate {
    /// The name of the gate.
    pub name: String,
    /// Its slots.
    pub slots: Slots,
    /// The slots that processes still use.
    pub in_use: Vec<u32>,
    /// The processes that use them, as far as they are known.
    pub holders: BTreeMap<u32, Process>,
    /// The operator who set its slots, if one did.
    pub set_by: Option<String>,
}

impl Core {
    /// The stream of a session ended: has the shell find out when its slots are free.
    pub(super) fn probe(&mut self, session: SessionId) {
        let Some(known) = self.sessions.get(session) else { return };
        let (requests, tree) = (&known.requests, known.guarded.tree());
        // A holder that was told of its loss may have ended without a release, too.
        let holds = |request: &Request| request.state != RequestState::Waiting;
        for (&number, request) in requests.iter().filter(|(_, request)| holds(request)) {
            let key = RequestKey { session, number };
            let Some(gate) = request.gate.and_then(|id| self.gates.get(&id)) else { continue };
            let slots = gate.slots_of(key).unwrap_or_default().to_vec();
            self.actions.push(Action::Probe {
                session,
                tree,
                number,
                gate: gate.definition.name.clone(),
                slots,
            });
        }
    }

    /// No process uses the slots of a request any more.
    pub(super) fn on_slots_free(&mut self, session: SessionId, number: u64) {
        let gone = self.sessions.get(session).is_some_and(|session| session.client.is_none());
        if !gone {
            return; // The client has resumed its session meanwhile.
        }
        self.release(RequestKey { session, number });
        if self.sessions.get(session).is_some_and(|session| session.requests.is_empty()) {
            self.sessions.close(session);
        }
    }

    /// Restores a gate of an earlier incarnation of this node, which is the only one: its slots in
    /// use, and what an operator set.
    pub(super) fn restore_gate(&mut self, restored: RestoredGate) {
        let RestoredGate { name, slots: stored, in_use, holders, set_by } = restored;
        let Some(definition) = self.find_or_open(&name, &stored) else { return };
        let id = definition.id;
        // A gate that was made smaller may have holders beyond its k.
        let slots = in_use.iter().map(|slot| slot + 1).max().unwrap_or(0).max(definition.k);
        if slots > definition.k {
            let author = definition.author.clone();
            self.at_gate(id, |gate| gate.resize(slots.into(), author));
        }
        if !in_use.is_empty() {
            self.occupy(&definition, slots, &in_use, &holders);
        }
        let is_set = set_by.is_some();
        let (wanted, author) = match set_by {
            Some(author) => (stored, author),
            None => (definition.slots(), definition.author.clone()),
        };
        let is_as_wanted = slots == wanted.k && definition.slots() == wanted;
        if !is_as_wanted || author != definition.author {
            self.resize_alone(&definition, wanted, author);
        }
        self.gates.get_mut(&id).expect("just opened").is_set = is_set;
    }

    /// The gate of that name, whose slots are numbered. One of the configuration is open already.
    fn find_or_open(&mut self, name: &str, stored: &Slots) -> Option<Definition> {
        if !self.is_alone() {
            return None;
        }
        if let Some(known) = self.catalogue.get(name) {
            return self.gates.get(&known.id)?.can_resize().then(|| known.clone());
        }
        let id = GateId(self.catalogue.last().0 + 1);
        // A closed gate is opened with one slot, and closed again by `restore_gate`.
        let slots = if stored.k == 0 { 1.into() } else { stored.clone() };
        let definition = Definition {
            author: "an earlier incarnation of this node".into(),
            protocol: "slots".into(),
            ..self.plan(id, name, slots)
        };
        self.open_gate(definition.clone(), None).ok()?;
        self.catalogue.insert(definition.clone());
        Some(definition)
    }

    /// Gives the slots in use to a session that nobody can resume.
    fn occupy(
        &mut self,
        gate: &Definition,
        slots: u32,
        in_use: &[u32],
        holders: &BTreeMap<u32, Process>,
    ) {
        let id = gate.id;
        let command = "from before this node started".into();
        let process = Arc::new(Process { command, ..Process::default() });
        let session = self.sessions.open_detached(process.clone());
        // Acquires all slots one by one, and releases those that are free.
        let mut free = Vec::new();
        for number in 0..slots {
            let key = RequestKey { session, number: u64::from(number) };
            self.sessions.begin(key, id);
            let asked = self.at_gate(id, |gate| gate.acquire(key, 1, process.clone(), None));
            let got = self.gates[&id].slots_of(key).map(<[u32]>::to_vec);
            let (Some(Ok(())), Some([slot])) = (asked, got.as_deref()) else {
                panic!("all slots of a new gate are free")
            };
            if !in_use.contains(slot) {
                free.push(key);
            }
        }
        for key in free {
            self.release(key);
        }
        // Their fences are of the incarnation that granted them, and not known here.
        self.gates.get_mut(&id).expect("just opened").describe_restored(holders);
        self.probe(session);
    }
}
