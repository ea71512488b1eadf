//! The nodes of a run as processes, and the clients beside them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::clock::{self, RATE};
use crate::config::{self, Mode, Timing};
use crate::network::{self, Network};
use crate::schedule::Plan;
use crate::worker;

/// Duration of each sync of the log, in milliseconds; only builds with debug assertions read it.
const SYNC: &str = "KGATE_TEST_SLOW_DISK";

/// A node's process.
#[derive(Debug)]
struct Node {
    process: Option<Child>,
    /// The driver sent it SIGKILL or SIGTERM.
    ours: bool,
}

/// All nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    run: PathBuf,
    kgate: PathBuf,
    nodes: Vec<Node>,
    clock_ppm: Vec<i64>,
    sync_ms: Vec<u64>,
}

impl Nodes {
    /// Starts all nodes and waits until each serves.
    pub(crate) fn start(
        run: &Path,
        kgate: &Path,
        network: &Network,
        plan: &Plan,
        mode: Mode,
        timing: &Timing,
    ) -> Result<Self> {
        let (clock_ppm, sync_ms) = (plan.clock_ppm.clone(), plan.sync_ms.clone());
        let (run, kgate) = (run.to_owned(), kgate.to_owned());
        let mut nodes = Self { run, kgate, nodes: Vec::new(), clock_ppm, sync_ms };
        for node in 0..plan.nodes {
            let text = config::node_config(&nodes.run, node, plan, mode, timing);
            fs::write(nodes.file(node, "toml"), text)
                .context("cannot write a node's configuration")?;
            nodes.nodes.push(Node { process: None, ours: true });
        }
        for node in 0..plan.nodes {
            nodes.start_one(network, node)?;
        }
        for node in 0..plan.nodes {
            clock::wait_for(&format!("node {node} to serve"), Duration::from_secs(30), || {
                if let Some((_, text)) = nodes.ended().into_iter().next() {
                    anyhow::bail!("node {node} did not start: {text}\n{}", nodes.last_words(node));
                }
                Ok(fs::read_to_string(nodes.file(node, "out"))?.contains("api").then_some(()))
            })?;
        }
        Ok(nodes)
    }

    /// Starts a node that is down; does not wait until it serves.
    pub(crate) fn start_one(&mut self, network: &Network, node: u32) -> Result<()> {
        let place = node as usize;
        if let Some(mut former) = self.nodes[place].process.take() {
            // A node that did not stop in time is killed; the record of it is written already.
            let _ = former.kill();
            former.wait().context("cannot wait for a node")?;
        }
        let mut command = network.command(node, &self.kgate);
        command.arg("node").arg("--config").arg(self.file(node, "toml"));
        command
            .env(RATE, self.clock_ppm[place].to_string())
            .env(SYNC, self.sync_ms[place].to_string());
        let log = File::options().create(true).append(true).open(self.file(node, "log"))?;
        command.stdout(File::create(self.file(node, "out"))?).stderr(log);
        let process = command.spawn().context("cannot start a node")?;
        self.nodes[place] = Node { process: Some(process), ours: false };
        Ok(())
    }

    pub(crate) fn signal(&mut self, node: u32, signal: Signal) {
        let node = &mut self.nodes[node as usize];
        node.ours |= matches!(signal, Signal::KILL | Signal::TERM);
        if let Some(process) = &node.process {
            network::signal(process.id(), signal);
        }
    }

    /// Whether the node's process has ended.
    pub(crate) fn is_down(&mut self, node: u32) -> bool {
        let process = self.nodes[node as usize].process.as_mut();
        process.is_none_or(|process| !matches!(process.try_wait(), Ok(None)))
    }

    /// The nodes that ended by themselves since the last call, each with its exit status.
    pub(crate) fn ended(&mut self) -> Vec<(u32, String)> {
        let mut ended = Vec::new();
        for (number, node) in (0..).zip(&mut self.nodes) {
            let Some(process) = node.process.as_mut().filter(|_| !node.ours) else { continue };
            if let Ok(Some(status)) = process.try_wait() {
                node.ours = true;
                ended.push((number, status.to_string()));
            }
        }
        ended
    }

