//! The table of a home: what it knows of each slot.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use kgate_core::{Incarnation, NodeId};
use serde::{Deserialize, Serialize};

use super::closing::{Closing, Last};
use super::grant::Grant;
use crate::slots::SlotSet;

/// What the home has written down for a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Slot {
    /// Somebody may have it whom the home has not heard of.
    Unknown,
    /// Nobody has it, for certain.
    Free {
        /// The member that had it last, in this term.
        last: NodeId,
    },
    /// A member has it, or is going to.
    Held(Holder),
}

/// Who has a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Holder {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) grant: Grant,
    /// The request that it was granted to.
    pub(super) ticket: Option<u64>,
    /// The version of the first assignment that says so; 0 if the member said so itself.
    pub(super) assignment: u64,
    /// Whether nobody else can have it.
    pub(super) sure: bool,
    /// Whether the member had these slots last.
    pub(super) keep: bool,
}

/// All slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Table {
    slots: BTreeMap<u32, Slot>,
    /// Whether slots without a line are free; otherwise they are unknown.
    rest_is_free: bool,
}

impl Table {
    /// Nothing is written down, and everything is free, or unknown.
    pub(super) fn new(rest_is_free: bool) -> Self {
        Self { slots: BTreeMap::new(), rest_is_free }
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(&slot)
    }

    pub(super) fn set(&mut self, slot: u32, what: Slot) {
        self.slots.insert(slot, what);
    }

    /// Who has the slot.
    pub(super) fn holder(&self, slot: u32) -> Option<&Holder> {
        match self.slots.get(&slot) {
            Some(Slot::Held(holder)) => Some(holder),
            Some(Slot::Unknown | Slot::Free { .. }) | None => None,
        }
    }

    /// Whether nobody can have the slot but by what is written down.
    pub(super) fn is_sure(&self, slot: u32) -> bool {
        match self.slots.get(&slot) {
            None => self.rest_is_free,
            Some(Slot::Unknown) => false,
            Some(Slot::Free { .. }) => true,
            Some(Slot::Held(holder)) => holder.sure,
        }
    }

    /// Whether the slot may be granted: free, and that for certain.
    fn is_free(&self, slot: u32) -> bool {
        match self.slots.get(&slot) {
            None => self.rest_is_free,
            Some(Slot::Free { .. }) => true,
            Some(Slot::Unknown | Slot::Held(_)) => false,
        }
    }

    /// Whether a claim to the slot by this grant counts: nothing is certain, and nothing greater is
    /// written down.
    pub(super) fn yields_to(&self, slot: u32, grant: Grant) -> bool {
        !self.is_sure(slot) && self.holder(slot).is_none_or(|holder| holder.grant < grant)
    }

    /// The lowest `count` free slots below k that are not reserved; `None` if there are too few.
    pub(super) fn lowest_free(&self, count: u32, k: u32, reserved: &[u32]) -> Option<SlotSet> {
        let free = |slot: &u32| self.is_free(*slot) && reserved.binary_search(slot).is_err();
        let lowest: Vec<u32> = (0..k).filter(free).take(count as usize).collect();
        (lowest.len() == count as usize).then(|| SlotSet::new(lowest.into()))
    }

    /// Whether this member had all these slots last.
    pub(super) fn was_last(&self, node: NodeId, slots: &SlotSet) -> bool {
        let was =
            |slot: &u32| matches!(self.get(*slot), Some(Slot::Free { last }) if *last == node);
        slots.as_slice().iter().all(was)
    }

