//! The paths of the HTTP API, and the replies to unknown ones.

use crate::cluster::Cluster;

/// An unknown path is 404 with a list of the known ones, never an empty success; and each path of
/// the list exists. A wrong method is 405.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_paths() {
    let cluster = Cluster::start(1, "").await;
    cluster.acquire(0).await.release().await.unwrap();
    for path in ["/nope", "/v1/statuss", "/", "/v1/gates/", "/v1/permits"] {
        let (status, said) = cluster.ask(0, "GET", path, "").await.unwrap();
        assert_eq!(status, 404, "{path}: {said}");
        let message = said["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("unknown path {path}")), "{said}");
    }
    let (_, listed) = cluster.ask(0, "GET", "/nope", "").await.unwrap();
    let listed: Vec<&str> = listed["message"].as_str().unwrap().lines().skip(1).collect();
    assert!(
        listed.len() > 10 && listed.iter().any(|line| line.ends_with(" /v1/status")),
        "{listed:?}"
    );
    for line in listed {
        let (method, path) = line.split_once(' ').unwrap();
        let path = path.trim().replace("NAME", "gpu").replace("ID", "7").replace("NODE", "0");
        // Some of these streams never end. That another method is refused shows that the path
        // exists.
        let (status, said) = cluster.ask(0, "PATCH", &path, "").await.unwrap();
        assert_eq!(status, 405, "{path}: {said}");
        if method == "GET" && path != "/v1/watch" {
            let (status, said) = cluster.ask(0, method, &path, "").await.unwrap();
            assert_eq!(status, 200, "{path}: {said}");
        }
    }
}

/// A gRPC call of an unknown service gets a gRPC error: not implemented.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_services() {
    let cluster = Cluster::start(1, "").await;
    let header = "1\r\ncontent-type: application/grpc+proto";
    let (status, said) = cluster.ask(0, "POST", "/kgate.v2.Gates/Status", header).await.unwrap();
    assert_eq!((status, said.as_str()), (200, Some("")), "its status is a header");
}
