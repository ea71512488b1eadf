//! Authorisation: the `[[allow]]` list of a node's configuration.
//!
//! ```toml
//! [[allow]]
//! client = "ci-*"                # certificates with the name client-ci-*.CLUSTER
//! gates = ["build/", "gpu"]      # all gates below build/, and the gate gpu
//! may = ["acquire"]              # includes see
//!
//! [[allow]]
//! token = "9f86d081884c7d65…"    # the SHA-256 of a token
//! may = ["see"]                  # no `gates`: all gates
//!
//! [[allow]]
//! user = "root"                  # a user of the Unix socket, as the kernel reports it
//! may = ["acquire", "see", "operate"]
//! ```
//!
//! `group = "gpu-users"` is the same for the members of a group, as the user database lists them
//! when the node starts, and for processes whose group it is.
//!
//! Entries only allow: a client has the rights of all entries that match it. With an empty list
//! every client that can connect has all rights. No clock, socket or file is read to decide; the
//! user database is asked for the name of a user in messages.

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;

use ring::digest::{SHA256, digest};
use serde::Deserialize;

use crate::user_database::user_name;

/// The identity of a client, from its credentials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// The client name in its certificate.
    Certificate(String),
    /// The SHA-256 of its token; the token itself is not stored.
    Token([u8; 32]),
    /// The user at the other end of a Unix socket, as the kernel reports it.
    User(LocalUser),
    /// No credentials; its address.
    Anonymous(IpAddr),
}

/// A user of this machine, with the group of the process that has connected.
#[derive(Clone, Copy, Debug)]
pub struct LocalUser {
    /// The number of the user.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
}

/// One user is one client, whatever its group.
impl PartialEq for LocalUser {
    fn eq(&self, other: &Self) -> bool {
        self.user == other.user
    }
}

impl Eq for LocalUser {}

impl PartialOrd for LocalUser {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LocalUser {
    fn cmp(&self, other: &Self) -> Ordering {
        self.user.cmp(&other.user)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(name) => write!(f, "client {name}"),
            Self::Token(hash) => write!(f, "the token with SHA-256 {}..", hexadecimal(&hash[..4])),
            Self::User(local) => f.write_str(&user_name(local.user)),
            Self::Anonymous(address) => {
                write!(f, "client at {address} without certificate or token")
            }
        }
    }
}

/// What an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege<'g> {
    /// Acquire permits of a gate, and create the gate.
    Acquire(&'g str),
    /// See the holders and the queue of a gate.
    See(&'g str),
    /// See at least one gate; the reply is restricted to the gates that the client may see.
    SeeSome,
    /// See everything: metrics, members, timing.
    SeeAll,
    /// Change a gate, its k and its policy, and evict its holders.
    Operate(&'g str),
    /// Change at least one gate: what is changed is checked when its gate is known.
    OperateSome,
    /// Change the cluster: members, evictions of nodes.
    OperateAll,
}

impl<'g> Privilege<'g> {
    fn right(self) -> Right {
        match self {
            Self::Acquire(_) => Right::Acquire,
            Self::See(_) | Self::SeeSome | Self::SeeAll => Right::See,
            Self::Operate(_) | Self::OperateSome | Self::OperateAll => Right::Operate,
        }
    }

    /// Whether the right at one gate is enough, whichever it is.
    fn is_some(self) -> bool {
        matches!(self, Self::SeeSome | Self::OperateSome)
    }

    fn gate(self) -> Option<&'g str> {
        match self {
            Self::Acquire(gate) | Self::See(gate) | Self::Operate(gate) => Some(gate),
            Self::SeeSome | Self::SeeAll | Self::OperateSome | Self::OperateAll => None,
        }
    }
}

/// A right in `may`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// Acquire permits of the gates, and see them.
    Acquire,
    /// See holders and queues.
    See,
    /// Change gates, and evict their holders; without `gates` also members.
    Operate,
}

impl Right {
    fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::See => "see",
            Self::Operate => "operate",
        }
    }
}

