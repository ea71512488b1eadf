//! The link to one peer: a task that connects, shakes hands, carries messages, and starts again
//! when the connection is lost.
//!
//! One task has one connection at a time. A new connection of the peer replaces the old one, which
//! the peer gave up before it dialled again. The old connection is closed before the handshake says
//! how many messages have arrived, so that number is final. The [`Buffer`] of messages outlives the
//! connections. It is shared with the owner, who pushes into it and wakes the task.
//!
//! | file | content |
//! |---|---|
//! | `buffer` | the messages: exactly once in order, or as far as there is room |
//! | `peer` | what the owner and the task share |
//! | `handshake` | both sides of the handshake, and its checks |
//! | `established` | a connection that carries messages |
//! | `backoff` | the delay before the next attempt |
//! | `refusal` | why a link was refused |

mod backoff;
mod buffer;
mod established;
mod handshake;
mod peer;
mod refusal;

use std::sync::Arc;

use kgate_core::NodeId;
use tokio::sync::{mpsc, watch};

use crate::links::{LinkConfig, LinkEvent, PeerTable};
use crate::tls::TlsContext;
use backoff::Backoff;
pub(crate) use buffer::Buffer;
use established::ConnectionEnd;
use handshake::{Established, HandshakeError};
pub(crate) use handshake::{Incoming, ReadError, check, read_frame, refuse};
pub(crate) use peer::Peer;
pub use refusal::Refusal;

/// What all tasks of a node share.
pub(crate) struct Shared {
    pub(crate) config: LinkConfig,
    pub(crate) tls: TlsContext,
    pub(crate) peers: PeerTable,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.config.fmt(f)
    }
}

/// The owner has stopped the links or dropped its queue: the task ends.
pub(crate) struct Stopped;

/// The task of one peer.
pub(crate) struct Link {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    /// Connections on which the peer has sent its `Hello`, if the peer dials.
    incoming: mpsc::Receiver<Incoming>,
    owner: Owner,
    stop: watch::Receiver<bool>,
    backoff: Backoff,
    last_refusal: Option<Refusal>,
}

impl Link {
    pub(crate) fn new(
        shared: Arc<Shared>,
        peer: Arc<Peer>,
        incoming: mpsc::Receiver<Incoming>,
        events: mpsc::Sender<LinkEvent>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let owner = Owner { events, stop: stop.clone() };
        let backoff = Backoff::new(&shared.config.limits, shared.config.me, peer.id);
        Self { shared, peer, incoming, owner, stop, backoff, last_refusal: None }
    }

    /// Runs until the owner stops it.
    pub(crate) async fn run(mut self) {
        let Stopped = self.run_connections().await;
    }

    async fn run_connections(&mut self) -> Stopped {
        let mut incoming = None;
        loop {
            let connected = match incoming.take() {
                Some(incoming) => handshake::answer(&self.shared, &self.peer, incoming).await,
                None => match self.connect().await {
                    Ok(connected) => connected,
                    Err(stopped) => return stopped,
                },
            };
            let next = match connected {
                Ok(connection) => self.carry(connection).await,
                Err(HandshakeError::Refused(refusal)) => {
                    self.notify_refused(refusal).await.map(|()| None)
                }
                Err(HandshakeError::ChannelFailed) => self.notify_failed().await.map(|()| None),
                Err(HandshakeError::Unreachable) => Ok(None),
            };
            match next {
                Ok(next) => incoming = next,
                Err(stopped) => return stopped,
            }
        }
    }

    /// Waits for the result of the next handshake. The node with the smaller id dials.
    async fn connect(&mut self) -> Result<Result<Established, HandshakeError>, Stopped> {
        let dials = self.shared.config.me < self.peer.id;
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return Err(Stopped),
                () = self.peer.failed.notified() => {}
                () = self.peer.moved.notified() => {
                    self.backoff.reset();
                    continue;
                }
                connected = handshake::dial(&self.shared, &self.peer, &mut self.backoff),
                    if dials => {
                    return Ok(connected);
                }
                incoming = self.incoming.recv() => {
                    let incoming = incoming.ok_or(Stopped)?;
                    return Ok(handshake::answer(&self.shared, &self.peer, incoming).await);
                }
            }
            self.notify_failed().await?;
        }
    }

    /// Runs one connection from its first message to its end. Returns the connection that replaced
    /// it, if any.
    async fn carry(&mut self, connection: Established) -> Result<Option<Incoming>, Stopped> {
        let (peer, now) = (self.peer.id, connection.hello.incarnation);
        match self.peer.resume(&connection.hello) {
            Err(_) => return self.notify_failed().await.map(|()| None),
            Ok(Some(was)) => {
                self.owner.notify(LinkEvent::NewIncarnation { peer, was, now }).await?;
            }
            Ok(None) => {}
        }
        self.backoff.reset();
        self.last_refusal = None;
        self.owner.notify(LinkEvent::Up { peer, incarnation: now }).await?;
        let limits = &self.shared.config.limits;
        let (events, stop) = (&self.owner.events, self.stop.clone());
        let end = tokio::select! {
            end = established::carry(connection, &self.peer, limits, events, stop) => end,
            incoming = self.incoming.recv() => ConnectionEnd::Replaced(incoming.ok_or(Stopped)?),
            () = self.peer.until_failed() => ConnectionEnd::ChannelFailed,
        };
        if matches!(end, ConnectionEnd::Stopped) {
            return Err(Stopped);
        }
        self.owner.notify(LinkEvent::Down { peer }).await?;
        match end {
            ConnectionEnd::Stopped | ConnectionEnd::Lost => {}
            ConnectionEnd::Replaced(incoming) => return Ok(Some(incoming)),
            ConnectionEnd::ChannelFailed => self.notify_failed().await?,
            ConnectionEnd::Refused(refusal) => self.notify_refused(refusal).await?,
        }
        Ok(None)
    }

    async fn notify_failed(&mut self) -> Result<(), Stopped> {
        match self.peer.unreported_failure() {
            Some(error) => self.owner.notify(LinkEvent::Failed { peer: self.peer.id, error }).await,
            None => Ok(()),
        }
    }

    /// Notifies the owner once, even if the same refusal repeats.
    async fn notify_refused(&mut self, refusal: Refusal) -> Result<(), Stopped> {
        if self.last_refusal.as_ref() == Some(&refusal) {
            return Ok(());
        }
        self.last_refusal = Some(refusal.clone());
        self.owner.notify(LinkEvent::Refused { peer: Some(self.peer.id), refusal }).await
    }
}

/// The owner's event queue.
struct Owner {
    events: mpsc::Sender<LinkEvent>,
    stop: watch::Receiver<bool>,
}

impl Owner {
    /// Waits for room in the queue: an event is never dropped.
    async fn notify(&mut self, event: LinkEvent) -> Result<(), Stopped> {
        tokio::select! {
            biased;
            sent = self.events.send(event) => sent.map_err(|_| Stopped),
            () = stopped(&mut self.stop) => Err(Stopped),
        }
    }
}

/// Waits until the owner stops the links or is gone.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A node in messages for people.
pub(crate) fn describe_node(node: NodeId, cluster: &str) -> String {
    format!("{node} of cluster {cluster:?}")
}
