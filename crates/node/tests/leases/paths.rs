//! Paths of HTTP: those that there are, and what is said to whoever asks for another.

use crate::cluster::Cluster;

/// A path that is not there is 404 with a list of those that are, never a success with nothing in
/// it; and each of that list is there. A wrong method is 405.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_paths() {
    let cluster = Cluster::start(1, "").await;
    cluster.acquire(0).await.release().await.unwrap();
    for path in ["/nope", "/v1/statuss", "/", "/v1/gates/", "/v1/permits"] {
        let (status, said) = cluster.ask(0, "GET", path, "").await.unwrap();
        assert_eq!(status, 404, "{path}: {said}");
        let said = said.as_str().unwrap();
        assert!(said.starts_with(&format!("there is no {path} at this node")), "{said}");
    }
    let (_, listed) = cluster.ask(0, "GET", "/nope", "").await.unwrap();
    let listed: Vec<&str> = listed.as_str().unwrap().lines().skip(1).collect();
    assert!(
        listed.len() > 10 && listed.iter().any(|line| line.ends_with(" /v1/status")),
        "{listed:?}"
    );
    for line in listed {
        let (method, path) = line.split_once(' ').unwrap();
        let path = path.trim().replace("NAME", "gpu").replace("ID", "7").replace("NODE", "0");
        // No body tells their end: one goes on for ever, one waits for a body. That other methods
        // are refused says that they are there.
        let (status, said) = cluster.ask(0, "PATCH", &path, "").await.unwrap();
        assert_eq!(status, 405, "{path}: {said}");
        if method == "GET" && path != "/v1/watch" {
            let (status, said) = cluster.ask(0, method, &path, "").await.unwrap();
            assert_eq!(status, 200, "{path}: {said}");
        }
    }
}

/// Whoever speaks gRPC is answered so: a service that is not there is not implemented.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_services() {
    let cluster = Cluster::start(1, "").await;
    let header = "1\r\ncontent-type: application/grpc+proto";
    let (status, said) = cluster.ask(0, "POST", "/kgate.v2.Gates/Status", header).await.unwrap();
    assert_eq!((status, said.as_str()), (200, Some("")), "its status is a header");
}
