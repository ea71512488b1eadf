//! Who may do what: the `[[allow]]` list of a node's configuration.
//!
//! ```toml
//! [[allow]]
//! client = "ci-*"                # whose certificate tolerates the name client-ci-<anything>.<cluster>
//! gates = ["build/", "gpu"]      # all gates whose names begin with build/, and the gate gpu
//! may = ["acquire"]              # who may acquire may also see
//!
//! [[allow]]
//! token = "9f86d081884c7d65…"    # whoever shows the token with this SHA-256
//! may = ["see"]                  # no `gates`: all of them
//!
//! [[allow]]
//! user = "root"                  # by the Unix socket, as the kernel says
//! may = ["acquire", "see", "operate"]
//! ```
//!
//! An entry gives, none takes away: somebody may what any entry that names it allows. Without any
//! entry everybody who can connect may everything. Nothing here reads a clock, a socket or a file.

use std::fmt;
use std::net::IpAddr;

use ring::digest::{SHA256, digest};
use serde::Deserialize;

/// Who somebody is, by what it has shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// The name in its certificate.
    Certificate(String),
    /// A token, by its hash: the token itself is nowhere.
    Token([u8; 32]),
    /// The user at the other end of a Unix socket.
    User(u32),
    /// It has shown nothing; this is where it is.
    Stranger(IpAddr),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(name) => write!(f, "client {name}"),
            Self::Token(hash) => write!(f, "the token with SHA-256 {}..", hexadecimal(&hash[..4])),
            Self::User(user) => write!(f, "user {user}"),
            Self::Stranger(address) => {
                write!(f, "somebody at {address} without certificate or token")
            }
        }
    }
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'g> {
    /// Ask for permits of a gate, and make it if there is none.
    Acquire(&'g str),
    /// See who holds and who waits at a gate.
    See(&'g str),
    /// See those gates that it may see, if there are any such.
    SeeSome,
    /// See everything: the numbers of the node.
    SeeAll,
    /// Change a gate: its k, its policy, who holds it.
    Operate(&'g str),
    /// Change the cluster: its members.
    OperateAll,
}

impl<'g> Need<'g> {
    fn right(self) -> Right {
        match self {
            Self::Acquire(_) => Right::Acquire,
            Self::See(_) | Self::SeeSome | Self::SeeAll => Right::See,
            Self::Operate(_) | Self::OperateAll => Right::Operate,
        }
    }

    fn gate(self) -> Option<&'g str> {
        match self {
            Self::Acquire(gate) | Self::See(gate) | Self::Operate(gate) => Some(gate),
            Self::SeeSome | Self::SeeAll | Self::OperateAll => None,
        }
    }
}

/// A right, as it is written in `may`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// Ask for permits; see the same gates.
    Acquire,
    /// See who holds and who waits.
    See,
    /// Change gates and members.
    Operate,
}

impl Right {
    fn word(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::See => "see",
            Self::Operate => "operate",
        }
    }
}

/// An `[[allow]]` of the configuration: one of `client`, `token`, `user`, `anyone`, and what it
/// may.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Name in the client's certificate; `*` stands for any text.
    pub client: Option<String>,
    /// SHA-256 of the client's bearer token, in hexadecimal digits.
    pub token: Option<String>,
    /// User who connects by the Unix socket: a user id, or a user name of this machine.
    pub user: Option<User>,
    /// Applies to every client that can connect.
    #[serde(default)]
    pub anyone: bool,
    /// Names of gates; a name that ends with `/` or `*` stands for all gates with that prefix.
    /// Without it the entry applies to all gates.
    pub gates: Option<Vec<String>>,
    /// Rights at these gates.
    #[serde(default = "acquire")]
    pub may: Vec<Right>,
}

/// A user of this machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum User {
    /// By number.
    Number(u32),
    /// By name.
    Name(String),
}

fn acquire() -> Vec<Right> {
    vec![Right::Acquire]
}

/// Whom an entry means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Whom {
    Client(String),
    Token([u8; 32]),
    User(u32),
    Anyone,
}

#[derive(Clone, Debug)]
struct Rule {
    whom: Whom,
    gates: Option<Vec<String>>,
    may: Vec<Right>,
}

/// The list, ready for use.
#[derive(Clone, Debug, Default)]
pub struct Policy(Vec<Rule>);

/// Somebody may not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Denied(pub String);

impl Policy {
    /// From the configuration; `number_of` finds a user of this machine. What makes no sense is
    /// refused with its place in the list.
    pub fn new(list: &[Allow], number_of: impl Fn(&str) -> Option<u32>) -> Result<Self, String> {
        let rules = list.iter().zip(1..).map(|(allow, place)| {
            rule(allow, &number_of).map_err(|why| format!("[[allow]] number {place}: {why}"))
        });
        rules.collect::<Result<_, _>>().map(Self)
    }

