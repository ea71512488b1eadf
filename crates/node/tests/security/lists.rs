//! Who may what by certificate, token and user; and how much of it.

use kgate_client::{Client, Credentials, Error, ErrorKind, Status};
use kgate_node::Node;
use tokio::net::{TcpStream, UnixStream};

use crate::fixture::{
    Authority, Folder, at, client, connect, count, get, in_time, node, refused, tls,
};

const TOKEN: &str = "f3a1-a-token-of-a-test-9c";

/// As `sha256sum` prints it.
pub(crate) fn sha256(token: &str) -> String {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let hash = suite.tls13().unwrap().common.hash_provider.hash(token.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn list() -> String {
    format!(
        "[[allow]]\nclient = \"ci-*\"\ngates = [\"build/\", \"gpu\"]\n\
         [[allow]]\ntoken = \"{}\"\nmay = [\"see\"]\n\
         [[allow]]\nuser = {}\nmay = [\"acquire\", \"operate\"]\n",
        sha256(TOKEN),
        rustix::process::getuid().as_raw(),
    )
}

async fn local(folder: &Folder) -> UnixStream {
    UnixStream::connect(folder.0.join("node.sock")).await.unwrap()
}

fn why(result: Result<impl Sized, Error>) -> (ErrorKind, String) {
    let error = result.map(|_| ()).unwrap_err();
    (error.kind(), error.to_string())
}

/// By certificate: what begins so may be acquired, anything else is refused with who, what and what
/// is needed; and refusals are counted.
#[tokio::test]
async fn by_certificate() {
    let (folder, ca) = (Folder::new(), Authority::new("a"));
    let node = node(&ca, &folder, &list()).await;
    let session = connect(&node, &client(&ca, &folder, "ci-7")).await.unwrap();
    let held = session.gate("build/linux").k(1).acquire().await.unwrap();
    assert!(session.gate("gpu").try_acquire().await.unwrap().is_some());
    let (kind, text) = why(session.gate("prod").acquire().await);
    assert_eq!(kind, ErrorKind::PermissionDenied);
    assert!(
        text.contains("client ci-7 may not acquire `prod`") && text.contains("may = [\"acquire\"]"),
        "{text}"
    );
    // Who was refused goes on with what it has.
    assert!(session.gate("gpu").try_acquire().await.unwrap().is_some());
    let eve = connect(&node, &client(&ca, &folder, "eve")).await.unwrap();
    assert_eq!(why(eve.gate("gpu").acquire().await).0, ErrorKind::PermissionDenied);
    let metrics = get(local(&folder).await, "/metrics", "").await;
    assert_eq!(count(&metrics, "permission_denied"), 2, "{metrics}");
    // People are shown who it is, not who it says it is.
    let status = get(local(&folder).await, "/v1/gates/build/linux", "").await;
    assert!(status.contains("client ci-7"), "{status}");
    held.release().await.unwrap();
}

/// Status and watch show what one may see and nothing else; one gate that one may not see is
/// refused, whether it is there or not.
#[tokio::test]
async fn what_is_shown() {
    let (folder, ca) = (Folder::new(), Authority::new("a"));
    let node = node(&ca, &folder, &list()).await;
    let all = Client::connect(&node.api()[1]).await.unwrap();
    let _gates =
        (all.gate("gpu").acquire().await.unwrap(), all.gate("prod").acquire().await.unwrap());
    let names = |status: Status| -> Vec<String> {
        status.gates().map(|gate| gate.name().to_owned()).collect()
    };
    let ci = client(&ca, &folder, "ci-7");
    assert_eq!(names(Status::fetch(at(&node, &ci), None).await.unwrap()), ["gpu"]);
    assert_eq!(names(Status::fetch(&node.api()[1], None).await.unwrap()), ["gpu", "prod"]);
    for gate in ["prod", "nowhere"] {
        assert_eq!(
            why(Status::fetch(at(&node, &ci), Some(gate)).await).0,
            ErrorKind::PermissionDenied
        );
        let answer = get(tls(&node, &ci).await, &format!("/v1/gates/{gate}"), "").await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("client ci-7"), "{answer}");
    }
    let mut watched = Box::pin(Status::watch(at(&node, &ci), None).await.unwrap());
    let first = in_time("a look", tokio_stream::StreamExt::next(&mut watched)).await;
    assert_eq!(names(first.unwrap().unwrap()), ["gpu"]);
    let answer = get(tls(&node, &ci).await, "/metrics", "").await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("see all gates"), "{answer}");
}

