//! Nodes as processes, on free ports.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kgate_client::Status;
use rustix::process::Signal;
use tokio_stream::StreamExt;

use crate::fixture::{GRACE, Home, KGATE, Process, block_on, until, wait_for};

/// The validity of a session in these tests: `kgate run` needs its kill time, its grace period and
/// two renewals, and a busy machine needs more.
pub(crate) const LEASE: Duration = Duration::from_millis(2600);
/// Detects crashes quickly without declaring a slow node of a busy machine dead.
pub(crate) const QUICK: &str =
    "lease_ms = 2600\ndetect_interval_ms = 100\ndetect_timeout_ms = 1500\n";
/// The lease in tests of clusters with a log: long enough for a busy machine with a slow disk, and
/// short enough to wait for its end.
pub(crate) const LEASED: Duration = Duration::from_secs(2);
/// The configuration of that lease.
pub(crate) const TIMING: &str = "[timing]\nlease = \"2s\"\nnode_ping = \"150ms\"\n\
                                 session_ping = \"150ms\"\nsuspect_after = \"700ms\"\n\
                                 grace = \"200ms\"\nround_trip = \"100ms\"\n";
/// The interval between a client's renewals.
pub(crate) const RENEWAL: Duration = Duration::from_millis(500);

/// Running nodes; they are killed on drop.
pub(crate) struct Cluster {
    folder: PathBuf,
    pub(crate) nodes: Vec<Option<Process>>,
    /// Addresses for clients.
    pub(crate) api: Vec<String>,
    /// Addresses for other nodes.
    pub(crate) peer: Vec<String>,
}

impl Cluster {
    /// Starts nodes with these lines in each configuration, and waits until they are connected.
    pub(crate) fn start(home: &Home, count: usize, more: &str) -> Self {
        Self::start_each(home, count, |_| more.to_owned())
    }

    /// The same, with different lines per node.
    pub(crate) fn start_each(home: &Home, count: usize, more: impl Fn(usize) -> String) -> Self {
        let data = |id: usize| home.0.join(format!("data-{id}"));
        Self::start_with(home, count, |id| format!("data = {:?}\n{}", data(id), more(id)))
    }

    /// The same, without data that survives a restart.
    pub(crate) fn start_forgetful(home: &Home, count: usize, more: &str) -> Self {
        Self::start_with(home, count, |_| more.to_owned())
    }

    /// Starts nodes with a log and leases, and waits until each of them grants.
    pub(crate) fn start_leased(home: &Home, count: usize, timing: &str) -> Self {
        let data = |id: usize| home.0.join(format!("data-{id}"));
        let cluster = wait_for("a cluster", || {
            Self::try_start(&home.0, count, |id| format!("data = {:?}\n{timing}", data(id)))
        });
        (0..count).for_each(|id| cluster.until_grants(home, id));
        cluster
    }

    /// Waits until that node grants a permit.
    pub(crate) fn until_grants(&self, home: &Home, id: usize) {
        let words = [
            "run",
            "initial_members",
            "-k",
            "100",
            "-w",
            "5s",
            "--node",
            &self.api[id],
            "--",
            "true",
        ];
        until(&format!("node {id} grants"), || home.code(&words) == Some(0));
    }

    fn start_with(home: &Home, count: usize, more: impl Fn(usize) -> String) -> Self {
        // Another program may take a port after we have checked it: then other ports are tried.
        let crash_stop = |id| format!("faults = \"crash-stop\"\n{}", more(id));
        wait_for("a cluster", || Self::try_start(&home.0, count, crash_stop))
    }

    fn try_start(folder: &Path, count: usize, more: impl Fn(usize) -> String) -> Option<Self> {
        let ports = free_ports(2 * count);
        let (peer, api) = ports.split_at(count);
        let api = api.iter().map(|address| format!("http://{address}")).collect();
        let mut cluster =
            Self { folder: folder.to_owned(), nodes: Vec::new(), api, peer: peer.to_vec() };
        for id in 0..count {
            let _ = fs::remove_dir_all(folder.join(format!("data-{id}")));
            let api = cluster.api[id].trim_start_matches("http://");
            let socket = cluster.unix(id);
            let config = format!("id = {id}\nnodes = {peer:?}\napi = [{api:?}, {socket:?}]\n");
            fs::write(cluster.config(id), config + &more(id)).unwrap();
            let started = cluster.spawn(id);
            cluster.nodes.push(started);
            if cluster.nodes[id].is_none() {
                let log = cluster.log(id);
                assert!(log.contains("in use"), "node {id} does not start: {log}");
                return None;
            }
        }
        for id in 0..count {
            cluster.until_met(id);
        }
        Some(cluster)
    }

    fn config(&self, id: usize) -> PathBuf {
        self.folder.join(format!("node-{id}.toml"))
    }

    /// Starts a node and waits until it serves; none if it exits instead.
    fn spawn(&self, id: usize) -> Option<Process> {
        start_node(&self.config(id), &self.folder.join(format!("node-{id}.log")))
    }

    /// Waits until that node is connected to all others.
    pub(crate) fn until_met(&self, id: usize) {
        block_on(async {
            let mut seen = Box::pin(Status::watch(&self.api[id], None).await.unwrap());
            while let Some(status) = seen.next().await {
                if status.unwrap().unreachable().is_empty() {
                    return;
                }
            }
            panic!("node {id} has ended: {}", self.log(id));
        });
    }

    /// kill -9.
    pub(crate) fn kill(&mut self, id: usize) {
        self.nodes[id] = None;
    }

    /// SIGTERM; waits until the node has exited.
    pub(crate) fn stop(&mut self, id: usize) {
        let node = self.nodes[id].as_mut().expect("it runs");
        node.send(Signal::TERM);
        assert_eq!(node.code(), Some(0), "node {id} does not stop");
        self.nodes[id] = None;
    }

    /// Restarts a killed or stopped node with the same configuration.
    pub(crate) fn start_again(&mut self, id: usize) {
        self.nodes[id] = Some(wait_for("the node to serve again", || self.spawn(id)));
    }

    /// The standard error of a node, in all its incarnations.
    pub(crate) fn log(&self, id: usize) -> String {
        fs::read_to_string(self.folder.join(format!("node-{id}.log"))).unwrap_or_default()
    }

    /// `kgate run` at a node.
    pub(crate) fn run(&self, home: &Home, node: usize, gate: &str, k: u32) -> Command {
        home.kgate(&[
            "run",
            gate,
            "-k",
            &k.to_string(),
            "--grace",
            GRACE,
            "--node",
            &self.api[node],
        ])
    }

    pub(crate) fn unix(&self, id: usize) -> String {
        format!("unix:{}/api-{id}", self.folder.display())
    }
}

/// Starts a node with a configuration and waits until it serves; none if it exits instead.
pub(crate) fn start_node(config: &Path, log: &Path) -> Option<Process> {
    let log = File::options().create(true).append(true).open(log).unwrap();
    let mut command = Command::new(KGATE);
    command
        .arg("node")
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut node = Process::start(&mut command);
    let mut line = String::new();
    BufReader::new(node.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.contains("api").then_some(node)
}

/// Free addresses: all are bound at the same time, so that they differ, and then released.
pub(crate) fn free_ports(count: usize) -> Vec<String> {
    let bound: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    bound.iter().map(|port| port.local_addr().unwrap().to_string()).collect()
}
