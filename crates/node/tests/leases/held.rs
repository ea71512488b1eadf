//! Permits that the log holds, over HTTP as a script with curl asks for them, at real nodes on real
//! sockets and disks (docs/internals/leases.md section 8).

use std::time::Duration;

use kgate_client::{Client, DurableToken, LeaseInstant};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cluster::{Cluster, until};

impl Cluster {
    /// One request to a node: the status, and the answer; a text, if it is no JSON.
    pub(crate) async fn ask(
        &self,
        id: usize,
        method: &str,
        path: &str,
        secret: &str,
    ) -> Option<(u16, Value)> {
        let mut stream =
            TcpStream::connect(self.api(id).trim_start_matches("http://")).await.ok()?;
        let secret =
            if secret.is_empty() { String::new() } else { format!("kgate-secret: {secret}\r\n") };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: kgate\r\n{secret}content-length: 0\r\n\
             connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Some((status, serde_json::from_str(body).unwrap_or_else(|_| body.into())))
    }

    /// The same again and again, until the answer has one of these statuses.
    async fn asked(
        &self,
        id: usize,
        method: &str,
        path: &str,
        secret: &str,
        wanted: &[u16],
    ) -> (u16, Value) {
        until(|| async {
            self.ask(id, method, path, secret).await.filter(|(status, _)| wanted.contains(status))
        })
        .await
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// It survives kill -9 of its node and of all nodes; its secret gives it back at another one, and
/// only its secret; then the next has the slot under a greater fence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_survives_kill_9_of_everybody() {
    let mut cluster = Cluster::start(3, "").await;
    let acquire = "/v1/gates/job/permits?ttl_ms=3600000&k=1&no_wait=true";
    let (_, first) = cluster.asked(0, "POST", acquire, "", &[201]).await;
    let (permit, secret) =
        (first["permit_id"].as_u64().unwrap(), text(&first, "secret").to_owned());
    assert_eq!(
        (&first["slots"], first["ttl_ms"].as_u64()),
        (&serde_json::json!([0]), Some(3_600_000))
    );
    cluster.kill(0);
    assert_eq!(cluster.asked(1, "POST", acquire, "", &[201, 409]).await.0, 409, "it is held");
    for id in 1..3 {
        cluster.kill(id);
    }
    for id in 0..3 {
        cluster.restart(id).await;
    }
    assert_eq!(
        cluster.asked(2, "POST", acquire, "", &[201, 409]).await.0,
        409,
        "all have restarted"
    );
    // Who asks with the same secret has it already.
    let (_, again) = cluster.asked(1, "POST", acquire, &secret, &[201]).await;
    assert_eq!(
        (again["permit_id"].as_u64(), text(&again, "fence")),
        (Some(permit), text(&first, "fence"))
    );
    let path = format!("/v1/permits/{permit}");
    let wrong = "1".repeat(32);
    assert_eq!(cluster.asked(1, "DELETE", &path, &wrong, &[204, 403]).await.0, 403);
    for _ in 0..2 {
        assert_eq!(
            cluster.asked(2, "DELETE", &path, &secret, &[204]).await.0,
            204,
            "and again is the same"
        );
    }
    let (_, next) = cluster.asked(0, "POST", acquire, "", &[201]).await;
    assert!(text(&next, "fence") > text(&first, "fence"), "{next} after {first}");
}

/// A durable permit expires, not early, counted from the last renewal at any node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live() {
    let cluster = Cluster::start(3, "").await;
    let acquire = "/v1/gates/job/permits?ttl_ms=3000&k=1&no_wait=true";
    let (_, first) = cluster.asked(0, "POST", acquire, "", &[201]).await;
    let (permit, secret) =
        (first["permit_id"].as_u64().unwrap(), text(&first, "secret").to_owned());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let renew = format!("/v1/permits/{permit}/renew");
    let sent = LeaseInstant::now();
    let (status, renewed) = cluster.asked(1, "POST", &renew, &secret, &[200, 410]).await;
    assert_eq!((status, renewed["permit_id"].as_u64()), (200, Some(permit)));
    let (_, next) = cluster.asked(2, "POST", acquire, "", &[201]).await;
    let took = LeaseInstant::now().after(sent);
    println!("the next was granted {took:?} after the renewal was sent");
    assert!(took >= Duration::from_secs(3), "early: {took:?}");
    assert!(text(&next, "fence") > text(&first, "fence"));
    assert_eq!(cluster.asked(0, "POST", &renew, &secret, &[200, 410]).await.0, 410, "it is gone");
    let client = Client::connect(&cluster.api(1)).await.unwrap();
    let token = |permit: &Value| DurableToken {
        permit_id: permit["permit_id"].as_u64().unwrap(),
        secret: u128::from_str_radix(text(permit, "secret"), 16).unwrap(),
    };
    let late = client.release(token(&first)).await.unwrap();
    assert!(!late, "who gives it back after that is told");
    assert!(client.release(token(&next)).await.unwrap(), "who is in time is not");
}
