//! The configuration of links, and its checks before they start.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use kgate_core::{Incarnation, NodeId};

use crate::channel::Window;
use crate::tls::{Security, TlsFileError};
use crate::wire::{DATA_HEADER, FRAME_MAX, HANDSHAKE_MAX};

/// Configuration of the links of one node.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Name of the cluster. Nodes of another cluster are refused.
    pub cluster: String,
    /// This node.
    pub me: NodeId,
    /// Incarnation of this node: greater than every earlier one.
    pub incarnation: Incarnation,
    /// All other nodes, with their addresses as `host:port`. With [`WhenFull::Drop`] these are the
    /// initial ones.
    pub peers: Vec<(NodeId, String)>,
    /// Protection of the links.
    pub security: Security,
    /// Bounds and times.
    pub limits: LinkLimits,
    /// Whether a new incarnation of a peer replaces the earlier one. If not, it is refused for
    /// ever, because a protocol that has excluded a crashed process cannot readmit it by itself.
    pub accepts_restarts: bool,
    /// Whether messages may be lost, and members may be added and removed.
    pub when_full: WhenFull,
}

/// What happens to a message for a peer whose window is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The link fails, and the peer counts as crashed: for protocols that count replies. The nodes
    /// are fixed.
    Break,
    /// The oldest queued message is dropped, and the link never fails: for protocols that ask again
    /// (LEASES 11). Members may be added and removed, and every incarnation of a peer that is not
    /// older than the known one is connected again.
    Drop,
}

impl LinkConfig {
    /// Whether a new incarnation of a peer may replace the earlier one.
    pub(crate) fn accepts_new_incarnations(&self) -> bool {
        self.accepts_restarts || self.when_full == WhenFull::Drop
    }

    /// Number of nodes that all nodes must agree on; 0 if members can be added and removed.
    pub(crate) fn nodes(&self) -> u32 {
        match self.when_full {
            WhenFull::Break => u32::try_from(self.peers.len() + 1).unwrap_or(u32::MAX),
            WhenFull::Drop => 0,
        }
    }
}

/// Bounds and times of links. The defaults suit a local network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLimits {
    /// Maximum length of a frame, in bytes.
    pub frame_max: usize,
    /// Messages kept for a peer until it acknowledges them.
    pub window: Window,
    /// Time limit of a handshake.
    pub handshake: Duration,
    /// Maximum number of connections in a handshake; one more closes the oldest.
    pub in_handshake: usize,
    /// Delay before the first new attempt to dial. It doubles with each attempt, and up to a random
    /// half of it is left out, so that nodes that lost one peer together do not dial it together.
    pub backoff_min: Duration,
    /// Maximum delay before an attempt to dial.
    pub backoff_max: Duration,
    /// Number of messages after which an acknowledgement is sent by itself.
    pub ack_frames: u64,
    /// Time after which an acknowledgement is sent by itself.
    pub ack_delay: Duration,
    /// Time without a write after which an acknowledgement is sent as a keep-alive.
    pub keep_alive: Duration,
    /// A connection on which nothing arrives for this time is closed, at the latest after twice
    /// this time.
    pub silence: Duration,
    /// Seed of the random part of the backoff.
    pub seed: u64,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            frame_max: FRAME_MAX,
            window: Window { frames: 1 << 16, bytes: 16 << 20 },
            handshake: Duration::from_secs(3),
            in_handshake: 64,
            backoff_min: Duration::from_millis(20),
            backoff_max: Duration::from_secs(2),
            ack_frames: 64,
            ack_delay: Duration::from_millis(20),
            keep_alive: Duration::from_secs(1),
            silence: Duration::from_secs(4),
            seed: 0,
        }
    }
}

/// Why links could not be started. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The name of the cluster cannot be part of a DNS name.
    #[error(
        "invalid cluster name {0:?}: use 1 to 63 lower-case letters, digits and hyphens, \
         with no hyphen at either end"
    )]
    Cluster(String),
    /// Two nodes have the same id.
    #[error("two nodes have the id {0}: give each node its own id")]
    DuplicateId(NodeId),
    /// A limit is not valid.
    #[error("{0}")]
    Limits(&'static str),
    /// Plain links to other machines are not allowed.
    #[error(
        "{address} is not a loopback address, and links to it would be unencrypted: anybody on the \
         network could act as any node. Configure TLS (`kgate certs new` makes the files), or \
         allow \
         plain links explicitly"
    )]
    Plain {
        /// The first address of another machine.
        address: String,
    },
    /// A file for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsFileError),
    /// The listener has no address.
    #[error("cannot read the address of the listener: {0}")]
    Listener(#[from] std::io::Error),
}

pub(super) fn check(config: &LinkConfig, listening: SocketAddr) -> Result<(), StartError> {
    check_cluster(&config.cluster)?;
    let mut ids: Vec<_> = config.peers.iter().map(|(id, _)| *id).chain([config.me]).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(StartError::DuplicateId(pair[0]));
    }
    let limits = &config.limits;
    if limits.frame_max < HANDSHAKE_MAX + DATA_HEADER || u32::try_from(limits.frame_max).is_err() {
        return Err(StartError::Limits("`frame_max` must be between 529 bytes and 4 GiB"));
    }
    if limits.silence < limits.keep_alive * 2 {
        return Err(StartError::Limits("`silence` must be at least twice `keep_alive`"));
    }
    if limits.in_handshake == 0 {
        return Err(StartError::Limits("`in_handshake` must be at least 1"));
    }
    check_plain(config, listening)
}

/// Checks the name of a cluster, which becomes part of the DNS names in certificates.
pub fn check_cluster(name: &str) -> Result<(), StartError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = (1..=63).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if good { Ok(()) } else { Err(StartError::Cluster(name.to_owned())) }
}

/// Checks that plain links stay on this machine, unless they are allowed explicitly.
pub fn check_plain(config: &LinkConfig, listening: SocketAddr) -> Result<(), StartError> {
    match config.security {
        Security::Plain { is_explicit: true } | Security::Tls { .. } => return Ok(()),
        Security::Plain { is_explicit: false } => {}
    }
    if !listening.ip().is_loopback() {
        return Err(StartError::Plain { address: listening.to_string() });
    }
    config.peers.iter().try_for_each(|(_, address)| check_address(config, address))
}

/// Checks the same for one address.
pub(super) fn check_address(config: &LinkConfig, address: &str) -> Result<(), StartError> {
    match config.security {
        Security::Plain { is_explicit: false } if !is_loopback(address) => {
            Err(StartError::Plain { address: address.to_owned() })
        }
        Security::Plain { .. } | Security::Tls { .. } => Ok(()),
    }
}

/// Decides by the text alone, because the meaning of a host name may change.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests;
