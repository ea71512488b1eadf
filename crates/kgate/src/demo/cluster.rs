//! Nodes as processes of this machine, on free ports.
//!
//! Each is this binary, started again with its own configuration in a directory that is removed
//! with the cluster. The reports of all nodes, and their ends, come through one queue, so a node
//! that stops by itself is noticed at once.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use kgate_client::Status;
use kgate_protocols::registry;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;

use super::node::NodeReport;

/// Prefix of the name of a cluster's directory.
pub(super) const FOLDER: &str = "kgate-demo-";
/// The gate of all clients.
pub(crate) const GATE: &str = "demo";
/// Maximum time for a few nodes to start and to connect on a busy machine; a second more per node.
const START: Duration = Duration::from_secs(90);
/// Attempts to start a cluster: another program may take a port before the node binds it.
const ATTEMPTS: u32 = 3;

/// What to start.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Number of nodes.
    pub(crate) nodes: u32,
    /// Number of gates, all alike.
    pub(crate) gates: u32,
    /// k of each gate.
    pub(crate) k: u32,
    /// Protocol of each gate.
    pub(crate) protocol: &'static str,
    /// Whether nodes have stable storage, to recover after a crash.
    pub(crate) stores: bool,
}

impl Plan {
    /// Whether the cluster runs with leases.
    pub(crate) fn has_leases(&self) -> bool {
        has_leases(self.protocol, self.nodes)
    }
}

/// Whether a cluster runs with leases: always if the protocol follows the agreed log, and `slots`
/// with as many nodes as one machine can renew in time.
pub(crate) fn has_leases(protocol: &str, nodes: u32) -> bool {
    let entry = registry::entry(protocol);
    entry.is_ok_and(|entry| entry.follows_log || entry.slots && nodes <= FEW)
}

/// The most nodes whose short leases a busy machine can renew in time.
const FEW: u32 = 10;
/// Their leases.
const TIMING: &str = "[timing]\nlease = \"3s\"\nnode_ping = \"200ms\"\nsession_ping \
 = \"200ms\"\nsuspect_after = \"1s\"\ngrace = \"500ms\"\n";
/// The leases of more nodes.
const TIMING_OF_MANY: &str = "[timing]\nlease = \"10s\"\nnode_ping = \"1s\"\nsession_ping \
 = \"1s\"\nsuspect_after = \"4s\"\ngrace = \"500ms\"\n";

/// A report of a node; none if its process has ended.
#[derive(Debug)]
pub(crate) struct NodeEvent {
    pub(crate) node: usize,
    starts: u32,
    pub(crate) report: Option<NodeReport>,
}

/// Another process has taken a port of a node before the node could bind it.
#[derive(Debug, thiserror::Error)]
#[error("node {node}: {message}")]
struct PortTaken {
    node: usize,
    message: String,
}

#[derive(Debug)]
struct Member {
    config: PathBuf,
    /// Address for clients.
    api: String,
    process: Option<Child>,
    /// Number of times it was started.
    starts: u32,
}

/// Running nodes. They are killed on drop.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: Folder,
    members: Vec<Member>,
    sender: mpsc::UnboundedSender<NodeEvent>,
    events: mpsc::UnboundedReceiver<NodeEvent>,
}

impl Cluster {
    /// Starts all nodes and waits until they are connected.
    pub(crate) async fn start(plan: &Plan) -> anyhow::Result<Self> {
        let mut attempt = 1;
        let limit = START + Duration::from_secs(plan.nodes.into());
        loop {
            let started = tokio::time::timeout(limit, Self::start_once(plan)).await;
            let started = started.unwrap_or_else(|_| {
                bail!(
                    "the nodes did not connect within {} s: the machine may be overloaded",
                    limit.as_secs()
                )
            });
            match started {
                Err(error) if attempt < ATTEMPTS && error.is::<PortTaken>() => attempt += 1,
                Err(error) => return Err(error.context("cannot start the cluster")),
                Ok(cluster) => return Ok(cluster),
            }
        }
    }

