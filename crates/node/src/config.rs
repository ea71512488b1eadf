//! The configuration of a node: `node.toml`.
//!
//! ```toml
//! cluster = "fleet"                 # nodes of another cluster are refused
//! id = 0                            # this node
//! # The addresses for other nodes, by id; the same list on every node.
//! nodes = ["10.0.0.1:7401", "10.0.0.2:7401", "10.0.0.3:7401"]
//! api = "127.0.0.1:7400"            # for clients; or "unix:/run/kgate/node.sock"
//! data = "/var/lib/kgate"           # must survive a restart
//!
//! [tls]                             # with it, api may be "https://10.0.0.1:7400"
//! certificate = "node-0.pem"
//! key = "node-0.key"
//! authority = "ca.pem"
//!
//! [[gate]]
//! name = "gpu"
//! k = 3
//! ```
//!
//! - `faults`: the faults that a node tolerates, what it needs for that, and the voters;
//! - `timing`: the durations of the leases;
//! - `join`: a node that is not in the list yet;
//! - `machine`: the node of a whole machine.
//!
//! Authorisation and quotas are configured in `serve/authorisation.rs` and `serve/limits.rs`.

mod faults;
mod join;
mod machine;
mod socket_mode;
#[cfg(test)]
mod tests;
mod timing;

pub use faults::{Faults, VotersConfig};
pub use join::JoinFrom;
pub use socket_mode::SocketMode;
pub use timing::{Preset, TimingConfig};

use std::path::{Path, PathBuf};
use std::time::Duration;

use kgate_control::state::{KSource, Limit, Slots, bounds};
use kgate_core::{Incarnation, NodeId, SlotOptions, Span};
use kgate_net::Security;
use kgate_protocols::registry;
use serde::Deserialize;

use crate::core::{BadDefinition, Definition, Detection, GateId, SessionTerms, Settings};
use crate::k_expression::KExpression;
use crate::serve::authorisation::{Allow, UserOrGroup};
use crate::serve::limits::Limits;

