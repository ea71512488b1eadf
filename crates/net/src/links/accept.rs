//! The port: whoever connects may greet, for a short time, and is handed to the link of the peer
//! that it is.
//!
//! Anybody may find the port. So a connection that does not greet in time is closed, and only so
//! many may be at it at once: one more closes the oldest. A node greets within milliseconds, so it
//! is never the oldest for long, while those who hold on for nothing are.

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
use crate::link::{Call, Shared, Unread, check, named, read_frame, refuse, stopped};
use crate::tls::Socket;
use crate::wire::{Decoder, Frame, GREETING_MAX, Junk};

/// When the system has no more sockets, this long until we ask again.
const OUT_OF_SOCKETS: Duration = Duration::from_millis(100);

pub(super) async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    events: mpsc::Sender<LinkEvent>,
    mut stop: watch::Receiver<bool>,
) {
    let port = Arc::new(Port { shared, events, last: Mutex::default() });
    let mut greeting = JoinSet::new();
    let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    oldest.retain(|handle| !handle.is_finished());
                    if oldest.len() >= port.shared.config.limits.in_handshake
                        && let Some(handle) = oldest.pop_front()
                    {
                        handle.abort();
                    }
                    oldest.push_back(greeting.spawn(port.clone().greet(stream, address.ip())));
                }
                Err(_) => sleep(OUT_OF_SOCKETS).await,
            },
            Some(_) = greeting.join_next() => {}
            () = stopped(&mut stop) => return,
        }
    }
}

struct Port {
    shared: Arc<Shared>,
    events: mpsc::Sender<LinkEvent>,
    /// What was told last of each peer, and of strangers.
    last: Mutex<BTreeMap<Option<NodeId>, String>>,
}

impl Port {
    async fn greet(self: Arc<Self>, stream: TcpStream, from: IpAddr) {
        let in_time = self.shared.config.limits.handshake;
        let _ = timeout(in_time, self.hear(stream, from)).await;
    }

    async fn hear(&self, stream: TcpStream, from: IpAddr) {
        let config = &self.shared.config;
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let (mut socket, shown) = match self.shared.keys.accept(stream).await {
            Ok(accepted) => accepted,
            Err(why) => {
                return self.tell(
                    None,
                    format!("a call from {from} to {} was not taken: {why}", self.here()),
                );
            }
        };
        let mut decoder = Decoder::new(GREETING_MAX);
        let hello = match read_frame(&mut socket, &mut decoder).await {
            Ok(Frame::Hello(hello)) => hello,
            Ok(Frame::Refuse(_) | Frame::Data { .. } | Frame::Ack(_)) => {
                return self
                    .refuse(
                        socket,
                        None,
                        format!("a call from {from} did not begin with a greeting"),
                    )
                    .await;
            }
            Err(Unread::Lost(_)) => return,
            Err(Unread::Junk(junk)) => {
                return self.refuse(socket, None, self.text(from, &junk)).await;
            }
        };
        let peer = self.shared.roster.find(hello.from);
        let checked = check(&self.shared, &hello, None).and_then(|()| {
            let shown = shown.is(hello.from, &config.cluster);
            shown.map_err(|why| format!("a call from {from} to {} was not taken: {why}", config.me))
        });
        // Checked here too, so that a call that is refused does not cost the peer the connection
        // that it has.
        let checked =
            checked.and_then(|()| peer.as_ref().map_or(Ok(()), |peer| peer.check(&hello, config)));
        match (checked, peer) {
            (Ok(()), Some(peer)) => {
                // An error means that the link is being stopped.
                let _ = peer.calls.send(Call { socket, decoder, hello }).await;
            }
            (Ok(()), None) => {}
            (Err(why), peer) => self.refuse(socket, peer.map(|peer| peer.id), why).await,
        }
    }

    fn here(&self) -> String {
        named(self.shared.config.me, &self.shared.config.cluster)
    }

    /// What came instead of a greeting.
    fn text(&self, from: IpAddr, junk: &Junk) -> String {
        let here = self.here();
        match junk {
            Junk::Version(theirs) => format!(
                "a node that calls from {from} speaks version {theirs} of the links, and {here} speaks version {}: run one \
                 version of kgate on all nodes",
                crate::wire::VERSION
            ),
            Junk::TooLong { .. }
            | Junk::Empty
            | Junk::Kind(_)
            | Junk::NotKgate
            | Junk::Malformed(_) => {
                format!(
                    "a call from {from} to {here} is no greeting: {junk}. Is it another program, or a node with TLS where this \
                 one has none?"
                )
            }
        }
    }

    async fn refuse(&self, mut socket: Box<dyn Socket>, peer: Option<NodeId>, why: String) {
        self.tell(peer, why.clone());
        refuse(&mut socket, &why).await;
    }

    /// Never waits for the owner, and never tells the same of a peer twice in a row: strangers
    /// could fill the queue.
    fn tell(&self, peer: Option<NodeId>, why: String) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let event = LinkEvent::Refused { peer, why: why.clone() };
        if last.get(&peer) != Some(&why) && self.events.try_send(event).is_ok() {
            last.insert(peer, why);
        }
    }
}