    /// The end of a node's log.
    pub(crate) fn last_words(&self, node: u32) -> String {
        let log = fs::read_to_string(self.file(node, "log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Panics of tasks that their nodes survived.
    pub(crate) fn panics(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for node in (0..).take(self.nodes.len()) {
            let log =
                fs::read_to_string(self.file(node, "log")).context("cannot read a node's log")?;
            let lines = log.lines().filter(|line| line.contains("panicked at"));
            found.extend(lines.map(|line| format!("a part of node {node}: {line}")));
        }
        Ok(found)
    }

    fn file(&self, node: u32, kind: &str) -> PathBuf {
        self.run.join(format!("node-{node}.{kind}"))
    }
}

/// A worker of a node.
#[derive(Debug)]
pub(crate) struct Client {
    node: u32,
    kind: &'static str,
    incarnation: u32,
    process: Child,
}

/// All workers.
#[derive(Debug)]
pub(crate) struct Clients {
    run: PathBuf,
    clock_ppm: Vec<i64>,
    all: Vec<Client>,
}

impl Clients {
    /// Starts one worker of each kind at each node.
    pub(crate) fn start(run: &Path, network: &Network, plan: &Plan) -> Result<Self> {
        let mut clients =
            Self { run: run.to_owned(), clock_ppm: plan.clock_ppm.clone(), all: Vec::new() };
        for node in 0..plan.nodes {
            for kind in worker::KINDS {
                let process = clients
                    .command(network, node, kind, 0)?
                    .spawn()
                    .context("cannot start a client")?;
                clients.all.push(Client { node, kind, incarnation: 0, process });
            }
        }
        Ok(clients)
    }

    fn command(
        &self,
        network: &Network,
        node: u32,
        kind: &str,
        incarnation: u32,
    ) -> Result<Command> {
        let mut command = network.command(node, &std::env::current_exe()?);
        command.args(["worker"]).arg(&self.run);
        command.args([&node.to_string(), kind, &incarnation.to_string()]);
        command.env(RATE, self.clock_ppm[node as usize].to_string());
        command
            .stderr(File::options().create(true).append(true).open(self.run.join("workers.log"))?);
        Ok(command)
    }

    /// The workers at a node that use the library.
    pub(crate) fn api(&self, node: u32) -> Vec<u32> {
        self.pids(node, "api")
    }

    /// The workers at a node that start `kgate run`.
    pub(crate) fn starters(&self, node: u32) -> Vec<u32> {
        self.pids(node, "run")
    }

    fn pids(&self, node: u32, kind: &str) -> Vec<u32> {
        let chosen = self.all.iter().filter(|client| client.node == node && client.kind == kind);
        chosen.map(|client| client.process.id()).collect()
    }

    /// Restarts workers that were killed. A worker that ended by itself is an error of the harness.
    pub(crate) fn tend(&mut self, network: &Network, killed: &BTreeSet<u32>) -> Result<()> {
        for place in 0..self.all.len() {
            let client = &mut self.all[place];
            let Some(status) = client.process.try_wait()? else { continue };
            let (node, kind, incarnation) = (client.node, client.kind, client.incarnation + 1);
            let words = || fs::read_to_string(self.run.join("workers.log")).unwrap_or_default();
            anyhow::ensure!(
                killed.contains(&client.process.id()),
                "the client {kind} of node {node} ended by itself: {status}\n{}",
                words()
            );
            let process = self
                .command(network, node, kind, incarnation)?
                .spawn()
                .context("cannot start a client")?;
            self.all[place] = Client { node, kind, incarnation, process };
        }
        Ok(())
    }

    /// Whether all workers have ended.
    pub(crate) fn are_done(&mut self) -> Result<bool> {
        let mut done = true;
        for client in &mut self.all {
            done &= client.process.try_wait()?.is_some();
        }
        Ok(done)
    }
}

impl Drop for Clients {
    /// Reaps the workers. Their namespaces are deleted afterwards, with all processes in them.
    fn drop(&mut self) {
        for client in &mut self.all {
            let _ = client.process.kill();
            let _ = client.process.wait();
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for process in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
