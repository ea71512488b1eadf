//! Rounds of random users, environments, and kills of nodes and of the processes of `kgate run`,
//! checked by the oracle: never more than k inside, no fence that goes back, and every slot is free
//! in the end.
//!
//! 200 rounds: `KGATE_TEST_SEEDS=200 cargo test -p kgate --test machine random -- --nocapture`.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use kgate_client::local::MACHINE_CONFIG;
use kgate_testkit::{Rng, each_seed, seeds, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::oracle::Oracle;
use crate::sandbox::{KGATE, MachineNode, SOCKET, as_user, home, inside, said};

/// Rounds, unless the environment asks for more.
const ROUNDS: u64 = 4;
/// Commands of one round.
const COMMANDS: u64 = 10;
/// Codes of a command that was not killed: it ran; it waited too long; it lost its permit because
/// its guard was killed; there was no node.
const CODES: [i32; 4] = [0, 120, 121, 122];

#[test]
fn random() {
    inside("random::random", || {
        let mut total = Counts::default();
        each_seed(seeds(1, ROUNDS), "-p kgate --test machine random", |seed| {
            total.add(&round(seed));
        });
        println!("# {total:?}");
        assert!(total.entered > 0 && total.kills > 0, "{total:?}");
    });
}

/// What happened, for the reader of a long run.
#[derive(Debug, Default)]
struct Counts {
    rounds: u64,
    commands: u64,
    entered: u64,
    kills: u64,
    node_kills: u64,
    no_node: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.commands += other.commands;
        self.entered += other.entered;
        self.kills += other.kills;
        self.node_kills += other.node_kills;
        self.no_node += other.no_node;
    }
}

/// The node of a round.
enum RoundNode {
    /// All users share it.
    Machine(Option<MachineNode>),
    /// One user has it; it starts by itself.
    OfUser(&'static str),
}

struct Run {
    child: Child,
    is_killed: bool,
}

struct Round {
    rng: Rng,
    gate: String,
    k: u64,
    oracle: Oracle,
    node: RoundNode,
    runs: Vec<Run>,
    counts: Counts,
}

fn round(seed: u64) -> Counts {
    let mut rng = Rng::new(seed);
    let k = rng.within(1, 3);
    let gate = format!("round-{seed}");
    let oracle = Oracle::new(&gate, u32::try_from(k).expect("small"));
    let node = if rng.percent(60) {
        RoundNode::Machine(Some(MachineNode::start()))
    } else {
        // While one of them is there this machine has a node for all users.
        let _absent = [SOCKET, MACHINE_CONFIG].map(fs::remove_file);
        RoundNode::OfUser(rng.pick(&["ann", "bob", "root"]))
    };
    let counts = Counts { rounds: 1, ..Counts::default() };
    let mut round = Round { rng, gate, k, oracle, node, runs: Vec::new(), counts };
    for number in 0..COMMANDS {
        round.start(number);
        round.disturb();
    }
    round.end()
}

impl Round {
    /// A user of the round, and one of the environments in which commands of that user start.
    fn command(&mut self, words: &[&str]) -> Command {
        let user = match self.node {
            RoundNode::Machine(_) => self.rng.pick(&["ann", "bob", "root"]),
            RoundNode::OfUser(user) => user,
        };
        let own = format!("HOME={}", home(user).display());
        let environment: &[&[&str]] = &[
            &[&own],
            &[],
            &["HOME=/nonexistent", "TMPDIR=/var/tmp"],
            &[&own, "XDG_RUNTIME_DIR=/run/user/1", "XDG_STATE_HOME=/tmp/state"],
        ];
        let environment = self.rng.pick(environment);
        as_user(user, environment, &[&[KGATE], words].concat())
    }

    fn start(&mut self, number: u64) {
        let (k, gate) = (self.k.to_string(), self.gate.clone());
        let wait = self.rng.pick(&["2s", "60s"]);
        let command = self.command(&["run", &gate, "-k", &k, "-w", wait]);
        let work = self.rng.within(1, 60);
        // A descendant that outlives the command belongs to it too.
        let child = if self.rng.percent(30) { "(sleep 0.1; :) & " } else { "" };
        let rest = format!("{child}sleep 0.0{work:02}");
        let mut command = self.oracle.inside(command, &format!("r{number}"), &rest);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.runs.push(Run { child: command.spawn().expect("it starts"), is_killed: false });
        self.counts.commands += 1;
    }

