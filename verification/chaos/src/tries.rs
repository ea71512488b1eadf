//! `cargo xtask partition-tries`: is a cut-off holder's child dead before another node gets its
//! slot, and by how much?
//!
//! One gate of one slot. `kgate run` holds it at one node, another waits at the next. The holder's
//! node is cut off from all others at a random moment. One clock measures two instants: when the
//! kernel reports that the child is dead, and when the first line of the waiter's command ran. The
//! difference is the margin. Then the network is healed, and the next node is the holder. Every
//! other child ignores SIGTERM: it runs until it is killed.
//!
//! With `--by kill` the holder's node is killed instead (kill -9), which measures fail-over.

use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kgate_sim::Rng;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::config::{self, Mode, Timing};
use crate::driver::INTERRUPTED;
use crate::network::{self, Network};
use crate::nodes::Nodes;
use crate::record::{self, Record, What};
use crate::schedule::Plan;
use crate::{Folder, clock, handle_signals, probe, resource};

const USAGE: &str = "cargo xtask partition-tries [--tries N] [--nodes N] [--seed S] \
[--timing fast|default] [--by cut|kill] [--mode lease|crash-stop]";

/// The gate of the tries.
const GATE: &str = "gate-0";
/// Maximum time of every wait.
const BOUND: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
struct Options {
    tries: usize,
    nodes: u32,
    seed: u64,
    timing: Timing,
    mode: Mode,
    by: By,
}

/// What happens to the holder's node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Cut,
    Kill,
}

impl By {
    fn word(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Kill => "kill",
        }
    }
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let timing = Timing::parse("fast")?;
        let mut options =
            Self { tries: 200, nodes: 3, seed: 1, timing, mode: Mode::Lease, by: By::Cut };
        for pair in words.chunks(2) {
            let [word, value] = pair else { bail!("{} takes a value: {USAGE}", pair[0]) };
            let number =
                || value.parse().with_context(|| format!("{word} takes a number, not `{value}`"));
            match *word {
                "--tries" => options.tries = usize::try_from(number()?)?,
                "--nodes" => options.nodes = u32::try_from(number()?)?,
                "--seed" => options.seed = number()?,
                "--timing" => options.timing = Timing::parse(value)?,
                "--by" => {
                    options.by = match *value {
                        "cut" => By::Cut,
                        "kill" => By::Kill,
                        other => bail!("--by {other}: cut or kill"),
                    }
                }
                "--mode" => options.mode = Mode::parse(value)?,
                other => bail!("unknown option `{other}`: {USAGE}"),
            }
        }
        ensure!((3..=9).contains(&options.nodes), "--nodes {}: choose 3 to 9", options.nodes);
        if options.mode == Mode::CrashStop {
            options.timing = Timing::CRASH_STOP;
        }
        Ok(options)
    }
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let kgate = crate::build(&crate::root()?)?;
    handle_signals()?;
    let folder = Folder::new("tries")?;
    let nodes = options.nodes;
    let each = nodes as usize;
    let plan = Plan {
        nodes,
        voters: if nodes >= 5 { 5 } else { 3 },
        gates: vec![(GATE.into(), 1)],
        kinds: Vec::new(),
        faults: Vec::new(),
        clock_ppm: vec![0; each],
        sync_ms: vec![0; each],
    };
    resource::serve(&folder.path)?;
    let network = Network::new(nodes)?;
    let mut processes =
        Nodes::start(&folder.path, &kgate, &network, &plan, options.mode, &options.timing)?;
    let mut rng = Rng::fork(options.seed, "partition tries");
    let mut stage =
        Stage { run: &folder.path, kgate: &kgate, network: &network, options: &options, asked: 0 };
    let mut margins: Vec<Margin> = Vec::new();
    for number in 0..options.tries {
        ensure!(!INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed), "interrupted");
        let margin = stage
            .try_once(number, &mut processes, &mut rng)
            .with_context(|| format!("try {number}"))?;
        println!(
            "try {number}: {} child, {}; {} ms after the {} the next one ran",
            if margin.stubborn { "a stubborn" } else { "a polite" },
            margin.dead_before_ms.map_or("STILL ALIVE".into(), |ms| format!("dead {ms} ms before")),
            margin.moved_after_ms,
            options.by.word()
        );
        let violated = margin.dead_before_ms.is_none_or(|ms| ms < 0);
        margins.push(margin);
        if violated {
            drop(processes);
            drop(network);
            folder.end(true);
            bail!(
                "the child of a holder that was cut off or killed was alive when another client \
                 got its slot"
            );
        }
    }
    drop(processes);
    drop(network);
    folder.end(false);
    tell(&margins, options.by);
    Ok(())
}

/// The result of a try.
struct Margin {
    stubborn: bool,
    /// `None`: the child was still alive.
    dead_before_ms: Option<i64>,
    moved_after_ms: i64,
}

struct Stage<'a> {
    run: &'a Path,
    kgate: &'a Path,
    network: &'a Network,
    options: &'a Options,
    asked: u64,
}

