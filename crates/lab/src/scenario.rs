//! Plays a scenario and compares the run with the effects written in its file.
//!
//! The simulator plays the steps with the defect switched on. If the scenario has a defect whose
//! repair must be correct, the steps are played again without the defect, as far as they are
//! possible then, until the run is quiescent: no checker may report a violation.
//!
//! - `difference.rs`: the differences, line by line; `setting.rs`: the configuration that a header
//!   describes.

pub mod difference;
mod setting;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use kgate_core::{NodeId, Protocol, Rules, Span};
use kgate_protocols::registry::{self, Entry, MutexProtocol, RulesVisitor, Visitor};
use kgate_sim::{OpenTrace, PlayError, Played, Script, StatePlayed, StateScript, play, play_rules};
use kgate_spec::scenario::{
    Act, Channels, Expect, Model, Movers, Next, Then, effects, final_effects,
};
use kgate_spec::trace::reader::{self, Record};
use kgate_spec::{Scenario, Step, Violation};

/// The outcome of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scenario with the actual effects of each step.
    pub scenario: Scenario,
    /// The trace, as `docs/reference/trace-format.md` describes it.
    pub trace: Vec<u8>,
    /// The violations, in the order in which they were seen.
    pub violations: Vec<Violation>,
    /// How the outcome differs from `expect`, in a sentence.
    pub unexpected: Option<String>,
    /// The differences between the expected and the actual effects; empty if they agree.
    pub difference: Vec<String>,
    /// The same steps without the defect, if the scenario has a defect with a repair.
    pub repaired: Option<Repaired>,
    /// Hash of every step of the first run.
    pub hash: u64,
}

/// A scenario of a defect, played without the defect.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// Number of steps that were not possible.
    pub skipped: usize,
    /// Violations; must be empty.
    pub violations: Vec<Violation>,
}

impl Outcome {
    /// Whether effects and outcome are as expected.
    pub fn passes(&self) -> bool {
        let repaired = self.repaired.as_ref().is_none_or(|repaired| repaired.violations.is_empty());
        self.unexpected.is_none() && self.difference.is_empty() && repaired
    }
}

/// A scenario that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration of the header is not possible.
    #[error("{0}")]
    Setting(String),
    /// A step is not possible.
    #[error("line {line}: {error}")]
    Step {
        /// The line of the step.
        line: usize,
        /// Why the step is not possible, and which steps are.
        error: kgate_sim::ImpossibleStep,
    },
    /// The simulator failed.
    #[error("the scenario could not be played")]
    Broken(#[source] PlayError),
}

/// Plays a scenario and compares the effects.
pub fn run(scenario: &Scenario) -> Result<Outcome, RunError> {
    let entry = registry::entry(&scenario.protocol).map_err(setting::rejected)?;
    let first = run_once(scenario, entry, false)?;
    let unexpected = unexpected(&scenario.expect, &first.violations);
    let difference = difference::between(&scenario.to_string(), &first.scenario.to_string());
    let repaired = if scenario.repaired {
        let again = run_once(scenario, entry, true)?;
        Some(Repaired { skipped: again.skipped, violations: again.violations })
    } else {
        None
    };
    Ok(Outcome {
        scenario: first.scenario,
        trace: first.trace,
        violations: first.violations,
        unexpected,
        difference,
        repaired,
        hash: first.hash,
    })
}

fn unexpected(expect: &Expect, violations: &[Violation]) -> Option<String> {
    match (expect, violations.first()) {
        (Expect::Correct, None) => None,
        (Expect::Correct, Some(violation)) => Some(format!("expected correct, but {violation}")),
        (Expect::Violated(property), None) => {
            Some(format!("expected a violation of \"{property}\", but no property was violated"))
        }
        (Expect::Violated(property), Some(_))
            if violations.iter().any(|v| v.property == property) =>
        {
            None
        }
        (Expect::Violated(property), Some(violation)) => {
            Some(format!("expected a violation of \"{property}\", but only saw: {violation}"))
        }
    }
}

/// One run of a scenario.
struct Once {
    scenario: Scenario,
    trace: Vec<u8>,
    violations: Vec<Violation>,
    skipped: usize,
    hash: u64,
}

/// The end of a run.
struct Ended {
    violations: Vec<Violation>,
    skipped: usize,
    hash: u64,
    end: Vec<String>,
}

/// Plays the steps as written; or without the defect, skipping impossible steps, to quiescence.
fn run_once(scenario: &Scenario, entry: &'static Entry, repaired: bool) -> Result<Once, RunError> {
    let trace = Buffer::default();
    let Ended { violations, skipped, hash, end } = match scenario.model {
        Model::Messages => play_messages(scenario, entry, repaired, trace.open())?,
        Model::State => play_states(scenario, entry, repaired, trace.open())?,
    };
    let trace = trace.bytes();
    let (_, lines) = reader::read(&trace[..]).expect("the simulator writes traces");
    let mut scenario = scenario.clone();
    update_effects(&mut scenario, &lines, end);
    Ok(Once { scenario, trace, violations, skipped, hash })
}

fn play_messages(
    scenario: &Scenario,
    entry: &'static Entry,
    repaired: bool,
    trace: OpenTrace<'static>,
) -> Result<Ended, RunError> {
    let script = Script {
        config: setting::config(scenario, entry, repaired)?,
        steps: &scenario.steps.iter().filter_map(|entry| step(&entry.act)).collect::<Vec<_>>(),
        fifo: scenario.channels == Channels::Fifo,
        lenient: repaired,
        run_to_rest: repaired || scenario.then == Then::GoOn,
    };
    let player = Player { name: entry.name, script: &script, trace };
    let played = registry::visit(entry, false, player).map_err(|error| failed(scenario, error))?;
    let end = end_of_run(&played, script.run_to_rest);
    let Played { violations, skipped, hash, .. } = played;
    Ok(Ended { violations, skipped: skipped.len(), hash, end })
}

