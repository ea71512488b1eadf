//! The state model: an algorithm of guarded commands ([`Rules`]), a network, and a daemon that
//! chooses the movers.
//!
//! In a step the daemon chooses some of the enabled processes; each reads its neighbours' states
//! from before the step and writes its own. Time is counted in rounds. A run is described by a
//! [`StateConfig`] and ends in a [`StateReport`]; all randomness comes from its seed, and its hash
//! covers every step.
//!
//! - `processes.rs`: the states of the processes, and which are enabled;
//! - `daemon.rs`: the choice of movers; `rounds.rs`: when a round is over;
//! - `checker.rs`: what is checked after each step; `report.rs`: the metrics;
//! - `script.rs`: a run in which the movers are prescribed.
//!
//! A run of more than 64 processes is checked only at the end of each round, because the checkers
//! look at all processes.

mod checker;
mod daemon;
mod processes;
mod report;
mod rounds;
mod script;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kgate_core::{Defects, Graph, NodeId, Rules, Setup, Step, Survey};

use crate::hash::RunHash;
use crate::rng::Rng;
use checker::Checker;
use daemon::Chooser;
use processes::Processes;
use rounds::Rounds;

pub use daemon::{DAEMONS, Daemon};
pub use kgate_spec::convergence::{AT_MOST_L_TOKENS, SOMEBODY_CAN_MOVE};
pub use report::{StateReport, Wait, published_bound};
pub use script::{StatePlayed, StateScript, play_rules};

#[cfg(test)]
mod tests;

/// The largest number of processes for which every configuration is checked.
const CHECKED_EACH_STEP: u32 = 64;

/// The initial configuration of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The clean start.
    Clean,
    /// An arbitrary configuration: every variable is sampled from its domain.
    Random,
}

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct StateConfig {
    /// The network.
    pub graph: Arc<Graph>,
    /// The name of the network in the report.
    pub graph_name: String,
    /// The number of tokens (the paper's l).
    pub k: u32,
    /// The seed of all randomness.
    pub seed: u64,
    /// The published defects that run as printed.
    pub printed: Defects,
    /// The daemon, which chooses the movers.
    pub daemon: Daemon,
    /// The initial configuration.
    pub start: Start,
    /// The transient faults: the process whose variables become arbitrary, and the number of rounds
    /// after which they do.
    pub corrupt: Vec<(NodeId, u64)>,
    /// The number of rounds.
    pub rounds: u64,
    /// The largest number of steps, for a daemon under which a round may never end; if none, more
    /// than any fair daemon needs.
    pub steps: Option<u64>,
    /// The name of the action that begins a wave.
    pub wave: &'static str,
    /// The number of waves within which every process must be served once the system has
    /// stabilised; not checked if none.
    pub served_within: Option<u64>,
}

/// Why a run of the state model cannot start. Each message says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// k is 0.
    #[error("k is 0, so there is no token: give -k of at least 1")]
    ZeroTokens,
    /// The process does not exist.
    #[error("there is no {node}: with n = {nodes} the processes are p0 .. p{}",
             nodes.saturating_sub(1))]
    UnknownNode {
        /// The process named.
        node: NodeId,
        /// The number of processes.
        nodes: u32,
    },
}

impl StateConfig {
    /// A run of 1000 rounds under the distributed daemon from a random start.
    pub fn new(graph: Arc<Graph>, k: u32, seed: u64) -> Self {
        Self {
            graph_name: format!("{} processes, {} edges", graph.nodes(), graph.edges()),
            graph,
            k,
            seed,
            printed: Defects::NONE,
            daemon: Daemon::Distributed,
            start: Start::Random,
            corrupt: Vec::new(),
            rounds: 1000,
            steps: None,
            wave: "a1",
            served_within: None,
        }
    }

    /// Checks the configuration.
    pub fn validate(&self) -> Result<(), StateError> {
        if self.k == 0 {
            return Err(StateError::ZeroTokens);
        }
        let nodes = self.graph.nodes();
        match self.corrupt.iter().find(|(node, _)| node.0 >= nodes) {
            Some((node, _)) => Err(StateError::UnknownNode { node: *node, nodes }),
            None => Ok(()),
        }
    }

