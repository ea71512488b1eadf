//! The driver: applies the faults of the plan to the cluster at their times, and records them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;

use crate::network::{self, Network};
use crate::nodes::{Clients, Nodes};
use crate::proxy::Proxies;
use crate::record::{self, Record, What, Writer};
use crate::schedule::{Action, Fault, Part, Plan, Way};
use crate::{clock, job, reach};

/// Set by SIGINT and SIGTERM: the run ends.
pub(crate) static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A run under way.
pub(crate) struct Driver<'a> {
    pub(crate) run: &'a Path,
    pub(crate) plan: &'a Plan,
    pub(crate) seconds: u64,
    pub(crate) answer: Duration,
    /// Number of nodes that must grant a permit before the first fault.
    pub(crate) first: usize,
    pub(crate) network: &'a Network,
    pub(crate) proxies: Proxies,
    pub(crate) nodes: Nodes,
    pub(crate) clients: Clients,
    pub(crate) writer: Writer,
    /// The faults in effect, by index in the plan.
    pub(crate) active: BTreeSet<usize>,
    pub(crate) minority: Vec<u32>,
    /// The clients that the driver killed.
    pub(crate) killed: BTreeSet<u32>,
    /// The processes that each pause stopped, by the index of its fault in the plan.
    pub(crate) stopped: Vec<(usize, Vec<u32>)>,
}

/// Maximum time until a new cluster serves, also on a busy machine.
const BOOTSTRAP: Duration = Duration::from_secs(120);
/// Maximum time for a node to stop after SIGTERM.
const STOP: Duration = Duration::from_secs(10);

