//! Links to all peers: one TCP connection per pair, dialled again whenever it is lost.
//!
//! The node with the smaller id dials, so two nodes never have two connections. Each peer has its
//! own task ([`link`](crate::link)), connection and bounded [`Buffer`](crate::link::Buffer), so a
//! slow or dead peer delays no other. One more task accepts connections ([`accept`]).
//!
//! The owner calls [`Links::send`], which never waits, and receives every [`LinkEvent`] through its
//! own queue. When the owner does not drain the queue, the tasks stop reading, and TCP flow control
//! stops the peers; nothing is dropped. When a peer does not read, its window fills. The link then
//! [fails](LinkEvent::Failed) or drops the oldest message, as [`WhenFull`] says.
//!
//! **Guarantee** with [`WhenFull::Break`]. Between two incarnations, the [`LinkEvent::Message`]s
//! of a peer are a prefix of the messages that the peer sent, in order, each once. All messages of
//! an incarnation come after the `Up` that names it, and before the `NewIncarnation` that names the
//! next.
//!
//! **Guarantee** with [`WhenFull::Drop`]. On one connection, the messages of a peer are a
//! subsequence of those that the peer sent, each once. Links never fail, no peer counts as crashed,
//! and members are [added](Links::add) and [removed](Links::remove) while all other links go on.

mod accept;
mod config;
mod peer_table;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use kgate_core::{Incarnation, NodeId};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::channel::ChannelError;
use crate::link::{Link, Peer, Refusal, Shared};
use crate::tls::TlsContext;
use crate::wire::DATA_HEADER;
pub use config::{LinkConfig, LinkLimits, StartError, WhenFull, check_cluster, check_plain};
pub(crate) use peer_table::PeerTable;

/// What happens on the links of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// There is a connection to this incarnation of the peer.
    Up {
        /// The peer.
        peer: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// The connection is lost. Messages to the peer are kept, and the link comes up again by
    /// itself.
    Down {
        /// The peer.
        peer: NodeId,
    },
    /// A message arrived.
    Message {
        /// The peer that sent it.
        from: NodeId,
        /// Its content.
        bytes: Bytes,
    },
    /// The peer has a new incarnation (only with [`WhenFull::Break`]). Messages kept for the
    /// earlier one are dropped, and so are those sent until the owner calls [`Links::accept`]: they
    /// were meant for the earlier incarnation.
    NewIncarnation {
        /// The peer.
        peer: NodeId,
        /// The earlier incarnation.
        was: Incarnation,
        /// The new incarnation.
        now: Incarnation,
    },
    /// Messages to this incarnation of the peer are lost, so it counts as crashed. It is refused
    /// from now on.
    Failed {
        /// The peer.
        peer: NodeId,
        /// Cause of the failure.
        error: ChannelError,
    },
    /// This side or the peer refused a link. A refusal that repeats is reported once.
    Refused {
        /// The peer, if it is known.
        peer: Option<NodeId>,
        /// Code and message.
        refusal: Refusal,
    },
}

/// Why a call about a peer failed. The caller made a mistake; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No peer has this id.
    #[error("there is no link to {0}: it is not among the peers")]
    UnknownPeer(NodeId),
    /// The message does not fit into a frame.
    #[error("a message of {length} bytes does not fit into a frame, which holds {limit}")]
    TooLong {
        /// Length of the message.
        length: usize,
        /// Maximum length of a message.
        limit: usize,
    },
}

/// Why a member was not added or removed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The member is this node.
    #[error("{0} is this node, which has no link to itself")]
    OwnNode(NodeId),
    /// The links were started for fixed nodes.
    #[error(
        "{0} cannot be added or removed: links that lose no message have fixed nodes. Stop all \
         nodes and change the list"
    )]
    Fixed(NodeId),
    /// The address is not allowed.
    #[error(transparent)]
    Address(StartError),
}

