//! The resource's half of fencing: the greatest fence per slot, and the rejection of older ones.
//!
//! A permit ends in time if clocks run at the expected rate and processes stop when they are
//! killed. A resource that checks fences depends on neither: it rejects every access under a fence
//! that is smaller than one it has seen for the same slot, however long the old holder was
//! suspended. It orders accesses slot by slot. It cannot reject an old holder before the next one
//! has made its first access.

use std::collections::BTreeMap;

/// The greatest fence seen for each slot of each gate. It belongs into the resource that permits
/// protect.
///
/// ```
/// use kgate_client::Fences;
///
/// let mut fences = Fences::default();
/// fences.check("gpu", &[0], 7)?;
/// fences.check("gpu", &[0], 9)?; // the next holder of slot 0
/// assert!(fences.check("gpu", &[0], 7).is_err()); // the former holder is late
/// # Ok::<(), kgate_client::StaleFence>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fences {
    greatest: BTreeMap<(String, u32), u128>,
}

/// The fence is older than one that was seen for the same slot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "stale fence {fence:032x}: slot {slot} of gate `{gate}` was used under {greatest:032x} since; \
    acquire a new permit"
)]
#[non_exhaustive]
pub struct StaleFence {
    /// The gate.
    pub gate: String,
    /// The slot that was used under a greater fence.
    pub slot: u32,
    /// The rejected fence.
    pub fence: u128,
    /// The greatest fence that was seen for the slot.
    pub greatest: u128,
}

impl Fences {
    /// Restores the state that [`Fences::iter`] listed.
    pub fn restore(stored: impl IntoIterator<Item = (String, u32, u128)>) -> Self {
        Self {
            greatest: stored.into_iter().map(|(gate, slot, fence)| ((gate, slot), fence)).collect(),
        }
    }

    /// Checks the fence of an access. If one of the slots was used under a greater fence, the
    /// access must be rejected, and nothing changes. Otherwise `fence` is the greatest now. **The
    /// caller must write the new state to stable storage before it makes the access.**
    pub fn check(&mut self, gate: &str, slots: &[u32], fence: u128) -> Result<(), StaleFence> {
        for slot in slots {
            let greatest = self.greatest.get(&(gate.to_owned(), *slot)).copied().unwrap_or(0);
            if fence < greatest {
                return Err(StaleFence { gate: gate.to_owned(), slot: *slot, fence, greatest });
            }
        }
        self.greatest.extend(slots.iter().map(|slot| ((gate.to_owned(), *slot), fence)));
        Ok(())
    }

    /// The state to store: gate, slot and greatest fence.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32, u128)> {
        self.greatest.iter().map(|((gate, slot), fence)| (gate.as_str(), *slot, *fence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A holder may access again and again; the former holder of its slot is rejected.
    #[test]
    fn stale_fences_are_rejected() {
        let mut fences = Fences::default();
        assert_eq!(fences.check("gpu", &[1], 7), Ok(()));
        assert_eq!(fences.check("gpu", &[1], 7), Ok(()));
        assert_eq!(fences.check("gpu", &[1], 9), Ok(()));
        let stale = fences.check("gpu", &[1], 7).unwrap_err();
        assert_eq!((stale.slot, stale.fence, stale.greatest), (1, 7, 9));
        assert_eq!(fences.check("gpu", &[0], 7), Ok(()), "another slot");
        assert_eq!(fences.check("cpu", &[1], 7), Ok(()), "another gate");
    }

    /// One stale slot of several rejects the access and changes no other slot.
    #[test]
    fn a_rejection_changes_nothing() {
        let mut fences = Fences::default();
        fences.check("gpu", &[2], 9).unwrap();
        let before = fences.clone();
        assert!(fences.check("gpu", &[0, 1, 2], 8).is_err());
        assert_eq!(fences, before);
        let stored: Vec<_> =
            fences.iter().map(|(gate, slot, fence)| (gate.to_owned(), slot, fence)).collect();
        assert_eq!(Fences::restore(stored), before);
    }
}
