//! Permits that are bound to processes instead of time. On one machine the node can see whether a
//! process still uses a slot.
//!
//! Such a session does not expire. When its stream ends, the shell finds out when no process uses
//! the slots any more. After a restart the node learns which slots are in use, and keeps them for
//! holders that it does not know.

use kgate_core::Time;

use super::gate::Waiter;
use super::peer_message::GateId;
use super::sessions::RequestState;
use super::view::Process;
use super::{Action, Core, Definition, RequestKey, SessionId};

impl Core {
    /// The stream of a session ended: has the shell find out when its slots are free.
    pub(super) fn probe(&self, session: SessionId, actions: &mut Vec<Action>) {
        let Some(requests) = self.sessions.get(session).map(|session| &session.requests) else {
            return;
        };
        for (&number, request) in
            requests.iter().filter(|(_, request)| request.state == RequestState::Holding)
        {
            let key = RequestKey { session, number };
            let Some(gate) = request.gate.and_then(|id| self.gates.get(&id)) else { continue };
            let slots = gate.slots_of(key).unwrap_or_default().to_vec();
            actions.push(Action::Probe {
                session,
                number,
                gate: gate.definition.name.clone(),
                slots,
            });
        }
    }

    /// No process uses the slots of a request any more.
    pub(super) fn on_slots_free(
        &mut self,
        now: Time,
        session: SessionId,
        number: u64,
        actions: &mut Vec<Action>,
    ) {
        let gone = self.sessions.get(session).is_some_and(|session| session.client.is_none());
        if !gone {
            return; // The client has resumed its session meanwhile.
        }
        self.release(now, RequestKey { session, number }, actions);
        if self.sessions.get(session).is_some_and(|session| session.requests.is_empty()) {
            self.sessions.close(session);
        }
    }

    /// Restores a gate of an earlier incarnation of this node, which is the only one. Some of its
    /// slots are in use.
    pub(super) fn restore_gate(
        &mut self,
        now: Time,
        name: &str,
        k: u32,
        in_use: &[u32],
        actions: &mut Vec<Action>,
    ) {
        let id = GateId(self.catalogue.last().0 + 1);
        let definition = Definition {
            author: "an earlier incarnation of this node".into(),
            ..self.plan(id, name, k)
        };
        if self.settings.nodes != 1
            || self.open_gate(now, definition.clone(), None, actions).is_err()
        {
            return;
        }
        self.catalogue.insert(definition);
        let process =
            Process { command: "from before this node started".into(), ..Process::default() };
        let session = self.sessions.open_detached(process.clone());
        // Acquires all slots one by one, in their order, and releases those that are free.
        let mut free = Vec::new();
        for slot in 0..k {
            let key = RequestKey { session, number: u64::from(slot) };
            self.sessions.begin(key, id);
            let asked = self.at_gate(now, id, actions, |gate, out| {
                gate.acquire(now, Waiter::new(key, 1, now, process.clone()), out)
            });
            let got = self.gates[&id].slots_of(key).map(<[u32]>::to_vec);
            assert!(
                matches!(asked, Some(Ok(()))) && got.as_deref() == Some(&[slot]),
                "all slots of a new gate are free"
            );
            if !in_use.contains(&slot) {
                free.push(key);
            }
        }
        for key in free {
            self.release(now, key, actions);
        }
        // Their fences are of the incarnation that granted them, and not known here.
        self.gates.get_mut(&id).expect("just opened").forget_fences();
        self.probe(session, actions);
    }
}