/// The configuration of a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the cluster; a node refuses links from nodes of another cluster.
    #[serde(default = "cluster")]
    pub cluster: String,
    /// Id of this node: its index in `nodes`, from 0.
    #[serde(default)]
    pub id: u32,
    /// Addresses for links between nodes, in the order of ids; the same list at every node. A node
    /// that joins leaves it out.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Addresses for clients: `HOST:PORT` (plain, this machine only), `https://HOST:PORT`,
    /// `unix:PATH`, or a list of these.
    #[serde(default = "api")]
    pub api: OneOrMore,
    /// Mode of the Unix sockets in `api`, in octal digits: who may connect. `"0666"`: every user of
    /// this machine; `"0660"`: the group of the socket. Default: `"0600"`, the node's own user;
    /// of a machine's node (`--machine`) `"0666"`.
    #[serde(default)]
    pub socket_mode: SocketMode,
    /// Group of the Unix sockets in `api`: a name or a number. Default: the group of the node.
    pub socket_group: Option<UserOrGroup>,
    /// Folder for the state that must survive a restart. Without it nothing is stored.
    pub data: Option<PathBuf>,
    /// Gates that exist from the start.
    #[serde(default, rename = "gate")]
    pub gates: Vec<GateConfig>,
    /// Whether a client that acquires at an unknown gate creates it.
    #[serde(default = "yes")]
    pub new_gates: bool,
    /// Protocol of the gates that clients create; `kgate protocols` lists them.
    #[serde(default = "slots")]
    pub protocol: String,
    /// Failure detector of crash-stop nodes: `auto`, `vcube`, `heartbeat`, `hi-adsd` or `off`.
    #[serde(default = "auto")]
    pub detector: String,
    /// Interval of the failure detector's tests, in milliseconds.
    #[serde(default = "detect_interval")]
    pub detect_interval_ms: u64,
    /// Time that the failure detector waits for an answer, in milliseconds.
    #[serde(default = "detect_timeout")]
    pub detect_timeout_ms: u64,
    /// Length of a session's lease with `faults = "crash-stop"`, in milliseconds. 0 binds sessions
    /// to processes instead of time.
    #[serde(default = "lease")]
    pub lease_ms: u64,
    /// Maximum number of requests that wait at a gate of this node.
    #[serde(default = "queue_max")]
    pub queue_max: usize,
    /// Maximum number of sessions at this node.
    #[serde(default = "sessions_max")]
    pub sessions_max: usize,
    /// Maximum number of connections of clients.
    #[serde(default = "connections_max")]
    pub connections_max: usize,
    /// TLS files for links between nodes, and for clients over `https` unless `api_tls` is set.
    pub tls: Option<Tls>,
    /// TLS files for clients over `https`, if their certificate authority is not the nodes'.
    pub api_tls: Option<Tls>,
    /// Allows unencrypted client addresses that other machines can reach.
    #[serde(default)]
    pub plain_api: bool,
    /// Rights of clients. Without an entry every client has all rights.
    #[serde(default)]
    pub allow: Vec<Allow>,
    /// Limits per client.
    #[serde(default)]
    pub limits: Limits,
    /// Allows unencrypted links to nodes on other machines.
    #[serde(default)]
    pub plain_links: bool,
    /// Folder with one lock file per slot; the process that holds a slot locks its file. Only for a
    /// single node with `lease_ms = 0`.
    pub slot_files: Option<PathBuf>,
    /// The node stops after this time without a client, in milliseconds.
    pub idle_stop_ms: Option<u64>,
    /// Fault model. `lease` tolerates delays, partitions, pauses, crashes and restarts;
    /// `crash-stop` tolerates crashes only and is unsafe where a network may partition. Leases are
    /// the default for every node with `data`, peers or `join`.
    pub faults: Option<Faults>,
    /// Timing of the leases.
    #[serde(default)]
    pub timing: TimingConfig,
    /// Voters of the log: the first N nodes of `nodes`, or a list of ids; at most 7. Default: at
    /// most 5.
    pub voters: Option<VotersConfig>,
    /// Name of this node in the output of commands.
    pub name: Option<String>,
    /// Address at which other nodes reach this one; only for a node that joins.
    pub address: Option<String>,
    /// Join token, or path of the file that contains it.
    pub join: Option<JoinFrom>,
}

/// One word or a list.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum OneOrMore {
    /// A single word.
    One(String),
    /// A list of words.
    More(Vec<String>),
}

impl OneOrMore {
    /// All of them.
    pub fn all(&self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one.clone()],
            Self::More(more) => more.clone(),
        }
    }
}

/// A gate of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    /// Name of the gate.
    pub name: String,
    /// Number of slots: at most k permits are held at once. A number, or an expression that this
    /// node resolves: `"cores"`, `"cores/2"`, `"mem/8GiB"`. Left out with `names`.
    pub k: Option<KConfig>,
    /// Names of the slots, in order, at most 1024; k is their number.
    pub names: Option<Vec<String>>,
    /// Protocol of the gate; `kgate protocols` lists them.
    #[serde(default = "slots")]
    pub protocol: String,
    /// Number of queues into which the slots are split.
    #[serde(default = "one")]
    pub lanes: u32,
}

/// The k of a gate of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "k must be a number, \"cores\", \"cores/2\" or \"mem/8GiB\"")]
pub enum KConfig {
    /// A number.
    Number(u32),
    /// An expression.
    Expression(String),
}