/// By token: no certificate is needed then, gRPC and HTTP alike; no token, a wrong one and a
/// strange header are refused. A token is never sent in the clear.
#[tokio::test]
async fn by_token() {
    let (folder, ca) = (Folder::new(), Authority::new("a"));
    let node = node(&ca, &folder, &list()).await;
    let nobody = Credentials { authority: Some(ca.ca(&folder)), ..Credentials::default() };
    let bearer = |text: &str| Credentials {
        token_file: Some(folder.write("token", text)),
        ..nobody.clone()
    };
    let good = bearer(&format!("{TOKEN}\n"));
    assert!(Status::fetch(at(&node, &good), None).await.is_ok());
    let (kind, text) = why(connect(&node, &good).await.unwrap().gate("gpu").acquire().await);
    assert_eq!(kind, ErrorKind::PermissionDenied);
    assert!(
        text.contains(&format!("the token with SHA-256 {}", &sha256(TOKEN)[..8]))
            && !text.contains(TOKEN)
    );
    let head = |token: &str| format!("authorization: Bearer {token}\r\n");
    let status = get(tls(&node, &nobody).await, "/v1/status", &head(TOKEN)).await;
    assert!(status.starts_with("HTTP/1.1 200"), "{status}");
    for wrong in [head("wrong"), "authorization: Basic YTpi\r\n".to_owned()] {
        let status = get(tls(&node, &nobody).await, "/v1/status", &wrong).await;
        assert!(status.starts_with("HTTP/1.1 401"), "{status}");
    }
    let bad = refused(&node, &bearer("wrong")).await;
    assert!(bad.contains("no [[allow]] of this node has the SHA-256 of its token"), "{bad}");
    assert!(!bad.contains("without"), "a wrong token is none that is missing: {bad}");
    // Who shows nothing gets in, and may nothing.
    assert_eq!(
        why(connect(&node, &nobody).await.unwrap().gate("gpu").acquire().await).0,
        ErrorKind::PermissionDenied
    );
    let (kind, text) = why(Status::fetch(at(&node, &nobody), None).await);
    assert!(
        kind == ErrorKind::PermissionDenied
            && text.contains("without certificate or token may not see any gate"),
        "{text}"
    );
    let status = get(tls(&node, &nobody).await, "/v1/status", "").await;
    assert!(status.starts_with("HTTP/1.1 403"), "{status}");
    let metrics = get(local(&folder).await, "/metrics", "").await;
    assert_eq!(count(&metrics, "unauthenticated"), 3, "{metrics}");
    let elsewhere =
        "http://10.255.255.1:1".parse::<kgate_client::Address>().unwrap().with(bearer(TOKEN));
    let why = Status::fetch(elsewhere, None).await.unwrap_err().to_string();
    assert!(why.contains("cleartext"), "{why}");
}

/// By user: the kernel says who is at a Unix socket. A list that names another shuts this one out.
#[tokio::test]
async fn by_user() {
    let folder = Folder::new();
    let user = rustix::process::getuid().as_raw();
    let start = async |allowed: u32| {
        let socket = format!("unix:{}", folder.0.join(format!("{allowed}.sock")).display());
        let text =
            format!("id = 0\nnodes = [\"a:1\"]\napi = {socket:?}\n[[allow]]\nuser = {allowed}\n");
        Node::start(folder.config(&text)).await.unwrap()
    };
    let mine = start(user).await;
    assert!(Client::connect(&mine.api()[0]).await.unwrap().gate("gpu").acquire().await.is_ok());
    let other = start(user + 1).await;
    let (_, text) =
        why(Client::connect(&other.api()[0]).await.unwrap().gate("gpu").acquire().await);
    let entry = nix::unistd::User::from_uid(user.into()).unwrap();
    let name = entry.map_or_else(|| user.to_string(), |entry| entry.name);
    assert!(text.contains(&format!("{name} may not acquire `gpu`")), "{text}");
}