/// The links of a node. Dropping it closes all of them at once.
#[derive(Debug)]
pub struct Links {
    shared: Arc<Shared>,
    events: mpsc::Sender<LinkEvent>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Links {
    /// Checks the configuration and its certificates without starting anything.
    pub fn check(config: &LinkConfig, listening: SocketAddr) -> Result<(), StartError> {
        Self::load_tls(config, listening).map(drop)
    }

    fn load_tls(config: &LinkConfig, listening: SocketAddr) -> Result<TlsContext, StartError> {
        config::check(config, listening)?;
        Ok(TlsContext::load(&config.security, config.me, &config.cluster)?)
    }

    /// Starts to dial, and to accept connections on the listener. Events go into the owner's queue;
    /// when it is full, reading pauses.
    pub async fn start(
        config: LinkConfig,
        listener: TcpListener,
        events: mpsc::Sender<LinkEvent>,
    ) -> Result<Self, StartError> {
        let tls = Self::load_tls(&config, listener.local_addr()?)?;
        let (stop, stopped) = watch::channel(false);
        let peers = config.peers.clone();
        let shared = Arc::new(Shared { config, tls, peers: PeerTable::default() });
        let mut links =
            Self { shared: shared.clone(), events: events.clone(), stop, tasks: JoinSet::new() };
        peers.into_iter().for_each(|(id, address)| links.start_link(id, address));
        links.tasks.spawn(accept::accept(shared, listener, events, stopped));
        Ok(links)
    }

    /// Adds a member, or sets another address for it. The next connection goes to that address; one
    /// that works stays.
    pub fn add(&mut self, peer: NodeId, address: &str) -> Result<(), MembershipError> {
        self.check_change(peer)?;
        let checked = config::check_address(&self.shared.config, address);
        checked.map_err(MembershipError::Address)?;
        match self.shared.peers.find(peer) {
            Some(known) => known.move_to(address.to_owned()),
            None => self.start_link(peer, address.to_owned()),
        }
        Ok(())
    }

    /// Removes a member: its connection is closed at once, and it is refused from now on. Only the
    /// events that are already in the owner's queue still arrive. Returns whether it was a member.
    pub fn remove(&mut self, peer: NodeId) -> Result<bool, MembershipError> {
        self.check_change(peer)?;
        let task = self.shared.peers.remove(peer);
        while self.tasks.try_join_next().is_some() {}
        Ok(task.map(|task| task.abort()).is_some())
    }

    fn check_change(&self, peer: NodeId) -> Result<(), MembershipError> {
        let config = &self.shared.config;
        match config.when_full {
            _ if peer == config.me => Err(MembershipError::OwnNode(peer)),
            WhenFull::Break => Err(MembershipError::Fixed(peer)),
            WhenFull::Drop => Ok(()),
        }
    }

    fn start_link(&mut self, id: NodeId, address: String) {
        let (sender, incoming) = mpsc::channel(1);
        let peer = Arc::new(Peer::new(id, address, sender, &self.shared.config));
        let (events, stopped) = (self.events.clone(), self.stop.subscribe());
        let link = Link::new(self.shared.clone(), peer.clone(), incoming, events, stopped);
        let task = self.tasks.spawn(link.run());
        self.shared.peers.insert(peer, task);
    }

    /// Sends a message without waiting. It is kept until the peer has acknowledged it. If the
    /// peer's window is full or the link has failed before, it is dropped, and one
    /// [`LinkEvent::Failed`] reports that. With [`WhenFull::Drop`] it is kept until it is written,
    /// and older messages make room for it.
    pub fn send(&self, to: NodeId, bytes: impl Into<Bytes>) -> Result<(), SendError> {
        let bytes = bytes.into();
        let limit = self.shared.config.limits.frame_max - DATA_HEADER;
        if bytes.len() > limit {
            return Err(SendError::TooLong { length: bytes.len(), limit });
        }
        self.peer(to)?.send(bytes);
        Ok(())
    }

    /// Accepts the peer's new incarnation: messages sent from now on are meant for it.
    pub fn accept(&self, peer: NodeId, incarnation: Incarnation) -> Result<(), SendError> {
        self.peer(peer)?.accept(incarnation);
        Ok(())
    }

    /// Declares the peer's present incarnation dead: messages kept for it are dropped, the
    /// connection is closed, and that incarnation is refused from now on, with this reason. Links
    /// that may lose messages never fail: for them this does nothing, and [`remove`](Self::remove)
    /// removes a member.
    pub fn declare_dead(&self, peer: NodeId, reason: &str) -> Result<(), SendError> {
        self.peer(peer)?.fail(ChannelError::DeclaredDead(reason.to_owned()));
        Ok(())
    }

    /// Why the link to a peer has failed, if it has.
    pub fn failure(&self, peer: NodeId) -> Result<Option<ChannelError>, SendError> {
        Ok(self.peer(peer)?.failure())
    }

    /// Number of messages to a peer that were dropped for want of room: 0 with [`WhenFull::Break`].
    pub fn dropped(&self, peer: NodeId) -> Result<u64, SendError> {
        Ok(self.peer(peer)?.dropped())
    }

    /// Writes the messages that were sent, as far as the peers read them within the time limit of a
    /// handshake, and closes all links.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let all_end = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.shared.config.limits.handshake, all_end).await;
    }

    fn peer(&self, id: NodeId) -> Result<Arc<Peer>, SendError> {
        self.shared.peers.find(id).ok_or(SendError::UnknownPeer(id))
    }
}
