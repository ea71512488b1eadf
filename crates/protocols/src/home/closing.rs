//! The closing table: what the home of a term was sure of when the term ended (H8).
//!
//! It spares the next home the claims of silent members: a clean change of home needs one message.
//! Slots that the old home was not sure of are left out, and so is an adoption that it has not seen
//! taken, because the client may still be at the node that it asked to leave.

use alloc::vec::Vec;

use kgate_core::{Incarnation, NodeId, Term};
use serde::{Deserialize, Serialize};

use super::grant::Grant;

/// The closing table of a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Closing {
    /// Whether slots that are not listed are free; otherwise they are unknown.
    pub rest_is_free: bool,
    /// In ascending order of slots: the holder, free, or unknown.
    pub slots: Vec<(u32, Last)>,
}

/// What the home of a term knew of a slot at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Last {
    /// Somebody may have it.
    Unknown,
    /// Nobody has it.
    Free,
    /// Only this incarnation of this node can have it, by this grant.
    Held(NodeId, Incarnation, Grant),
}

impl Closing {
    /// This slot, which is listed unless it is unknown, is unknown.
    pub(super) fn forget(&mut self, slot: u32) {
        let Ok(place) = self.slots.binary_search_by_key(&slot, |line| line.0) else { return };
        if self.rest_is_free {
            self.slots[place].1 = Last::Unknown;
        } else {
            self.slots.remove(place);
        }
    }

    /// Whether a home of the term before `term` can have sent it.
    pub(super) fn is_sound(&self, term: Term) -> bool {
        let earlier = |last: &Last| match last {
            Last::Unknown | Last::Free => true,
            Last::Held(_, _, grant) => grant.term < term,
        };
        self.slots.is_sorted_by(|a, b| a.0 < b.0)
            && self.slots.iter().all(|(_, last)| earlier(last))
    }
}
