//! Grants that the log is to hold (docs/internals/slots.md, "Slots that the log holds").
//!
//! The protocol has decided, the client has not been told. Until the log has said what becomes of
//! it, the grant is given back for no reason: others must not get the slots while an entry for them
//! may be on its way.

use std::collections::BTreeMap;

use kgate_control::state;
use kgate_core::{Fence, GrantId, Input, Span, Time};
use serde::{Deserialize, Serialize};

use super::{Gate, GateEffect, Waiter};
use crate::core::RequestKey;
use crate::core::view::Process;

/// A permit that the log is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// What its holder will show, hashed.
    pub secret: state::SecretHash,
    /// After so long without a renewal it may be taken back; never, if none.
    pub ttl: Option<Span>,
}

/// A grant that the log is to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::core) struct Deciding {
    /// Who waits for it; none if nobody does any more: then it is given back once the log holds it.
    #[serde(skip)]
    pub(in crate::core) key: Option<RequestKey>,
    pub(in crate::core) slots: Vec<u32>,
    pub(in crate::core) fence: Fence,
    pub(in crate::core) process: Process,
    pub(in crate::core) hold: Hold,
    pub(super) weight: u32,
    pub(super) since: Time,
}

impl Gate {
    /// The protocol has granted something that the log is to hold.
    pub(super) fn decide(
        &mut self,
        grant: GrantId,
        (waiter, hold): (Waiter, Hold),
        slots: Vec<u32>,
        fence: Fence,
        out: &mut Vec<GateEffect>,
    ) {
        let Waiter { key, weight, since, process, .. } = waiter;
        self.deciding.insert(grant, Deciding { key, slots, fence, process, hold, weight, since });
        out.push(GateEffect::Decided(grant));
    }

    /// Nobody waits any more for what is being decided; false if that is nothing here.
    pub(super) fn abandon(&mut self, key: RequestKey) -> bool {
        let found = self.deciding.values_mut().find(|it| it.key == Some(key));
        found.map(|deciding| deciding.key = None).is_some()
    }

    /// All that is being decided.
    pub(in crate::core) fn deciding(&self) -> impl Iterator<Item = (GrantId, &Deciding)> {
        self.deciding.iter().map(|(grant, deciding)| (*grant, deciding))
    }

    /// The log holds exactly these slots.
    pub(in crate::core) fn reserve(
        &mut self,
        now: Time,
        slots: Vec<u32>,
        out: &mut Vec<GateEffect>,
    ) {
        self.drive(now, Input::Reserved(slots.into()), out)
            .expect("a protocol with slots knows the log");
        self.go_on(now, out);
    }

    /// The log holds it, and this gate knows that already: the grant is given up.
    pub(in crate::core) fn handed(
        &mut self,
        now: Time,
        grant: GrantId,
        out: &mut Vec<GateEffect>,
    ) -> Option<Deciding> {
        let deciding = self.not_held(now, grant, out)?;
        self.counters.grants += 1;
        let waited = crate::core::view::age(now, deciding.since);
        self.counters.longest_wait = self.counters.longest_wait.max(waited);
        Some(deciding)
    }

    /// The log does not hold it: the grant is given back.
    pub(in crate::core) fn not_held(
        &mut self,
        now: Time,
        grant: GrantId,
        out: &mut Vec<GateEffect>,
    ) -> Option<Deciding> {
        let deciding = self.deciding.remove(&grant)?;
        self.give_back(now, grant, out);
        Some(deciding)
    }

    /// Whoever waited for what came to nothing waits again, behind those who wait already: its
    /// place went with the grant.
    pub(in crate::core) fn wait_again(
        &mut self,
        now: Time,
        deciding: Deciding,
        out: &mut Vec<GateEffect>,
    ) {
        let Deciding { key, process, hold, weight, since, .. } = deciding;
        if key.is_some() {
            self.waiting.push_back(Waiter { key, weight, since, process, hold: Some(hold) });
            self.go_on(now, out);
        }
    }

    /// Who waits here for what the log is to hold, by their secrets.
    pub(in crate::core) fn holders_to_be(&self) -> BTreeMap<state::SecretHash, RequestKey> {
        let waiting =
            self.waiting.iter().filter_map(|waiter| Some((waiter.hold?.secret, waiter.key?)));
        let deciding = self.deciding.values().filter_map(|it| Some((it.hold.secret, it.key?)));
        waiting.chain(deciding).collect()
    }

    /// Whether somebody waits here for what the log is to hold.
    pub(in crate::core) fn has_holders_to_be(&self) -> bool {
        !self.deciding.is_empty() || self.waiting.iter().any(|waiter| waiter.hold.is_some())
    }

    /// Whoever waits by that request has got what it wants elsewhere.
    pub(in crate::core) fn served_otherwise(
        &mut self,
        now: Time,
        key: RequestKey,
        out: &mut Vec<GateEffect>,
    ) {
        self.withdraw(now, key, out);
    }

    /// What was being decided when this node stopped still is; nobody waits for it.
    pub(in crate::core) fn go_on_deciding(&mut self, deciding: Vec<(GrantId, Deciding)>) {
        self.deciding.extend(deciding);
    }
}
