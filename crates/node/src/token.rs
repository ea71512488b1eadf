//! The token by which a node joins a cluster: the cluster, the node's id in it, and the addresses
//! of some members.
//!
//! ```text
//! kgate-join-1-<base32 of the contents and their checksum>
//! ```
//!
//! It is one word of lower-case ASCII characters and digits, so that it survives mail, shells and
//! being read aloud; i, l, o and u do not occur. The checksum protects against typing errors, not
//! against forgery: a token is no secret. A node proves its id by its certificate, as every node
//! does. The first store that takes part under an id is bound to it (rule R4), so a token works for
//! one node once.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The prefix; its number is the version of the format.
const PREFIX: &str = "kgate-join-1-";
/// The alphabet of the contents (Crockford's).
const SYMBOLS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The longest token that is read.
const LENGTH_MAX: usize = 4096;
/// The most members in it.
pub(crate) const MEMBERS_MAX: usize = 16;
/// The longest name of a cluster, and the longest address.
const CLUSTER_MAX: usize = 63;
const ADDRESS_MAX: usize = 255;

/// A token by which a node joins a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// The cluster's id, drawn at its bootstrap: distinguishes two clusters of one name.
    pub cluster_id: u64,
    /// Its name.
    pub cluster: String,
    /// The id of the node that joins.
    pub node: u32,
    /// Some members: id and address, as `HOST:PORT`.
    pub members: Vec<(u32, String)>,
}

/// Why a text is no join token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// It does not begin with the prefix.
    #[error("not a join token: use the output of `kgate members add`, which begins with {PREFIX}")]
    NoToken,
    /// It is of another version.
    #[error(
        "this join token was made by another version of kgate: make a new one with this version's \
         `kgate members add`"
    )]
    Version,
    /// It contains a character outside the alphabet.
    #[error("invalid character {0:?} in the join token: copy the complete token again")]
    Symbol(char),
    /// A part is missing or wrong.
    #[error("damaged join token, a part is missing or was changed: copy the complete token again")]
    Damaged,
    /// Its contents are not valid.
    #[error("invalid join token: {0}")]
    Invalid(&'static str),
}

impl JoinToken {
    fn check(&self) -> Result<(), BadToken> {
        let fits = |(number, address): &(u32, String)| {
            let host = address
                .rsplit_once(':')
                .filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
            *number != self.node && address.len() <= ADDRESS_MAX && host.is_some()
        };
        if self.cluster.is_empty() || self.cluster.len() > CLUSTER_MAX {
            return Err(BadToken::Invalid("the cluster's name has 1 to 63 symbols"));
        }
        if self.members.is_empty() || self.members.len() > MEMBERS_MAX {
            return Err(BadToken::Invalid("it names 1 to 16 members"));
        }
        if !self.members.iter().all(fits) {
            return Err(BadToken::Invalid("a member's address is HOST:PORT"));
        }
        Ok(())
    }
}

/// The token itself.
impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = postcard::to_allocvec(self).map_err(|_| fmt::Error)?;
        bytes.extend_from_slice(&checksum(&bytes).to_be_bytes());
        write!(f, "{PREFIX}{}", written(&bytes))
    }
}

impl FromStr for JoinToken {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let text = text.trim();
        let Some(symbols) = text.strip_prefix(PREFIX) else {
            return Err(if text.starts_with("kgate-join-") {
                BadToken::Version
            } else {
                BadToken::NoToken
            });
        };
        if symbols.len() > LENGTH_MAX {
            return Err(BadToken::Damaged);
        }
        let bytes = read(symbols)?;
        let (contents, sum) = bytes.split_last_chunk::<4>().ok_or(BadToken::Damaged)?;
        if checksum(contents) != u32::from_be_bytes(*sum) {
            return Err(BadToken::Damaged);
        }
        let (token, rest) =
            postcard::take_from_bytes::<Self>(contents).map_err(|_| BadToken::Damaged)?;
        if !rest.is_empty() {
            return Err(BadToken::Damaged);
        }
        token.check()?;
        Ok(token)
    }
}

