//! A cluster of real nodes in this process, on real sockets and disks.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kgate_client::{Client, LeaseInstant, Permit};
use kgate_node::{Config, Node};
use tokio::net::TcpListener;

/// How many clusters were made: each has a folder of its own.
static CLUSTERS: AtomicU32 = AtomicU32::new(0);
/// So long anything may take on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster whose nodes can be killed and started again.
pub(crate) struct Cluster {
    folder: PathBuf,
    pub(crate) addresses: Vec<String>,
    more: String,
    pub(crate) nodes: Vec<Option<Node>>,
}

impl Cluster {
    pub(crate) async fn start(nodes: usize, more: &str) -> Self {
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("kgate-leases-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut listeners = Vec::new();
        for _ in 0..nodes {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
        }
        let addresses =
            listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let mut cluster = Self { folder, addresses, more: more.to_owned(), nodes: Vec::new() };
        for (id, listener) in listeners.into_iter().enumerate() {
            let node = Node::start_on(cluster.config(id), Some(listener)).await.expect("it starts");
            cluster.nodes.push(Some(node));
        }
        cluster
    }

    /// Of a node of the list.
    fn config(&self, id: usize) -> Config {
        self.config_at(id, &format!("id = {id}\nnodes = {:?}\n", self.addresses))
    }

    /// Of a node that knows its place by these lines.
    pub(crate) fn config_at(&self, id: usize, place: &str) -> Config {
        let data = self.folder.join(id.to_string());
        let text = format!(
            "{place}api = \"127.0.0.1:0\"\ndata = {data:?}\n{}\n[timing]\npreset = \"fast\"\n",
            self.more
        );
        std::fs::create_dir_all(&data).unwrap();
        let path = data.join("node.toml");
        std::fs::write(&path, text).unwrap();
        Config::read(&path).unwrap()
    }

    /// As by `kill -9`: nobody is told anything.
    pub(crate) fn kill(&mut self, id: usize) {
        drop(self.nodes[id].take());
    }

    pub(crate) async fn stop(&mut self, id: usize) {
        self.nodes[id].take().expect("up").stop().await.expect("a clean stop");
    }

    /// Starts it again; its port and its store may need a moment to be free.
    pub(crate) async fn restart(&mut self, id: usize) {
        let started = until(|| async {
            let listener = TcpListener::bind(&self.addresses[id]).await.ok()?;
            Node::start_on(self.config(id), Some(listener)).await.ok()
        });
        self.nodes[id] = Some(started.await);
    }

    pub(crate) fn api(&self, id: usize) -> String {
        self.nodes[id].as_ref().expect("up").api()[0].clone()
    }

    /// A permit of the gate through that node, however long it takes.
    pub(crate) async fn acquire(&self, id: usize) -> Permit {
        self.acquired(id, None).await
    }

    /// The same by a client that names k.
    pub(crate) async fn acquire_of(&self, id: usize, k: u32) -> Permit {
        self.acquired(id, Some(k)).await
    }

    async fn acquired(&self, id: usize, k: Option<u32>) -> Permit {
        let address = self.api(id);
        until(|| async {
            let client = Client::connect(&address).await.ok()?;
            let gate = client.gate("gpu").timeout(Duration::from_secs(10));
            let gate = if let Some(k) = k { gate.k(k) } else { gate };
            gate.acquire().await.ok()
        })
        .await
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Tries again and again until it works.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(attempt: impl Fn() -> F) -> T {
    let end = LeaseInstant::now() + PATIENCE;
    loop {
        if let Some(done) = attempt().await {
            return done;
        }
        assert!(!end.after(LeaseInstant::now()).is_zero(), "not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