impl GateConfig {
    fn slots(&self) -> Result<Slots, String> {
        match (&self.k, &self.names) {
            (None, None) => Err("k is missing: give k or names".into()),
            (None, Some(names)) => {
                let slots = Slots::named(names.clone());
                slots.check().map_err(|bad| bad.to_string())?;
                Ok(slots)
            }
            (Some(KConfig::Number(k)), None) => Ok((*k).into()),
            (Some(KConfig::Number(k)), Some(names)) => {
                let slots = Slots::named(names.clone());
                let text =
                    format!("k = {k} with {} names: leave k out, or name all slots", slots.k);
                if slots.k == *k { Ok(slots) } else { Err(text) }
            }
            (Some(KConfig::Expression(text)), None) => {
                let k = KExpression::resolve(text).map_err(|error| error.to_string())?;
                Ok(Slots { k, source: KSource::Expression(text.clone()) })
            }
            (Some(KConfig::Expression(_)), Some(_)) => {
                Err("k is an expression, and names fix its number: give one of them".into())
            }
        }
    }

    fn definition(&self, id: u32) -> Result<Definition, BadConfig> {
        let name = &self.name;
        let invalid = |text| BadConfig::Invalid(format!("gate `{name}`: {text}"));
        let Slots { k, source } = self.slots().map_err(invalid)?;
        Ok(Definition {
            id: GateId(id),
            name: self.name.clone(),
            k,
            source,
            protocol: self.protocol.clone(),
            lanes: self.lanes,
            policy: Default::default(),
            author: "the configuration".into(),
        })
    }
}

/// Checks a gate of the configuration. It must be open: closing a gate is the decision of a named
/// operator, and a closed gate in the configuration of a new cluster is most likely a mistake.
fn can_be(gate: &Definition, nodes: u32) -> Result<(), BadConfig> {
    let name = &gate.name;
    let checked = match gate.check(nodes) {
        Err(error) if gate.k == 0 => {
            Err(format!("{error}; `kgate set {name} -k 0` closes a gate that is there"))
        }
        checked => checked.map_err(|error| error.to_string()),
    };
    checked.map(drop).map_err(|text| BadConfig::Invalid(format!("gate `{name}`: {text}")))
}

/// The files for TLS.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate chain of this node.
    pub certificate: PathBuf,
    /// Private key of this node.
    pub key: PathBuf,
    /// Certificate of the authority that signs the certificates of peers or clients.
    pub authority: PathBuf,
}

