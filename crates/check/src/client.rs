//! What the model keeps of a process besides the process itself: its clients, its incarnation, and
//! its pending notifications.

use kgate_core::GrantId;
use smallvec::SmallVec;

/// The clients of a process, and the model's record of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// The requests issued here, over all incarnations.
    pub asked: u8,
    /// The changes of k that this incarnation was notified of.
    pub resized: u8,
    /// The incarnation: the number of restarts without state.
    pub incarnation: u8,
    /// The number under which the log added this incarnation; 0 for the first one.
    pub added: u8,
    /// The log entries that this incarnation was notified of.
    pub notified: u8,
    /// The weights of waiting requests, in the order of asking. The process may have lost a
    /// request; the client has not.
    pub waiting: SmallVec<[u8; 8]>,
    /// The grants in use, sorted.
    pub inside: SmallVec<[Held; 1]>,
}

/// A grant in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// The id of the grant.
    pub grant: GrantId,
    /// The slots, one bit each; 0 where the protocol does not number them.
    pub slots: u32,
    /// The weight of the request.
    pub weight: u8,
}

impl Held {
    /// The slots of this grant that count for a process that believes in this k: numbered slots
    /// beyond k will be returned and never granted again.
    pub fn slots_in_use(&self, k: u32) -> u32 {
        match self.slots {
            0 => u32::from(self.weight),
            slots => (slots & below(k)).count_ones(),
        }
    }
}

/// The bits of all slots below k.
pub(crate) fn below(k: u32) -> u32 {
    1_u32.checked_shl(k).map_or(u32::MAX, |bit| bit - 1)
}

/// Numbered slots as bits; none if a number has no bit.
pub(crate) fn bits(slots: &[u32]) -> Option<u32> {
    slots.iter().try_fold(0, |bits, slot| Some(bits | 1_u32.checked_shl(*slot)?))
}

impl Client {
    /// Grants the first waiting request.
    pub(crate) fn enter(&mut self, grant: GrantId, slots: u32) -> Held {
        let weight = if self.waiting.is_empty() { 1 } else { self.waiting.remove(0) };
        let held = Held { grant, slots, weight };
        let place = self.inside.partition_point(|other| *other < held);
        self.inside.insert(place, held);
        held
    }

    /// Ends a grant; false if it is not in use.
    pub(crate) fn leave(&mut self, grant: GrantId) -> bool {
        let before = self.inside.len();
        self.inside.retain(|held| held.grant != grant);
        self.inside.len() < before
    }
}
