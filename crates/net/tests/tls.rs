//! Who may speak as whom: certificates of the right authority with the right name, and clear words
//! for all others.
#![allow(missing_docs, reason = "a test's first line says its point")]

#[path = "common/certs.rs"]
mod certs;
mod common;

use std::sync::Arc;

use certs::{Authority, Folder};
use common::{Node, Proxy, config, in_time, listener, runtime};
use kgate_core::{Incarnation, NodeId};
use kgate_net::wire::{Hello, write_hello};
use kgate_net::{LinkConfig, Links, Security};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Nodes 0 and 1, each with its security.
async fn pair(zero: Security, one: Security) -> (Node, Node, Proxy) {
    let (first, here) = listener().await;
    let (second, there) = listener().await;
    let proxy = Proxy::to(there).await;
    let zero = LinkConfig { security: zero, ..config(0, 1, &[(1, proxy.address)]) };
    let one = LinkConfig { security: one, ..config(1, 1, &[(0, here)]) };
    (Node::start(zero, first).await, Node::start(one, second).await, proxy)
}

/// With certificates of one authority a link comes up, carries messages, and comes back after cuts.
#[test]
fn a_link_with_certificates() {
    runtime().block_on(async {
        let (folder, ca) = (Folder::new(), Authority::new("a"));
        let files = |name| ca.files(&folder.0, name);
        let (mut zero, mut one, proxy) = pair(files("node-0.farm"), files("node-1.farm")).await;
        zero.up(1).await;
        for value in 0..1000 {
            zero.send(1, value);
            one.send(0, value);
            if value == 500 {
                proxy.cut();
            }
        }
        for value in 0..1000 {
            assert_eq!((one.frame().await, zero.frame().await), ((0, value), (1, value)));
        }
    });
}

/// Certificates of two authorities: both sides say so.
#[test]
fn another_authority() {
    runtime().block_on(async {
        let (folder, ours, theirs) = (Folder::new(), Authority::new("a"), Authority::new("b"));
        let zero = ours.files(&folder.0, "node-0.farm");
        let one = theirs.files(&folder.0, "node-1.farm");
        let (mut zero, mut one, _proxy) = pair(zero, one).await;
        let (peer, why) = zero.refused().await;
        assert_eq!(peer, Some(1));
        assert!(why.contains("not of the authority that this node trusts"), "{why}");
        let (_, why) = one.refused().await;
        assert!(why.contains("does not accept this node's certificate"), "{why}");
    });
}

/// Only the called one trusts another authority: the dialler learns that its certificate was not
/// accepted.
#[test]
fn the_dialler_learns_that_it_was_not_accepted() {
    runtime().block_on(async {
        let (folder, ours, theirs) = (Folder::new(), Authority::new("a"), Authority::new("b"));
        let zero = theirs.files(&folder.0, "node-0.farm");
        let one = ours.files(&folder.0, "node-1.farm");
        let (Security::Tls { chain, key, .. }, Security::Tls { ca, .. }) = (zero, &one) else {
            panic!()
        };
        let (mut zero, mut one, _proxy) =
            pair(Security::Tls { chain, key, ca: ca.clone() }, one).await;
        let (peer, why) = zero.refused().await;
        assert_eq!(peer, Some(1));
        assert!(why.contains("does not accept this node's certificate"), "{why}");
        let (_, why) = one.refused().await;
        assert!(why.contains("not of the authority that this node trusts"), "{why}");
    });
}

/// The called node has the certificate of another: the dialler asked for node 1 and finds node 2.
#[test]
fn the_called_one_has_another_name() {
    runtime().block_on(async {
        let (folder, ca) = (Folder::new(), Authority::new("a"));
        let (first, _) = listener().await;
        let (second, there) = listener().await;
        let zero = LinkConfig {
            security: ca.files(&folder.0, "node-0.farm"),
            ..config(0, 1, &[(1, there), (2, there)])
        };
        let two = LinkConfig {
            security: ca.files(&folder.0, "node-2.farm"),
            ..config(2, 1, &[(0, there), (1, there)])
        };
        let mut zero = Node::start(zero, first).await;
        let _two = Node::start(two, second).await;
        let (peer, why) = zero.refused().await;
        assert_eq!(peer, Some(1));
        assert!(why.contains("its certificate does not tolerate the name node-1.farm"), "{why}");
    });
}

