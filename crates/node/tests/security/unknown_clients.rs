//! Unauthenticated connections: silent ones, and too many of them.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::fixture::{Authority, Folder, client, connect, count, get, in_time, node, tls};

/// So long a handshake may take.
const TIME: Duration = Duration::from_secs(5);

/// A handshake that stalls is cut; far more of them than the limit of handshakes keep no client
/// out.
#[tokio::test]
async fn stalled_handshakes() {
    let (folder, ca) = (Folder::new(), Authority::new("a"));
    let node = node(&ca, &folder, "").await;
    let address = node.api()[0].trim_start_matches("https://").to_owned();
    let begun = tokio::time::Instant::now();
    let mut stalled = Vec::new();
    for _ in 0..400 {
        stalled.push(TcpStream::connect(&address).await.unwrap());
    }
    let mut byte = [0; 1];
    // The oldest gives way at once. On a machine that is too slow to tell, its time is over anyway.
    let ended = in_time("the end of the oldest", stalled[0].read(&mut byte)).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    assert!(
        begun.elapsed() < TIME || stalled[399].try_read(&mut byte).is_ok(),
        "it waited for its time"
    );
    let alice = client(&ca, &folder, "alice");
    let permit = connect(&node, &alice).await.unwrap().gate("gpu").acquire().await.unwrap();
    // The last goes when its time is over.
    let ended = in_time("the end of the last", stalled[399].read(&mut byte)).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    permit.release().await.unwrap();
    let metrics = get(tls(&node, &alice).await, "/metrics", "").await;
    assert!(count(&metrics, "handshake") >= 144, "{metrics}");
}

/// One client may have so many connections and all together so many: one more is closed, and when
/// one goes there is room.
#[tokio::test]
async fn too_many_connections() {
    let (folder, ca) = (Folder::new(), Authority::new("a"));
    let node = node(&ca, &folder, "connections_max = 3\n[limits]\nconnections = 2\n").await;
    let (alice, bob) = (client(&ca, &folder, "alice"), client(&ca, &folder, "bob"));
    let _one = connect(&node, &alice).await.unwrap();
    let two = connect(&node, &alice).await.unwrap();
    assert!(connect(&node, &alice).await.is_err(), "its third");
    let _other = connect(&node, &bob).await.unwrap();
    assert!(connect(&node, &bob).await.is_err(), "the fourth of all");
    drop(two);
    in_time("room", async {
        while connect(&node, &bob).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
