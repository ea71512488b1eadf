//! Which side may act as which node: certificates of the right authority with the right name, and a
//! refusal for all others.
#![allow(missing_docs, reason = "a test's first line says its point")]

#[path = "common/certs.rs"]
mod certs;
mod common;

use std::sync::Arc;

use certs::Authority;
use common::{Node, Proxy, config, in_time, listener, runtime};
use kgate_core::{Incarnation, NodeId};
use kgate_net::wire::{Hello, RefuseCode, write_hello};
use kgate_net::{LinkConfig, Links, Security, StartError, TlsFileError};
use kgate_testkit::TempFolder;
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

/// With certificates of one authority a link comes up, carries messages, and reconnects after cuts.
#[test]
fn a_link_with_certificates() {
    runtime().block_on(async {
        let (folder, ca) = (TempFolder::new("tls"), Authority::new("a"));
        let files = |name| ca.files(&folder, name);
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
            assert_eq!((one.message().await, zero.message().await), ((0, value), (1, value)));
        }
    });
}

/// Certificates of two authorities: both sides report it.
#[test]
fn another_authority() {
    runtime().block_on(async {
        let (folder, ours, theirs) =
            (TempFolder::new("tls"), Authority::new("a"), Authority::new("b"));
        let zero = ours.files(&folder, "node-0.farm");
        let one = theirs.files(&folder, "node-1.farm");
        let (mut zero, mut one, _proxy) = pair(zero, one).await;
        let (peer, refusal) = zero.refused().await;
        assert_eq!((peer, refusal.code), (Some(1), RefuseCode::Certificate));
        assert!(refusal.message.contains("not signed by the authority"), "{refusal}");
        let (_, refusal) = one.refused().await;
        assert_eq!(refusal.code, RefuseCode::Certificate);
        assert!(refusal.message.contains("does not accept this node's"), "{refusal}");
    });
}

/// Only the accepting node trusts another authority: the dialling node learns that its certificate
/// was rejected.
#[test]
fn the_dialling_node_learns_of_its_rejection() {
    runtime().block_on(async {
        let (folder, ours, theirs) =
            (TempFolder::new("tls"), Authority::new("a"), Authority::new("b"));
        let zero = theirs.files(&folder, "node-0.farm");
        let one = ours.files(&folder, "node-1.farm");
        let (Security::Tls { chain, key, .. }, Security::Tls { ca, .. }) = (zero, &one) else {
            panic!()
        };
        let (mut zero, mut one, _proxy) =
            pair(Security::Tls { chain, key, ca: ca.clone() }, one).await;
        let (peer, refusal) = zero.refused().await;
        assert_eq!((peer, refusal.code), (Some(1), RefuseCode::Certificate));
        assert!(refusal.message.contains("does not accept this node's"), "{refusal}");
        let (_, refusal) = one.refused().await;
        assert_eq!(refusal.code, RefuseCode::Certificate);
        assert!(refusal.message.contains("not signed by the authority"), "{refusal}");
    });
}

/// The accepting node has the certificate of another: the dialling node expects node 1 and reaches
/// node 2.
#[test]
fn the_accepting_node_has_another_name() {
    runtime().block_on(async {
        let (folder, ca) = (TempFolder::new("tls"), Authority::new("a"));
        let (first, _) = listener().await;
        let (second, there) = listener().await;
        let zero = LinkConfig {
            security: ca.files(&folder, "node-0.farm"),
            ..config(0, 1, &[(1, there), (2, there)])
        };
        let two = LinkConfig {
            security: ca.files(&folder, "node-2.farm"),
            ..config(2, 1, &[(0, there), (1, there)])
        };
        let mut zero = Node::start(zero, first).await;
        let _two = Node::start(two, second).await;
        let (peer, refusal) = zero.refused().await;
        assert_eq!((peer, refusal.code), (Some(1), RefuseCode::Certificate));
        assert!(refusal.message.contains("not valid for the name node-1.farm"), "{refusal}");
    });
}

/// A dialling process with the certificate of node 2, of a client or of "all nodes" cannot act as
/// node 0; one without a certificate cannot connect.
#[test]
fn the_dialling_side_is_identified_by_its_certificate() {
    runtime().block_on(async {
        let (folder, ca) = (TempFolder::new("tls"), Authority::new("a"));
        let another =
            "it claims to be p0, and its certificate is not valid for the name node-0.farm";
        for (name, presents, expected) in [
            ("node-2.farm", true, another),
            ("client-alice.farm", true, another),
            ("client-node-0.farm", true, another),
            ("*.farm", true, another),
            ("node-0.other", true, another),
            ("node-0.farm", false, "it presented no certificate"),
        ] {
            // A new node each time: the same refusal is not reported twice in a row.
            let (listener, address) = listener().await;
            let security = ca.files(&folder, "node-1.farm");
            let mut one =
                Node::start(LinkConfig { security, ..config(1, 1, &[(0, address)]) }, listener)
                    .await;
            dial(&ca.files(&folder, name), presents, address).await;
            let (_, refusal) = one.refused().await;
            assert_eq!(refusal.code, RefuseCode::Certificate);
            assert!(refusal.message.contains(expected), "{name}: {refusal}");
        }
    });
}