impl Stage<'_> {
    fn try_once(&mut self, number: usize, processes: &mut Nodes, rng: &mut Rng) -> Result<Margin> {
        let nodes = self.options.nodes;
        let holder = u32::try_from(number)? % nodes;
        let waiter = (holder + 1) % nodes;
        let stubborn = number % 2 == 1;
        let (who, mut held) = self.start(holder, stubborn)?;
        let (_, pid) = self.granted(&who)?;
        let death = death_of(pid)?;
        let (next, mut waiting) = self.start(waiter, false)?;
        // The cut falls anywhere between two renewals.
        clock::pause(Duration::from_millis(rng.within(200, 200 + self.options.timing.lease_ms)));
        let others = (0..nodes).filter(|node| *node != holder);
        let ways: Vec<(u32, u32)> =
            others.flat_map(|node| [(holder, node), (node, holder)]).collect();
        let cut = clock::now();
        match self.options.by {
            By::Cut => self.network.shape(&ways, &[])?,
            By::Kill => processes.signal(holder, Signal::KILL),
        }
        let (moved, _) = self.granted(&next)?;
        // The report of an earlier death has arrived by now, or does in a moment.
        let dead = death.recv_timeout(Duration::from_millis(200)).ok();
        network::signal(waiting.id(), Signal::TERM);
        waiting.wait()?;
        match self.options.by {
            By::Cut => self.network.shape(&[], &[])?,
            By::Kill => processes.start_one(self.network, holder)?,
        }
        let ms = |from: u64, to: u64| (to.cast_signed() - from.cast_signed()) / 1_000_000;
        let margin = Margin {
            stubborn,
            dead_before_ms: dead.map(|dead| ms(dead, moved)),
            moved_after_ms: ms(cut, moved),
        };
        if dead.is_some() {
            held.wait()?;
            for node in 0..nodes {
                self.until_served(node)?;
            }
        }
        Ok(margin)
    }

    /// `kgate run` with a probe that stays.
    fn start(&mut self, node: u32, stubborn: bool) -> Result<(String, Child)> {
        self.asked += 1;
        let who = format!("{node}-try-{}", self.asked);
        let grace = format!("{}ms", self.options.timing.grace_ms);
        let mut command = self.network.command(node, self.kgate);
        command.args([
            "run",
            GATE,
            "-k",
            "1",
            "--grace",
            &grace,
            "--node",
            &config::socket(self.run, node),
            "--",
        ]);
        command.arg(std::env::current_exe()?).args(["probe"]).arg(self.run);
        command.args([&node.to_string(), &who, "600000"]).args(stubborn.then_some(probe::STUBBORN));
        Ok((who, command.spawn().context("cannot start kgate run")?))
    }

    /// When the command of a request started, and its process id.
    fn granted(&self, who: &str) -> Result<(u64, u32)> {
        clock::wait_for(&format!("a grant for {who}"), BOUND, || {
            ensure!(!INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed), "interrupted");
            let records = record::read_one(self.run, &format!("probe-{who}"))?;
            let begun = |record: &Record| {
                if let What::Granted { pid, .. } = record.what {
                    Some((record.t, pid))
                } else {
                    None
                }
            };
            Ok(records.iter().find_map(begun))
        })
    }

    /// Waits until a node serves again.
    fn until_served(&self, node: u32) -> Result<()> {
        let socket = config::socket(self.run, node);
        let grace = format!("{}ms", self.options.timing.grace_ms);
        clock::wait_for(&format!("a grant at node {node}"), BOUND, || {
            let mut command = self.network.command(node, self.kgate);
            command.args([
                "run", GATE, "-k", "1", "--wait", "5s", "--grace", &grace, "--node", &socket, "--",
                "true",
            ]);
            Ok(command.status()?.success().then_some(()))
        })
    }
}

/// Sends the time at which the kernel reports the death of a process.
fn death_of(pid: u32) -> Result<Receiver<u64>> {
    let pid = Pid::from_raw(pid.try_into()?).context("no process has the number 0")?;
    let process = pidfd_open(pid, PidfdFlags::empty()).context("the child is dead already")?;
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        while poll(&mut [PollFd::new(&process, PollFlags::IN)], None).is_err() {}
        let _ = tell.send(clock::now());
    });
    Ok(told)
}

fn tell(margins: &[Margin], by: By) {
    println!(
        "\n| child | tries | what | min | p1 | p50 | p99 | max |\n|---|---|---|---|---|---|---|---|"
    );
    for (name, stubborn) in [("listens to SIGTERM", false), ("does not", true)] {
        let of_kind: Vec<&Margin> =
            margins.iter().filter(|margin| margin.stubborn == stubborn).collect();
        let dead = of_kind.iter().filter_map(|margin| margin.dead_before_ms).collect();
        let moved = of_kind.iter().map(|margin| margin.moved_after_ms).collect();
        println!(
            "| {name} | {} | dead before the next begins, ms | {} |",
            of_kind.len(),
            distribution(dead)
        );
        println!(
            "| {name} | {} | from the {} to the next, ms | {} |",
            of_kind.len(),
            by.word(),
            distribution(moved)
        );
    }
}

/// Minimum, 1st percentile, median, 99th percentile, maximum.
fn distribution(mut of: Vec<i64>) -> String {
    of.sort_unstable();
    let at = |of_hundred: usize| of.get((of.len().saturating_sub(1) * of_hundred + 50) / 100);
    [0, 1, 50, 99, 100].map(|share| at(share).map_or("-".into(), ToString::to_string)).join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentiles of many numbers, of one, and of none.
    #[test]
    fn a_distribution() {
        assert_eq!(distribution((1..=101).rev().collect()), "1 | 2 | 51 | 100 | 101");
        assert_eq!(distribution(vec![7]), "7 | 7 | 7 | 7 | 7");
        assert_eq!(distribution(Vec::new()), "- | - | - | - | -");
    }

    /// Options are parsed, and invalid ones are refused.
    #[test]
    fn options() {
        let options = Options::parse(&["--tries", "5", "--timing", "default"]).unwrap();
        assert_eq!(
            (options.tries, options.timing.preset, options.mode),
            (5, "default", Mode::Lease)
        );
        assert!(
            Options::parse(&["--tries"]).is_err() && Options::parse(&["--nodes", "2"]).is_err()
        );
        assert_eq!(Options::parse(&["--by", "kill"]).unwrap().by, By::Kill);
        assert!(Options::parse(&["--by", "fire"]).is_err());
    }
}
