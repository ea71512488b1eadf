//! Links to all peers: one TCP connection a pair, kept up for as long as both live.
//!
//! The node with the smaller id dials; so there is never more than one connection, and nobody needs
//! to decide which of two to drop. Each peer has a task of its own ([`link`](crate::link)) with its
//! own connection and its own bounded [`Channel`](crate::Channel), so a peer that is slow or dead
//! delays no other. One more task accepts connections and lets them greet ([`accept`]).
//!
//! To the owner a link is a pair of plain calls: [`Links::send`] never waits, and everything that
//! happens comes as a [`LinkEvent`] through the owner's own queue. When the owner does not drain
//! it, the tasks stop reading, and TCP stops the peers; nothing is dropped. When a peer does not
//! read, its window fills, and the link [breaks](LinkEvent::Broken), or drops the oldest of what
//! waits: [`WhenFull`] says which.
//!
//! **Promise** with [`WhenFull::Break`]. The [`LinkEvent::Frame`]s of a peer are, between two
//! incarnations, a prefix of what the other has sent, in order, each once. All of one incarnation
//! come after the `Up` that names it, and before the `Reborn` that names the next.
//!
//! **Promise** with [`WhenFull::Drop`]. The frames of a peer are, on one connection, some of what
//! the other has sent, in order, each once. Links never break, nobody counts as crashed, and
//! members [come](Links::add) and [go](Links::remove) while all others go on.

mod accept;
mod config;
mod roster;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use kgate_core::{Incarnation, NodeId};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::channel::Broken;
use crate::link::{Link, Peer, Shared};
use crate::tls::Keys;
use crate::wire::DATA_HEAD;
pub use config::{LinkConfig, LinkLimits, NotStarted, WhenFull, check_cluster, check_plain};
pub(crate) use roster::Roster;

/// What happens on the links of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// There is a connection to that incarnation of the peer.
    Up {
        /// Which peer.
        peer: NodeId,
        /// Which incarnation of it.
        incarnation: Incarnation,
    },
    /// The connection is gone. What is sent is kept, and the link comes up again by itself.
    Down {
        /// Which peer.
        peer: NodeId,
    },
    /// A message.
    Frame {
        /// Who has sent it.
        from: NodeId,
        /// What it is.
        bytes: Bytes,
    },
    /// A new incarnation of the peer, with [`WhenFull::Break`]. What was kept for the old one is
    /// dropped, and so is what is sent until the owner calls [`Links::welcome`]: it was thought out
    /// for the old incarnation.
    Reborn {
        /// Which peer.
        peer: NodeId,
        /// The incarnation that is over.
        was: Incarnation,
        /// The one that begins.
        now: Incarnation,
    },
    /// Messages to that incarnation of the peer are lost: it counts as crashed. It is refused from
    /// now on.
    Broken {
        /// Which peer.
        peer: NodeId,
        /// Why.
        why: Broken,
    },
    /// A link was refused, by this side or by the other. The same reason is told once, not at each
    /// attempt.
    Refused {
        /// Which peer, if it was possible to know.
        peer: Option<NodeId>,
        /// Why, and what to do.
        why: String,
    },
}

/// Why a message was not taken. It is the caller's mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// Nobody has that id, or it is this node's own.
    #[error("there is no link to {0}: it is not among the peers")]
    NoPeer(NodeId),
    /// No frame can hold it.
    #[error("a message of {length} bytes, where at most {limit} fit into a frame")]
    TooLong {
        /// Its length.
        length: usize,
        /// The most.
        limit: usize,
    },
}

/// Why a member was not added. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdded {
    /// It is this node itself.
    #[error("{0} is this node itself: it has no link to itself")]
    Myself(NodeId),
    /// The links were started for fixed nodes.
    #[error(
        "{0} cannot come or go: the nodes of links that must lose nothing are fixed. Stop all nodes and change the list"
    )]
    Fixed(NodeId),
    /// Its address cannot be used.
    #[error("{0}")]
    Address(String),
}

