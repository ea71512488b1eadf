//! What a client says of its request, for people: why it wants the permit, and pairs of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a client says of its request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Why it wants the permit; may be empty.
    pub reason: String,
    /// Keys and values.
    pub meta: BTreeMap<String, String>,
}

/// Why a note is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNote {
    /// The reason is too long.
    #[error("the reason has {0} bytes, and at most {most}: shorten it", most = Note::REASON)]
    Reason(usize),
    /// There are too many pairs.
    #[error("{0} pairs of meta are too many: at most {most}", most = Note::PAIRS)]
    Pairs(usize),
    /// Not a key.
    #[error(
        "invalid key of meta `{}`: use 1 to {most} letters, digits, dots, dashes and underscores",
        .0.chars().take(40).flat_map(char::escape_debug).collect::<String>(),
        most = Note::KEY
    )]
    Key(String),
    /// A value is too long.
    #[error("the value of meta `{key}` has {bytes} bytes, and at most {most}", most = Note::VALUE)]
    Value {
        /// The key.
        key: String,
        /// The bytes of its value.
        bytes: usize,
    },
}

impl Note {
    /// The most bytes of a reason.
    pub const REASON: usize = 200;
    /// The most pairs.
    pub const PAIRS: usize = 16;
    /// The most bytes of a key.
    pub const KEY: usize = 64;
    /// The most bytes of a value.
    pub const VALUE: usize = 256;

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.reason.is_empty() && self.meta.is_empty()
    }

    /// Checks the bounds. Texts may have any characters: they are escaped where they are shown.
    pub fn check(&self) -> Result<(), BadNote> {
        if self.reason.len() > Self::REASON {
            return Err(BadNote::Reason(self.reason.len()));
        }
        if self.meta.len() > Self::PAIRS {
            return Err(BadNote::Pairs(self.meta.len()));
        }
        for (key, value) in &self.meta {
            Self::check_pair(key, value)?;
        }
        Ok(())
    }

    /// Checks one pair.
    pub fn check_pair(key: &str, value: &str) -> Result<(), BadNote> {
        let valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !(1..=Self::KEY).contains(&key.len()) || !key.chars().all(valid) {
            return Err(BadNote::Key(key.to_owned()));
        }
        if value.len() > Self::VALUE {
            return Err(BadNote::Value { key: key.to_owned(), bytes: value.len() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(reason: &str, pairs: &[(&str, &str)]) -> Note {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Note { reason: reason.to_owned(), meta: pairs.iter().map(pair).collect() }
    }

    /// Every part of a note is bounded, and a value that just fits is taken.
    #[test]
    fn notes_are_bounded() {
        let long = |bytes: usize| "x".repeat(bytes);
        let taken = note(&long(Note::REASON), &[(&long(Note::KEY), &long(Note::VALUE))]);
        assert_eq!(taken.check(), Ok(()));
        assert_eq!(note("\x1b]0;", &[("A.b_c-1", "=\n")]).check(), Ok(()));
        let refused = note(&long(Note::REASON + 1), &[]).check();
        assert_eq!(refused, Err(BadNote::Reason(Note::REASON + 1)));
        for key in ["", "a b", "a=b", "\u{e9}", &long(Note::KEY + 1)] {
            let refused = note("", &[(key, "")]).check();
            assert_eq!(refused, Err(BadNote::Key(key.to_owned())));
        }
        let refused = note("", &[("a", &long(Note::VALUE + 1))]).check();
        assert!(matches!(refused, Err(BadNote::Value { .. })), "{refused:?}");
        let keys: Vec<String> = (0..=Note::PAIRS).map(|key| key.to_string()).collect();
        let pairs: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "")).collect();
        assert_eq!(note("", &pairs).check(), Err(BadNote::Pairs(Note::PAIRS + 1)));
    }
}