/// An entry `[[allow]]` of the configuration: one of `client`, `token`, `user`, `group`, `anyone`,
/// and their rights.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Name in the client's certificate; `*` matches any text.
    pub client: Option<String>,
    /// SHA-256 of the client's bearer token, in hexadecimal digits.
    pub token: Option<String>,
    /// User who connects by the Unix socket: a user id, or a user name of this machine.
    pub user: Option<UserOrGroup>,
    /// Members of a group who connect by the Unix socket: a group id, or a group name of this
    /// machine.
    pub group: Option<UserOrGroup>,
    /// Applies to every client that can connect.
    #[serde(default)]
    pub anyone: bool,
    /// Names of gates; a name that ends with `/` or `*` matches all gates with that prefix.
    /// Without it the entry applies to all gates.
    pub gates: Option<Vec<String>>,
    /// Rights at these gates.
    #[serde(default = "acquire")]
    pub may: Vec<Right>,
}

/// A user or a group of this machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum UserOrGroup {
    /// The ID.
    Number(u32),
    /// The name.
    Name(String),
}

impl fmt::Display for UserOrGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// A group and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMembers {
    /// The number of the group.
    pub group: u32,
    /// The users that the user database lists as its members.
    pub users: Vec<u32>,
}

/// Looks up users and groups of this machine.
#[derive(Clone, Copy, Debug)]
pub struct UserDatabase {
    /// The number of a user.
    pub user: fn(&str) -> Option<u32>,
    /// The members of a group.
    pub group: fn(&UserOrGroup) -> Option<GroupMembers>,
}

fn acquire() -> Vec<Right> {
    vec![Right::Acquire]
}

/// The clients that an entry matches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Client(String),
    Token([u8; 32]),
    User(u32),
    Group(GroupMembers),
    Anyone,
}

#[derive(Clone, Debug)]
struct Rule {
    subject: Subject,
    gates: Option<Vec<String>>,
    may: Vec<Right>,
}

/// The parsed list.
#[derive(Clone, Debug, Default)]
pub struct Policy(Vec<Rule>);

/// The list does not allow an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Denied(String);

/// The list is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[[allow]] number {entry}: {error}")]
pub struct InvalidPolicy {
    /// The position of the entry in the list, from 1.
    pub entry: usize,
    /// What is wrong with the entry.
    pub error: InvalidEntry,
}

/// What is wrong with an `[[allow]]` entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntry {
    /// The entry names no client, or several kinds of clients.
    #[error("set exactly one of client, token, user, group and anyone = true")]
    Subject,
    /// The pattern of a client name is empty or has several `*`.
    #[error("client = {0:?}: write a name with at most one `*`")]
    Pattern(String),
    /// The token is not a hash.
    #[error(
        "token must be the SHA-256 of the token, 64 hexadecimal digits, and never the token \
         itself: `tr -d '\\n' < FILE | sha256sum` prints it"
    )]
    Token,
    /// No user of this machine has the name.
    #[error("no user {0:?} on this machine: write the user ID")]
    User(String),
    /// No group of this machine has the name.
    #[error("no group {0} on this machine: write the group ID")]
    Group(UserOrGroup),
    /// The entry gives no right.
    #[error("may = [] allows nothing: write acquire, see or operate, or remove the entry")]
    NoRight,
    /// The entry matches no gate.
    #[error("gates = [] matches no gate: remove `gates` to match all gates")]
    NoGate,
}

impl Policy {
    /// Parses the entries of the configuration.
    pub fn new(list: &[Allow], users: UserDatabase) -> Result<Self, InvalidPolicy> {
        let rules = list.iter().zip(1..).map(|(allow, entry)| {
            rule(allow, users).map_err(|error| InvalidPolicy { entry, error })
        });
        rules.collect::<Result<_, _>>().map(Self)
    }

    /// Whether the list is empty: then every client has all rights.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether some clients need no certificate, because they use tokens or anyone is allowed.
    pub fn has_tokens(&self) -> bool {
        self.0.iter().any(|rule| matches!(rule.subject, Subject::Token(_) | Subject::Anyone))
    }

    /// The identity of a token. All hashes are compared completely, so that the time reveals
    /// nothing.
    pub fn bearer(&self, token: &str) -> Option<Identity> {
        let shown = digest(&SHA256, token.as_bytes());
        let mut known = None;
        for rule in &self.0 {
            if let Subject::Token(hash) = &rule.subject
                && same(hash, shown.as_ref())
            {
                known = Some(Identity::Token(*hash));
            }
        }
        known
    }

