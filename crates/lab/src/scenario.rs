//! Plays a scenario and compares what happened with what it tells.
//!
//! The steps are played by the simulator with the defect as printed. If there is one and its repair
//! is to be correct, they are played once more without it, as far as they are possible then, and
//! everything goes on until nothing is under way: no checker may complain.
//!
//! - `difference.rs`: what differs, line by line; `setting.rs`: the configuration that a header
//!   asks for.

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

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The scenario with what really followed from each step.
    pub scenario: Scenario,
    /// The trace, as `docs/reference/trace-format.md` describes it.
    pub trace: Vec<u8>,
    /// What was not correct, in the order in which it was seen.
    pub violations: Vec<Violation>,
    /// How it came out otherwise than expected, in a sentence.
    pub unexpected: Option<String>,
    /// What really followed, beside what the scenario tells; empty if they agree.
    pub difference: Vec<String>,
    /// The same steps without the defect, if there is one that is to be repaired.
    pub repaired: Option<Repaired>,
    /// Of every step of the first run.
    pub hash: u64,
}

/// A defect's scenario, played without the defect.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// How many steps were not possible then.
    pub skipped: usize,
    /// What was not correct; nothing should be here.
    pub violations: Vec<Violation>,
}

impl Outcome {
    /// Whether all is as the scenario tells.
    pub fn is_right(&self) -> bool {
        let repaired = self.repaired.as_ref().is_none_or(|repaired| repaired.violations.is_empty());
        self.unexpected.is_none() && self.difference.is_empty() && repaired
    }
}

/// Why a scenario could not be played.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// Its header asks for what cannot be.
    #[error("{0}")]
    Setting(String),
    /// A step that is not possible.
    #[error("line {line}: {error}")]
    Step {
        /// Its line.
        line: usize,
        /// What is wrong with it, and what would be possible.
        error: kgate_sim::ImpossibleStep,
    },
    /// The player itself failed.
    #[error("the scenario could not be played")]
    Broken(#[source] PlayError),
}

