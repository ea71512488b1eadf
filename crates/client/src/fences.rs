//! The other half of a fence: what the guarded resource keeps, and whom it refuses.
//!
//! A permit ends in time if clocks run at a fair rate and processes stop when they are killed. A
//! resource that looks at fences needs neither: whoever comes after a later holder of its slot is
//! refused, however long it slept. It orders accesses slot by slot; it does not keep a late holder
//! out before the next one has come for the first time.

use std::collections::BTreeMap;

/// The greatest fence that was shown for each slot of each gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fences {
    greatest: BTreeMap<(String, u32), u128>,
}

/// Somebody came too late.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "slot {slot} of gate `{gate}` was used under the later fence {greatest:032x}: the permit with fence {shown:032x} is over, ask for a new one"
)]
pub struct Stale {
    /// Of which gate.
    pub gate: String,
    /// Which of the slots that were shown.
    pub slot: u32,
    /// The fence that was shown.
    pub shown: u128,
    /// The one that was seen before.
    pub greatest: u128,
}

impl Fences {
    /// What was kept from before, by [`Fences::iter`].
    pub fn restore(kept: impl IntoIterator<Item = (String, u32, u128)>) -> Self {
        Self {
            greatest: kept.into_iter().map(|(gate, slot, fence)| ((gate, slot), fence)).collect(),
        }
    }

    /// Somebody shows its permit. If one of its slots has been used under a greater fence, it is
    /// refused and nothing changes; else what it showed is the greatest now, **to be kept on stable
    /// storage before the access is made**.
    pub fn check(&mut self, gate: &str, slots: &[u32], fence: u128) -> Result<(), Stale> {
        for slot in slots {
            let greatest = self.greatest.get(&(gate.to_owned(), *slot)).copied().unwrap_or(0);
            if fence < greatest {
                return Err(Stale { gate: gate.to_owned(), slot: *slot, shown: fence, greatest });
            }
        }
        self.greatest.extend(slots.iter().map(|slot| ((gate.to_owned(), *slot), fence)));
        Ok(())
    }

    /// All that must be kept: gate, slot and the greatest fence.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32, u128)> {
        self.greatest.iter().map(|((gate, slot), fence)| (gate.as_str(), *slot, *fence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same holder comes again and again; whoever had its slot before does not.
    #[test]
    fn late_ones_are_refused() {
        let mut fences = Fences::default();
        assert_eq!(fences.check("gpu", &[1], 7), Ok(()));
        assert_eq!(fences.check("gpu", &[1], 7), Ok(()));
        assert_eq!(fences.check("gpu", &[1], 9), Ok(()));
        let stale = fences.check("gpu", &[1], 7).unwrap_err();
        assert_eq!((stale.slot, stale.shown, stale.greatest), (1, 7, 9));
        assert_eq!(fences.check("gpu", &[0], 7), Ok(()), "another slot is another matter");
        assert_eq!(fences.check("cpu", &[1], 7), Ok(()), "and so is another gate");
    }

    /// One late slot of several refuses all, and is no reason to change the others.
    #[test]
    fn a_refusal_changes_nothing() {
        let mut fences = Fences::default();
        fences.check("gpu", &[2], 9).unwrap();
        let before = fences.clone();
        assert!(fences.check("gpu", &[0, 1, 2], 8).is_err());
        assert_eq!(fences, before);
        let kept: Vec<_> =
            fences.iter().map(|(gate, slot, fence)| (gate.to_owned(), slot, fence)).collect();
        assert_eq!(Fences::restore(kept), before);
    }
}
