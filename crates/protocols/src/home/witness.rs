//! Witness: what is free survives the home (H21, an option).
//!
//! A new home hears from every founder of its term but the one that it succeeds, if that has died.
//! What clients of that node have, nobody else knows; so every slot that is not accounted for waits
//! for its eviction, though most of them are free.
//!
//! The **witness** is the member that will be home next. A home with its witness is a **period**
//! ([`kgate_core::Directory::witness`]). At the beginning of a period, and whenever the set grows,
//! the home sends it a *note*: the slots that clients of the home itself may have. Until the
//! witness has acknowledged that, the home does not tell itself of a slot that it was not known to
//! have in this period: no client of it is let in and no adoption taken. The witness acknowledges
//! notes of the present period only. So when it has applied the end of the period, no client of the
//! former home will ever have a slot outside of its note. Once all other founders have reported,
//! those slots are sure. The ones in the note wait for the former home's report, or its eviction.
//!
//! What the home was not told counts for nothing: after a change of term its requests are reported
//! again, and its adoption requests too. Only the note of exactly the last period counts, so a
//! successor that has applied several changes at once uses none.
//!
//! Cost: a note and its acknowledgement when the home uses a slot for the first time in a period,
//! and two delays. A note leaves out what the home has no more, but none is sent for that reason.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use kgate_core::{Incarnation, LogView, NodeId, Placement, Term};
use serde::{Deserialize, Serialize};

use super::coordinator::Coordinator;
use super::defects::{H21_ADOPTED, H21_EARLY, H21_LAST, H21_NOTED, H21_PERIOD};
use super::grant::Grant;
use super::member::Member;
use super::message::{Head, Held, HomeMessage, Note, Noted};
use super::table::{Holder, Slot};
use super::{Home, Out};
use crate::slots::SlotSet;

/// The version of an assignment that is not to be sent yet.
const PENDING: u64 = u64::MAX;

/// Whether the holder is the home, and its witness does not know it yet.
pub(super) fn is_pending(holder: &Holder) -> bool {
    holder.assignment == PENDING
}

/// What the home has told its witness in this period.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Notes {
    witness: Placement,
    version: u64,
    acked: u64,
    due: bool,
    /// The slots of the newest note, each with the version since which all notes contain it.
    slots: BTreeMap<u32, u64>,
}

impl Notes {
    /// The witness, if it may lack the newest note.
    pub(super) fn unacknowledged(&self) -> Option<NodeId> {
        (self.version > self.acked).then_some(self.witness.node)
    }

    fn covers(&self, slot: u32) -> bool {
        self.slots.get(&slot).is_some_and(|since| *since <= self.acked)
    }
}

/// What the witness has been told.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Known {
    period: Term,
    version: u64,
    slots: SlotSet,
}

/// What a new home knows of the one that it succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Former {
    node: NodeId,
    incarnation: Incarnation,
    /// Its clients may have these slots, and no others.
    slots: SlotSet,
}

impl Former {
    pub(super) fn is(&self, (node, incarnation): (NodeId, Incarnation)) -> bool {
        (self.node, self.incarnation) == (node, incarnation)
    }

    pub(super) fn slots(&self) -> &[u32] {
        self.slots.as_slice()
    }
}

impl Coordinator {
    /// The version of the assignment that tells this member of new slots.
    pub(super) fn announce(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        adopted: bool,
    ) -> u64 {
        let now = self.defects.has(if adopted { H21_ADOPTED } else { H21_EARLY });
        if node == self.me && self.notes.is_some() && !now {
            return PENDING;
        }
        self.peer(node, incarnation).tell()
    }

    /// Whether this is granted to a client of the home, and the witness does not know it yet.
    pub(super) fn has_pending(&self, held: &Held) -> bool {
        let pending = |slot: &u32| {
            let holder = self.table.holder(*slot);
            holder.is_some_and(|holder| is_pending(holder) && holder.grant == held.grant)
        };
        held.slots.as_slice().iter().all(pending)
    }

    /// Follows what clients here may have: makes a note of it, and announces what the witness
    /// knows.
    pub(super) fn follow_own(&mut self, witness: Option<Placement>, member: &Member) {
        if !self.options.witness {
            return;
        }
        let of_table = self.table.holders().filter(|(_, holder)| holder.node == self.me);
        let mut own: Vec<u32> = of_table.map(|(slot, _)| slot).collect();
        // Also what is written down for another who adopts it: until then its client is here.
        own.extend(member.holds.iter().flat_map(|hold| hold.slots.as_slice()));
        if self.notes.as_ref().map(|notes| notes.witness) != witness {
            self.notes = witness.map(|witness| Notes {
                witness,
                version: 1,
                acked: 0,
                due: true,
                slots: own.iter().map(|slot| (*slot, 1)).collect(),
            });
        }
        if let Some(notes) = &mut self.notes
            && own.iter().any(|slot| !notes.slots.contains_key(slot))
        {
            (notes.version, notes.due) = (notes.version + 1, true);
            notes.slots.retain(|slot, _| own.contains(slot));
            for slot in own {
                notes.slots.entry(slot).or_insert(notes.version);
            }
        }
        self.announce_known();
    }