/// Plays it and compares.
pub fn run(scenario: &Scenario) -> Result<Outcome, Failed> {
    let entry = registry::entry(&scenario.protocol).map_err(setting::refused)?;
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
            Some(format!("expected that \"{property}\" is violated, but nothing was"))
        }
        (Expect::Violated(property), Some(_))
            if violations.iter().any(|v| v.property == property) =>
        {
            None
        }
        (Expect::Violated(property), Some(violation)) => {
            Some(format!("expected that \"{property}\" is violated, but only {violation}"))
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

/// How it ended.
struct Ended {
    violations: Vec<Violation>,
    skipped: usize,
    hash: u64,
    last_words: Vec<String>,
}

/// Plays it as it is told, or without the defect: then leniently, and to its end.
fn run_once(scenario: &Scenario, entry: &'static Entry, repaired: bool) -> Result<Once, Failed> {
    let trace = Buffer::default();
    let Ended { violations, skipped, hash, last_words } = match scenario.model {
        Model::Messages => play_messages(scenario, entry, repaired, trace.open())?,
        Model::State => play_states(scenario, entry, repaired, trace.open())?,
    };
    let trace = trace.bytes();
    let (_, lines) = reader::read(&trace[..]).expect("the simulator writes traces");
    let mut scenario = scenario.clone();
    retell(&mut scenario, &lines, last_words);
    Ok(Once { scenario, trace, violations, skipped, hash })
}

fn play_messages(
    scenario: &Scenario,
    entry: &'static Entry,
    repaired: bool,
    trace: OpenTrace<'static>,
) -> Result<Ended, Failed> {
    let script = Script {
        config: setting::config(scenario, entry, repaired)?,
        steps: &scenario.steps.iter().filter_map(|entry| step(&entry.act)).collect::<Vec<_>>(),
        fifo: scenario.channels == Channels::Fifo,
        lenient: repaired,
        run_to_rest: repaired || scenario.then == Then::GoOn,
    };
    let player = Player { name: entry.name, script: &script, trace };
    let played = registry::visit(entry, false, player).map_err(|error| failed(scenario, error))?;
    let last_words = last_words(&played, script.run_to_rest);
    let Played { violations, skipped, hash, .. } = played;
    Ok(Ended { violations, skipped: skipped.len(), hash, last_words })
}

fn play_states(
    scenario: &Scenario,
    entry: &'static Entry,
    repaired: bool,
    trace: OpenTrace<'static>,
) -> Result<Ended, Failed> {
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
    let last_words = last_words_of_rules(&played, script.run_to_rest);
    let StatePlayed { violations, skipped, hash, .. } = played;
    Ok(Ended { violations, skipped: skipped.len(), hash, last_words })
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

fn failed(scenario: &Scenario, error: PlayError) -> Failed {
    match error {
        PlayError::Impossible(error) => {
            Failed::Step { line: scenario.steps[error.step].line, error }
        }
        PlayError::Start(error) => Failed::Setting(error.to_string()),
        PlayError::Run(kgate_sim::RunError::Config(why)) => setting::refused(why),
        error @ PlayError::Run(_) => Failed::Broken(error),
    }
}

/// Puts what the trace says below each step: step number i happened at time i.
fn retell(scenario: &mut Scenario, lines: &[Record], last_words: Vec<String>) {
    let at = |step: usize| {
        let time = Span::UNIT.times(step as u64).0;
        let from = lines.partition_point(|record| record.t.0 < time);
        &lines[from..lines.partition_point(|record| record.t.0 <= time)]
    };
    let nodes = scenario.processes;
    let mut next = (scenario.model == Model::State).then(Next::default);
    let mut tell_all = |act: Option<&Act>, step: usize| {
        let mut words = effects(act, at(step), nodes);
        words.extend(next.as_mut().map(|next| next.see(at(step))));
        words
    };
    scenario.start = tell_all(None, 0);
    for (number, entry) in (1..).zip(&mut scenario.steps) {
        entry.followed = tell_all(Some(&entry.act), number);
    }
    let last = Span::UNIT.times(scenario.steps.len() as u64).0;
    scenario.end = final_effects(&lines[lines.partition_point(|record| record.t.0 <= last)..]);
    scenario.end.extend(last_words);
}

/// How a run over messages ended.
fn last_words(played: &Played, go_on: bool) -> Vec<String> {
    let who = |nodes: &[NodeId], one: &str, many: &str| {
        let names: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
        (!nodes.is_empty())
            .then(|| format!("{} {}", names.join(" "), if nodes.len() == 1 { one } else { many }))
    };
    let mut words = Vec::new();
    if go_on {
        words.push(match (played.steps_after, played.quiet) {
            (0, _) => "nothing is under way".into(),
            (steps, true) => format!("{} later nothing is under way", counted(steps)),
            (steps, false) => format!("{} later it still goes on", counted(steps)),
        });
    }
    words.extend(who(&played.inside, "is inside", "are inside"));
    words.extend(who(&played.waiting, "waits", "wait"));
    words
}

fn counted(steps: u64) -> String {
    if steps == 1 { "1 step".into() } else { format!("{steps} steps") }
}

/// How a run of the state model ended.
fn last_words_of_rules(played: &StatePlayed, go_on: bool) -> Vec<String> {
    let steps = counted(played.steps_after);
    let stabilized = if played.stabilized { "it has stabilized" } else { "it has not stabilized" };
    if go_on { vec![format!("{steps} of everybody later {stabilized}")] } else { Vec::new() }
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

/// A trace in memory, which its writer leaves behind.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn open(&self) -> OpenTrace<'static> {
        let buffer = self.clone();
        Box::new(move || Ok(Box::new(buffer) as Box<dyn Write>))
    }

    fn bytes(self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().expect("nobody panics while writing"))
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics while writing").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
