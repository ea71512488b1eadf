//! Who gets in by TLS, and what the others are told.

use kgate_client::{Client, Credentials, Status};
use kgate_node::Node;
use tokio::net::UnixStream;

use crate::fixture::{
    Authority, Folder, Use, client, connect, get, in_time, node, node_with, refused, tls,
};

/// A client with a certificate of the authority gets a permit by gRPC, and an answer by HTTP/1.1 on
/// the same port; the Unix socket goes on plain.
#[tokio::test]
async fn certificates_of_one_authority() {
    let (folder, ca) = (Folder::new(), Authority::new("a"));
    let node = node(&ca, &folder, "").await;
    let alice = client(&ca, &folder, "alice");
    let permit = connect(&node, &alice).await.unwrap().gate("gpu").k(2).acquire().await.unwrap();
    let status = get(tls(&node, &alice).await, "/v1/status", "").await;
    assert!(status.starts_with("HTTP/1.1 200") && status.contains("\"gpu\""), "{status}");
    permit.release().await.unwrap();
    let local = Client::connect(&node.api()[1]).await.unwrap();
    assert!(local.gate("gpu").try_acquire().await.unwrap().is_some());
    let socket = UnixStream::connect(folder.0.join("node.sock")).await.unwrap();
    assert!(get(socket, "/healthz", "").await.contains("ok"));
    let socket = UnixStream::connect(folder.0.join("node.sock")).await.unwrap();
    let ready = get(socket, "/readyz", "").await;
    assert!(
        ready.starts_with("HTTP/1.1 200") && ready.contains("ready"),
        "no leases, none is missing: {ready}"
    );
}

/// No certificate, one of another authority, one that has expired: refused, and the client is told
/// which.
#[tokio::test]
async fn clients_that_are_not_known() {
    let (folder, ours, theirs) = (Folder::new(), Authority::new("a"), Authority::new("b"));
    let node = node(&ours, &folder, "").await;
    let none = Credentials { authority: Some(ours.ca(&folder)), ..Credentials::default() };
    let other =
        Credentials { authority: none.authority.clone(), ..client(&theirs, &folder, "alice") };
    let (certificate, key) = ours.files(&folder, &["client-old.farm"], Use::Client, true);
    let old = Credentials { certificate: Some(certificate), key: Some(key), ..none.clone() };
    for (credentials, expected) in [
        (&none, "requires a client certificate"),
        (&other, "rejected this client's certificate"),
        (&old, "has expired"),
    ] {
        let why = refused(&node, credentials).await;
        assert!(
            why.contains(expected) && why.contains("no kgate node at https://"),
            "{expected}: {why}"
        );
    }
    assert!(
        connect(&node, &client(&ours, &folder, "alice")).await.is_ok(),
        "others are served all the same"
    );
}

/// A node of another authority, of another name, with an expired certificate or with that of a
/// client is none, and a plain address is no TLS: the client says so and shows nothing.
#[tokio::test]
async fn nodes_that_are_not_known() {
    let (folder, ours, theirs) = (Folder::new(), Authority::new("a"), Authority::new("b"));
    let alice = client(&ours, &folder, "alice");
    let ca = ours.ca(&folder);
    let here: &[&str] = &["node-0.farm", "127.0.0.1"];
    let table = [
        (
            theirs.files(&folder, here, Use::Node, false),
            "not signed by the authority that this client trusts",
        ),
        (
            ours.files(&folder, &["node-9.farm", "10.0.0.9"], Use::Node, false),
            "not valid for the name 127.0.0.1",
        ),
        (
            ours.files(&folder, &["node-8.farm", "127.0.0.1"], Use::Node, true),
            "the node's certificate has expired",
        ),
        (
            ours.files(&folder, &["client-eve.farm", "127.0.0.1"], Use::Client, false),
            "is a client's, not a node's",
        ),
    ];
    for ((certificate, key), expected) in table {
        let node = node_with(&certificate, &key, &ca, &folder, "").await;
        let why = refused(&node, &alice).await;
        assert!(why.contains(expected), "{expected}: {why}");
        node.stop().await.unwrap();
    }
    // By the name that is meant, the address does not matter.
    let (certificate, key) = ours.files(&folder, &["node-9.farm"], Use::Node, false);
    let node = node_with(&certificate, &key, &ca, &folder, "").await;
    let meant = Credentials { server_name: Some("node-9.farm".into()), ..alice.clone() };
    assert!(connect(&node, &meant).await.is_ok());
    let plain = Node::start(folder.config("id = 0\nnodes = [\"a:1\"]\napi = \"127.0.0.1:0\"\n"))
        .await
        .unwrap();
    let address = plain.api()[0].replace("http://", "https://");
    let address = address.parse::<kgate_client::Address>().unwrap().with(alice);
    let why = in_time("an answer", Status::fetch(address, None)).await.unwrap_err().to_string();
    assert!(why.contains("does not speak TLS"), "{why}");
}

/// Files that cannot be used are found before anything is sent, with the file and what is wrong
/// with it.
#[tokio::test]
async fn files_of_a_client() {
    let (folder, ca) = (Folder::new(), Authority::new("a"));
    let node = node(&ca, &folder, "").await;
    let good = client(&ca, &folder, "alice");
    let bob = client(&ca, &folder, "bob");
    let missing = Some(folder.0.join("nothing.pem"));
    for (credentials, expected) in [
        (Credentials::default(), "needs the certificate of the authority"),
        (Credentials { authority: missing.clone(), ..good.clone() }, "nothing.pem: No such file"),
        (
            Credentials { authority: good.key.clone(), ..good.clone() },
            "no certificate or key in PEM form",
        ),
        (Credentials { key: None, ..good.clone() }, "a certificate needs its key"),
        (Credentials { key: bob.key, ..good.clone() }, "does not match the key"),
        (Credentials { token_file: missing, ..good }, "nothing.pem: No such file"),
    ] {
        let why = refused(&node, &credentials).await;
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

/// A plain API beyond this machine is refused unless it was asked for by name; https needs its
/// files.
#[tokio::test]
async fn what_does_not_start() {
    let folder = Folder::new();
    let start = async |api: &str, more: &str| {
        let text = format!("id = 0\nnodes = [\"a:1\"]\napi = {api:?}\n{more}");
        Node::start(folder.config(&text)).await.map(|_| ()).map_err(|error| error.to_string())
    };
    let why = start("0.0.0.0:0", "").await.unwrap_err();
    assert!(why.contains("cleartext API") && why.contains("plain_api = true"), "{why}");
    assert_eq!(start("0.0.0.0:0", "plain_api = true").await, Ok(()));
    assert_eq!(start("127.0.0.1:0", "").await, Ok(()));
    let why = start("https://127.0.0.1:0", "").await.unwrap_err();
    assert!(why.contains("https needs certificates"), "{why}");
    let why = start("127.0.0.1:0", "[[allow]]\nclient = \"a\"\nuser = 1\n").await.unwrap_err();
    assert!(why.contains("[[allow]] number 1"), "{why}");
}