/// An accepting side with a certificate for "all nodes" is no node either, although TLS alone would
/// accept it.
#[test]
fn a_wildcard_is_no_name() {
    runtime().block_on(async {
        let (folder, ca) = (TempFolder::new("tls"), Authority::new("a"));
        let (listener, address) = listener().await;
        let security = ca.files(&folder, "node-0.farm");
        let (first, _) = common::listener().await;
        let mut zero =
            Node::start(LinkConfig { security, ..config(0, 1, &[(1, address)]) }, first).await;
        let Security::Tls { chain, key, ca } = ca.files(&folder, "*.farm") else { panic!() };
        let acceptor =
            kgate_net::acceptor(&chain, &key, &ca, kgate_net::ClientCertificate::Optional).unwrap();
        let accepting = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let _open = acceptor.accept(stream).await;
            std::future::pending::<()>().await;
        });
        let (peer, refusal) = zero.refused().await;
        assert_eq!((peer, refusal.code), (Some(1), RefuseCode::Certificate));
        assert!(refusal.message.contains("not valid for the name node-1.farm"), "{refusal}");
        accepting.abort();
    });
}

/// Dials node 1 and claims to be node 0.
async fn dial(security: &Security, presents: bool, address: std::net::SocketAddr) {
    let Security::Tls { chain, key, ca } = security else { panic!() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let client = if presents {
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
        known: None,
        received: 0,
    };
    write_hello(&hello, &mut bytes);
    let _ = stream.write_all(&bytes).await;
    let mut answer = Vec::new();
    let _ = in_time("the end of the connection", stream.read_to_end(&mut answer)).await;
    assert!(answer.get(4) != Some(&1), "it got a handshake");
}

/// A plain node and one with TLS: both report the cause.
#[test]
fn plain_and_tls_do_not_connect() {
    runtime().block_on(async {
        let (folder, ca) = (TempFolder::new("tls"), Authority::new("a"));
        let plain = Security::Plain { is_explicit: false };
        let (mut zero, mut one, _proxy) =
            pair(plain.clone(), ca.files(&folder, "node-1.farm")).await;
        let (here, there) = (one.refused().await.1, zero.refused().await.1);
        assert_eq!((here.code, there.code), (RefuseCode::Certificate, RefuseCode::Protocol));
        assert!(here.message.contains("it does not speak TLS"), "{here}");
        let (mut zero, mut one, _proxy) = pair(ca.files(&folder, "node-0.farm"), plain).await;
        let (here, there) = (one.refused().await.1, zero.refused().await.1);
        assert_eq!((here.code, there.code), (RefuseCode::Protocol, RefuseCode::Certificate));
        assert!(here.message.contains("a node with TLS where this one has none"), "{here}");
    });
}

/// Files that cannot be used are detected at the start; the error names the file.
#[test]
fn files_are_checked_at_the_start() {
    runtime().block_on(async {
        let (folder, ca) = (TempFolder::new("tls"), Authority::new("a"));
        let good = ca.files(&folder, "node-0.farm");
        let other = ca.files(&folder, "node-2.farm");
        let (
            Security::Tls { chain, key, ca },
            Security::Tls { chain: not_mine, key: other_key, .. },
        ) = (good, other)
        else {
            panic!()
        };
        let missing = folder.join("nothing.pem");
        for (chain, key, ca, expected) in [
            (&missing, &key, &ca, "nothing.pem: No such file"),
            (&key, &key, &ca, "holds no certificate"),
            (&chain, &missing, &ca, "nothing.pem: No such file"),
            (&chain, &chain, &ca, "holds no certificate or key"),
            (&chain, &key, &missing, "nothing.pem"),
            (&not_mine, &other_key, &ca, "not valid for the name node-0.farm"),
            (&chain, &other_key, &ca, "do not belong together"),
        ] {
            let security = Security::Tls { chain: chain.clone(), key: key.clone(), ca: ca.clone() };
            let (listener, address) = listener().await;
            let config = LinkConfig { security, ..config(0, 1, &[(1, address)]) };
            let (events, _) = tokio::sync::mpsc::channel(1);
            let error = Links::start(config, listener, events).await.unwrap_err();
            let StartError::Tls(error) = error else { panic!("{error}") };
            let wrong_name = matches!(error, TlsFileError::Name { .. });
            assert_eq!(wrong_name, *chain == not_mine, "{error}");
            assert!(error.to_string().contains(expected), "{expected}: {error}");
        }
    });
}
