//! The secret of a session or of a durable permit. It authorises to resume or to end it, so it is
//! never written to a log.

use std::fmt;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The secret of a session or of a durable permit.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub u128);

impl Secret {
    /// No secret: the session cannot be resumed.
    pub const NONE: Self = Self(0);

    /// The stored form, in the log, on disk and in memory. It does not reveal the secret, and
    /// neither does the duration of a comparison.
    pub fn hashed(self) -> [u8; 32] {
        digest(&SHA256, &self.0.to_be_bytes()).as_ref().try_into().expect("a SHA-256 has 32 bytes")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
