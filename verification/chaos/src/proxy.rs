//! The proxy between each node and its peers: it delays bytes, stalls them, and breaks connections.
//!
//! ```text
//! node 0 --10.77.0.2:7401--> packet filter of its namespace --> proxy 127.0.0.1:7501
//!        --10.77.0.2:7411--> packet filter of node 1's namespace --> node 1, 7401
//! ```
//!
//! The proxy is transparent: the packet filter diverts links to it ([`Network::divert`]), and cuts
//! between namespaces apply to it too. Packet loss shows only what TCP makes of it; the proxy
//! behaves like a bad middlebox: bytes that arrive late and in bursts, half a message and then
//! nothing for long, connections that end in the middle. It is a process in the node's namespace
//! and reads the maximum delay from its standard input.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kgate_sim::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::network::{self, Network};
use crate::schedule::{Kind, Plan};

/// The port at which a node's proxy accepts links to a peer.
pub(super) fn port_for(peer: u32) -> u32 {
    7_500 + peer
}

/// The port at which proxies reach a node; the packet filter redirects it to the node's own port.
pub(super) const BEHIND: u16 = 7_411;

/// The proxies of a run.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    all: Vec<Child>,
}

impl Proxies {
    /// Starts one proxy per node if the plan has delays; proxies cost time.
    pub(crate) fn start(network: &Network, plan: &Plan, seed: u64) -> Result<Self> {
        let mut proxies = Self::default();
        if !plan.kinds.contains(&Kind::Delay) {
            return Ok(proxies);
        }
        for node in 0..plan.nodes {
            let mut command = network.command(node, &std::env::current_exe()?);
            command.args(["proxy"]).args([node, plan.nodes].map(|number| number.to_string()));
            command.arg(seed.to_string()).stdin(Stdio::piped());
            proxies.all.push(command.spawn().context("cannot start a proxy")?);
        }
        network.divert()?;
        Ok(proxies)
    }

    /// Sets the maximum delay of a node's bytes; 0 disables delays.
    pub(crate) fn delay(&mut self, node: u32, most_ms: u32) -> Result<()> {
        let input = self.all.get_mut(node as usize).and_then(|proxy| proxy.stdin.as_mut());
        let input = input.context("a plan with delays has proxies")?;
        writeln!(input, "{most_ms}").with_context(|| format!("the proxy of node {node} has ended"))
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        for proxy in &mut self.all {
            let _ = proxy.kill();
            let _ = proxy.wait();
        }
    }
}

/// `proxy NODE NODES SEED`.
pub(crate) fn main(words: &[&str]) -> Result<()> {
    let [node, nodes, seed] = words else { bail!("a proxy is started by a chaos run") };
    let (node, nodes, seed): (u32, u32, u64) = (node.parse()?, nodes.parse()?, seed.parse()?);
    let told = Arc::new(AtomicU64::new(0));
    listen_to_driver(told.clone());
    let disturbance =
        Rc::new(Disturbance { told, rng: RefCell::new(Rng::fork(seed, &format!("proxy {node}"))) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut listeners = Vec::new();
        for peer in (0..nodes).filter(|peer| *peer != node) {
            let listener =
                TcpListener::bind((Ipv4Addr::LOCALHOST, u16::try_from(port_for(peer))?)).await;
            let listener = listener.with_context(|| format!("cannot listen for node {peer}"))?;
            let to = SocketAddr::new(network::address(peer).parse()?, BEHIND);
            listeners.push(tokio::task::spawn_local(serve(listener, to, disturbance.clone())));
        }
        for listener in listeners {
            listener.await?;
        }
        Ok(())
    })
}

/// Each line is the maximum delay in milliseconds; the end of the input ends the process.
fn listen_to_driver(told: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
            told.store(line.trim().parse().unwrap_or(0), Ordering::Relaxed);
        }
        std::process::exit(0);
    });
}

