//! Malformed and truncated bytes on every port, and nodes that do not belong to the cluster. The
//! cluster continues to grant, and logs which peer was refused and why.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use kgate_core::{Incarnation, NodeId};
use kgate_net::wire::{self, Decoder, Frame, Hello};

use crate::book::Book;
use crate::client::next;
use crate::cluster::{Cluster, QUICK, free_ports, start_node};
use crate::fixture::{Home, PATIENCE, Process, text, until};

/// Bytes that no correct peer or client sends; some of them begin like a valid message.
fn malformed() -> Vec<Vec<u8>> {
    let hello = hello();
    let half = hello[..hello.len() / 2].to_vec();
    let mut long = hello.clone();
    long[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"POST /v1/gates/gpu/hold?k=99 HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nx".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        vec![0xff; 5000],
        vec![0; 5000],
        half,
        long,
        Vec::new(),
    ]
}

/// The first message of node 0 to node 1 of a cluster of two.
fn hello() -> Vec<u8> {
    let hello = Hello {
        cluster: "kgate".to_owned(),
        from: NodeId(0),
        to: NodeId(1),
        nodes: 2,
        incarnation: Incarnation(1),
        known: None,
        received: 0,
    };
    let mut bytes = Vec::new();
    wire::write_hello(&hello, &mut bytes);
    bytes
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// A connection, or none if it is refused.
fn connect(address: &str) -> Option<Box<dyn Stream>> {
    Some(match address.strip_prefix("unix:") {
        Some(path) => Box::new(UnixStream::connect(path).ok()?),
        None => Box::new(TcpStream::connect(address.trim_start_matches("http://")).ok()?),
    })
}

/// Malformed bytes on the ports for peers and clients and on the sockets, with connections left
/// half open, before and while permits are granted: every request is served.
#[test]
fn malformed_bytes_on_every_port() {
    let home = Home::new("malformed");
    let book = Book::new(&home, "gpu");
    // Long leases: nothing here waits for their end, and the senders keep the machine busy.
    let cluster = Cluster::start(&home, 2, "lease_ms = 20000\ndetect_timeout_ms = 10000\n");
    let ports: Vec<String> =
        [cluster.api.clone(), cluster.peer.clone(), (0..2).map(|id| cluster.unix(id)).collect()]
            .concat();
    let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut held = book.hold(cluster.run(&home, 0, "gpu", 2), "holder", "");
    thread::scope(|scope| {
        for port in &ports {
            scope.spawn(|| {
                let mut open = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    for bytes in malformed() {
                        let Some(mut stream) = connect(port) else { continue };
                        let _ = stream.write_all(&bytes);
                        open.push(stream);
                    }
                    // More connections than may be in their handshake at once, and fewer than this
                    // process may open.
                    open.truncate(100);
                    sent.fetch_add(1, Ordering::Relaxed);
                    thread::park_timeout(Duration::from_millis(10));
                }
            });
        }
        let before = sent.load(Ordering::Relaxed);
        for round in 0..6 {
            let mut run = book.inside(
                cluster.run(&home, round % 2, "gpu", 2),
                &format!("run-{round}"),
                "exit 3",
            );
            assert_eq!(run.status().unwrap().code(), Some(3));
            next(&cluster.unix((round + 1) % 2), "gpu", &book, &format!("api-{round}"));
        }
        until("every port was tried", || sent.load(Ordering::Relaxed) > before + 3 * ports.len());
        over.store(true, Ordering::Relaxed);
    });
    // The holder was renewed during all that.
    held.close_input();
    assert_eq!(held.code(), Some(0));
    assert_eq!(book.check(2).len(), 13);
}

/// Another process that claims to be node 0 and knows the addresses of the others. Returns when its
/// log contains `twice` two times: once for each of them.
fn impostor(home: &Home, cluster: &Cluster, more: &str, twice: &str) -> (Process, String) {
    let mut nodes = cluster.peer.clone();
    nodes[0] = free_ports(1).remove(0);
    let (config, log) = (home.0.join("impostor.toml"), home.0.join("impostor.log"));
    let _ = fs::remove_file(&log);
    fs::write(
        &config,
        format!(
            "id = 0\nnodes = {nodes:?}\napi = \"127.0.0.1:0\"\nfaults = \"crash-stop\"\n{more}"
        ),
    )
    .unwrap();
    let node = start_node(&config, &log).expect("it starts");
    let read = || fs::read_to_string(&log).unwrap_or_default();
    until(&format!("`{twice}` twice in\n{}", read()), || read().matches(twice).count() >= 2);
    (node, read())
}

