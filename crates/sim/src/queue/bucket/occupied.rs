//! A set of bucket indices: one bit per index, and one bit per word of those, so that the next
//! member is found in a handful of instructions however sparse the ring is.

use super::RING;

const WORDS: usize = RING / 64;
const _: () = assert!(WORDS <= 64, "one word sums them up");

/// The buckets of the ring that have entries.
#[derive(Clone, Debug)]
pub(super) struct Occupied {
    words: [u64; WORDS],
    /// The words that are not zero.
    summary: u64,
}

impl Default for Occupied {
    fn default() -> Self {
        Self { words: [0; WORDS], summary: 0 }
    }
}

impl Occupied {
    #[inline]
    pub(super) fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
        self.summary |= 1 << (index / 64);
    }

    pub(super) fn remove(&mut self, index: usize) {
        let word = &mut self.words[index / 64];
        *word &= !(1 << (index % 64));
        if *word == 0 {
            self.summary &= !(1 << (index / 64));
        }
    }

    /// The first member from `start` on, wrapping around the ring.
    pub(super) fn next(&self, start: usize) -> Option<usize> {
        let rest = self.words[start / 64] >> (start % 64);
        if rest != 0 {
            return Some(start + rest.trailing_zeros() as usize);
        }
        let later = self.summary & (!1 << (start / 64));
        let words = if later != 0 { later } else { self.summary };
        let word = words.trailing_zeros() as usize;
        (words != 0).then(|| word * 64 + self.words[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every member is found from every start: members behind the start first, then from the
    /// beginning.
    #[test]
    fn next_wraps_around() {
        let members = [0, 1, 63, 64, 1000, 2047, RING - 1];
        let mut set = Occupied::default();
        assert_eq!(set.next(5), None);
        members.iter().for_each(|&member| set.insert(member));
        for start in 0..RING {
            assert_eq!(
                set.next(start),
                members.iter().copied().find(|&m| m >= start).or(Some(0)),
                "{start}"
            );
        }
        for (gone, &member) in members.iter().enumerate() {
            set.remove(member);
            assert_eq!(set.next(member), members.get(gone + 1).copied());
        }
    }
}
