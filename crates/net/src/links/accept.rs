//! The listener: accepts connections, reads the `Hello` of each within a time limit, and hands it
//! to the link of the peer that sent it.
//!
//! Anybody may find the port. A connection that sends no `Hello` in time is closed, and the number
//! of connections in a handshake is bounded: one more closes the oldest. A node sends its `Hello`
//! within milliseconds, so it is never the oldest for long, and idle connections are.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kgate_core::NodeId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::LinkEvent;
use crate::link::{
    Incoming, ReadError, Refusal, Shared, check, describe_node, read_frame, refuse, stopped,
};
use crate::tls::Socket;
use crate::wire::{Decoder, Frame, FrameError, HANDSHAKE_MAX, RefuseCode, VERSION};

/// Delay before the next `accept` when the system has no more sockets.
const OUT_OF_SOCKETS: Duration = Duration::from_millis(100);

pub(super) async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    events: mpsc::Sender<LinkEvent>,
    mut stop: watch::Receiver<bool>,
) {
    let acceptor = Arc::new(Acceptor { shared, events, last: Mutex::default() });
    let mut handshakes = JoinSet::new();
    let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    oldest.retain(|handle| !handle.is_finished());
                    if oldest.len() >= acceptor.shared.config.limits.in_handshake
                        && let Some(handle) = oldest.pop_front()
                    {
                        handle.abort();
                    }
                    let handshake = acceptor.clone().serve_in_time(stream, address.ip());
                    oldest.push_back(handshakes.spawn(handshake));
                }
                Err(_) => sleep(OUT_OF_SOCKETS).await,
            },
            Some(_) = handshakes.join_next() => {}
            () = stopped(&mut stop) => return,
        }
    }
}

struct Acceptor {
    shared: Arc<Shared>,
    events: mpsc::Sender<LinkEvent>,
    /// The last refusal that the owner was notified of: of each peer, and of unknown nodes.
    last: Mutex<BTreeMap<Option<NodeId>, Refusal>>,
}

impl Acceptor {
    async fn serve_in_time(self: Arc<Self>, stream: TcpStream, from: IpAddr) {
        let limit = self.shared.config.limits.handshake;
        let _ = timeout(limit, self.serve(stream, from)).await;
    }

    async fn serve(&self, stream: TcpStream, from: IpAddr) {
        let config = &self.shared.config;
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let (mut socket, identity) = match self.shared.tls.accept(stream).await {
            Ok(accepted) => accepted,
            Err(error) => {
                let message = format!("connection from {from} to {} refused: {error}", self.here());
                return self.notify(None, Refusal::local(RefuseCode::Certificate, message));
            }
        };
        let mut decoder = Decoder::new(HANDSHAKE_MAX);
        let hello = match read_frame(&mut socket, &mut decoder).await {
            Ok(Frame::Hello(hello)) => hello,
            Ok(Frame::Refuse { .. } | Frame::Data { .. } | Frame::Ack(_)) => {
                let message = format!("connection from {from} did not begin with a handshake");
                let refusal = Refusal::local(RefuseCode::Protocol, message);
                return self.refuse(socket, None, refusal).await;
            }
            Err(ReadError::Closed(_)) => return,
            Err(ReadError::Malformed(error)) => {
                return self.refuse(socket, None, self.refusal_of_bytes(from, &error)).await;
            }
        };
        let peer = self.shared.peers.find(hello.from);
        // The peer's own check is repeated by its link. It is made here too, so that a refused
        // connection does not cost the peer the one that it has.
        let checked = check(&self.shared, &hello, None)
            .and_then(|()| {
                identity.check(hello.from, &config.cluster).map_err(|error| {
                    let me = config.me;
                    let message = format!("connection from {from} to {me} refused: {error}");
                    Refusal::local(RefuseCode::Certificate, message)
                })
            })
            .and_then(|()| peer.as_ref().map_or(Ok(()), |peer| peer.check(&hello, config)));
        match (checked, peer) {
            (Ok(()), Some(peer)) => {
                // An error means that the link is being stopped.
                let _ = peer.incoming.send(Incoming { socket, decoder, hello }).await;
            }
            (Ok(()), None) => {}
            (Err(refusal), peer) => self.refuse(socket, peer.map(|peer| peer.id), refusal).await,
        }
    }

    fn here(&self) -> String {
        describe_node(self.shared.config.me, &self.shared.config.cluster)
    }

    /// The refusal of bytes that are no `Hello`.
    fn refusal_of_bytes(&self, from: IpAddr, error: &FrameError) -> Refusal {
        let here = self.here();
        match error {
            FrameError::Version(theirs) => Refusal::local(
                RefuseCode::Version,
                format!(
                    "a node at {from} speaks version {theirs} of the link protocol, and {here} \
                     speaks version {VERSION}: run one version of kgate on all nodes"
                ),
            ),
            FrameError::TooLong { .. }
            | FrameError::Empty
            | FrameError::UnknownKind(_)
            | FrameError::NotKgate
            | FrameError::Malformed(_) => Refusal::local(
                RefuseCode::Protocol,
                format!(
                    "connection from {from} to {here} sent no handshake: {error}. Is it another \
                     program, or a node with TLS where this one has none?"
                ),
            ),
        }
    }

    async fn refuse(&self, mut socket: Box<dyn Socket>, peer: Option<NodeId>, refusal: Refusal) {
        self.notify(peer, refusal.clone());
        refuse(&mut socket, &refusal).await;
    }

    /// Notifies the owner without waiting, and never of the same refusal of a peer twice in a row:
    /// unknown nodes could fill the queue.
    fn notify(&self, peer: Option<NodeId>, refusal: Refusal) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let event = LinkEvent::Refused { peer, refusal: refusal.clone() };
        if last.get(&peer) != Some(&refusal) && self.events.try_send(event).is_ok() {
            last.insert(peer, refusal);
        }
    }
}
