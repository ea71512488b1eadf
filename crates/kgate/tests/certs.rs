//! `kgate certs new`: two nodes connect with its files, keys are private, no file is overwritten.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use common::{json, kgate, stderr, stdout};
use kgate_core::{Incarnation, NodeId};
use kgate_net::{LinkConfig, LinkEvent, LinkLimits, Links, Security, WhenFull};
use kgate_testkit::TempFolder;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

fn security(dir: &Path, node: u32) -> Security {
    let file = |kind: &str| dir.join(format!("node-{node}.{kind}"));
    Security::Tls { chain: file("pem"), key: file("key"), ca: dir.join("ca.pem") }
}

/// Two nodes connect with the files.
#[test]
fn a_link_comes_up_with_them() {
    let folder = TempFolder::new("link");
    let dir = &*folder;
    let made = kgate(&format!("certs new --dir {} --cluster farm --nodes 2", dir.display()));
    assert!(made.status.success(), "{}", stderr(&made));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listeners = [
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        ];
        let addresses = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap().to_string());
        let mut nodes = Vec::new();
        for (me, listener) in (0..).zip(listeners) {
            let other = 1 - me;
            let config = LinkConfig {
                cluster: "farm".into(),
                me: NodeId(me),
                incarnation: Incarnation(1),
                peers: vec![(NodeId(other), addresses[other as usize].clone())],
                security: security(dir, me),
                limits: LinkLimits::default(),
                accepts_restarts: false,
                when_full: WhenFull::Break,
            };
            let (sender, events) = mpsc::channel(16);
            nodes.push((Links::start(config, listener, sender).await.unwrap(), events));
        }
        nodes[0].0.send(NodeId(1), b"hello".to_vec()).unwrap();
        let received = async {
            loop {
                if let LinkEvent::Message { from, bytes } =
                    nodes[1].1.recv().await.expect("links run")
                {
                    return (from, bytes);
                }
            }
        };
        let received =
            tokio::time::timeout(Duration::from_secs(20), received).await.expect("a link");
        assert_eq!(received, (NodeId(0), "hello".into()));
    });
}

/// Only the owner can read keys; names are those that links expect; JSON has the paths.
#[test]
fn files_names_and_modes() {
    let folder = TempFolder::new("files");
    let dir = folder.display();
    let report = json(&format!(
        "certs new --dir {dir} --cluster farm --nodes 2 --client alice --client bob --json"
    ));
    assert_eq!(report["cluster"], "farm");
    let certificates = report["certificates"].as_array().unwrap();
    let names: Vec<_> = certificates.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["node-0.farm", "node-1.farm", "client-alice.farm", "client-bob.farm"]);
    for one in certificates.iter().chain([&report["ca"]]) {
        let key = std::fs::metadata(one["key"].as_str().unwrap()).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600, "{one}");
        let chain = std::fs::read_to_string(one["chain"].as_str().unwrap()).unwrap();
        assert!(chain.starts_with("-----BEGIN CERTIFICATE-----") && !chain.contains("PRIVATE"));
    }
}

/// A second call changes nothing, even if only one of the files exists.
#[test]
fn nothing_is_overwritten() {
    let folder = TempFolder::new("twice");
    let key = folder.join("node-1.key");
    std::fs::write(&key, "mine").unwrap();
    let refused = kgate(&format!("certs new --dir {} --cluster farm --nodes 2", folder.display()));
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("node-1.key exists"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "something was written");
}

/// Invalid names are usage errors, and the help explains the files.
#[test]
fn names_and_help() {
    for (line, part) in [
        (
            "certs new --dir nowhere --cluster Farm --nodes 2",
            "invalid cluster name \"Farm\": use 1 to 63 lower-case letters",
        ),
        (
            "certs new --dir nowhere --cluster farm --nodes 2 --client a/b",
            "invalid client name \"a/b\"",
        ),
        ("certs new --dir nowhere --cluster farm --nodes 0", "0 is not in 1..=1000"),
    ] {
        let refused = kgate(line);
        assert_eq!(refused.status.code(), Some(2), "{line}");
        assert!(stderr(&refused).contains(part), "{line}: {}", stderr(&refused));
    }
    let help = stdout(&kgate("certs new --help"));
    let help = help.split_whitespace().collect::<Vec<_>>().join(
        " \
     ",
    ); // It is wrapped to the terminal.
    for part in ["node-2.farm", "Never copy ca.key", "Examples:"] {
        assert!(help.contains(part), "{help}");
    }
}
