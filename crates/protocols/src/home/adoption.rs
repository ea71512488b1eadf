//! Adoption, as the node that a client asks sees it (H11).
//!
//! A client inside at a node p that has fallen silent asks another node. Its node reports the
//! request, the home moves the slots to it, and the assignment that says so brings them here. Until
//! the client confirms, it still believes by p, and p still lists the slots: a greater attempt
//! outranks that.
//!
//! Three rules look superfluous and are not. An adoption request goes out only after every log
//! entry that p had applied when it let the client in: in an older term the slots may be another's.
//! What an assignment lists is taken before adoption requests are refused, and by any attempt up to
//! the latest: an earlier one of the same client may be on its way. And one grant is listed once,
//! by its latest attempt.

use kgate_core::{Adoption, Defects, Fence, GrantId, LogIndex, Notice, Refusal};
use serde::{Deserialize, Serialize};

use super::defects::{H11_LATEST, H11_PAST, H11_TWO};
use super::grant::Grant;
use super::member::{Hold, Usage};
use super::message::{AdoptionRequest, Held, Line};
use super::{Home, Out};
use crate::slots::SlotSet;

/// An adoption request that was not answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct PendingAdoption {
    pub(super) message: AdoptionRequest,
    fence: Fence,
    after: LogIndex,
    /// The version of the first report of this term that contains it.
    pub(super) since: Option<u64>,
}

impl PendingAdoption {
    fn grant(&self) -> Grant {
        self.message.held.grant
    }

    /// Whether all has been applied here that the client's node had applied. That the term of the
    /// grant has come is not enough: the client may have been adopted in a later one.
    pub(super) fn may_go(&self, index: LogIndex, defects: Defects) -> bool {
        self.after <= index || defects.has(H11_PAST)
    }

    pub(super) fn refuse(&self, out: &mut Out) {
        let (fence, attempt) = (self.fence, self.grant().attempt);
        out.notify(Notice::AdoptionRefused { fence, attempt });
    }
}

impl Home {
    pub(super) fn on_adopt(&mut self, adoption: Adoption, out: &mut Out) -> Result<(), Refusal> {
        let Adoption { slots, fence, attempt, from, incarnation, after } = adoption;
        let slots = SlotSet::new(slots);
        let grant = Grant::of_fence(fence, attempt).filter(|_| attempt > 0);
        let (Some(grant), true, false) = (grant, slots.is_sound(), slots.is_empty()) else {
            return Err(Refusal::Malformed("an adoption of what cannot have been granted"));
        };
        if from.0 >= Fence::NODES {
            return Err(Refusal::UnknownNode(from));
        }
        let message = AdoptionRequest { held: Held { slots, grant }, from, incarnation };
        let asked = PendingAdoption { message, fence, after, since: None };
        let is_later = |other: Grant| other.is_same(grant) && other.attempt >= attempt;
        let is_late = self.member.asks.iter().any(|ask| is_later(ask.grant()))
            || self.member.holds.iter().any(|hold| is_later(hold.grant));
        if !self.is_member || is_late {
            asked.refuse(out);
            return Ok(());
        }
        self.member.asks.retain(|ask| !ask.grant().is_same(grant));
        self.member.asks.push(asked);
        self.member.report();
        Ok(())
    }

    /// The client goes on by this node (H17: only with a lease at this instant).
    pub(super) fn on_confirm(&mut self, id: GrantId) -> Result<(), Refusal> {
        let lease = self.has_lease();
        let unconfirmed = Usage::Unconfirmed(id);
        let hold = self.member.holds.iter_mut().find(|hold| hold.usage == unconfirmed);
        let hold = hold.ok_or(Refusal::NoSuchRequest)?;
        if self.member.asks.iter().any(|ask| ask.grant().is_same(hold.grant)) {
            return Err(Refusal::Unconfirmed("the client has asked again since"));
        }
        if !lease {
            return Err(Refusal::Unconfirmed("this node has no lease"));
        }
        hold.usage = Usage::Client(id);
        Ok(())
    }

    /// Takes a line of an assignment that is no fresh grant: known here, or asked for. False if
    /// neither, which the home must know.
    pub(super) fn adopt(&mut self, held: &Held, out: &mut Out) -> bool {
        let Held { slots, grant } = held;
        let known = |hold: &Hold| hold.grant.is_same(*grant) && hold.grant.attempt >= grant.attempt;
        if self.member.holds.iter().any(known) {
            return true;
        }
        let latest_only = self.defects.has(H11_LATEST);
        let asks_for = |ask: &PendingAdoption| {
            ask.grant().is_same(*grant)
                && if latest_only {
                    ask.grant().attempt == grant.attempt
                } else {
                    ask.grant().attempt >= grant.attempt
                }
                && ask.message.held.slots == *slots
        };
        let Some(ask) = self.member.asks.iter().find(|ask| asks_for(ask)) else { return false };
        let (fence, attempt) = (ask.fence, grant.attempt);
        if !self.defects.has(H11_TWO) {
            self.member.holds.retain(|hold| !hold.grant.is_same(*grant));
        }
        let id = self.next_grant();
        self.member.holds.push(Hold {
            slots: slots.clone(),
            grant: *grant,
            count: fence.count(),
            passed: 0,
            keep: false,
            next: None,
            usage: Usage::Unconfirmed(id),
        });
        self.member.changed = true;
        self.member.asks.retain(|ask| ask.grant() != *grant);
        out.notify(Notice::Adopted { grant: id, fence, attempt });
        true
    }

    /// The adoption requests that the home has heard of, and has not granted, are refused.
    pub(super) fn settle_asks(&mut self, lines: &[Line], acked: u64, out: &mut Out) {
        // A part of the slots is not what was asked for: the rest has been granted to others since.
        let listed = |ask: &PendingAdoption| lines.iter().any(|line| line.held == ask.message.held);
        // H21: the home has taken it, and does not tell itself yet.
        let coordinator = self.coordinator.as_ref();
        let pending = |ask: &PendingAdoption| {
            coordinator.is_some_and(|home| home.has_pending(&ask.message.held))
        };
        self.member.asks.retain(|ask| {
            let heard = ask.since.is_some_and(|since| since <= acked);
            let refused = heard && !listed(ask) && !pending(ask);
            if refused {
                ask.refuse(out);
            }
            !refused
        });
    }

    /// Whether an adoption request has waited for the log, and may go out now.
    pub(super) fn has_ripe_ask(&self) -> bool {
        let ripe =
            |ask: &PendingAdoption| ask.since.is_none() && ask.may_go(self.log.index, self.defects);
        self.member.asks.iter().any(ripe)
    }
}
