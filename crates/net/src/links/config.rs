//! What links need to know, and what is refused before they start.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use kgate_core::{Incarnation, NodeId};

use crate::channel::Window;
use crate::tls::{NotLoaded, Security};
use crate::wire::{DATA_HEAD, FRAME_MAX, GREETING_MAX};

/// The links of one node.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The name of the cluster: nodes of another are refused.
    pub cluster: String,
    /// This node.
    pub me: NodeId,
    /// This incarnation of it: greater than that of every incarnation before.
    pub incarnation: Incarnation,
    /// All other nodes, with their addresses as `host:port`; with [`WhenFull::Drop`], those to
    /// begin with.
    pub peers: Vec<(NodeId, String)>,
    /// How links are protected.
    pub security: Security,
    /// Bounds and times.
    pub limits: LinkLimits,
    /// Whether a new incarnation of a peer takes the place of the old one. If not it is refused for
    /// ever: protocols that count a crashed process out cannot take it back by themselves.
    pub accepts_returns: bool,
    /// Whether messages may be lost, and members come and go.
    pub when_full: WhenFull,
}

/// What happens to a message for a peer that takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The link breaks, and the peer counts as crashed: for protocols that count replies. The nodes
    /// are fixed.
    Break,
    /// The oldest message that waits is dropped, and nothing ever breaks: for protocols that ask
    /// again (LEASES 11). Members come and go, and any incarnation of them that is not outlived is
    /// simply connected again.
    Drop,
}

impl LinkConfig {
    /// Whether a new incarnation of a peer may take the place of the old one.
    pub(crate) fn takes_back(&self) -> bool {
        self.accepts_returns || self.when_full == WhenFull::Drop
    }

    /// The number of nodes that all must agree on; 0 where members come and go.
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
    /// The longest frame.
    pub frame_max: usize,
    /// How much is kept for a peer that has not acknowledged it.
    pub window: Window,
    /// A connection that has not greeted for so long is closed.
    pub handshake: Duration,
    /// So many connections may greet at once; one more closes the oldest.
    pub in_handshake: usize,
    /// The pause before the first new attempt to dial. It doubles with each, and a random half of
    /// it is left out, so that nodes that lost one peer together do not call it together.
    pub pause_least: Duration,
    /// The longest pause.
    pub pause_most: Duration,
    /// After so many messages an acknowledgement is sent alone.
    pub ack_frames: u64,
    /// After this time an acknowledgement is sent alone.
    pub ack_delay: Duration,
    /// A side that has had nothing to say for so long says that it is there.
    pub keep_alive: Duration,
    /// A connection on which nothing came for so long is closed, at the latest after twice that.
    pub silence: Duration,
    /// Where the random part of the pauses comes from.
    pub seed: u64,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            frame_max: FRAME_MAX,
            window: Window { frames: 1 << 16, bytes: 16 << 20 },
            handshake: Duration::from_secs(3),
            in_handshake: 64,
            pause_least: Duration::from_millis(20),
            pause_most: Duration::from_secs(2),
            ack_frames: 64,
            ack_delay: Duration::from_millis(20),
            keep_alive: Duration::from_secs(1),
            silence: Duration::from_secs(4),
            seed: 0,
        }
    }
}

/// Why links did not start.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// The name of the cluster cannot be part of a certificate's name.
    #[error(
        "the cluster's name {0:?} cannot be used: take 1 to 63 small letters, digits and hyphens, with no hyphen at either end"
    )]
    Cluster(String),
    /// An id stands twice.
    #[error("{0} stands twice among the nodes: each has an id of its own")]
    Twice(NodeId),
    /// A limit that cannot be.
    #[error("{0}")]
    Limits(&'static str),
    /// Plain links to other machines.
    #[error(
        "{address} is not an address of this machine, and links to it would be plain: anybody on the network could speak as \
         any node. Give the files for TLS (`kgate certs new` makes them), or allow plain links by name"
    )]
    Plain {
        /// The first such address.
        address: String,
    },
    /// The files for TLS.
    #[error(transparent)]
    Tls(#[from] NotLoaded),
    /// The listener.
    #[error("the listener does not tell its address: {0}")]
    Listener(#[from] std::io::Error),
}

pub(super) fn check(config: &LinkConfig, listening: SocketAddr) -> Result<(), NotStarted> {
    check_cluster(&config.cluster)?;
    let mut ids: Vec<_> = config.peers.iter().map(|(id, _)| *id).chain([config.me]).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(NotStarted::Twice(pair[0]));
    }
    let limits = &config.limits;
    if limits.frame_max < GREETING_MAX + DATA_HEAD || u32::try_from(limits.frame_max).is_err() {
        return Err(NotStarted::Limits("the longest frame must have between 529 bytes and 4 GiB"));
    }
    if limits.silence < limits.keep_alive * 2 {
        return Err(NotStarted::Limits(
            "the silence that closes a link must be at least twice the time of keep-alive",
        ));
    }
    if limits.in_handshake == 0 {
        return Err(NotStarted::Limits("at least one connection must be able to greet"));
    }
    check_plain(config, listening)
}

/// Whether a name can be a cluster's: it becomes part of the names in certificates.
pub fn check_cluster(name: &str) -> Result<(), NotStarted> {
    let allowed =
        |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    let good = (1..=63).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if good { Ok(()) } else { Err(NotStarted::Cluster(name.to_owned())) }
}

/// Plain links are for one machine, unless they were asked for by name.
pub fn check_plain(config: &LinkConfig, listening: SocketAddr) -> Result<(), NotStarted> {
    match config.security {
        Security::Plain { asked_for: true } | Security::Tls { .. } => return Ok(()),
        Security::Plain { asked_for: false } => {}
    }
    if !listening.ip().is_loopback() {
        return Err(NotStarted::Plain { address: listening.to_string() });
    }
    config.peers.iter().try_for_each(|(_, address)| check_address(config, address))
}

/// The same for one address.
pub(super) fn check_address(config: &LinkConfig, address: &str) -> Result<(), NotStarted> {
    match config.security {
        Security::Plain { asked_for: false } if !is_of_this_machine(address) => {
            Err(NotStarted::Plain { address: address.to_owned() })
        }
        Security::Plain { .. } | Security::Tls { .. } => Ok(()),
    }
}

/// By its text alone: what a name means may change.
fn is_of_this_machine(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests;