    /// Nobody is named: everybody may everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Some are known by tokens, and need no certificate.
    pub fn has_tokens(&self) -> bool {
        self.0.iter().any(|rule| matches!(rule.whom, Whom::Token(_) | Whom::Anyone))
    }

    /// Who shows this token. All hashes are compared, each to its end: time tells nothing.
    pub fn bearer(&self, token: &str) -> Option<Identity> {
        let shown = digest(&SHA256, token.as_bytes());
        let mut known = None;
        for rule in &self.0 {
            if let Whom::Token(hash) = &rule.whom
                && same(hash, shown.as_ref())
            {
                known = Some(Identity::Token(*hash));
            }
        }
        known
    }

    /// Whether somebody may do that; if not, who it is, what it wanted and what it would need.
    pub fn authorise(&self, who: &Identity, need: Need<'_>) -> Result<(), Denied> {
        if self.is_empty() || self.0.iter().any(|rule| rule.names(who) && rule.gives(need)) {
            return Ok(());
        }
        let right = need.right().word();
        let (what, gates) = match need.gate() {
            None if need == Need::SeeSome => ("see any gate".to_owned(), String::new()),
            Some(gate) => (format!("{right} `{gate}`"), format!("gates that cover {gate:?} and ")),
            None => (format!("{right} all gates"), "no `gates` and ".to_owned()),
        };
        Err(Denied(format!(
            "{who} may not {what}: an [[allow]] of this node's configuration that names it must have {gates}may = [{right:?}]"
        )))
    }
}

impl Rule {
    fn names(&self, who: &Identity) -> bool {
        match (&self.whom, who) {
            (Whom::Anyone, _) => true,
            (Whom::Client(pattern), Identity::Certificate(name)) => fits(pattern, name),
            (Whom::Token(hash), Identity::Token(shown)) => hash == shown,
            (Whom::User(user), Identity::User(number)) => user == number,
            (Whom::Client(_) | Whom::Token(_) | Whom::User(_), _) => false,
        }
    }

    fn gives(&self, need: Need<'_>) -> bool {
        let right = self.may.iter().any(|right| match need.right() {
            Right::See => matches!(right, Right::See | Right::Acquire),
            wanted @ (Right::Acquire | Right::Operate) => *right == wanted,
        });
        let reaches = match (&self.gates, need.gate()) {
            (None, _) => true,
            (Some(_), None) => need == Need::SeeSome,
            (Some(gates), Some(wanted)) => gates.iter().any(|gate| covers(gate, wanted)),
        };
        right && reaches
    }
}

/// Whether the name of a gate in the list stands for that gate.
fn covers(listed: &str, gate: &str) -> bool {
    match listed.strip_suffix('*') {
        Some(begins) => gate.starts_with(begins),
        None if listed.ends_with('/') => gate.starts_with(listed),
        None => listed == gate,
    }
}

/// Whether a name fits a pattern with at most one `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begins, ends)) => {
            name.len() >= begins.len() + ends.len()
                && name.starts_with(begins)
                && name.ends_with(ends)
        }
    }
}

fn rule(allow: &Allow, number_of: &impl Fn(&str) -> Option<u32>) -> Result<Rule, String> {
    let Allow { client, token, user, anyone, gates, may } = allow;
    let whom = match (client, token, user, anyone) {
        (Some(pattern), None, None, false) => {
            if pattern.is_empty() || pattern.matches('*').count() > 1 {
                return Err(format!("client = {pattern:?} has a name in it, and at most one `*`"));
            }
            Whom::Client(pattern.clone())
        }
        (None, Some(token), None, false) => Whom::Token(hash(token)?),
        (None, None, Some(User::Number(user)), false) => Whom::User(*user),
        (None, None, Some(User::Name(name)), false) => {
            let none = || format!("there is no user {name:?} on this machine: write its number");
            Whom::User(number_of(name).ok_or_else(none)?)
        }
        (None, None, None, true) => Whom::Anyone,
        _ => return Err("it needs exactly one of client, token, user and anyone = true".into()),
    };
    if may.is_empty() {
        return Err(
            "may = [] allows nothing: write acquire, see or operate, or leave the entry out".into(),
        );
    }
    if gates.as_ref().is_some_and(Vec::is_empty) {
        return Err("gates = [] names no gate: leave it out for all gates".into());
    }
    Ok(Rule { whom, gates: gates.clone(), may: may.clone() })
}

fn hash(text: &str) -> Result<[u8; 32], String> {
    let wrong = || {
        "token is the SHA-256 of the token, 64 hexadecimal digits, and never the token itself: \
         `tr -d '\\n' < FILE | sha256sum` prints it"
            .to_owned()
    };
    if text.len() != 64 || !text.is_ascii() {
        return Err(wrong());
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
    }
    Ok(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In a time that does not depend on where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests;