    /// Announces what is pending once the witness knows all of it: clients here are let in in their
    /// order.
    fn announce_known(&mut self) {
        let pending = self.table.holders().filter(|(_, holder)| is_pending(holder));
        let pending: Vec<u32> = pending.map(|(slot, _)| slot).collect();
        // What was asked for and is another's now must be refused.
        let grants = pending.iter().filter_map(|slot| self.table.holder(*slot));
        let grants: Vec<Grant> = grants.map(|holder| holder.grant).collect();
        let gone = self.pending.iter().any(|grant| !grants.contains(grant));
        self.pending = grants;
        if gone {
            self.peer(self.me, self.incarnation).tell();
        }
        let known = |slot: &u32| self.notes.as_ref().is_none_or(|notes| notes.covers(*slot));
        if !pending.iter().all(known) {
            return;
        }
        self.pending.clear();
        for slot in pending {
            let Some(mut holder) = self.table.holder(slot).cloned() else { continue };
            holder.assignment = self.peer(holder.node, holder.incarnation).tell();
            self.table.set(slot, Slot::Held(holder));
        }
    }

    /// The note that must be sent, and its receiver.
    pub(super) fn next_note(&mut self, log: &LogView) -> Option<(NodeId, Note)> {
        let (term, from) = (self.term, self.incarnation);
        let notes = self.notes.as_mut().filter(|notes| notes.due)?;
        notes.due = false;
        let Placement { node, incarnation: to, term: period } = notes.witness;
        let slots: Vec<u32> = notes.slots.keys().copied().collect();
        let head = Head { term, from, to, index: log.index, path: None };
        let slots = SlotSet::new(slots.into());
        Some((node, Note { head, period, version: notes.version, slots }))
    }

    pub(super) fn repeat_note(&mut self) {
        if let Some(notes) = &mut self.notes {
            notes.due |= notes.unacknowledged().is_some();
        }
    }

    /// The witness has this note.
    pub(super) fn on_noted(&mut self, from: NodeId, noted: &Noted) {
        let period = |notes: &&mut Notes| {
            let other = self.defects.has(H21_PERIOD);
            notes.witness.node == from && (notes.witness.term == noted.period || other)
        };
        if let Some(notes) = self.notes.as_mut().filter(period) {
            notes.acked = notes.acked.max(noted.version.min(notes.version));
        }
    }
}

impl Home {
    /// A note of the home to its witness, which answers that it has it.
    pub(super) fn on_note(&mut self, from: NodeId, note: Note, out: &mut Out) {
        let me = |witness: &Placement| {
            witness.node == self.me
                && witness.incarnation == self.incarnation
                && witness.term == note.period
        };
        let is_present = self.witness.as_ref().is_some_and(me)
            && self.home.is_some_and(|home| home.node == from && home.term == note.head.term);
        if !is_present && !self.defects.has(H21_PERIOD) {
            return;
        }
        let Note { head, period, version, slots } = note;
        let newer = |known: &Known| (known.period, known.version) < (period, version);
        if self.known.as_deref().is_none_or(newer) {
            self.known = Some(Box::new(Known { period, version, slots }));
        }
        let (term, index) = (head.term, self.log.index);
        let head = Head { term, from: head.to, to: head.from, index, path: None };
        let noted = HomeMessage::Noted(Noted { head, period, version }.into());
        self.links.send(self.me, from, noted, out);
    }

    /// This process becomes home: what it knows of the former home's clients, if it was its witness
    /// until now.
    pub(super) fn take_note(
        &mut self,
        home: Option<Placement>,
        witness: Option<Placement>,
        successive: bool,
    ) -> Option<Former> {
        let known = self.known.take()?;
        let Placement { node, incarnation, .. } = home?;
        let was_me = |witness: Placement| {
            (witness.node, witness.incarnation) == (self.me, self.incarnation)
                && witness.term == known.period
        };
        let counts = successive && witness.is_some_and(was_me) || self.defects.has(H21_LAST);
        let slots = if self.defects.has(H21_NOTED) { SlotSet::default() } else { known.slots };
        counts.then_some(Former { node, incarnation, slots })
    }
}
