//! The secret of a session: whoever has it can go on with the session, or end it. So it is never written into a log.

use std::fmt;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The secret of a session, or of a permit that the log holds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub u128);

impl Secret {
    /// Of a session that nobody can go on with.
    pub const NONE: Self = Self(0);

    /// As it stands in the log, which is read by many: from that nobody finds the secret.
    pub fn hashed(self) -> [u8; 32] {
        digest(&SHA256, &self.0.to_be_bytes()).as_ref().try_into().expect("so long it is")
    }

    /// Whether it is the same, in a time that does not depend on where they differ.
    pub fn is(self, other: Self) -> bool {
        std::hint::black_box(self.0 ^ other.0) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
