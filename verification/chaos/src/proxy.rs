//! A proxy of ours in each node's way to the others, which delays bytes, stalls them, and breaks
//! connections.
//!
//! ```text
//! node 0 --10.77.0.2:7401--> packet filter of its namespace --> proxy 127.0.0.1:7501 --10.77.0.2:7411--> packet filter there --> node 1, 7401
//! ```
//!
//! Nodes know nothing of it: the packet filter puts it in their way ([`Network::divert`]), and what
//! is cut between namespaces is cut for it too. A packet filter that loses packets shows only what
//! TCP makes of it; this one shows what a bad middlebox makes of TCP: bytes that come late and in
//! bursts, half of a message and then nothing for long, connections that end in the middle. It is a
//! process in the node's namespace, told on its standard input how bad it shall be.

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

/// Where the proxy of a node takes what is meant for a peer.
pub(super) fn entrance(peer: u32) -> u32 {
    7_500 + peer
}

/// Where a node is reached by proxies; the packet filter turns it into the port that it listens at.
pub(super) const BEHIND: u16 = 7_411;

/// The proxies of a run.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    all: Vec<Child>,
}

impl Proxies {
    /// One for each node, if the plan needs them: they cost time.
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

    /// Bytes of that node take so long at most from now on; 0: as they come.
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
    let temper =
        Rc::new(Temper { told, rng: RefCell::new(Rng::fork(seed, &format!("proxy {node}"))) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut doors = Vec::new();
        for peer in (0..nodes).filter(|peer| *peer != node) {
            let door =
                TcpListener::bind((Ipv4Addr::LOCALHOST, u16::try_from(entrance(peer))?)).await;
            let door = door.with_context(|| format!("cannot listen for node {peer}"))?;
            let to = SocketAddr::new(network::address(peer).parse()?, BEHIND);
            doors.push(tokio::task::spawn_local(keep_door(door, to, temper.clone())));
        }
        for door in doors {
            door.await?;
        }
        Ok(())
    })
}

/// A line is how bad it shall be; the end of all lines is the end of the run.
fn listen_to_driver(told: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
            told.store(line.trim().parse().unwrap_or(0), Ordering::Relaxed);
        }
        std::process::exit(0);
    });
}

async fn keep_door(door: TcpListener, to: SocketAddr, temper: Rc<Temper>) {
    while let Ok((near, _)) = door.accept().await {
        let temper = temper.clone();
        tokio::task::spawn_local(async move {
            // Who is not there is not there for whoever asks through us either.
            let Ok(far) = TcpStream::connect(to).await else { return };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            // When one way has ended, so has the other.
            tokio::select! {
                () = carry(near_in, far_out, &temper) => {}
                () = carry(far_in, near_out, &temper) => {}
            }
        });
    }
}

/// So much is read at once, and so many such pieces are under way; whoever sends more has to wait.
const PIECE: usize = 4_096;
const UNDER_WAY: usize = 256;

/// One way: pieces come out in their order, each at its time.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, temper: &Temper) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let last = Cell::new(Instant::now());
    let take = async {
        let mut piece = [0; PIECE];
        while let Ok(length @ 1..) = from.read(&mut piece).await {
            let Some(delay) = temper.delay() else { return };
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

/// How bad it is at present.
struct Temper {
    told: Arc<AtomicU64>,
    rng: RefCell<Rng>,
}

/// Of so many pieces one is the last of its connection, or is held up for so many times as long as
/// others.
const BREAKS: u64 = 150;
const STALLS: u64 = 40;
const STALL: u64 = 4;

impl Temper {
    /// How long the next piece takes; none: it gets lost, with its connection.
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

    /// Told nothing, it does nothing; told to, it delays within the bound, stalls now and then, and
    /// breaks now and then.
    #[test]
    fn a_temper_does_as_it_is_told() {
        let told = Arc::new(AtomicU64::new(0));
        let temper = Temper { told: told.clone(), rng: RefCell::new(Rng::fork(1, "test")) };
        assert_eq!(temper.delay(), Some(Duration::ZERO));
        told.store(100, Ordering::Relaxed);
        let drawn: Vec<Option<Duration>> = (0..5_000).map(|_| temper.delay()).collect();
        let ms = |span: &Duration| span.as_millis();
        assert!(drawn.iter().flatten().all(|span| (25..=400).contains(&ms(span))));
        let breaks = drawn.iter().filter(|delay| delay.is_none()).count();
        let stalls = drawn.iter().flatten().filter(|span| ms(span) > 100).count();
        assert!(
            (10..80).contains(&breaks) && (50..250).contains(&stalls),
            "{breaks} breaks, {stalls} stalls"
        );
    }

    /// What goes in comes out whole and in order on the other side, and an end is an end on both.
    #[test]
    fn bytes_come_out_in_order() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let local = (Ipv4Addr::LOCALHOST, 0);
            let (door, server) =
                (TcpListener::bind(local).await.unwrap(), TcpListener::bind(local).await.unwrap());
            let (near, to) = (door.local_addr().unwrap(), server.local_addr().unwrap());
            let told = Arc::new(AtomicU64::new(0));
            let temper = Rc::new(Temper { told, rng: RefCell::new(Rng::fork(1, "test")) });
            tokio::task::spawn_local(keep_door(door, to, temper));
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
