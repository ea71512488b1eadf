//! Non-vacuity: at some time k were inside at once.
//!
//! Source: a checker that is never put to the test shows nothing. "At most k" (vcube-2018 section
//! 7.4, Lemma 7.1) holds of a gate that lets nobody in; and of one that lets in one at a time,
//! though k units are there to be used.
//!
//! Not checked: that k are inside whenever k want to be. A run in which few ask is correct and
//! never has k inside, so a driver tells this of a run and does not call it a violation; over all
//! schedules of the explorer it is one.

use kgate_core::Time;

use crate::Violation;

/// Remembers whether k were ever inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SometimesK {
    k: u32,
    most: usize,
}

impl SometimesK {
    /// The property's name.
    pub const NAME: &'static str = "sometimes k slots in use";
    /// The least that can be asked, of a system that does not promise to use all units at once.
    pub const SOMEBODY: &'static str = "sometimes a slot in use";

    /// Nobody was inside.
    pub fn new(k: u32) -> Self {
        Self { k, most: 0 }
    }

    /// So many are inside now.
    #[inline]
    pub fn see(&mut self, inside: usize) {
        self.most = self.most.max(inside);
    }

    /// What was seen so far does not count, for instance before a run has recovered from a fault.
    pub fn forget(&mut self) {
        self.most = 0;
    }

    /// Whether that many inside show it.
    pub fn shown(k: u32, inside: usize) -> bool {
        inside >= k as usize
    }

    /// Whether k were inside at some time.
    pub fn seen(&self) -> bool {
        Self::shown(self.k, self.most)
    }

    /// The verdict on all that was seen.
    pub fn verdict(&self, now: Time) -> Option<Violation> {
        (!self.seen()).then(|| Violation {
            property: Self::NAME,
            at_ns: now,
            nodes: Vec::new(),
            text: format!(
                "never more than {} were inside, k is {}: little was shown",
                self.most, self.k
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bug: a gate that lets in one at a time, though k is 2.
    #[test]
    fn catches_a_unit_that_is_never_used() {
        let mut checker = SometimesK::new(2);
        for inside in [1, 0, 1, 0] {
            checker.see(inside);
        }
        assert_eq!(checker.verdict(Time(9)).expect("never two").property, SometimesK::NAME);
        checker.see(2);
        checker.see(0);
        assert!(checker.seen() && checker.verdict(Time(9)).is_none());
    }
}
