//! The secret of a session: whoever has it can go on with the session, or end it. So it is never written into a log.

use std::fmt;

/// The secret of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub u128);

impl Secret {
    /// Of a session that nobody can go on with.
    pub const NONE: Self = Self(0);

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