async fn plain(folder: &Folder, limits: &str) -> Node {
    let text = format!("id = 0\nnodes = [\"a:1\"]\napi = \"127.0.0.1:0\"\n[limits]\n{limits}\n");
    Node::start(folder.config(&text)).await.unwrap()
}

async fn metrics(node: &Node) -> String {
    let stream = TcpStream::connect(node.api()[0].trim_start_matches("http://")).await.unwrap();
    get(stream, "/metrics", "").await
}

/// More sessions or more waiting requests than one client may have are refused with the number;
/// when some end there is room again.
#[tokio::test]
async fn sessions_and_waiters() {
    let folder = Folder::new();
    let node = plain(&folder, "sessions = 2\nwaiting = 1").await;
    let first = Client::connect(&node.api()[0]).await.unwrap();
    let second = Client::connect(&node.api()[0]).await.unwrap();
    let (kind, text) = why(Client::connect(&node.api()[0]).await);
    assert_eq!(kind, ErrorKind::LimitExceeded);
    assert!(text.contains("limit of 2 sessions") && text.contains("127.0.0.1"), "{text}");
    let held = first.gate("gpu").acquire().await.unwrap();
    let waits = tokio::spawn({
        let second = second.clone();
        async move { second.gate("gpu").acquire().await }
    });
    in_time("a waiter", async {
        while Status::fetch(&node.api()[0], Some("gpu"))
            .await
            .unwrap()
            .gate("gpu")
            .unwrap()
            .waiting()
            .len()
            == 0
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (kind, text) = why(first.gate("other").acquire().await);
    assert_eq!(kind, ErrorKind::LimitExceeded);
    assert!(text.contains("waiting requests"), "{text}");
    held.release().await.unwrap();
    let got = waits.await.unwrap().unwrap();
    assert!(first.gate("other").acquire().await.is_ok(), "nobody waits any more");
    got.release().await.unwrap();
    drop((first, second));
    in_time("room for a session", async {
        while Client::connect(&node.api()[0]).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let metrics = metrics(&node).await;
    assert!(count(&metrics, "sessions") >= 1 && count(&metrics, "waiting") == 1, "{metrics}");
}

/// Who asks too fast is refused with when to come back, and what it holds goes on being renewed and
/// can be released.
#[tokio::test]
async fn too_fast() {
    let folder = Folder::new();
    let node = plain(&folder, "requests_per_second = 1\nburst = 4").await;
    let client = Client::connect(&node.api()[0]).await.unwrap();
    let held = client.gate("gpu").acquire().await.unwrap();
    let mut last = None;
    for _ in 0..10 {
        if let Err(error) = client.gate("gpu").try_acquire().await {
            last = Some(error);
        }
    }
    let (kind, text) = why(Err::<(), _>(last.expect("it was refused at last")));
    assert_eq!(kind, ErrorKind::LimitExceeded);
    assert!(text.contains("exceeds 1 requests per second") && text.contains("retry in"), "{text}");
    let before = *client.valid_until().borrow();
    in_time("a renewal", client.valid_until().wait_for(|until| *until > before)).await.unwrap();
    in_time("a release", held.release()).await.unwrap();
}

/// A message over the limit is not read: its stream ends with the reason.
#[tokio::test]
async fn too_long() {
    let folder = Folder::new();
    let node = plain(&folder, "message_bytes = 1024").await;
    let client = Client::connect(&node.api()[0]).await.unwrap();
    let asked = in_time("an answer", client.gate("g".repeat(100_000)).acquire()).await;
    let text = asked.unwrap_err().to_string();
    assert!(text.contains("at most 1024 bytes"), "{text}");
    let metrics = metrics(&node).await;
    assert!(count(&metrics, "size") >= 1, "{metrics}");
}