    fn disturb(&mut self) {
        match self.rng.below(6) {
            0 => self.kill_a_front(),
            1 => self.kill_a_guard(),
            2 => self.kill_the_node(),
            // Something has to happen between the kills: another command ends.
            3 => self.until_one_ended(),
            _ => {}
        }
    }

    fn kill_a_front(&mut self) {
        let Some(at) = self.a_running() else { return };
        let run = &mut self.runs[at];
        run.is_killed = true;
        let _gone = run.child.kill();
        self.counts.kills += 1;
    }

    fn kill_a_guard(&mut self) {
        let Some(at) = self.a_running() else { return };
        let front = self.runs[at].child.id();
        let text = fs::read_to_string(format!("/proc/{front}/task/{front}/children"));
        let text = text.unwrap_or_default();
        let guard = text.split_whitespace().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        if let Some(guard) = guard {
            // Without a guard the front may end by the signal, or report an internal error.
            self.runs[at].is_killed = true;
            let _gone = kill_process(guard, Signal::KILL);
            self.counts.kills += 1;
        }
    }

    fn kill_the_node(&mut self) {
        let signal = self.rng.pick(&[Signal::KILL, Signal::TERM]);
        self.counts.node_kills += 1;
        match &mut self.node {
            RoundNode::Machine(node) => {
                node.take().expect("it runs").end(signal);
                let gate = self.gate.clone();
                let mut command = self.command(&["run", &gate, "-n", "--", "true"]);
                let (code, error) = said(&mut command);
                assert_eq!(code, Some(122), "there is no other node: {error}");
                self.counts.no_node += 1;
                self.node = RoundNode::Machine(Some(MachineNode::start()));
            }
            RoundNode::OfUser(user) => {
                if let Some(node) = users_node(user) {
                    let _gone = kill_process(node, signal);
                }
            }
        }
    }

    fn a_running(&mut self) -> Option<usize> {
        let running = |run: &mut Run| run.child.try_wait().expect("a child").is_none();
        let all: Vec<usize> = self
            .runs
            .iter_mut()
            .enumerate()
            .filter_map(|(at, run)| running(run).then_some(at))
            .collect();
        (!all.is_empty()).then(|| self.rng.pick(&all))
    }

    fn until_one_ended(&mut self) {
        let ended = |runs: &mut Vec<Run>| {
            runs.iter_mut().filter_map(|run| run.child.try_wait().expect("a child")).count()
        };
        let before = ended(&mut self.runs);
        if before < self.runs.len() {
            wait_until("another command ends", || ended(&mut self.runs) > before);
        }
    }

    /// All commands end, with a code of theirs; then k at once find all slots free.
    fn end(mut self) -> Counts {
        for run in &mut self.runs {
            let code = run.child.wait().expect("it ends").code();
            let is_expected = code.is_some_and(|code| CODES.contains(&code));
            assert!(run.is_killed || is_expected, "{}: {code:?}", self.gate);
        }
        let (k, gate) = (self.k.to_string(), self.gate.clone());
        wait_until("all slots are free", || {
            let mut command = self.command(&["run", &gate, "-k", &k, "-p", &k, "-n", "--", "true"]);
            said(&mut command).0 == Some(0)
        });
        self.counts.entered = self.oracle.check() as u64;
        self.counts
    }
}

/// The node of a user that runs now.
fn users_node(user: &str) -> Option<Pid> {
    let folders = fs::read_dir(home(user).join(".local/state/kgate")).ok()?;
    let files = folders.flatten().map(|folder| folder.path().join("node.pid"));
    let pid = |file: PathBuf| Pid::from_raw(fs::read_to_string(file).ok()?.trim().parse().ok()?);
    let pid = files.into_iter().find_map(pid)?;
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
    // The number may belong to another process by now.
    String::from_utf8_lossy(&line).contains("--local").then_some(pid)
}