    /// A fair daemon ends a round within 10 n steps.
    fn steps_most(&self) -> u64 {
        let each = 16 * u64::from(self.graph.nodes());
        self.steps.unwrap_or(self.rounds.saturating_add(1).saturating_mul(each))
    }
}

/// Runs the rules `R` to the end.
pub fn run_rules<R: Rules>(config: &StateConfig) -> Result<StateReport, StateError> {
    let mut run = Run::<R>::new(config)?;
    while run.rounds() < config.rounds && run.step() {}
    Ok(run.report())
}

/// A run, step by step, for callers that inspect it in between.
pub struct Run<R: Rules> {
    config: StateConfig,
    processes: Processes<R>,
    chooser: Chooser,
    rounds: Rounds,
    checker: Checker,
    faults: Rng,
    /// The faults to come; the next one is last.
    to_corrupt: Vec<(NodeId, u64)>,
    steps: u64,
    moves: BTreeMap<&'static str, u64>,
    hash: RunHash,
    terminal: bool,
    chosen: Vec<NodeId>,
    moving: Vec<(NodeId, Step<R::State>)>,
    begun: Instant,
}

impl<R: Rules> Run<R> {
    /// A run at its initial configuration.
    pub fn new(config: &StateConfig) -> Result<Self, StateError> {
        let mut rng = Rng::fork(config.seed, "start");
        Self::from(config, |setup| match config.start {
            Start::Clean => R::clean(setup),
            Start::Random => R::arbitrary(setup, &mut |bound| rng.below(bound)),
        })
    }

    /// A run at the configuration of those states.
    #[allow(clippy::disallowed_methods)] // Wall-clock time is reported; no run depends on it.
    fn from(
        config: &StateConfig,
        start: impl FnMut(&Setup) -> R::State,
    ) -> Result<Self, StateError> {
        config.validate()?;
        let processes = Processes::<R>::new(config, start);
        let mut to_corrupt = config.corrupt.clone();
        to_corrupt.sort_by_key(|&(node, round)| std::cmp::Reverse((round, node)));
        let mut run = Self {
            chooser: Chooser::new(config.daemon, &config.graph, config.seed),
            rounds: Rounds::new(&processes),
            checker: Checker::new(processes.states.len(), config.k, config.served_within),
            faults: Rng::fork(config.seed, "corrupt"),
            to_corrupt,
            steps: 0,
            moves: BTreeMap::new(),
            hash: RunHash::new(),
            terminal: false,
            chosen: Vec::new(),
            moving: Vec::new(),
            begun: Instant::now(),
            config: config.clone(),
            processes,
        };
        for state in &run.processes.states {
            run.hash.add(RunHash::of(state));
        }
        run.corrupt();
        run.check_configuration();
        Ok(run)
    }

    /// Takes one step of the daemon; false if no process is enabled or the step limit is reached.
    pub fn step(&mut self) -> bool {
        if self.processes.enabled().is_empty() {
            self.terminal = true;
            self.checker.terminal(self.rounds.now());
            return false;
        }
        if self.steps >= self.config.steps_most() {
            return false;
        }
        self.chooser.choose(&self.processes, self.steps, &mut self.chosen);
        self.moving.clear();
        for &node in &self.chosen {
            let steps = self.processes.steps(node);
            self.moving.push((node, steps[self.chooser.action(steps.len())]));
        }
        self.move_chosen();
        true
    }

    /// The chosen processes take their chosen actions.
    fn move_chosen(&mut self) {
        self.steps += 1;
        self.count();
        self.processes.apply(&self.moving, self.steps);
        let over = self.rounds.step(&self.processes, &self.chosen);
        if over || self.config.graph.nodes() <= CHECKED_EACH_STEP {
            self.check_configuration();
        }
        if over {
            self.corrupt();
        }
    }

