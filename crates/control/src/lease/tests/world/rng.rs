//! Numbers from a seed (splitmix64).

pub(in crate::lease::tests) struct Rng(u64);

impl Rng {
    pub(in crate::lease::tests) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x5851_F42D_4C95_7F2D)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Less than that.
    pub(in crate::lease::tests) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// In so many cases of a hundred.
    pub(in crate::lease::tests) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub(in crate::lease::tests) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let chosen = usize::try_from(self.below(from.len() as u64)).expect("short");
        from[chosen]
    }
}
