//! What the world keeps of a process beside the process itself: its clients, which incarnation it
//! is alive, and how much it has been told.

use kgate_core::GrantId;
use smallvec::SmallVec;

/// The clients of a process, and what the world knows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// How often somebody has asked here, over all incarnations.
    pub asked: u8,
    /// How many changes of k this incarnation has heard of.
    pub resized: u8,
    /// Which incarnation this is: how often the process came back with nothing.
    pub incarnation: u8,
    /// The number under which the log has added this incarnation; 0 for the first one.
    pub added: u8,
    /// How many entries of the log this incarnation has been told.
    pub notified: u8,
    /// Who waits, in the order of asking: for how many units. The process may have forgotten that;
    /// the client has not.
    pub waiting: SmallVec<[u8; 8]>,
    /// Who is inside, by grant.
    pub inside: SmallVec<[Held; 1]>,
}

/// A grant in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// Its name.
    pub grant: GrantId,
    /// Its slots, a bit each; none where the protocol does not number them.
    pub slots: u32,
    /// How many units were asked for.
    pub weight: u8,
}

impl Held {
    /// Units of this grant that count where k is believed to be that: numbered ones beyond it are
    /// to be given back and never taken again.
    pub fn slots_in_use(&self, k: u32) -> u32 {
        match self.slots {
            0 => u32::from(self.weight),
            slots => (slots & below(k)).count_ones(),
        }
    }
}

/// The bits of all slots below k.
fn below(k: u32) -> u32 {
    1_u32.checked_shl(k).map_or(u32::MAX, |bit| bit - 1)
}

/// Numbered slots as bits; none if one has no place among them.
pub(crate) fn bits(slots: &[u32]) -> Option<u32> {
    slots.iter().try_fold(0, |bits, slot| Some(bits | 1_u32.checked_shl(*slot)?))
}

impl Client {
    /// Somebody goes in with what the first that waits has asked for.
    pub(crate) fn enter(&mut self, grant: GrantId, slots: u32) -> Held {
        let weight = if self.waiting.is_empty() { 1 } else { self.waiting.remove(0) };
        let held = Held { grant, slots, weight };
        let place = self.inside.partition_point(|other| *other < held);
        self.inside.insert(place, held);
        held
    }

    /// Whoever is inside by that grant comes out; false if nobody is.
    pub(crate) fn leave(&mut self, grant: GrantId) -> bool {
        let before = self.inside.len();
        self.inside.retain(|held| held.grant != grant);
        self.inside.len() < before
    }
}