    async fn start_once(plan: &Plan) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let ports = free_ports(2 * plan.nodes as usize)?;
        let (links, apis) = ports.split_at(plan.nodes as usize);
        let links: Vec<String> = links.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let (sender, events) = mpsc::unbounded_channel();
        let mut cluster = Self { folder, members: Vec::new(), sender, events };
        for (id, api) in apis.iter().enumerate() {
            let api = format!("127.0.0.1:{api}");
            let config = cluster.folder.0.join(format!("node-{id}.toml"));
            std::fs::write(&config, configuration(plan, &cluster.folder.0, id, &links, &api))?;
            cluster.members.push(Member {
                config,
                api: format!("http://{api}"),
                process: None,
                starts: 0,
            });
            cluster.spawn(id)?;
        }
        let mut ready = 0;
        while ready < cluster.members.len() {
            let NodeEvent { node, report, .. } = cluster.next_event().await;
            match report {
                Some(NodeReport::Ready) => ready += 1,
                Some(NodeReport::Stopped { port_taken: true, message }) => {
                    return Err(PortTaken { node, message }.into());
                }
                Some(NodeReport::Stopped { port_taken: false, message }) => {
                    bail!("node {node}: {message}")
                }
                None => bail!("node {node} exited: {}", cluster.last_error(node)),
            }
        }
        for id in 0..cluster.members.len() {
            cluster.wait_connected(id, plan).await?;
        }
        Ok(cluster)
    }

    /// Waits until that node is connected to all others, and with leases until all nodes have one.
    async fn wait_connected(&self, id: usize, plan: &Plan) -> anyhow::Result<()> {
        let mut seen = Box::pin(Status::watch(self.api(id), Some(GATE)).await?);
        while let Some(status) = seen.next().await {
            let status = status?;
            let leased = status.leases().filter(|lease| !lease.remaining().is_zero()).count();
            let ready = !plan.has_leases()
                || leased == plan.nodes as usize && status.gates().next().is_some();
            if status.unreachable().is_empty() && ready {
                return Ok(());
            }
        }
        bail!("node {id} exited: {}", self.last_error(id));
    }

    /// Starts or restarts a node, which reports when it is ready.
    pub(crate) fn spawn(&mut self, id: usize) -> anyhow::Result<()> {
        let member = &mut self.members[id];
        let errors =
            std::fs::File::options().create(true).append(true).open(errors_of(&member.config))?;
        let program = std::env::current_exe().context("finding the path of this program")?;
        let mut child = Command::new(program)
            .arg("demo-node")
            .arg(&member.config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            // Ctrl-C is for this process. The nodes stop when it ends.
            .process_group(0)
            .spawn()
            .context("starting a node")?;
        let stdout = child.stdout.take().expect("a pipe");
        member.process = Some(child);
        member.starts += 1;
        let (sender, starts) = (self.sender.clone(), member.starts);
        // The thread blocks on the pipe and ends with the node.
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let reports = lines.filter_map(|line| serde_json::from_str(&line).ok()).map(Some);
            for report in reports.chain([None]) {
                if sender.send(NodeEvent { node: id, starts, report }).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    /// The next event of a node, without those of killed nodes and of earlier starts.
    pub(crate) async fn next_event(&mut self) -> NodeEvent {
        loop {
            let event = self.events.recv().await.expect("the cluster has a sender itself");
            let member = &self.members[event.node];
            if member.process.is_some() && member.starts == event.starts {
                return event;
            }
        }
    }

    /// Kills a node with SIGKILL.
    pub(crate) fn kill(&mut self, id: usize) {
        if let Some(mut process) = self.members[id].process.take() {
            // It may be dead already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// The address of a node for clients.
    pub(crate) fn api(&self, id: usize) -> &str {
        &self.members[id].api
    }

    /// The process ids of the nodes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| member.process.as_ref()).map(Child::id).collect()
    }

    /// The most useful part of a node's standard error: its panic, or its last line.
    pub(crate) fn last_error(&self, id: usize) -> String {
        let text = std::fs::read_to_string(errors_of(&self.members[id].config)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        match lines.iter().rposition(|line| line.contains(" panicked at ")) {
            Some(at) => lines[at..].iter().take(2).copied().collect::<Vec<_>>().join(" "),
            None => lines.last().map_or_else(
                || "no output on standard error".to_owned(),
                |line| (*line).to_owned(),
            ),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|id| self.kill(id));
    }
}

fn errors_of(config: &Path) -> PathBuf {
    config.with_extension("log")
}

/// The name of a gate; the first one is [`GATE`].
pub(crate) fn gate_name(number: usize) -> String {
    if number == 0 { GATE.to_owned() } else { format!("{GATE}-{number}") }
}

fn configuration(plan: &Plan, folder: &Path, id: usize, links: &[String], api: &str) -> String {
    let Plan { nodes, gates, k, protocol, stores } = plan;
    if plan.has_leases() {
        let data = folder.join(format!("data-{id}"));
        let gates: String = (0..*gates)
            .map(|number| {
                let name = gate_name(number as usize);
                format!("[[gate]]\nname = {name:?}\nk = {k}\nprotocol = {protocol:?}\n")
            })
            .collect();
        let timing = if *nodes > FEW { TIMING_OF_MANY } else { TIMING };
        return format!(
            "cluster = \"demo\"\nid = {id}\nnodes = {links:?}\napi = {api:?}\ndata = \
             {data:?}\nnew_gates = false\n{gates}{timing}"
        );
    }
    // Clients die with their node, so a restarted node need not wait for their sessions.
    let data = format!("data = {:?}\nlease_ms = 0\n", folder.join(format!("data-{id}")));
    let data = if *stores { data } else { String::new() };
    // A short timeout that a busy machine with many nodes still keeps.
    let timeout = 1500 + 100 * nodes.saturating_sub(10);
    let mut text = format!(
        "cluster = \"demo\"\nid = {id}\nnodes = {links:?}\napi = {api:?}\n{data}new_gates = false\n\
         faults = \"crash-stop\"\ndetect_interval_ms = 100\ndetect_timeout_ms = {timeout}\n"
    );
    for number in 0..*gates {
        let name = gate_name(number as usize);
        text += &format!("[[gate]]\nname = {name:?}\nk = {k}\nprotocol = {protocol:?}\n");
    }
    text
}

/// Free ports: all are bound at once, so that they differ, and then released.
fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let bound: Result<Vec<_>, _> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let ports: Result<Vec<_>, _> = bound
        .context("no free port")?
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect();
    ports
}

/// A directory that is removed on drop.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let random = super::random_seed();
        let path =
            std::env::temp_dir().join(format!("{FOLDER}{}-{random:016x}", std::process::id()));
        std::fs::create_dir(&path)
            .with_context(|| format!("cannot create the directory {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