fn play_states(
    scenario: &Scenario,
    entry: &'static Entry,
    repaired: bool,
    trace: OpenTrace<'static>,
) -> Result<Ended, RunError> {
    let script = StateScript {
        config: setting::state_config(scenario, entry, repaired)?,
        states: &scenario.states,
        steps: &scenario.steps.iter().filter_map(|entry| movers(&entry.act)).collect::<Vec<_>>(),
        lenient: repaired,
        run_to_rest: repaired || scenario.then == Then::GoOn,
    };
    let player = RulesPlayer { name: entry.name, script: &script, trace };
    let played = registry::visit_rules(entry, player)
        .ok_or_else(|| setting::no_state_model(entry))?
        .map_err(|error| failed(scenario, error))?;
    let end = end_of_state_run(&played, script.run_to_rest);
    let StatePlayed { violations, skipped, hash, .. } = played;
    Ok(Ended { violations, skipped: skipped.len(), hash, end })
}

fn step(act: &Act) -> Option<Step> {
    match act {
        Act::Step(step) => Some(step.clone()),
        Act::Move(_) => None,
    }
}

fn movers(act: &Act) -> Option<Movers> {
    match act {
        Act::Step(_) => None,
        Act::Move(movers) => Some(movers.clone()),
    }
}

fn failed(scenario: &Scenario, error: PlayError) -> RunError {
    match error {
        PlayError::Impossible(error) => {
            RunError::Step { line: scenario.steps[error.step].line, error }
        }
        PlayError::Start(error) => RunError::Setting(error.to_string()),
        PlayError::Run(kgate_sim::RunError::Config(why)) => setting::rejected(why),
        error @ PlayError::Run(_) => RunError::Broken(error),
    }
}

/// Writes the effects from the trace below each step: step number i happened at time i.
fn update_effects(scenario: &mut Scenario, lines: &[Record], end: Vec<String>) {
    let at = |step: usize| {
        let time = Span::UNIT.times(step as u64).0;
        let from = lines.partition_point(|record| record.t.0 < time);
        &lines[from..lines.partition_point(|record| record.t.0 <= time)]
    };
    let nodes = scenario.processes;
    let mut next = (scenario.model == Model::State).then(Next::default);
    let mut effects_of = |act: Option<&Act>, step: usize| {
        let mut words = effects(act, at(step), nodes);
        words.extend(next.as_mut().map(|next| next.see(at(step))));
        words
    };
    scenario.start = effects_of(None, 0);
    for (number, entry) in (1..).zip(&mut scenario.steps) {
        entry.effects = effects_of(Some(&entry.act), number);
    }
    let last = Span::UNIT.times(scenario.steps.len() as u64).0;
    scenario.end = final_effects(&lines[lines.partition_point(|record| record.t.0 <= last)..]);
    scenario.end.extend(end);
}

/// Describes the end of a run over messages.
fn end_of_run(played: &Played, go_on: bool) -> Vec<String> {
    let who = |nodes: &[NodeId], one: &str, many: &str| {
        let names: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
        (!nodes.is_empty())
            .then(|| format!("{} {}", names.join(" "), if nodes.len() == 1 { one } else { many }))
    };
    let mut words = Vec::new();
    if go_on {
        words.push(match (played.steps_after, played.quiet) {
            (0, _) => "quiescent".into(),
            (steps, true) => format!("quiescent after {}", counted(steps)),
            (steps, false) => format!("not quiescent after {}", counted(steps)),
        });
    }
    words.extend(who(&played.inside, "holds", "hold"));
    words.extend(who(&played.waiting, "waits", "wait"));
    words
}

fn counted(steps: u64) -> String {
    if steps == 1 { "1 step".into() } else { format!("{steps} steps") }
}

/// Describes the end of a run of the state model.
fn end_of_state_run(played: &StatePlayed, go_on: bool) -> Vec<String> {
    let steps = counted(played.steps_after);
    let stabilized = if played.stabilized { "stabilized" } else { "not stabilized" };
    if go_on { vec![format!("after {steps} of all processes {stabilized}")] } else { Vec::new() }
}

struct Player<'a> {
    name: &'a str,
    script: &'a Script<'a>,
    trace: OpenTrace<'static>,
}

impl Visitor for Player<'_> {
    type Output = Result<Played, PlayError>;
    fn visit<M: MutexProtocol, D: Protocol>(self) -> Self::Output {
        play::<M>(self.name, self.script, Some(self.trace))
    }
}

struct RulesPlayer<'a> {
    name: &'a str,
    script: &'a StateScript<'a>,
    trace: OpenTrace<'static>,
}

impl RulesVisitor for RulesPlayer<'_> {
    type Output = Result<StatePlayed, PlayError>;
    fn visit<R: Rules>(self) -> Self::Output {
        play_rules::<R>(self.name, self.script, Some(self.trace))
    }
}

/// A trace in memory, readable after its writer is dropped.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn open(&self) -> OpenTrace<'static> {
        let buffer = self.clone();
        Box::new(move || Ok(Box::new(buffer) as Box<dyn Write>))
    }

    fn bytes(self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().expect("no thread panics while writing"))
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no thread panics while writing").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
