//! No secret in a log, whatever its level.

use std::io;
use std::sync::{Arc, Mutex};

use kgate_client::Credentials;

use crate::fixture::{Authority, Folder, client, connect, get, in_time, node, tls};
use crate::lists::sha256;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A run with certificates, tokens (a good and a bad one) and a session, logged at the level of
/// every word that any library says: neither token, nor the secret of the session, nor a key is in
/// it.
#[tokio::test]
async fn no_secret_in_a_log() {
    const GOOD: &str = "s3cr3t-t0ken-of-a-test";
    const BAD: &str = "an0ther-t0ken-of-a-test";
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let logging = tracing::subscriber::set_default(subscriber);
    let (folder, ca) = (Folder::new(), Authority::new("a"));
    let list = format!("[[allow]]\nclient = \"*\"\n[[allow]]\ntoken = \"{}\"\n", sha256(GOOD));
    let node = node(&ca, &folder, &list).await;
    let alice = client(&ca, &folder, "alice");
    let session = connect(&node, &alice).await.unwrap();
    let permit = session.gate("gpu").acquire().await.unwrap();
    let before = *session.valid_until().borrow();
    in_time("a renewal", session.valid_until().wait_for(|until| *until > before)).await.unwrap();
    let token = session.session_token();
    tracing::info!(?token, ?alice, "as somebody would log it");
    for token in [GOOD, BAD] {
        let bearer =
            Credentials { token_file: Some(folder.write("token", token)), ..alice.clone() };
        assert_eq!(connect(&node, &bearer).await.is_ok(), token == GOOD);
        let head = format!("authorization: Bearer {token}\r\n");
        let _ = get(tls(&node, &alice).await, "/v1/status", &head).await;
    }
    permit.release().await.unwrap();
    drop(session);
    node.stop().await.unwrap();
    drop(logging);
    let text = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(text.contains("as somebody would log it") && text.contains("h2"), "the log was on");
    let secret = u128::from_be_bytes(token.to_bytes()[8..].try_into().unwrap());
    let bytes = secret.to_be_bytes();
    let key = std::fs::read_to_string(alice.key.as_ref().unwrap()).unwrap();
    let key = key.lines().nth(1).unwrap().to_owned();
    for hidden in [
        GOOD.to_owned(),
        BAD.to_owned(),
        secret.to_string(),
        format!("{secret:x}"),
        format!("{:?}", &bytes[..8]).trim_matches(['[', ']']).to_owned(),
        key,
    ] {
        assert!(!text.contains(&hidden), "{hidden} is in the log");
    }
}