/// The links of a node. Dropping it closes them all at once.
#[derive(Debug)]
pub struct Links {
    shared: Arc<Shared>,
    events: mpsc::Sender<LinkEvent>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Links {
    /// Whether links could be started so: the configuration fits together and its certificates are
    /// there. Nothing is begun.
    pub fn check(config: &LinkConfig, listening: SocketAddr) -> Result<(), NotStarted> {
        Self::keys(config, listening).map(drop)
    }

    fn keys(config: &LinkConfig, listening: SocketAddr) -> Result<Keys, NotStarted> {
        config::check(config, listening)?;
        Ok(Keys::load(&config.security, config.me, &config.cluster)?)
    }

    /// Begins to dial, and to accept on the listener. The events come through the owner's queue;
    /// its capacity is how much may wait before reading pauses.
    pub async fn start(
        config: LinkConfig,
        listener: TcpListener,
        events: mpsc::Sender<LinkEvent>,
    ) -> Result<Self, NotStarted> {
        let keys = Self::keys(&config, listener.local_addr()?)?;
        let (stop, stopped) = watch::channel(false);
        let peers = config.peers.clone();
        let shared = Arc::new(Shared { config, keys, roster: Roster::default() });
        let mut links =
            Self { shared: shared.clone(), events: events.clone(), stop, tasks: JoinSet::new() };
        peers.into_iter().for_each(|(id, address)| links.begin(id, address));
        links.tasks.spawn(accept::accept(shared, listener, events, stopped));
        Ok(links)
    }

    /// A member has come, or has another address: the next connection goes there, one that works is
    /// left alone.
    pub fn add(&mut self, peer: NodeId, address: &str) -> Result<(), NotAdded> {
        self.may_change(peer)?;
        let checked = config::check_address(&self.shared.config, address);
        checked.map_err(|error| NotAdded::Address(error.to_string()))?;
        match self.shared.roster.find(peer) {
            Some(known) => known.move_to(address.to_owned()),
            None => self.begin(peer, address.to_owned()),
        }
        Ok(())
    }

    /// A member has gone: its connection is closed at once, and it is refused from now on. No event
    /// of it comes but those that are in the owner's queue already. Whether it was one.
    pub fn remove(&mut self, peer: NodeId) -> Result<bool, NotAdded> {
        self.may_change(peer)?;
        let task = self.shared.roster.remove(peer);
        while self.tasks.try_join_next().is_some() {}
        Ok(task.map(|task| task.abort()).is_some())
    }

    fn may_change(&self, peer: NodeId) -> Result<(), NotAdded> {
        let config = &self.shared.config;
        match config.when_full {
            _ if peer == config.me => Err(NotAdded::Myself(peer)),
            WhenFull::Break => Err(NotAdded::Fixed(peer)),
            WhenFull::Drop => Ok(()),
        }
    }

    fn begin(&mut self, id: NodeId, address: String) {
        let (incoming, calls) = mpsc::channel(1);
        let peer = Arc::new(Peer::new(id, address, incoming, &self.shared.config));
        let (events, stopped) = (self.events.clone(), self.stop.subscribe());
        let link = Link::new(self.shared.clone(), peer.clone(), calls, events, stopped);
        let task = self.tasks.spawn(link.run());
        self.shared.roster.insert(peer, task);
    }

    /// Sends a message. Never waits: it is kept until the peer has acknowledged it. If the peer's
    /// window is full, or the link is broken already, it is dropped, and a [`LinkEvent::Broken`]
    /// says so once. With [`WhenFull::Drop`] it is kept until it is written, and older ones make
    /// room for it.
    pub fn send(&self, to: NodeId, bytes: impl Into<Bytes>) -> Result<(), NotSent> {
        let bytes = bytes.into();
        let limit = self.shared.config.limits.frame_max - DATA_HEAD;
        if bytes.len() > limit {
            return Err(NotSent::TooLong { length: bytes.len(), limit });
        }
        self.peer(to)?.send(bytes);
        Ok(())
    }

    /// The owner has taken note of the peer's new incarnation: from now on, what it sends is meant
    /// for it.
    pub fn welcome(&self, peer: NodeId, incarnation: Incarnation) -> Result<(), NotSent> {
        self.peer(peer)?.welcome(incarnation);
        Ok(())
    }

    /// The owner counts the peer's present incarnation as crashed: what is kept for it is dropped,
    /// the connection closed, and that incarnation refused from now on, with this reason. Links
    /// that may lose messages never break: there this does nothing, and [`remove`](Self::remove) is
    /// for members that have gone.
    pub fn forget(&self, peer: NodeId, why: &str) -> Result<(), NotSent> {
        self.peer(peer)?.break_off(Broken::GivenUp(why.to_owned()));
        Ok(())
    }

    /// Why the link to a peer is broken, if it is.
    pub fn broken(&self, peer: NodeId) -> Result<Option<Broken>, NotSent> {
        Ok(self.peer(peer)?.broken())
    }

    /// So many messages to a peer were dropped, ever, because older ones waited: never with
    /// [`WhenFull::Break`].
    pub fn dropped(&self, peer: NodeId) -> Result<u64, NotSent> {
        Ok(self.peer(peer)?.dropped())
    }

    /// Writes what was sent, as far as the peers take it within the time of a handshake, and closes
    /// all links.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let all_end = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.shared.config.limits.handshake, all_end).await;
    }

    fn peer(&self, id: NodeId) -> Result<Arc<Peer>, NotSent> {
        self.shared.roster.find(id).ok_or(NotSent::NoPeer(id))
    }
}