/// Five bits per symbol; the last symbol is filled up with zeros.
fn written(bytes: &[u8]) -> String {
    let mut text = String::new();
    let (mut kept, mut bits) = (0_u32, 0);
    for byte in bytes {
        kept = kept << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(SYMBOLS[(kept >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        text.push(char::from(SYMBOLS[(kept << (5 - bits) & 31) as usize]));
    }
    text
}

fn read(symbols: &str) -> Result<Vec<u8>, BadToken> {
    let mut bytes = Vec::new();
    let (mut kept, mut bits) = (0_u32, 0);
    for symbol in symbols.chars() {
        let value = (0_u32..)
            .zip(SYMBOLS)
            .find(|(_, known)| char::from(**known) == symbol.to_ascii_lowercase());
        let (value, _) = value.ok_or(BadToken::Symbol(symbol))?;
        kept = (kept << 5 | value) & 0xfff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(kept >> bits & 0xff).expect("eight bits"));
        }
    }
    // The rest are the zeros that filled up the last symbol.
    if bits < 5 && kept & ((1 << bits) - 1) == 0 { Ok(bytes) } else { Err(BadToken::Damaged) }
}

/// CRC-32: detects every change of up to 32 neighbouring bits.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> JoinToken {
        JoinToken {
            cluster_id: 0xfeed_beef_0123_4567,
            cluster: "fleet".into(),
            node: 3,
            members: vec![
                (0, "10.0.0.1:7401".into()),
                (1, "[fd00::2]:7401".into()),
                (2, "db.example:7401".into()),
            ],
        }
    }

    /// A token survives writing and reading, also with capitals or a line break at its end.
    #[test]
    fn a_token_is_written_and_read() {
        let text = token().to_string();
        assert!(text.bytes().all(|symbol| symbol.is_ascii_lowercase()
            || symbol.is_ascii_digit()
            || symbol == b'-'));
        assert_eq!(text.parse(), Ok(token()));
        assert_eq!(format!("  {text}\n").parse(), Ok(token()));
        let (prefix, rest) = text.split_at(PREFIX.len());
        assert_eq!(format!("{prefix}{}", rest.to_uppercase()).parse(), Ok(token()));
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926, "the check value of CRC-32");
    }

    /// Every single wrong symbol is detected, and every token that was cut short or doubled.
    #[test]
    fn slips_are_noticed() {
        let text = token().to_string();
        for at in PREFIX.len()..text.len() {
            assert!(text[..at].parse::<JoinToken>().is_err(), "cut at {at}");
            for symbol in ["0", "z", "7"] {
                let mut slip = text.clone();
                slip.replace_range(at..=at, symbol);
                assert!(slip == text || slip.parse::<JoinToken>().is_err(), "{symbol} at {at}");
            }
        }
        assert!(format!("{text}{}", &text[PREFIX.len()..]).parse::<JoinToken>().is_err());
    }

    /// Each error has a variant of its own: another prefix, another version, a foreign character,
    /// invalid contents.
    #[test]
    fn errors_say_what_to_do() {
        let why = |text: &str| text.parse::<JoinToken>().unwrap_err();
        assert_eq!((why(""), why("/etc/kgate/token")), (BadToken::NoToken, BadToken::NoToken));
        assert_eq!(why("kgate-join-9-abc"), BadToken::Version);
        assert_eq!(why("kgate-join-1-abc!"), BadToken::Symbol('!'));
        assert_eq!(why("kgate-join-1-"), BadToken::Damaged);
        assert_eq!(why(&format!("{PREFIX}{}", "0".repeat(LENGTH_MAX + 1))), BadToken::Damaged);
        for nonsense in [
            JoinToken { cluster: String::new(), ..token() },
            JoinToken { members: vec![], ..token() },
            JoinToken { members: vec![(0, "nowhere".into())], ..token() },
            JoinToken { members: vec![(0, "a:1".into()); 17], ..token() },
            JoinToken { members: vec![(3, "a:1".into())], ..token() },
        ] {
            assert!(matches!(why(&nonsense.to_string()), BadToken::Invalid(_)));
        }
    }
}
