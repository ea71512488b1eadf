//! A run of the state model in which the initial states and the daemon's choices are prescribed.
//!
//! Step number i happens at time i, in time units. After the last step, if so configured, all
//! enabled processes move, step after step, until the system has stabilised and every process was
//! served since, or for [`ROUNDS`] rounds.

use std::collections::BTreeSet;

use kgate_core::{NodeId, Rules, Setup, Span, Step, Time};
use kgate_spec::scenario::Movers;
use kgate_spec::{Violation, trace};

use super::{Run, StateConfig};
use crate::engine::{ImpossibleStep, OpenTrace, PlayError, StartError, StepError};
use crate::run_trace::RunTrace;
use crate::state::StateError;

/// The number of rounds for which a run goes on after the script's last step.
const ROUNDS: u64 = 1000;

/// A scripted run of the state model.
#[derive(Clone, Debug)]
pub struct StateScript<'a> {
    /// The network, l and the defects; start, daemon and faults are prescribed by the script.
    pub config: StateConfig,
    /// The processes that do not start clean, and their states in the notation of
    /// [`Rules::parse_state`].
    pub states: &'a [(NodeId, String)],
    /// The movers of each step.
    pub steps: &'a [Movers],
    /// Whether a mover that is not enabled is skipped instead of ending the run.
    pub lenient: bool,
    /// Whether the run goes on after the last step.
    pub run_to_rest: bool,
}

/// The results of a scripted run.
#[derive(Clone, Debug)]
pub struct StatePlayed {
    /// The violated properties.
    pub violations: Vec<Violation>,
    /// The indices of steps in which no mover was enabled.
    pub skipped: Vec<usize>,
    /// The number of steps after the script's last one.
    pub steps_after: u64,
    /// Whether the system has stabilised.
    pub stabilized: bool,
    /// The hash of every step.
    pub hash: u64,
}

/// Plays a script with the rules `R`. With `trace` set, a trace is written.
pub fn play_rules<R: Rules>(
    name: &str,
    script: &StateScript<'_>,
    trace: Option<OpenTrace<'_>>,
) -> Result<StatePlayed, PlayError> {
    let config = &script.config;
    let states = parsed::<R>(script)?;
    let state_of = |setup: &Setup| {
        let found = states.iter().find(|(node, _)| *node == setup.me);
        found.map_or_else(|| R::clean(setup), |(_, state)| *state)
    };
    let run = Run::<R>::from(config, state_of).map_err(StartError::from)?;
    let header = serde_json::json!({ "protocol": name, "n": config.graph.nodes(), "k": config.k });
    let trace = RunTrace::open(trace, &header)?;
    let enabled = vec![Vec::new(); run.states().len()];
    let mut player = Player { run, trace, now: Time::ZERO, enabled };
    player.write_enabled();
    let mut skipped = Vec::new();
    for (index, movers) in script.steps.iter().enumerate() {
        player.now += Span::UNIT;
        match player.choose(movers, script.lenient) {
            Ok(moving) if moving.is_empty() => skipped.push(index),
            Ok(moving) => player.take(moving),
            Err(reason) => return Err(player.impossible(index, movers, reason)),
        }
    }
    let steps_after = if script.run_to_rest { player.run_to_rest() } else { 0 };
    player.trace.finish()?;
    let run = player.run;
    Ok(StatePlayed {
        skipped,
        steps_after,
        stabilized: run.stabilized_at_round().is_some(),
        hash: run.hash.value(),
        violations: run.checker.violations,
    })
}

/// Parses the initial states; each must be in the domain of its process.
fn parsed<R: Rules>(script: &StateScript<'_>) -> Result<Vec<(NodeId, R::State)>, PlayError> {
    let StateConfig { graph, k, printed, .. } = &script.config;
    let nodes = graph.nodes();
    let parse = |(node, text): &(NodeId, String)| {
        if node.0 >= nodes {
            return Err(StartError::from(StateError::UnknownNode { node: *node, nodes }).into());
        }
        let known = Setup::new(nodes, *k);
        let setup = Setup { me: *node, graph: Some(graph.clone()), defects: *printed, ..known };
        let state =
            R::parse_state(text).filter(|state| R::in_domain(&setup, state)).ok_or_else(|| {
                let example = R::print_state(&R::clean(&setup));
                StartError::State { node: *node, text: text.clone(), example }.into()
            });
        state.map(|state| (*node, state))
    };
    script.states.iter().map(parse).collect()
}

