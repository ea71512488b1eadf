//! Non-vacuity: at some time all k slots are in use.
//!
//! Source: a checker that is never put to the test shows nothing. "At most k" (vcube-2018 section
//! 7.4, Lemma 7.1) also holds for a gate that never grants, and for one that grants one slot at a
//! time although there are k.
//!
//! Not checked: that k slots are in use whenever k are requested. A run with few requests is
//! correct without using all k slots, so a driver reports this of a run but does not call it a
//! violation. Over all schedules of the model checker it is one.

use kgate_core::Time;

use crate::Violation;

/// Keeps the greatest number of slots in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SometimesK {
    k: u32,
    most: usize,
}

impl SometimesK {
    /// The property's name.
    pub const NAME: &'static str = "sometimes k slots in use";
    /// The weaker property for a protocol that does not promise to use all slots at once.
    pub const SOMEBODY: &'static str = "sometimes a slot in use";

    /// A checker that has seen no slot in use.
    pub fn new(k: u32) -> Self {
        Self { k, most: 0 }
    }

    /// `in_use` slots are in use now.
    #[inline]
    pub fn see(&mut self, in_use: usize) {
        self.most = self.most.max(in_use);
    }

    /// Starts anew, for example when a run has recovered from a fault.
    pub fn forget(&mut self) {
        self.most = 0;
    }

    /// Whether `in_use` slots satisfy the property.
    pub fn shown(k: u32, in_use: usize) -> bool {
        in_use >= k as usize
    }

    /// Whether all k slots were in use at some time.
    pub fn seen(&self) -> bool {
        Self::shown(self.k, self.most)
    }

    /// The verdict on the whole run.
    pub fn verdict(&self, now: Time) -> Option<Violation> {
        (!self.seen()).then(|| Violation {
            property: Self::NAME,
            at_ns: now,
            nodes: Vec::new(),
            text: format!(
                "never more than {} slots in use, k is {}: this run shows little",
                self.most, self.k
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bug: a gate that grants one slot at a time, although k is 2.
    #[test]
    fn catches_a_slot_that_is_never_used() {
        let mut checker = SometimesK::new(2);
        for in_use in [1, 0, 1, 0] {
            checker.see(in_use);
        }
        assert_eq!(checker.verdict(Time(9)).expect("never two").property, SometimesK::NAME);
        checker.see(2);
        checker.see(0);
        assert!(checker.seen() && checker.verdict(Time(9)).is_none());
    }
}
