//! Measures the round trip of a message on this machine: over raw TCP, over a link, and over a link
//! with TLS.
//!
//! ```sh
//! cargo run --release -p kgate-net --example ping_pong -- [ROUNDS [FILES]]
//! ```
//!
//! FILES are those of `kgate certs new --cluster bench --nodes 2`: `node-0.pem node-0.key
//! node-1.pem node-1.key ca.pem`. Each side runs in a thread of its own with its own current-thread
//! runtime, as two nodes would, and 64 bytes go there and back. The kinds take turns, so that other
//! load on the machine affects all of them equally.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kgate_core::{Incarnation, NodeId};
use kgate_net::{LinkConfig, LinkEvent, LinkLimits, Links, Security, WhenFull};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

const BYTES: usize = 64;
const TURNS: usize = 5;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds =
        arguments.next().map_or(5000, |rounds| rounds.parse().expect("a number of rounds"));
    let files: Vec<String> = arguments.collect();
    let mut raw = Vec::new();
    let mut link = Vec::new();
    let mut tls = Vec::new();
    for _ in 0..TURNS {
        raw.extend(raw_tcp(rounds));
        link.extend(over_links(rounds, [plain(), plain()]));
        if let [chain0, key0, chain1, key1, ca] = &files[..] {
            let security = |chain: &String, key: &String| Security::Tls {
                chain: chain.into(),
                key: key.into(),
                ca: ca.into(),
            };
            tls.extend(over_links(rounds, [security(chain0, key0), security(chain1, key1)]));
        }
    }
    for (name, times) in [("raw TCP", &mut raw), ("link", &mut link), ("link, TLS", &mut tls)] {
        if !times.is_empty() {
            times.sort_unstable();
            let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e6;
            println!("{name:>10}: p50 {:6.1} us, p99 {:6.1} us", at(50), at(99));
        }
    }
    let ratio = link[link.len() / 2].as_secs_f64() / raw[raw.len() / 2].as_secs_f64();
    println!("{:>10}: {ratio:.2} of raw TCP at p50", "link");
}

fn plain() -> Security {
    Security::Plain { is_explicit: false }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Bound by a runtime that is alive no longer than the call.
fn bound() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

fn raw_tcp(rounds: usize) -> Vec<Duration> {
    let (listener, address) = bound();
    let other = std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = TcpListener::from_std(listener).expect("a listener");
            let (mut stream, _) = listener.accept().await.expect("a call");
            stream.set_nodelay(true).expect("a socket");
            let mut bytes = [0; BYTES];
            while stream.read_exact(&mut bytes).await.is_ok() {
                stream.write_all(&bytes).await.expect("a reader");
            }
        });
    });
    let times = runtime().block_on(async {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let mut bytes = [0; BYTES];
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let sent = Instant::now();
            stream.write_all(&bytes).await.expect("a reader");
            stream.read_exact(&mut bytes).await.expect("an answer");
            times.push(sent.elapsed());
        }
        times
    });
    other.join().expect("the other side");
    times
}

fn over_links(rounds: usize, [here, there]: [Security; 2]) -> Vec<Duration> {
    let (near, near_address) = bound();
    let (far, far_address) = bound();
    let other = std::thread::spawn(move || {
        runtime().block_on(async {
            let (links, mut events) = start(1, near_address, far, there).await;
            let mut answered = 0;
            while let Some(event) = events.recv().await {
                if let LinkEvent::Message { from, bytes } = event {
                    links.send(from, bytes).expect("it has just spoken");
                    answered += 1;
                } else if matches!(event, LinkEvent::Down { .. }) && answered == rounds {
                    return;
                }
            }
        });
    });
    let times = runtime().block_on(async {
        let (links, mut events) = start(0, far_address, near, here).await;
        while !matches!(events.recv().await, Some(LinkEvent::Up { .. })) {}
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let sent = Instant::now();
            links.send(NodeId(1), vec![0; BYTES]).expect("a peer");
            while !matches!(events.recv().await, Some(LinkEvent::Message { .. })) {}
            times.push(sent.elapsed());
        }
        links.stop().await;
        times
    });
    other.join().expect("the other side");
    times
}

async fn start(
    me: u32,
    peer: SocketAddr,
    listener: std::net::TcpListener,
    security: Security,
) -> (Links, mpsc::Receiver<LinkEvent>) {
    let config = LinkConfig {
        cluster: "bench".into(),
        me: NodeId(me),
        incarnation: Incarnation(1),
        peers: vec![(NodeId(1 - me), peer.to_string())],
        security,
        limits: LinkLimits::default(),
        accepts_restarts: false,
        when_full: WhenFull::Break,
    };
    let (sender, events) = mpsc::channel(1024);
    let listener = TcpListener::from_std(listener).expect("a listener");
    (Links::start(config, listener, sender).await.expect("links"), events)
}