impl Driver<'_> {
    /// The whole run: faults, healing, and the end of all requests.
    pub(crate) fn drive(&mut self) -> Result<()> {
        // Faults before the cluster serves would show nothing.
        let served = self.until_served(self.first, BOOTSTRAP)?;
        ensure!(
            served >= self.first,
            "only {served} nodes granted a permit before the first fault"
        );
        let start = clock::now();
        let mut turns: Vec<(u64, bool, usize)> = Vec::new();
        for (place, fault) in self.plan.faults.iter().enumerate() {
            turns.push((fault.begin_ms, true, place));
            turns.push((fault.end_ms, false, place));
        }
        turns.sort_unstable();
        for (at_ms, begins, place) in turns {
            self.tend_until(start + at_ms * 1_000_000)?;
            self.turn(place, begins)?;
        }
        self.tend_until(start + self.seconds * 1_000_000_000)?;
        self.note(What::Healed)?;
        // If not all do, the checker reports which.
        self.until_served(self.plan.nodes as usize, self.answer)?;
        job::request_stop(self.run)?;
        let last = clock::now() + clock::nanoseconds(self.answer);
        while !self.clients.are_done()? && clock::now() < last {
            self.note_ended()?;
            self.pause()?;
        }
        for text in self.nodes.panics()? {
            self.note(What::Ended { text })?;
        }
        self.note(What::End)
    }

    /// Waits until `enough` nodes have granted a permit after the call; returns how many did.
    fn until_served(&mut self, enough: usize, within: Duration) -> Result<usize> {
        let since = clock::now();
        let last = since + clock::nanoseconds(within);
        loop {
            // Reading all records takes time: not more often than this.
            self.tend_until(clock::now() + 500_000_000)?;
            let came_in =
                |record: &&Record| record.t > since && matches!(record.what, What::Granted { .. });
            let records = record::read_all(self.run)?;
            let served: BTreeSet<u32> =
                records.iter().filter(came_in).map(|record| record.node).collect();
            if served.len() >= enough || clock::now() > last {
                return Ok(served.len());
            }
        }
    }

    fn tend_until(&mut self, t: u64) -> Result<()> {
        loop {
            self.note_ended()?;
            self.clients.tend(self.network, &self.killed)?;
            let left = Duration::from_nanos(t.saturating_sub(clock::now()));
            if left.is_zero() {
                return Ok(());
            }
            ensure!(!INTERRUPTED.load(Ordering::Relaxed), "interrupted");
            clock::pause(left.min(Duration::from_millis(20)));
        }
    }

    fn pause(&self) -> Result<()> {
        ensure!(!INTERRUPTED.load(Ordering::Relaxed), "interrupted");
        clock::pause(Duration::from_millis(20));
        Ok(())
    }

    fn note(&mut self, what: What) -> Result<()> {
        self.writer.write("", what)
    }

    fn note_ended(&mut self) -> Result<()> {
        for (node, how) in self.nodes.ended() {
            let text = format!("node {node}, {how}: {}", self.nodes.last_words(node));
            println!("  node {node} ended by itself, {how}");
            self.note(What::Ended { text })?;
        }
        Ok(())
    }

    /// A fault begins or ends. Nodes that it cuts off are recorded afterwards, nodes that it no
    /// longer cuts off before: so no record claims that a connected node is cut off.
    fn turn(&mut self, place: usize, begins: bool) -> Result<()> {
        let fault = self.plan.faults[place].clone();
        let word = if begins { "begins" } else { "ends" };
        self.note(What::Fault { text: format!("{word}: {fault}") })?;
        if begins {
            self.active.insert(place);
        } else {
            self.active.remove(&place);
        }
        let next = self.cut_off();
        // A resumed voter answers the pings that it got before its pause: until then no node was
        // certainly cut off from it.
        let wakes = !begins && matches!(fault.action, Action::PauseNodes(_));
        let stays = |node: &u32| next.contains(node) && !wakes;
        let stay: Vec<u32> = self.minority.iter().copied().filter(stays).collect();
        self.note_minority(stay)?;
        if begins {
            self.begin(place, &fault)?
        } else {
            self.end(place, &fault)?
        }
        self.note_minority(next)
    }

    fn note_minority(&mut self, nodes: Vec<u32>) -> Result<()> {
        if nodes != self.minority {
            self.note(What::Minority { nodes: nodes.clone() })?;
            self.minority = nodes;
        }
        Ok(())
    }

    fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.active.iter().map(|place| &self.plan.faults[*place])
    }

    fn cut(&self) -> BTreeSet<Way> {
        let ways = self.faults().filter_map(|fault| match &fault.action {
            Action::Cut(ways) => Some(ways.clone()),
            Action::PauseNodes(_)
            | Action::PauseClients(..)
            | Action::KillNodes(_)
            | Action::StopNode(_)
            | Action::KillClients(..)
            | Action::Narrow(..)
            | Action::Lose(..)
            | Action::Delay(..) => None,
        });
        ways.flatten().collect()
    }

    fn cut_off(&self) -> Vec<u32> {
        let still = self.faults().flat_map(|fault| match &fault.action {
            Action::PauseNodes(nodes) | Action::KillNodes(nodes) => nodes.clone(),
            Action::StopNode(node) => vec![*node],
            Action::Cut(_)
            | Action::PauseClients(..)
            | Action::KillClients(..)
            | Action::Narrow(..)
            | Action::Lose(..)
            | Action::Delay(..) => Vec::new(),
        });
        reach::minority(self.plan.nodes, self.plan.voters, &self.cut(), &still.collect())
    }

    fn begin(&mut self, place: usize, fault: &Fault) -> Result<()> {
        match &fault.action {
            Action::Cut(_) | Action::Lose(..) => self.shape()?,
            Action::Delay(node, most_ms) => self.proxies.delay(*node, *most_ms)?,
            Action::Narrow(node, kbit) => self.network.narrow(*node, Some(*kbit))?,
            Action::PauseNodes(nodes) => {
                nodes.iter().for_each(|node| self.nodes.signal(*node, Signal::STOP))
            }
            Action::KillNodes(nodes) => {
                nodes.iter().for_each(|node| self.nodes.signal(*node, Signal::KILL))
            }
            Action::StopNode(node) => self.nodes.signal(*node, Signal::TERM),
            Action::PauseClients(node, part) => {
                let stopped = self.stop_clients(*node, *part)?;
                self.stopped.push((place, stopped));
            }
            Action::KillClients(node, part) => self.kill_clients(*node, *part)?,
        }
        Ok(())
    }

    fn end(&mut self, place: usize, fault: &Fault) -> Result<()> {
        match &fault.action {
            Action::Cut(_) | Action::Lose(..) => self.shape()?,
            Action::Delay(node, _) => self.proxies.delay(*node, 0)?,
            Action::Narrow(node, _) => self.network.narrow(*node, None)?,
            Action::PauseNodes(nodes) => {
                nodes.iter().for_each(|node| self.nodes.signal(*node, Signal::CONT))
            }
            Action::KillNodes(nodes) => {
                for node in nodes {
                    self.nodes.start_one(self.network, *node)?;
                }
            }
            Action::StopNode(node) => {
                let stopped = clock::wait_for("a node to stop", STOP, || {
                    Ok(self.nodes.is_down(*node).then_some(()))
                });
                if stopped.is_err() {
                    let text = format!("a node did not stop within {STOP:?} after SIGTERM");
                    self.writer.write("", What::Ended { text })?;
                }
                self.nodes.start_one(self.network, *node)?;
            }
            Action::PauseClients(_, part) => {
                let (mine, others) = self.stopped.drain(..).partition(|(of, _)| *of == place);
                self.stopped = others;
                for pid in Vec::into_iter(mine).flat_map(|(_, pids)| pids) {
                    if *part == Part::Trees {
                        self.note(What::Thawed { pid })?;
                    }
                    network::signal(pid, Signal::CONT);
                }
            }
            Action::KillClients(..) => {}
        }
        Ok(())
    }

    fn shape(&self) -> Result<()> {
        let lossy: Vec<(u32, u32)> = self
            .faults()
            .filter_map(|fault| {
                if let Action::Lose(node, share) = fault.action {
                    Some((node, share))
                } else {
                    None
                }
            })
            .collect();
        self.network.shape(&self.cut().into_iter().collect::<Vec<_>>(), &lossy)
    }

    /// Stops the processes and returns their ids. A tree is stopped together with the processes
    /// that could start another one, and searched again until no new process appears.
    fn stop_clients(&mut self, node: u32, part: Part) -> Result<Vec<u32>> {
        let mut stopped: Vec<u32> = Vec::new();
        if part == Part::Trees {
            stopped = self.clients.starters(node);
            stopped.iter().for_each(|pid| network::signal(*pid, Signal::STOP));
        }
        loop {
            let found = self.chosen(node, part)?;
            let new: Vec<u32> = found.into_iter().filter(|pid| !stopped.contains(pid)).collect();
            for pid in &new {
                if part == Part::Trees {
                    self.note(What::Frozen { pid: *pid })?;
                }
                network::signal(*pid, Signal::STOP);
            }
            stopped.extend(&new);
            if new.is_empty() || part != Part::Trees {
                return Ok(stopped);
            }
        }
    }

    /// Kills the processes and records their ids. Every process of a tree is killed, including one
    /// that was just being started: no process would be left that could end it.
    fn kill_clients(&mut self, node: u32, part: Part) -> Result<()> {
        let is_tree = part == Part::Trees;
        let starters = if is_tree { self.clients.starters(node) } else { Vec::new() };
        starters.iter().for_each(|pid| network::signal(*pid, Signal::STOP));
        let mut dead = BTreeSet::new();
        loop {
            let new: Vec<u32> =
                self.chosen(node, part)?.into_iter().filter(|pid| dead.insert(*pid)).collect();
            for pid in &new {
                // Its slot may be free as soon as it is dead: the record must not be later.
                let t = clock::now();
                network::signal(*pid, Signal::KILL);
                self.killed.insert(*pid);
                self.writer.write_at(t, "", What::Killed { pid: *pid })?;
            }
            if new.is_empty() || !is_tree {
                break;
            }
        }
        starters.iter().for_each(|pid| network::signal(*pid, Signal::CONT));
        Ok(())
    }

    /// The present processes of a part at a node.
    fn chosen(&self, node: u32, part: Part) -> Result<Vec<u32>> {
        let api = self.clients.api(node);
        if part == Part::Api {
            return Ok(api);
        }
        let starters = self.clients.starters(node);
        let is = |words: &[String], name: &str| words.get(1).is_some_and(|word| word == name);
        let all = self.network.processes(node)?.into_iter();
        let chosen = all.filter(|(pid, words)| match part {
            // The guard is a fork of the front, and only its name differs.
            Part::Fronts => is(words, "run") && network::name(*pid) == "kgate",
            Part::Guards => network::name(*pid) == "kgate guard",
            Part::Trees => {
                !is(words, "node")
                    && !is(words, "proxy")
                    && !api.contains(pid)
                    && !starters.contains(pid)
            }
            Part::Api => false,
        });
        Ok(chosen.map(|(pid, _)| pid).collect())
    }
}