fn goes_on(home: &Home, cluster: &Cluster, book: &Book, name: &str) {
    for node in 0..cluster.api.len() {
        let mut run = book.inside(cluster.run(home, node, "gpu", 1), &format!("{name}-{node}"), "");
        assert_eq!(run.status().unwrap().code(), Some(0));
    }
}

/// A node of another cluster is refused. Both sides log both names, and the cluster continues.
#[test]
fn a_node_of_another_cluster() {
    let home = Home::new("other-cluster");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 3, &format!("cluster = \"farm\"\n{QUICK}"));
    let (_node, said) = impostor(&home, &cluster, "cluster = \"fleet\"\n", "refuses");
    let named = "p0 of cluster \"fleet\" and p1 of cluster \"farm\" belong to different clusters";
    assert!(said.contains(named) && said.contains(&named.replace("p1", "p2")), "{said}");
    until("node 1 says so too", || cluster.log(1).contains(named));
    goes_on(&home, &cluster, &book, "run");
    book.check(1);
}

/// A node with a certificate of another authority, and one with the certificate of another node,
/// are refused. Both sides log the reason, and the cluster continues.
#[test]
fn wrong_certificates() {
    let home = Home::new("certificates");
    let book = Book::new(&home, "gpu");
    for authority in ["ours", "theirs"] {
        let words = ["certs", "new", "--dir", authority, "--cluster", "farm", "--nodes", "3"];
        assert_eq!(home.code(&words), Some(0));
    }
    let tls = |of: &str, id: usize, trusts: &str| {
        let file = |folder: &str, name: &str| home.0.join(folder).join(name);
        let (chain, key) =
            (file(of, &format!("node-{id}.pem")), file(of, &format!("node-{id}.key")));
        let ca = file(trusts, "ca.pem");
        format!(
            "cluster = \"farm\"\n{QUICK}[tls]\ncertificate = {chain:?}\nkey = {key:?}\n\
             authority = {ca:?}\n"
        )
    };
    let cluster = Cluster::start_each(&home, 3, |id| tls("ours", id, "ours"));
    let here = "to p1 of cluster \"farm\" refused: ";
    // Neither side trusts the other.
    let (node, said) = impostor(&home, &cluster, &tls("theirs", 0, "theirs"), "has no link to");
    let why = "p0 of cluster \"farm\" has no link to p1: its certificate is not signed by the \
               authority that this node trusts";
    assert!(said.contains(why), "{said}");
    until("node 1 says so too", || {
        cluster.log(1).contains(&format!("{here}it does not accept this node's certificate"))
    });
    drop(node);
    // It trusts the others, but they do not trust it.
    let (node, said) = impostor(&home, &cluster, &tls("theirs", 0, "ours"), "refuses: ");
    let why =
        format!("p1 at {} refuses: it does not accept this node's certificate", cluster.peer[1]);
    assert!(said.contains(&why), "{said}");
    until("node 1 says so too", || {
        cluster.log(1).contains(&format!(
            "{here}its certificate is not signed by the authority that this node trusts"
        ))
    });
    drop(node);
    // With the certificate of another node it does not even start.
    fs::write(
        home.0.join("other.toml"),
        format!(
            "id = 0\nnodes = {:?}\nfaults = \"crash-stop\"\n{}",
            free_ports(3),
            tls("ours", 1, "ours")
        ),
    )
    .unwrap();
    let refused = home.run(&["node", "--config", "other.toml"]);
    let said = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(2)
            && said.contains("node-0.farm")
            && said.contains("node-1.pem"),
        "{said}"
    );
    goes_on(&home, &cluster, &book, "run");
    book.check(1);
}

/// A handshake of another version is answered with both versions and the node's name. The node logs
/// the same, and the cluster continues.
#[test]
fn another_version() {
    let home = Home::new("version");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 2, QUICK);
    let mut hello = hello();
    // The length, the kind and the magic come before the version.
    hello[13..17].copy_from_slice(&99_u32.to_le_bytes());
    let mut stream = TcpStream::connect(&cluster.peer[1]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&hello).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let mut decoder = Decoder::new(wire::HANDSHAKE_MAX);
    decoder.feed(&answer);
    let Ok(Some(Frame::Refuse { code, message: why })) = decoder.next() else {
        panic!("{answer:?}")
    };
    assert_eq!(code, wire::RefuseCode::Version);
    let named = ["at 127.0.0.1", "version 99", "p1 of cluster \"kgate\"", "version 2"];
    assert!(named.iter().all(|part| why.contains(part)), "{why}");
    until("the node says so too", || cluster.log(1).contains(&why));
    goes_on(&home, &cluster, &book, "run");
    book.check(1);
}