fn cluster() -> String {
    "kgate".into()
}
fn api() -> OneOrMore {
    OneOrMore::One("127.0.0.1:7400".into())
}
fn slots() -> String {
    "slots".into()
}
fn auto() -> String {
    "auto".into()
}
const fn yes() -> bool {
    true
}
const fn one() -> u32 {
    1
}
const fn detect_interval() -> u64 {
    500
}
const fn detect_timeout() -> u64 {
    2_000
}
const fn lease() -> u64 {
    4_000
}
const fn queue_max() -> usize {
    100_000
}
const fn connections_max() -> usize {
    20_000
}
const fn sessions_max() -> usize {
    100_000
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadConfig {
    /// The file cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(PathBuf, std::io::Error),
    /// It cannot be parsed.
    #[error("{0}: {1}")]
    Text(PathBuf, Box<toml::de::Error>),
    /// A value is invalid, or contradicts another.
    #[error("{0}")]
    Invalid(String),
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, BadConfig> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| BadConfig::Unreadable(path.into(), error))?;
        toml::from_str(&text).map_err(|error| BadConfig::Text(path.into(), Box::new(error)))
    }

    /// This node alone, for tests and for one machine: no peers.
    pub fn alone(api: &str) -> Self {
        let text = format!("id = 0\nnodes = [\"127.0.0.1:0\"]\napi = {api:?}\n");
        toml::from_str(&text).expect("it is a configuration")
    }

    pub(crate) fn me(&self) -> NodeId {
        NodeId(self.id)
    }

    /// Whether a node that restarts takes part again: only where every protocol remembers what it
    /// must, and has a place for it.
    pub(crate) fn accepts_restarts(&self) -> bool {
        let recovers =
            |gate: &GateConfig| registry::entry(&gate.protocol).is_ok_and(|entry| entry.recovers);
        self.data.is_some() && !self.new_gates && self.gates.iter().all(recovers)
    }

    pub(crate) fn security(&self) -> Security {
        match &self.tls {
            None => Security::Plain { is_explicit: self.plain_links },
            Some(tls) => Security::Tls {
                chain: tls.certificate.clone(),
                key: tls.key.clone(),
                ca: tls.authority.clone(),
            },
        }
    }

    /// The settings of the node's core.
    pub(crate) fn settings(
        &self,
        incarnation: Incarnation,
        seed: u64,
    ) -> Result<Settings, BadConfig> {
        let wrong = |text: String| BadConfig::Invalid(text);
        self.check_join()?;
        self.faults()?;
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        // The join token contains the ID of this node; the log contains the other nodes.
        let nodes = if self.join.is_some() { self.id.saturating_add(1) } else { nodes };
        if self.id >= nodes || (self.join.is_none() && nodes > 4096) {
            return Err(wrong(format!(
                "id = {} is not in the list of {nodes} nodes: ids count from 0, and a cluster has \
                 at most 4096 nodes",
                self.id
            )));
        }
        let ms = |ms: u64| Span(ms.saturating_mul(1_000_000));
        if self.slot_files.is_some() && (nodes > 1 || self.lease_ms > 0) {
            return Err(wrong("slot_files are for one node alone with lease_ms = 0".into()));
        }
        if self.detect_timeout_ms == 0 || self.detect_interval_ms == 0 {
            return Err(wrong("detect_interval_ms and detect_timeout_ms are at least 1".into()));
        }
        let entry = registry::entry(&self.protocol).map_err(|error| wrong(error.to_string()))?;
        if entry.follows_log {
            return Err(wrong(BadDefinition::LogNotSupported(entry.name).to_string()));
        }
        let fixed = self.gates.iter().zip(1..).map(|(gate, id)| gate.definition(id));
        let fixed: Vec<Definition> = fixed.collect::<Result<_, _>>()?;
        fixed.iter().try_for_each(|gate| can_be(gate, nodes))?;
        let names: usize = fixed.iter().map(|gate| gate.source.names().len()).sum();
        if names > bounds::NAMES_IN_ALL {
            return Err(wrong(Limit::Names.to_string()));
        }
        Ok(Settings {
            me: self.me(),
            nodes,
            fixed,
            new_gates: self.new_gates.then_some(entry),
            detection: self.detection()?,
            detect_interval: ms(self.detect_interval_ms),
            detect_timeout: ms(self.detect_timeout_ms),
            terms: SessionTerms {
                valid_for: (self.lease_ms > 0).then(|| ms(self.lease_ms)),
                clock_error: 10,
                kill: kgate_control::timing::Timing::DEFAULT.kill,
            },
            patience: ms(250),
            queue_max: self.queue_max,
            sessions_max: self.sessions_max,
            slots: SlotOptions { ask_again: Some(ms(3000)), batch: 64, ..SlotOptions::default() },
            refresh: ms(20),
            incarnation,
            seed,
            has_store: self.data.is_some(),
            control: None,
        })
    }

    fn detection(&self) -> Result<Detection, BadConfig> {
        let of = |name: &str| match name {
            "vcube" => Some(Detection::VCube),
            "heartbeat" => Some(Detection::Heartbeat),
            "hi-adsd" => Some(Detection::HiAdsd),
            "off" => Some(Detection::Off),
            _ => None,
        };
        if self.detector != "auto" {
            let text = format!(
                "detector = `{}`: choose auto, vcube, heartbeat, hi-adsd or off",
                self.detector
            );
            return of(&self.detector).ok_or(BadConfig::Invalid(text));
        }
        if self.accepts_restarts() {
            return Ok(Detection::Off);
        }
        // The detector of the first gate's paper.
        let first =
            self.gates.iter().find_map(|gate| registry::entry(&gate.protocol).ok()?.detector);
        Ok(first.and_then(of).unwrap_or(Detection::VCube))
    }

    /// The time without clients after which the node stops.
    pub(crate) fn idle_stop(&self) -> Option<Duration> {
        self.idle_stop_ms.map(Duration::from_millis)
    }
}
