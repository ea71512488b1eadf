//! Nodes as processes of this machine, on ports that were free.
//!
//! Each is this binary again, started with a configuration of its own in a folder that goes with
//! the cluster. Whatever a node says, and its end, comes by one queue, so that whoever plays with
//! the cluster is told at once of a node that stops by itself.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use kgate_client::Status;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;

use super::node::READY;

/// How the folder of a cluster begins.
pub(super) const FOLDER: &str = "kgate-demo-";
/// The gate that everybody asks for.
pub(crate) const GATE: &str = "demo";
/// How long a few nodes may take to start and to find each other, on a machine that has other
/// things to do; each of many may take a second more.
const START: Duration = Duration::from_secs(90);
/// Another program may take a port between our look and the node's start: then others are tried.
const ATTEMPTS: u32 = 3;

/// What is started.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How many nodes.
    pub(crate) nodes: u32,
    /// How many gates, all alike.
    pub(crate) gates: u32,
    /// k of each.
    pub(crate) permits: u32,
    /// Its protocol.
    pub(crate) protocol: &'static str,
    /// Whether nodes remember what they must to be started again.
    pub(crate) stores: bool,
}

impl Plan {
    /// Whether it runs with leases: so many nodes have room for that on one machine.
    pub(crate) fn has_leases(&self) -> bool {
        has_leases(self.protocol, self.nodes)
    }
}

/// Whether so many nodes by that protocol run with leases.
pub(crate) fn has_leases(protocol: &str, nodes: u32) -> bool {
    protocol == "slots" && nodes <= 10
}

/// Quick, and yet a machine that has other things to do keeps it.
const TIMING: &str = "[timing]\nlease = \"3s\"\nnode_ping = \"200ms\"\nsession_ping = \"200ms\"\nsuspect_after = \"1s\"\ngrace = \"500ms\"\n";

/// What a node has said; none if it has ended.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) node: usize,
    incarnation: u32,
    pub(crate) line: Option<String>,
}

#[derive(Debug)]
struct Member {
    config: PathBuf,
    /// Where clients ask.
    api: String,
    process: Option<Child>,
    /// How often it was started.
    incarnation: u32,
}

/// Nodes that run. Dropped, they are killed.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: Folder,
    members: Vec<Member>,
    tell: mpsc::UnboundedSender<Told>,
    told: mpsc::UnboundedReceiver<Told>,
}

impl Cluster {
    /// Starts all nodes and waits until they have found each other.
    pub(crate) async fn start(plan: &Plan) -> anyhow::Result<Self> {
        let mut attempt = 1;
        let patience = START + Duration::from_secs(plan.nodes.into());
        loop {
            let started = tokio::time::timeout(patience, Self::start_once(plan)).await;
            let started = started.unwrap_or_else(|_| {
                bail!(
                    "the nodes did not find each other within {} s: the machine may be too busy",
                    patience.as_secs()
                )
            });
            match started {
                Err(error)
                    if attempt < ATTEMPTS && format!("{error:#}").contains("cannot listen") =>
                {
                    attempt += 1
                }
                Err(error) => return Err(error.context("the cluster does not start")),
                Ok(cluster) => return Ok(cluster),
            }
        }
    }

