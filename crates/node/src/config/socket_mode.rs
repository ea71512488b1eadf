//! `socket_mode`: who may connect to a Unix socket.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The mode of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl Default for SocketMode {
    /// The user of the node alone.
    fn default() -> Self {
        Self(0o600)
    }
}

impl<'de> Deserialize<'de> for SocketMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // A number would be read as decimal digits: 0660 is no integer in TOML, and 660 another.
        let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
        let wrong = || format!("socket_mode = {text:?}: write octal digits, such as \"0660\"");
        mode.map(Self).ok_or_else(|| D::Error::custom(wrong()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    /// Octal digits are read as such; anything else is refused.
    #[test]
    fn octal_digits() {
        let read = |text: &str| {
            toml::from_str::<Config>(&format!("socket_mode = {text}")).map(|read| read.socket_mode)
        };
        assert_eq!(read("\"0660\"").unwrap(), SocketMode(0o660));
        for wrong in ["660", "\"8\"", "\"01777\"", "\"\"", "\"rw\""] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("socket_mode") || error.contains("string"), "{wrong}: {error}");
        }
        assert_eq!(toml::from_str::<Config>("").unwrap().socket_mode, SocketMode(0o600));
    }
}
