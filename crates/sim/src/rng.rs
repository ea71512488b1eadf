//! The random number generator: small and our own, so that a seed means the same run in every
//! version.
//!
//! xoshiro256** (Blackman and Vigna 2018), seeded by SplitMix64. Each subsystem forks a stream of
//! its own, so that more samples in one do not change those of another.

use kgate_core::split_mix64;

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// The stream of `pair` in the run of `seed`: the same numbers whenever it is requested.
pub(crate) fn of_pair(seed: u64, pair: u64) -> Rng {
    let mut mixed = seed ^ split_mix64(&mut pair.wrapping_add(1));
    Rng { state: [(); 4].map(|()| split_mix64(&mut mixed)) }
}

impl Rng {
    /// The stream named `name` of `seed`.
    pub fn fork(seed: u64, name: &str) -> Self {
        let mut mixed = seed;
        for byte in name.bytes() {
            mixed = split_mix64(&mut mixed) ^ u64::from(byte);
        }
        Self { state: [(); 4].map(|()| split_mix64(&mut mixed)) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number below `bound`, which must not be 0. The bias is below bound/2^64.
    // The high half of a product of two 64-bit numbers has 64 bits.
    #[allow(clippy::cast_possible_truncation)]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        match (high - low).checked_add(1) {
            Some(width) => low + self.below(width),
            None => self.bits(),
        }
    }

    /// A number of mean 0 and deviation 1, approximately normal: the sum of twelve uniform samples,
    /// minus 6. It needs no logarithm, so it is the same on every machine; it lies within -6 .. 6.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// A number above 0 and at most 1, in steps of 2^-53.
    #[allow(clippy::cast_precision_loss)] // 53 bits fit.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored seed replays the same run in every later version: the stream is pinned.
    #[test]
    fn the_stream_of_a_seed_is_pinned() {
        let mut rng = Rng::fork(1, "latency");
        let samples: Vec<u64> = (0..3).map(|_| rng.below(1000)).collect();
        assert_eq!(samples, [503, 330, 442]);
        assert_ne!(Rng::fork(1, "faults").bits(), Rng::fork(1, "latency").bits());
        assert_ne!(Rng::fork(2, "latency").bits(), Rng::fork(1, "latency").bits());
    }

    /// The normal samples have mean 0 and deviation 1.
    #[test]
    fn normal_has_its_moments() {
        let mut rng = Rng::fork(4, "test");
        let samples: Vec<f64> = (0..100_000).map(|_| rng.normal()).collect();
        let mean = samples.iter().sum::<f64>() / 1e5;
        let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    /// Samples stay within their bounds and reach both ends.
    #[test]
    fn within_includes_both_ends() {
        let mut rng = Rng::fork(3, "test");
        let samples: Vec<u64> = (0..200).map(|_| rng.within(5, 8)).collect();
        assert_eq!((samples.iter().min(), samples.iter().max()), (Some(&5), Some(&8)));
        assert!((0..1000).map(|_| rng.unit()).all(|u| u > 0.0 && u <= 1.0));
        rng.within(0, u64::MAX);
    }
}