    /// All holders with their slots.
    pub(super) fn holders(&self) -> impl Iterator<Item = (u32, &Holder)> + '_ {
        self.slots.iter().filter_map(|(slot, what)| match what {
            Slot::Held(holder) => Some((*slot, holder)),
            Slot::Unknown | Slot::Free { .. } => None,
        })
    }

    /// The holder of this slot has it no more: the slot is free if that is certain, else unknown.
    pub(super) fn end(&mut self, slot: u32, certain: bool) {
        if let Some(what @ Slot::Held(_)) = self.slots.get_mut(&slot)
            && let Slot::Held(holder) = what
        {
            let free = certain || holder.sure;
            *what = if free { Slot::Free { last: holder.node } } else { Slot::Unknown };
        }
    }

    /// Whether a slot may be held by somebody that the home has not heard of.
    pub(super) fn is_unsure(&self) -> bool {
        !self.rest_is_free || self.slots.keys().any(|slot| !self.is_sure(*slot))
    }

    /// Everybody who could have had a slot, but these, has said so: what is written down is
    /// certain, and the rest is free.
    pub(super) fn settle(&mut self, but: &[u32]) {
        let rest = but.iter().filter(|_| !self.rest_is_free);
        for slot in rest {
            self.slots.entry(*slot).or_insert(Slot::Unknown);
        }
        self.rest_is_free = true;
        self.slots.retain(|slot, what| {
            let certain = but.binary_search(slot).is_err();
            if let Slot::Held(holder) = what {
                holder.sure |= certain;
            }
            *what != Slot::Unknown || !certain
        });
    }

    /// Free slots at and above k need no line: they are the rest.
    pub(super) fn cut(&mut self, k: u32) {
        if self.rest_is_free {
            self.slots.retain(|slot, what| *slot < k || !matches!(what, Slot::Free { .. }));
        }
    }

    /// What this table leaves to the next home. `taken` tells whether the member has taken what
    /// came to it by an adoption.
    pub(super) fn close(&self, taken: impl Fn(&Holder) -> bool, unsure_is_free: bool) -> Closing {
        let last = |what: &Slot| match what {
            Slot::Unknown if unsure_is_free => Last::Free,
            Slot::Unknown => Last::Unknown,
            Slot::Free { .. } => Last::Free,
            Slot::Held(holder) if holder.sure && (holder.grant.attempt == 0 || taken(holder)) => {
                Last::Held(holder.node, holder.incarnation, holder.grant)
            }
            Slot::Held(_) if unsure_is_free => Last::Free,
            Slot::Held(_) => Last::Unknown,
        };
        let rest_is_free = self.rest_is_free || unsure_is_free;
        let slots = self.slots.iter().map(|(slot, what)| (*slot, last(what)));
        // What the rest is need not be listed.
        let rest = if rest_is_free { Last::Free } else { Last::Unknown };
        Closing { rest_is_free, slots: slots.filter(|(_, last)| *last != rest).collect() }
    }

    /// Takes over what the home of the term before was sure of, where this one is not. `find` tells
    /// what a former holder has said in this term.
    pub(super) fn take_over(
        &mut self,
        closing: &Closing,
        me: NodeId,
        find: impl Fn(NodeId, Incarnation) -> Found,
    ) {
        if closing.rest_is_free && !self.rest_is_free {
            let listed =
                |slot: &u32| closing.slots.binary_search_by_key(slot, |line| line.0).is_ok();
            for (slot, what) in &mut self.slots {
                let sure = match what {
                    Slot::Unknown => false,
                    Slot::Free { .. } => true,
                    Slot::Held(holder) => holder.sure,
                };
                if !sure && !listed(slot) {
                    *what = Slot::Free { last: me };
                }
            }
            for (slot, _) in &closing.slots {
                self.slots.entry(*slot).or_insert(Slot::Unknown);
            }
            self.rest_is_free = true;
        }
        for &(slot, last) in &closing.slots {
            if self.is_sure(slot) {
                continue;
            }
            match last {
                Last::Unknown => {}
                Last::Free => self.set(slot, Slot::Free { last: me }),
                Last::Held(node, incarnation, grant) => {
                    if let Some(Slot::Held(holder)) = self.slots.get_mut(&slot)
                        && holder.grant >= grant
                    {
                        // The same client, perhaps adopted since.
                        holder.sure = holder.grant.is_same(grant);
                        continue;
                    }
                    let holder = Holder {
                        node,
                        incarnation,
                        grant,
                        ticket: None,
                        assignment: 0,
                        sure: true,
                        keep: false,
                    };
                    match find(node, incarnation) {
                        Found::Silent => self.set(slot, Slot::Held(holder)),
                        Found::Gone => self.set(slot, Slot::Free { last: me }),
                    }
                }
            }
        }
    }
}

/// What a home knows of a member that the closing table names as a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It has said nothing in this term.
    Silent,
    /// It does not list the slot, or is no member any more.
    Gone,
}
