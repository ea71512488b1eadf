//! The hash of a run, over every event in order with its time.

use std::hash::{Hash, Hasher};

/// A fast hash with fixed constants. It detects that two runs differ; it does not withstand an
/// adversary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunHash(u64);

impl RunHash {
    pub(crate) fn new() -> Self {
        Self(0x6b67_6174_6500_0001) // "kgate", version 1.
    }

    #[inline]
    pub(crate) fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Adds three words at once: only the last step waits for what was added before.
    #[inline]
    pub(crate) fn add_three(&mut self, first: u64, second: u64, third: u64) {
        let first = first.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let second = second.wrapping_mul(0x94d0_49bb_1331_11eb);
        self.add(first ^ second.rotate_left(17) ^ third);
    }

    /// The hash of one value on its own.
    #[inline]
    pub(crate) fn of(value: &impl Hash) -> u64 {
        let mut hash = Self::new();
        value.hash(&mut hash);
        hash.0
    }

    pub(crate) fn value(self) -> u64 {
        let mut z = self.0;
        z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        z ^ (z >> 32)
    }
}

/// Integers are fed by value, so that the hash does not depend on the machine's byte order.
impl Hasher for RunHash {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.add(u64::from(byte));
        }
    }
    fn write_u8(&mut self, i: u8) {
        self.add(u64::from(i));
    }
    fn write_u32(&mut self, i: u32) {
        self.add(u64::from(i));
    }
    fn write_u64(&mut self, i: u64) {
        self.add(i);
    }
    fn write_usize(&mut self, i: usize) {
        self.add(i as u64);
    }
    #[allow(clippy::cast_sign_loss)] // Only the bits matter.
    fn write_isize(&mut self, i: isize) {
        self.add(i as u64);
    }
    fn finish(&self) -> u64 {
        self.value()
    }
}