    async fn start_once(plan: &Plan) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let ports = free_ports(2 * plan.nodes as usize)?;
        let (links, apis) = ports.split_at(plan.nodes as usize);
        let links: Vec<String> = links.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let (tell, told) = mpsc::unbounded_channel();
        let mut cluster = Self { folder, members: Vec::new(), tell, told };
        for (id, api) in apis.iter().enumerate() {
            let api = format!("127.0.0.1:{api}");
            let config = cluster.folder.0.join(format!("node-{id}.toml"));
            std::fs::write(&config, configuration(plan, &cluster.folder.0, id, &links, &api))?;
            cluster.members.push(Member {
                config,
                api: format!("http://{api}"),
                process: None,
                incarnation: 0,
            });
            cluster.spawn(id)?;
        }
        let mut ready = 0;
        while ready < cluster.members.len() {
            let told = cluster.told().await;
            match told.line {
                Some(line) if line == READY => ready += 1,
                Some(line) => bail!("node {}: {line}", told.node),
                None => bail!("node {} has ended: {}", told.node, cluster.last_words(told.node)),
            }
        }
        for id in 0..cluster.members.len() {
            cluster.meets_all(id, plan).await?;
        }
        Ok(cluster)
    }

    /// Waits until that node hears all others, and with leases until all have one.
    async fn meets_all(&self, id: usize, plan: &Plan) -> anyhow::Result<()> {
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
        bail!("node {id} has ended: {}", self.last_words(id));
    }

    /// Starts a node, or starts it again; it says when it is ready.
    pub(crate) fn spawn(&mut self, id: usize) -> anyhow::Result<()> {
        let member = &mut self.members[id];
        let errors =
            std::fs::File::options().create(true).append(true).open(errors_of(&member.config))?;
        let ourselves = std::env::current_exe().context("looking for ourselves")?;
        let mut child = Command::new(ourselves)
            .arg("demo-node")
            .arg(&member.config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            // Ctrl-C is for us: they stop when we are gone.
            .process_group(0)
            .spawn()
            .context("starting a node")?;
        let stdout = child.stdout.take().expect("it is a pipe");
        member.process = Some(child);
        member.incarnation += 1;
        let (tell, incarnation) = (self.tell.clone(), member.incarnation);
        // Blocks on the pipe; ends with the node.
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok).map(Some);
            for line in lines.chain([None]) {
                if tell.send(Told { node: id, incarnation, line }).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    /// The next that a node says; nothing of those that were killed, and nothing of earlier
    /// incarnations.
    pub(crate) async fn told(&mut self) -> Told {
        loop {
            let told = self.told.recv().await.expect("we can speak there ourselves");
            let member = &self.members[told.node];
            if member.process.is_some() && member.incarnation == told.incarnation {
                return told;
            }
        }
    }

    /// Whether a line means that clients can ask.
    pub(crate) fn is_ready(line: &str) -> bool {
        line == READY
    }

    /// Kills a node, as `kill -9` does.
    pub(crate) fn kill(&mut self, id: usize) {
        if let Some(mut process) = self.members[id].process.take() {
            // It may be dead already; that is what was wanted.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Where clients of that node ask.
    pub(crate) fn api(&self, id: usize) -> &str {
        &self.members[id].api
    }

    /// The processes of the nodes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| member.process.as_ref()).map(Child::id).collect()
    }

    /// What a node wrote to its standard error that tells most: why it panicked, or its last line.
    pub(crate) fn last_words(&self, id: usize) -> String {
        let text = std::fs::read_to_string(errors_of(&self.members[id].config)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        match lines.iter().rposition(|line| line.contains(" panicked at ")) {
            Some(at) => lines[at..].iter().take(2).copied().collect::<Vec<_>>().join(" "),
            None => {
                lines.last().map_or_else(|| "it said nothing".to_owned(), |line| (*line).to_owned())
            }
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

/// The name of a gate; the first is that of the demo.
pub(crate) fn gate_name(number: usize) -> String {
    if number == 0 { GATE.to_owned() } else { format!("{GATE}-{number}") }
}

fn configuration(plan: &Plan, folder: &Path, id: usize, links: &[String], api: &str) -> String {
    let Plan { nodes, gates, permits, protocol, stores } = plan;
    if plan.has_leases() {
        let data = folder.join(format!("data-{id}"));
        let gates: String = (0..*gates)
            .map(|number| {
                format!("[[gate]]\nname = {:?}\nk = {permits}\n", gate_name(number as usize))
            })
            .collect();
        return format!(
            "cluster = \"demo\"\nid = {id}\nnodes = {links:?}\napi = {api:?}\ndata = {data:?}\nnew_gates = false\n{gates}{TIMING}"
        );
    }
    // Clients die with their node here, so nobody must be waited for when it comes back.
    let data = format!("data = {:?}\nlease_ms = 0\n", folder.join(format!("data-{id}")));
    let data = if *stores { data } else { String::new() };
    // Crashes are found quickly, and yet a busy machine, with many nodes on it, is not taken for a
    // dead one.
    let timeout = 1500 + 100 * nodes.saturating_sub(10);
    let mut text = format!(
        "cluster = \"demo\"\nid = {id}\nnodes = {links:?}\napi = {api:?}\n{data}new_gates = false\n\
         faults = \"crash-stop\"\ndetect_interval_ms = 100\ndetect_timeout_ms = {timeout}\n"
    );
    for number in 0..*gates {
        let name = gate_name(number as usize);
        text += &format!("[[gate]]\nname = {name:?}\nk = {permits}\nprotocol = {protocol:?}\n");
    }
    text
}

/// Ports that nobody uses now: all are taken at once, so that they differ, and then let go.
fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let bound: Result<Vec<_>, _> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let ports: Result<Vec<_>, _> = bound
        .context("no free port")?
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect();
    ports
}

/// A folder that goes when it is dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let random = super::random_seed();
        let path =
            std::env::temp_dir().join(format!("{FOLDER}{}-{random:016x}", std::process::id()));
        std::fs::create_dir(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
