//! Several logs in one process, with real stores, over transports that can be partitioned.

mod bootstrap;
mod quorum;
mod reconfiguration;
mod recovery;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kgate_core::{Incarnation, NodeId, Span};
use tokio::sync::mpsc;

use super::{
    AppliedEntry, Bootstrap, Log, LogError, LogStatus, LogTiming, MalformedMessage, Opened,
    ProposeError, RETENTION, Retention, StoreError, Transport, Unavailable,
};
use crate::membership::{LeaseTerms, StoreId};
use crate::state::{Applied, ClusterId, ClusterState, Command, DirectoryEntry, PermitId, Policy};

const TERMS: LeaseTerms =
    LeaseTerms { lease: Span(700_000_000), clock_error: 10_000, margin: Span(10_000_000) };
/// With long times, because a machine that runs tests has other work.
const TIMING: LogTiming = LogTiming {
    heartbeat: Span(50_000_000),
    election_min: Span(250_000_000),
    election_max: Span(500_000_000),
    propose_timeout: Span(20_000_000_000),
};
/// The longest wait for a condition.
const DEADLINE: Duration = Duration::from_secs(30);

/// Carries messages between the running logs, unless the way is cut.
#[derive(Default)]
struct Network {
    logs: Mutex<BTreeMap<NodeId, Log>>,
    cut: Mutex<BTreeSet<(NodeId, NodeId)>>,
}

struct NodeTransport(NodeId, Arc<Network>);

impl Transport for NodeTransport {
    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        if self.1.cut.lock().unwrap().contains(&(self.0, to)) {
            return;
        }
        let log = self.1.logs.lock().unwrap().get(&to).cloned();
        if let Some(log) = log {
            log.receive(self.0, &bytes).expect("a log sends no malformed messages");
        }
    }
}

struct Node {
    log: Log,
    store: StoreId,
    cluster_state: ClusterState,
    entries: mpsc::UnboundedReceiver<AppliedEntry>,
}

/// The running logs, and the folder of all stores.
struct TestCluster {
    folder: PathBuf,
    network: Arc<Network>,
    nodes: BTreeMap<NodeId, Node>,
    retention: Retention,
}

impl TestCluster {
    fn new(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("kgate-log-{}-{unique}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self { folder, network: Arc::default(), nodes: BTreeMap::new(), retention: RETENTION }
    }

    /// A cluster of so many nodes; the first of them vote.
    async fn bootstrapped(name: &str, nodes: u32, voters: u32) -> Self {
        let mut cluster = Self::new(name);
        for node in 0..nodes {
            cluster.start(node);
        }
        cluster.bootstrap(nodes, voters).await;
        cluster
    }

    /// All nodes bootstrap the cluster, and all get the same id.
    async fn bootstrap(&self, nodes: u32, voters: u32) -> ClusterId {
        let mut calls = tokio::task::JoinSet::new();
        for (node, it) in &self.nodes {
            let (log, initial_members) =
                (it.log.clone(), initial_members(u64::from(node.0) + 1, nodes, voters));
            calls.spawn(async move { log.bootstrap(initial_members).await });
        }
        let ids: BTreeSet<ClusterId> =
            calls.join_all().await.into_iter().map(|id| id.expect("bootstrapped")).collect();
        assert_eq!(ids.len(), 1, "one cluster has one id");
        *ids.first().unwrap()
    }

    fn start(&mut self, node: u32) -> &Node {
        let me = NodeId(node);
        let transport = Arc::new(NodeTransport(me, Arc::clone(&self.network)));
        let opened = Log::open_with(&self.home(node), me, transport, TIMING, self.retention)
            .expect("it opens");
        let Opened { log, store, cluster_state, entries } = opened;
        self.network.logs.lock().unwrap().insert(me, log.clone());
        self.nodes.insert(me, Node { log, store, cluster_state, entries });
        &self.nodes[&me]
    }

    async fn stop(&mut self, node: u32) {
        let node = NodeId(node);
        self.network.logs.lock().unwrap().remove(&node);
        self.nodes.remove(&node).expect("it runs").log.stop().await;
    }

    /// Drops a node without stopping it, and waits only until its file is closed.
    async fn kill(&mut self, node: u32) {
        let node = NodeId(node);
        self.network.logs.lock().unwrap().remove(&node);
        let mut closed = self.nodes.remove(&node).expect("it runs").log.closed.clone();
        closed.wait_for(|closed| *closed).await.expect("the thread closes it");
    }

    fn home(&self, node: u32) -> PathBuf {
        self.folder.join(node.to_string())
    }

    fn log(&self, node: u32) -> &Log {
        &self.nodes[&NodeId(node)].log
    }

    /// Cuts a node off from all others, or connects it again.
    fn cut(&self, node: u32, cut: bool) {
        for other in (0..16).filter(|other| *other != node) {
            for way in [(NodeId(node), NodeId(other)), (NodeId(other), NodeId(node))] {
                let mut ways = self.network.cut.lock().unwrap();
                if cut {
                    ways.insert(way)
                } else {
                    ways.remove(&way)
                };
            }
        }
    }

    /// Waits until the status of that node's log is as wanted.
    async fn until(&self, node: u32, wanted: impl FnMut(&LogStatus) -> bool) -> LogStatus {
        let mut status = self.log(node).status();
        let found = tokio::time::timeout(DEADLINE, status.wait_for(wanted)).await;
        found
            .unwrap_or_else(|_| panic!("p{node} does not get there: {:?}", self.log(node)))
            .unwrap()
            .clone()
    }

    /// Waits until one of these nodes leads, and all of them know it.
    async fn leader(&self, nodes: &[u32]) -> u32 {
        let among = |node: NodeId| nodes.contains(&node.0);
        loop {
            let first = self.until(nodes[0], |it| it.leader.is_some_and(among)).await.leader;
            let mut same = true;
            for node in nodes {
                same &= self.until(*node, |it| it.leader.is_some_and(among)).await.leader == first;
            }
            if same && self.log(first.unwrap().0).status().borrow().is_leader {
                return first.unwrap().0;
            }
        }
    }

    /// Waits until all nodes have applied what one of them has.
    async fn level(&self, node: u32) -> u64 {
        let index = self.log(node).read().await.expect("there is a quorum").applied;
        for other in self.nodes.keys() {
            self.until(other.0, |status| status.applied >= index).await;
        }
        index
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.network.logs.lock().unwrap().clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn initial_members(cluster: u64, nodes: u32, voters: u32) -> Bootstrap {
    let entry = |node| DirectoryEntry { name: format!("n{node}"), ..DirectoryEntry::default() };
    Bootstrap {
        cluster: ClusterId(cluster),
        name: "test".to_owned(),
        nodes: (0..nodes).map(|node| (NodeId(node), entry(node))).collect(),
        voters: (0..voters).map(NodeId).collect(),
        terms: TERMS,
    }
}

fn add(cluster: &TestCluster, node: u32, incarnation: u32) -> Command {
    Command::Add {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        store: cluster.nodes[&NodeId(node)].store,
        start: u64::from(incarnation),
        terms: TERMS,
        address: String::new(),
    }
}

fn gate(name: &str, k: u32) -> Command {
    Command::CreateGate {
        name: name.to_owned(),
        slots: k.into(),
        protocol: "slots".to_owned(),
        lanes: 1,
        policy: Policy::Lease,
        weight_max: None,
        author: "a test".to_owned(),
    }
}

fn set(name: &str, k: u32) -> Command {
    Command::SetGate {
        name: name.to_owned(),
        k: Some(k),
        source: None,
        policy: None,
        version: None,
        author: "a test".to_owned(),
    }
}