/// A dialler with the certificate of node 2, of a client or of "all nodes" cannot speak as node 0;
/// one without a certificate cannot speak at all.
#[test]
fn the_dialler_is_who_its_certificate_says() {
    runtime().block_on(async {
        let (folder, ca) = (Folder::new(), Authority::new("a"));
        let another =
            "it says that it is p0, and its certificate does not tolerate the name node-0.farm";
        for (name, shows, expected) in [
            ("node-2.farm", true, another),
            ("client-alice.farm", true, another),
            ("client-node-0.farm", true, another),
            ("*.farm", true, another),
            ("node-0.other", true, another),
            ("node-0.farm", false, "it showed no certificate"),
        ] {
            // Anew each time: the same refusal is not told twice in a row.
            let (listener, address) = listener().await;
            let security = ca.files(&folder.0, "node-1.farm");
            let mut one =
                Node::start(LinkConfig { security, ..config(1, 1, &[(0, address)]) }, listener)
                    .await;
            call(&ca.files(&folder.0, name), shows, address).await;
            let (_, why) = one.refused().await;
            assert!(why.contains(expected), "{name}: {why}");
        }
    });
}

/// A called one with a certificate for "all nodes" is no node either, though TLS alone would take
/// it.
#[test]
fn a_pattern_is_no_name() {
    runtime().block_on(async {
        let (folder, ca) = (Folder::new(), Authority::new("a"));
        let (listener, address) = listener().await;
        let security = ca.files(&folder.0, "node-0.farm");
        let (first, _) = common::listener().await;
        let mut zero =
            Node::start(LinkConfig { security, ..config(0, 1, &[(1, address)]) }, first).await;
        let Security::Tls { chain, key, ca } = ca.files(&folder.0, "*.farm") else { panic!() };
        let acceptor = kgate_net::acceptor(&chain, &key, &ca, kgate_net::Callers::MayShow).unwrap();
        let called = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let _open = acceptor.accept(stream).await;
            std::future::pending::<()>().await;
        });
        let (peer, why) = zero.refused().await;
        assert_eq!(peer, Some(1));
        assert!(why.contains("its certificate does not tolerate the name node-1.farm"), "{why}");
        called.abort();
    });
}

/// Calls node 1 and says that it is node 0.
async fn call(security: &Security, shows: bool, address: std::net::SocketAddr) {
    let Security::Tls { chain, key, ca } = security else { panic!() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let client = if shows {
        let chain = vec![CertificateDer::from_pem_file(chain).unwrap()];
        builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("node-1.farm").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let mut bytes = Vec::new();
    let hello = Hello {
        cluster: "farm".into(),
        from: NodeId(0),
        to: NodeId(1),
        nodes: 2,
        incarnation: Incarnation(1),
        of: None,
        received: 0,
    };
    write_hello(&hello, &mut bytes);
    let _ = stream.write_all(&bytes).await;
    let mut answer = Vec::new();
    let _ = in_time("the end of the connection", stream.read_to_end(&mut answer)).await;
    assert!(answer.get(4) != Some(&1), "it was greeted");
}

/// A plain node and one with TLS: both say what is the matter.
#[test]
fn plain_meets_tls() {
    runtime().block_on(async {
        let (folder, ca) = (Folder::new(), Authority::new("a"));
        let plain = Security::Plain { asked_for: false };
        let (mut zero, mut one, _proxy) =
            pair(plain.clone(), ca.files(&folder.0, "node-1.farm")).await;
        assert!(one.refused().await.1.contains("it does not speak TLS"));
        assert!(zero.refused().await.1.contains("is no node of kgate"));
        let (mut zero, mut one, _proxy) = pair(ca.files(&folder.0, "node-0.farm"), plain).await;
        let why = zero.refused().await.1;
        assert!(why.contains("it does not speak TLS"), "{why}");
        assert!(one.refused().await.1.contains("a node with TLS where this one has none"));
    });
}

/// Files that cannot be used are found at the start, with the file and what is wrong with it.
#[test]
fn files_are_checked_at_the_start() {
    runtime().block_on(async {
        let (folder, ca) = (Folder::new(), Authority::new("a"));
        let good = ca.files(&folder.0, "node-0.farm");
        let other = ca.files(&folder.0, "node-2.farm");
        let (
            Security::Tls { chain, key, ca },
            Security::Tls { chain: not_mine, key: other_key, .. },
        ) = (good, other)
        else {
            panic!()
        };
        let missing = folder.0.join("nothing.pem");
        for (chain, key, ca, expected) in [
            (&missing, &key, &ca, "nothing.pem: No such file"),
            (&key, &key, &ca, "holds no certificate"),
            (&chain, &missing, &ca, "nothing.pem: No such file"),
            (&chain, &chain, &ca, "holds no certificate or key"),
            (&chain, &key, &missing, "nothing.pem"),
            (&not_mine, &other_key, &ca, "does not tolerate the name node-0.farm"),
            (&chain, &other_key, &ca, "do not go together"),
        ] {
            let security = Security::Tls { chain: chain.clone(), key: key.clone(), ca: ca.clone() };
            let (listener, address) = listener().await;
            let config = LinkConfig { security, ..config(0, 1, &[(1, address)]) };
            let (events, _) = tokio::sync::mpsc::channel(1);
            let error = Links::start(config, listener, events).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    });
}