    /// Records the movers' actions in the hash and the counters.
    fn count(&mut self) {
        for (node, step) in &self.moving {
            self.hash.add_three(self.steps, u64::from(node.0), RunHash::of(&step.next));
            *self.moves.entry(step.name).or_default() += 1;
            if step.name == self.config.wave {
                self.checker.wave(self.rounds.now());
            }
            if step.privileged {
                self.checker.serve(*node);
            }
        }
    }

    fn check_configuration(&mut self) {
        self.checker.see(self.survey(), self.rounds.now());
    }

    /// Applies the faults that are due.
    fn corrupt(&mut self) {
        let round = self.rounds.finished();
        let mut struck = false;
        while let Some((node, _)) = self.to_corrupt.pop_if(|(_, at)| *at <= round) {
            let setup = &self.processes.setups[node.index()];
            let state = R::arbitrary(setup, &mut |bound| self.faults.below(bound));
            self.hash.add_three(self.steps, u64::from(node.0), !RunHash::of(&state));
            self.processes.corrupt(node, state, self.steps);
            struck = true;
        }
        if struck {
            self.rounds.restart(&self.processes);
            self.checker.fault(round);
            self.check_configuration();
        }
    }

    /// The survey of the current configuration.
    pub fn survey(&self) -> Survey {
        let survey = R::survey(&self.processes.setups, &self.processes.states);
        debug_assert_eq!(
            survey.privileged as usize,
            self.processes.privileged(),
            "survey and guards disagree"
        );
        survey
    }

    /// The number of finished rounds.
    pub fn rounds(&self) -> u64 {
        self.rounds.finished()
    }

    /// The number of steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The number of waves begun.
    pub fn waves(&self) -> u64 {
        self.checker.waves
    }

    /// The round in which the system stabilised, counted from the start or the last fault.
    pub fn stabilized_at_round(&self) -> Option<u64> {
        self.checker.stabilized_at()
    }

    /// The states of the processes.
    pub fn states(&self) -> &[R::State] {
        &self.processes.states
    }

    /// The number of privileged actions of each process.
    pub fn served(&self) -> &[u64] {
        &self.checker.served
    }

    /// Ends the run.
    pub fn report(self) -> StateReport {
        let waits = self.processes.enabled().iter();
        let waits =
            waits.map(|&node| Wait { node, steps: self.steps - self.processes.since(node) });
        let longest_wait = waits.max_by_key(|wait| (wait.steps, std::cmp::Reverse(wait.node)));
        let (config, checker) = (self.config, self.checker);
        let least = |served: &[u64]| served.iter().copied().min().unwrap_or(0);
        StateReport {
            protocol: R::NAME.to_owned(),
            as_printed: None,
            n: config.graph.nodes(),
            k: config.k,
            seed: config.seed,
            daemon: config.daemon.to_string(),
            steps: self.steps,
            moves: self.moves.values().sum(),
            moves_by_action: self.moves,
            rounds: self.rounds.finished(),
            normal_at_round: checker.episode.normal_at,
            abnormal_again: checker.episode.abnormal_again,
            abnormal_until_round: checker.episode.abnormal_until,
            inc_at_round: checker.episode.start_at,
            stabilized_at_round: checker.stabilized_at(),
            published_bound: published_bound(&config.graph, config.k),
            waves: checker.waves,
            waves_until_stabilized: checker.episode.waves_before,
            tokens_max_after_stabilization: checker.episode.tokens_max,
            max_in_use: checker.episode.inside_max,
            max_in_use_overall: checker.inside_max,
            served: least(&checker.served),
            served_after_stabilization: checker
                .stabilized_at()
                .map(|_| least(&checker.served_after)),
            terminal: self.terminal,
            longest_wait,
            every_step_checked: config.graph.nodes() <= CHECKED_EACH_STEP,
            violations: checker.violations,
            hash: format!("{:#018x}", self.hash.value()),
            wall_seconds: self.begun.elapsed().as_secs_f64(),
            graph: config.graph_name,
        }
    }
}