async fn serve(listener: TcpListener, to: SocketAddr, disturbance: Rc<Disturbance>) {
    while let Ok((near, _)) = listener.accept().await {
        let disturbance = disturbance.clone();
        tokio::task::spawn_local(async move {
            // An unreachable peer is unreachable through the proxy too.
            let Ok(far) = TcpStream::connect(to).await else { return };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            // The end of one direction ends the other.
            tokio::select! {
                () = carry(near_in, far_out, &disturbance) => {}
                () = carry(far_in, near_out, &disturbance) => {}
            }
        });
    }
}

/// Bytes per piece and pieces in flight; a sender of more has to wait.
const PIECE: usize = 4_096;
const UNDER_WAY: usize = 256;

/// One direction: pieces leave in order, each after its delay.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, disturbance: &Disturbance) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let last = Cell::new(Instant::now());
    let take = async {
        let mut piece = [0; PIECE];
        while let Ok(length @ 1..) = from.read(&mut piece).await {
            let Some(delay) = disturbance.delay() else { return };
            last.set(last.get().max(Instant::now() + delay));
            if sender.send((last.get(), piece[..length].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let give = async {
        while let Some((at, piece)) = receiver.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    tokio::select! { () = take => {}, () = give => {} }
}

/// The present disturbance.
struct Disturbance {
    told: Arc<AtomicU64>,
    rng: RefCell<Rng>,
}

/// One of `BREAKS` pieces ends its connection; one of `STALLS` is delayed `STALL` times as long.
const BREAKS: u64 = 150;
const STALLS: u64 = 40;
const STALL: u64 = 4;

impl Disturbance {
    /// Delay of the next piece; `None` breaks the connection.
    fn delay(&self) -> Option<Duration> {
        let most = self.told.load(Ordering::Relaxed);
        if most == 0 {
            return Some(Duration::ZERO);
        }
        let mut rng = self.rng.borrow_mut();
        if rng.below(BREAKS) == 0 {
            return None;
        }
        let times = if rng.below(STALLS) == 0 { STALL } else { 1 };
        Some(Duration::from_millis(times * rng.within(most / 4, most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a maximum delay nothing happens; with one, delays keep the bound, and some pieces
    /// stall or break the connection.
    #[test]
    fn delays_stalls_and_breaks() {
        let told = Arc::new(AtomicU64::new(0));
        let disturbance =
            Disturbance { told: told.clone(), rng: RefCell::new(Rng::fork(1, "test")) };
        assert_eq!(disturbance.delay(), Some(Duration::ZERO));
        told.store(100, Ordering::Relaxed);
        let drawn: Vec<Option<Duration>> = (0..5_000).map(|_| disturbance.delay()).collect();
        let ms = |span: &Duration| span.as_millis();
        assert!(drawn.iter().flatten().all(|span| (25..=400).contains(&ms(span))));
        let breaks = drawn.iter().filter(|delay| delay.is_none()).count();
        let stalls = drawn.iter().flatten().filter(|span| ms(span) > 100).count();
        assert!(
            (10..80).contains(&breaks) && (50..250).contains(&stalls),
            "{breaks} breaks, {stalls} stalls"
        );
    }

    /// Bytes arrive complete and in order, and the end of one connection ends the other.
    #[test]
    fn bytes_come_out_in_order() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let local = (Ipv4Addr::LOCALHOST, 0);
            let (listener, server) =
                (TcpListener::bind(local).await.unwrap(), TcpListener::bind(local).await.unwrap());
            let (near, to) = (listener.local_addr().unwrap(), server.local_addr().unwrap());
            let told = Arc::new(AtomicU64::new(0));
            let disturbance =
                Rc::new(Disturbance { told, rng: RefCell::new(Rng::fork(1, "test")) });
            tokio::task::spawn_local(serve(listener, to, disturbance));
            let mut client = TcpStream::connect(near).await.unwrap();
            let (mut served, _) = server.accept().await.unwrap();
            let sent: Vec<u8> =
                (0..20_000_u32).map(|number| u8::try_from(number % 251).unwrap()).collect();
            client.write_all(&sent).await.unwrap();
            let mut received = vec![0; sent.len()];
            served.read_exact(&mut received).await.unwrap();
            assert_eq!(received, sent);
            drop(served);
            assert_eq!(client.read(&mut received).await.unwrap_or(0), 0);
        });
    }
}