    /// Checks that the list allows `need`. The error names the client, the operation and the entry
    /// that would allow it.
    pub fn authorise(&self, who: &Identity, need: Privilege<'_>) -> Result<(), Denied> {
        if self.is_empty() || self.0.iter().any(|rule| rule.matches(who) && rule.allows(need)) {
            return Ok(());
        }
        let right = need.right().name();
        let (what, gates) = match need.gate() {
            None if need.is_some() => (format!("{right} any gate"), String::new()),
            Some(gate) => (format!("{right} `{gate}`"), format!("gates that match {gate:?} and ")),
            None => (format!("{right} all gates"), "no `gates` and ".to_owned()),
        };
        Err(Denied(format!(
            "permission denied: {who} may not {what}; an [[allow]] entry of this node that matches \
             it must have {gates}may = [{right:?}]"
        )))
    }
}

impl Rule {
    fn matches(&self, who: &Identity) -> bool {
        match (&self.subject, who) {
            (Subject::Anyone, _) => true,
            (Subject::Client(pattern), Identity::Certificate(name)) => fits(pattern, name),
            (Subject::Token(hash), Identity::Token(shown)) => hash == shown,
            (Subject::User(user), Identity::User(local)) => *user == local.user,
            (Subject::Group(members), Identity::User(local)) => {
                members.group == local.group || members.users.contains(&local.user)
            }
            (Subject::Client(_) | Subject::Token(_) | Subject::User(_) | Subject::Group(_), _) => {
                false
            }
        }
    }

    fn allows(&self, need: Privilege<'_>) -> bool {
        let right = self.may.iter().any(|right| match need.right() {
            Right::See => matches!(right, Right::See | Right::Acquire),
            wanted @ (Right::Acquire | Right::Operate) => *right == wanted,
        });
        let reaches = match (&self.gates, need.gate()) {
            (None, _) => true,
            (Some(_), None) => need.is_some(),
            (Some(gates), Some(wanted)) => gates.iter().any(|gate| covers(gate, wanted)),
        };
        right && reaches
    }
}

/// Whether a gate name in the list matches a gate.
fn covers(listed: &str, gate: &str) -> bool {
    match listed.strip_suffix('*') {
        Some(begins) => gate.starts_with(begins),
        None if listed.ends_with('/') => gate.starts_with(listed),
        None => listed == gate,
    }
}

/// Whether a name matches a pattern with at most one `*`.
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

fn rule(allow: &Allow, users: UserDatabase) -> Result<Rule, InvalidEntry> {
    let Allow { client, token, user, group, anyone, gates, may } = allow;
    let subject = match (client, token, user, group, anyone) {
        (Some(pattern), None, None, None, false) => {
            if pattern.is_empty() || pattern.matches('*').count() > 1 {
                return Err(InvalidEntry::Pattern(pattern.clone()));
            }
            Subject::Client(pattern.clone())
        }
        (None, Some(token), None, None, false) => Subject::Token(hash(token)?),
        (None, None, Some(UserOrGroup::Number(user)), None, false) => Subject::User(*user),
        (None, None, Some(UserOrGroup::Name(name)), None, false) => {
            Subject::User((users.user)(name).ok_or_else(|| InvalidEntry::User(name.clone()))?)
        }
        (None, None, None, Some(group), false) => {
            Subject::Group((users.group)(group).ok_or_else(|| InvalidEntry::Group(group.clone()))?)
        }
        (None, None, None, None, true) => Subject::Anyone,
        _ => return Err(InvalidEntry::Subject),
    };
    if may.is_empty() {
        return Err(InvalidEntry::NoRight);
    }
    if gates.as_ref().is_some_and(Vec::is_empty) {
        return Err(InvalidEntry::NoGate);
    }
    Ok(Rule { subject, gates: gates.clone(), may: may.clone() })
}

fn hash(text: &str) -> Result<[u8; 32], InvalidEntry> {
    if text.len() != 64 || !text.is_ascii() {
        return Err(InvalidEntry::Token);
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte =
            u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| InvalidEntry::Token)?;
    }
    Ok(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares in a time that does not depend on where the texts differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests;
