//! Nodes with real sockets, a proxy that cuts their connections, and waits with a deadline.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kgate_core::{Incarnation, NodeId};
use kgate_net::{LinkConfig, LinkEvent, LinkLimits, Links, Refusal, Security, WhenFull};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Limit of every wait: long enough for a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Limits for tests: a short backoff.
pub fn limits() -> LinkLimits {
    LinkLimits {
        backoff_min: Duration::from_millis(5),
        backoff_max: Duration::from_millis(50),
        ..LinkLimits::default()
    }
}

pub fn config(me: u32, incarnation: u32, peers: &[(u32, SocketAddr)]) -> LinkConfig {
    LinkConfig {
        cluster: "farm".into(),
        me: NodeId(me),
        incarnation: Incarnation(incarnation),
        peers: peers.iter().map(|(id, address)| (NodeId(*id), address.to_string())).collect(),
        security: Security::Plain { is_explicit: false },
        limits: limits(),
        accepts_restarts: true,
        when_full: WhenFull::Break,
    }
}

pub struct Node {
    pub links: Links,
    pub events: mpsc::Receiver<LinkEvent>,
}

impl Node {
    pub async fn start(config: LinkConfig, listener: TcpListener) -> Self {
        Self::with_queue(config, listener, 1024).await
    }

    pub async fn with_queue(config: LinkConfig, listener: TcpListener, queue: usize) -> Self {
        let (sender, events) = mpsc::channel(queue);
        Self { links: Links::start(config, listener, sender).await.unwrap(), events }
    }

    pub fn send(&self, to: u32, value: u64) {
        self.links.send(NodeId(to), value.to_le_bytes().to_vec()).unwrap();
    }

    pub async fn next(&mut self) -> LinkEvent {
        in_time("event", self.events.recv()).await.expect("the links run")
    }

    /// The first event that `select` accepts. Earlier events are dropped.
    pub async fn until<T>(
        &mut self,
        what: &str,
        mut select: impl FnMut(&LinkEvent) -> Option<T>,
    ) -> T {
        let mut seen = Vec::new();
        let search = async {
            loop {
                let event = self.events.recv().await.expect("the links run");
                if let Some(found) = select(&event) {
                    return found;
                }
                seen.push(event);
            }
        };
        match tokio::time::timeout(DEADLINE, search).await {
            Ok(found) => found,
            Err(_) => panic!("no {what} in time; events: {seen:?}"),
        }
    }

    pub async fn up(&mut self, wanted: u32) -> u32 {
        let up = |event: &LinkEvent| {
            let LinkEvent::Up { peer, incarnation } = event else { return None };
            (*peer == NodeId(wanted)).then_some(incarnation.0)
        };
        self.until(&format!("up of p{wanted}"), up).await
    }

    pub async fn down(&mut self, wanted: u32) {
        let down =
            |event: &LinkEvent| (*event == LinkEvent::Down { peer: NodeId(wanted) }).then_some(());
        self.until(&format!("down of p{wanted}"), down).await;
    }

    /// Sender and value of the next message.
    pub async fn message(&mut self) -> (u32, u64) {
        let select = |event: &LinkEvent| {
            let LinkEvent::Message { from, bytes } = event else { return None };
            Some((from.0, value(bytes)))
        };
        self.until("message", select).await
    }

    /// Peer and refusal of the next refused link.
    pub async fn refused(&mut self) -> (Option<u32>, Refusal) {
        let select = |event: &LinkEvent| {
            let LinkEvent::Refused { peer, refusal } = event else { return None };
            Some((peer.map(|peer| peer.0), refusal.clone()))
        };
        self.until("refusal", select).await
    }
}

pub fn value(bytes: &Bytes) -> u64 {
    u64::from_le_bytes(bytes[..].try_into().expect("eight bytes"))
}

pub async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("no {what} in time"))
}

/// A proxy in front of a node. It forwards bytes until it has to cut connections, to hold the
/// bytes, or to accept no connection.
pub struct Proxy {
    pub address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    state: watch::Sender<Mode>,
    pub accepted: Arc<AtomicUsize>,
    /// Bound of the bytes that a connection carries in each direction, drawn for each; 0: none.
    bound: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Forwards. The number changes with every cut.
    Open(u32),
    /// Connections stay open, and no byte passes.
    Held,
    /// Accepts no connection.
    Shut,
}

impl Proxy {
    pub async fn to(target: SocketAddr) -> Self {
        let (listener, address) = listener().await;
        let (state, mode) = watch::channel(Mode::Open(0));
        let (accepted, bound) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let target = Arc::new(Mutex::new(target));
        let task =
            tokio::spawn(serve(listener, target.clone(), mode, accepted.clone(), bound.clone()));
        Self { address, target, state, accepted, bound, task }
    }

    /// Sets the target of later connections.
    pub fn redirect(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
    }

    pub fn cut(&self) {
        self.state.send_modify(|mode| {
            *mode = Mode::Open(if let Mode::Open(cuts) = mode { *cuts + 1 } else { 0 })
        });
    }

    pub fn hold(&self) {
        self.state.send_replace(Mode::Held);
    }

    pub fn shut(&self) {
        self.state.send_replace(Mode::Shut);
    }

    pub fn open(&self) {
        self.state.send_replace(Mode::Open(0));
    }

    /// From now on cuts connections after a random number of bytes up to this; 0 stops that.
    pub fn cut_within(&self, bytes: u64) {
        self.bound.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: TcpListener,
    target: Arc<Mutex<SocketAddr>>,
    mode: watch::Receiver<Mode>,
    accepted: Arc<AtomicUsize>,
    bound: Arc<AtomicU64>,
) {
    let mut connections = tokio::task::JoinSet::new();
    let mut rng = 1u64;
    loop {
        let (near, _) = listener.accept().await.unwrap();
        if *mode.borrow() == Mode::Shut {
            continue;
        }
        accepted.fetch_add(1, Ordering::Relaxed);
        let mut draw = || match bound.load(Ordering::Relaxed) {
            0 => u64::MAX,
            most => {
                rng = rng
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                1 + (rng >> 33) % most
            }
        };
        let mut mode = mode.clone();
        let now = *mode.borrow_and_update();
        let (there, back) = (draw(), draw());
        let target = *target.lock().unwrap();
        connections.spawn(async move {
            let Ok(far) = TcpStream::connect(target).await else { return };
            let (near_in, near_out) = near.into_split();
            let (far_in, far_out) = far.into_split();
            tokio::select! {
                () = pass(near_in, far_out, there, mode.clone()) => {}
                () = pass(far_in, near_out, back, mode.clone()) => {}
                _ = mode.wait_for(|mode| *mode != now && *mode != Mode::Held) => {}
            }
        });
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut bytes: u64,
    mut mode: watch::Receiver<Mode>,
) {
    let mut buffer = [0; 4096];
    while bytes > 0 {
        let _ = mode.wait_for(|mode| *mode != Mode::Held).await;
        let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
        let Ok(count @ 1..) = from.read(&mut buffer[..most]).await else { return };
        let _ = mode.wait_for(|mode| *mode != Mode::Held).await;
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        bytes -= count as u64;
    }
}