struct Player<'a, R: Rules> {
    run: Run<R>,
    trace: RunTrace<'a>,
    now: Time,
    /// The enabled actions of each process as last written to the trace.
    enabled: Vec<Vec<&'static str>>,
}

/// The movers and their actions.
type Moving<R> = Vec<(NodeId, Step<<R as Rules>::State>)>;

impl<R: Rules> Player<'_, R> {
    /// The actions of a step, or why it is refused.
    fn choose(&self, movers: &Movers, lenient: bool) -> Result<Moving<R>, StepError> {
        let processes = &self.run.processes;
        let (asked, skips) = match movers {
            Movers::All => {
                let enabled: BTreeSet<NodeId> = processes.enabled().iter().copied().collect();
                if enabled.is_empty() && !lenient {
                    return Err(StepError::NobodyEnabled);
                }
                (enabled.into_iter().map(|node| (node, None)).collect(), true)
            }
            Movers::These(these) => (these.clone(), lenient),
        };
        let mut moving: Moving<R> = Vec::new();
        for (node, action) in asked {
            if node.index() >= processes.states.len() {
                return Err(StepError::UnknownNode { node, nodes: self.run.config.graph.nodes() });
            }
            if moving.iter().any(|(other, _)| *other == node) {
                return Err(StepError::MovesTwice(node));
            }
            let fits =
                |step: &&Step<R::State>| action.as_deref().is_none_or(|action| action == step.name);
            let fitting: Vec<_> = processes.steps(node).iter().filter(fits).collect();
            match fitting[..] {
                [] if skips => {}
                [] => return Err(StepError::NotEnabled(node)),
                [step] => moving.push((node, *step)),
                [first, ..] if skips => moving.push((node, *first)),
                [first, second, ..] => {
                    let (first, second) = (first.name, second.name);
                    return Err(StepError::Ambiguous { node, first, second });
                }
            }
        }
        Ok(moving)
    }

    fn impossible(&self, step: usize, movers: &Movers, reason: StepError) -> PlayError {
        let processes = &self.run.processes;
        let enabled: BTreeSet<NodeId> = processes.enabled().iter().copied().collect();
        let action =
            |node: NodeId| move |step: &Step<R::State>| format!("{node}({}) moves", step.name);
        let possible = enabled
            .into_iter()
            .flat_map(|node| processes.steps(node).iter().map(action(node)))
            .collect();
        PlayError::Impossible(ImpossibleStep { step, text: movers.to_string(), reason, possible })
    }

    fn take(&mut self, moving: Moving<R>) {
        self.run.chosen = moving.iter().map(|(node, _)| *node).collect();
        if self.trace.is_on() {
            for (node, step) in &moving {
                let state = R::print_state(&step.next).into();
                let event = trace::Event::Moved { action: step.name.into(), state };
                self.trace.write(self.now, *node, &event);
            }
        }
        self.run.moving = moving;
        self.run.move_chosen();
        self.write_enabled();
        self.write_violations();
    }

    /// All enabled processes move until the run is finished; the number of steps that took.
    fn run_to_rest(&mut self) -> u64 {
        let mut steps = 0;
        while !self.is_finished() {
            self.now += Span::UNIT;
            let moving =
                self.choose(&Movers::All, true).expect("movers that are not enabled are skipped");
            if moving.is_empty() {
                self.run.checker.terminal(self.run.rounds.now());
                self.write_violations();
                break;
            }
            self.take(moving);
            steps += 1;
        }
        steps
    }

    fn is_finished(&self) -> bool {
        let served = self.run.checker.served_after.iter().all(|&times| times > 0);
        let seen =
            self.run.stabilized_at_round().is_some() && served || self.run.rounds() >= ROUNDS;
        seen && !self.run.processes.enabled().is_empty()
    }

    /// Writes the enabled actions of processes for which they have changed.
    fn write_enabled(&mut self) {
        for node in (0..self.run.config.graph.nodes()).map(NodeId) {
            let steps = self.run.processes.steps(node);
            let actions: Vec<&'static str> = steps.iter().map(|step| step.name).collect();
            let inside = steps.iter().any(|step| step.privileged);
            let before = &mut self.enabled[node.index()];
            if *before != actions {
                let named = actions.iter().map(|&action| action.into()).collect();
                let event = trace::Event::Enabled { actions: named, inside };
                self.trace.write(self.now, node, &event);
                *before = actions;
            }
        }
    }

    fn write_violations(&mut self) {
        self.trace.write_violations(self.now, &self.run.checker.violations);
    }
}
