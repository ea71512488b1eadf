//! Grants that the log must hold (docs/internals/slots.md, "Slots that the log holds").
//!
//! The protocol has granted, and the client has not been notified. The grant must not be returned
//! for any reason until the log has decided: an entry that holds its slots may be on its way, and
//! returned slots could be granted to another client.

use std::collections::BTreeMap;
use std::sync::Arc;

use kgate_control::state;
use kgate_core::{Fence, GrantId, Input, Span, Time};
use serde::{Deserialize, Serialize};

use super::{Gate, GateEffect, Waiter};
use crate::core::RequestKey;
use crate::core::view::{Process, age};

/// The requested properties of a durable permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurableSpec {
    /// The hash of the secret that the holder will show.
    pub secret: state::SecretHash,
    /// The time to live; none if the permit does not expire.
    pub ttl: Option<Span>,
}

/// A grant that the log must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::core) struct UndecidedGrant {
    /// The request that waits for it. None once that request is withdrawn: then the permit is
    /// released as soon as the log holds it.
    #[serde(skip)]
    pub(in crate::core) key: Option<RequestKey>,
    pub(in crate::core) slots: Vec<u32>,
    pub(in crate::core) fence: Fence,
    pub(in crate::core) process: Process,
    pub(in crate::core) hold: DurableSpec,
    pub(super) weight: u32,
    pub(super) since: Time,
}

impl Gate {
    /// The protocol granted something that the log must hold.
    pub(super) fn await_decision(&mut self, grant: GrantId, undecided: UndecidedGrant) {
        self.undecided.insert(grant, undecided);
        self.effects.push(GateEffect::Decided(grant));
    }

    /// The request is withdrawn. Returns whether it waits for a decision of the log here.
    pub(super) fn abandon(&mut self, key: RequestKey) -> bool {
        let found = self.undecided.values_mut().find(|grant| grant.key == Some(key));
        found.map(|undecided| undecided.key = None).is_some()
    }

    /// All grants that wait for a decision of the log.
    pub(in crate::core) fn undecided(&self) -> impl Iterator<Item = (GrantId, &UndecidedGrant)> {
        self.undecided.iter().map(|(grant, undecided)| (*grant, undecided))
    }

    /// The log holds exactly these slots.
    pub(in crate::core) fn reserve(&mut self, slots: Vec<u32>) {
        if self.follows_log {
            return;
        }
        self.drive(Input::Reserved(slots.into())).expect("a protocol with slots knows the log");
        self.submit_more();
    }

    /// The log holds the permit and its slots are reserved here, so the grant is returned to the
    /// protocol.
    pub(in crate::core) fn decided_held(&mut self, grant: GrantId) -> Option<UndecidedGrant> {
        let undecided = self.decided_rejected(grant)?;
        self.counters.grants += 1;
        let waited = age(self.now, undecided.since);
        self.counters.longest_wait = self.counters.longest_wait.max(waited);
        Some(undecided)
    }

    /// The log has decided not to hold the permit, so the grant is returned to the protocol.
    pub(in crate::core) fn decided_rejected(&mut self, grant: GrantId) -> Option<UndecidedGrant> {
        let undecided = self.undecided.remove(&grant)?;
        self.return_grant(grant);
        Some(undecided)
    }

    /// The request of a rejected grant queues again, behind the requests that wait already: its
    /// place went with the grant.
    pub(in crate::core) fn requeue(&mut self, undecided: UndecidedGrant) {
        let UndecidedGrant { key, process, hold, weight, since, .. } = undecided;
        let process = Arc::new(process);
        if key.is_some() {
            self.waiting.push_back(Waiter { key, weight, since, process, hold: Some(hold) });
            self.submit_more();
        }
    }

    /// The requests for durable permits that wait here, by their secrets.
    pub(in crate::core) fn durable_waiters(&self) -> BTreeMap<state::SecretHash, RequestKey> {
        let waiting =
            self.waiting.iter().filter_map(|waiter| Some((waiter.hold?.secret, waiter.key?)));
        let undecided =
            self.undecided.values().filter_map(|grant| Some((grant.hold.secret, grant.key?)));
        waiting.chain(undecided).collect()
    }

    /// Whether a request for a durable permit waits here.
    pub(in crate::core) fn has_durable_waiters(&self) -> bool {
        !self.undecided.is_empty() || self.waiting.iter().any(|waiter| waiter.hold.is_some())
    }

    /// Restores the grants that were undecided when this node stopped. No request waits for them.
    pub(in crate::core) fn resume_undecided(&mut self, grants: Vec<(GrantId, UndecidedGrant)>) {
        self.undecided.extend(grants);
    }
}
