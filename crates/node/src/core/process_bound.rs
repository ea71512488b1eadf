//! Permits that are bound to processes instead of time: on one machine it can be seen whether
//! somebody still uses a slot.
//!
//! Where sessions have no time, the end of a stream does not end what it held: whoever can see it
//! is asked to find out when nobody uses the slots any more. A node that starts again is told which
//! slots are in use, and holds them for those whom it does not know.

use kgate_core::Time;

use super::gate::Waiter;
use super::peer_message::GateId;
use super::sessions::RequestState;
use super::view::Process;
use super::{Action, Core, Definition, RequestKey, SessionId};

impl Core {
    /// Asks when nobody uses any more what a session holds whose stream has ended.
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

    /// Nobody uses any more what that request holds.
    pub(super) fn on_slots_free(
        &mut self,
        now: Time,
        session: SessionId,
        number: u64,
        actions: &mut Vec<Action>,
    ) {
        let gone = self.sessions.get(session).is_some_and(|session| session.client.is_none());
        if !gone {
            return; // It has come back meanwhile.
        }
        self.release(now, RequestKey { session, number }, actions);
        if self.sessions.get(session).is_some_and(|session| session.requests.is_empty()) {
            self.sessions.close(session);
        }
    }

    /// A gate of an earlier incarnation of this node, which is alone: some of its slots are in use.
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
        // All of them, one by one, in their order; and back with those that are free.
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
        // Theirs are of the incarnation that granted them, and not known here.
        self.gates.get_mut(&id).expect("just opened").forget_fences();
        self.probe(session, actions);
    }
}
