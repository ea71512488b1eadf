//! Numbers from a seed.

use kgate_core::split_mix64;

/// A SplitMix64 stream. The methods must not change what they draw: seeds that tests name were
/// found with these.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream that begins in this state.
    pub const fn new(state: u64) -> Self {
        Self(state)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        split_mix64(&mut self.0)
    }

    /// A number less than `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound.max(1)
    }

    /// A number from `least` to `most`, both included.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True with a probability of `chance` percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of `from`, which is not empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let chosen = usize::try_from(self.below(from.len() as u64)).expect("an index");
        from[chosen]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal states give equal streams; every number is within its bounds.
    #[test]
    fn streams_repeat_and_keep_their_bounds() {
        let (mut one, mut two) = (Rng::new(7), Rng::new(7));
        for _ in 0..1000 {
            assert_eq!(one.within(3, 9), two.within(3, 9));
            assert!((3..=9).contains(&one.within(3, 9)) && two.below(7) < 7);
        }
        assert!([4, 5].contains(&one.pick(&[4, 5])) && one.percent(100) && !one.percent(0));
        assert_eq!(one.below(0), 0);
    }
}
