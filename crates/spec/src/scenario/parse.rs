//! Parses a scenario.

use std::str::FromStr;

use kgate_core::{NodeId, SlotOptions};

use super::options;
use super::{
    Act, Channels, Down, Entry, Expect, MOST_PROCESSES, Model, Movers, PROPERTIES, Scenario, Then,
};
use crate::schedule::ParseStepError;

/// A text that is not a scenario. Each error names the line and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// A line is not a header.
    #[error(
        "line {0}: `{1}` is not a header: write for example `protocol vcube`, `processes 4`, `k \
         2`, and an empty line before the steps"
    )]
    Header(usize, String),
    /// A header is repeated.
    #[error("line {0}: `{1}` is repeated: write it once")]
    Twice(usize, String),
    /// A required header is missing.
    #[error("there is no line `{0}` before the first empty line: add it")]
    Missing(&'static str),
    /// There are too many processes.
    #[error(
        "line {0}: {1} processes are too many for a scenario: write at most {most}",
        most = MOST_PROCESSES
    )]
    TooMany(usize, u32),
    /// The property does not exist.
    #[error("line {0}: there is no property \"{1}\": expect one of {known}", known = known())]
    Property(usize, String),
    /// Headers contradict each other.
    #[error("{0}")]
    Together(&'static str),
    /// A line is not a step.
    #[error("line {0}: {1}")]
    Step(usize, ParseStepError),
    /// A line is not a move.
    #[error(
        "line {0}: `{1}` is not a move: write for example `p0 moves`, `p0 p2 move`, `p1(a6) \
         moves`, `all move`"
    )]
    Move(usize, String),
    /// An effect stands below no step.
    #[error("line {0} is indented but follows no step: begin a step at the start of the line")]
    BelowNothing(usize),
    /// `start` or `end` is misplaced.
    #[error("line {0}: `start` comes before the first step, `end` after the last, each once")]
    OutOfOrder(usize),
}

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let mut lines = (1..).zip(text.lines().map(str::trim_end)).peekable();
        let mut description = Vec::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with('#')) {
            description.push(comment(line));
        }
        let mut header = Header::default();
        for (number, line) in lines.by_ref().take_while(|(_, line)| !line.is_empty()) {
            header.read(number, line)?;
        }
        let mut scenario = header.scenario(description)?;
        Body::new(&mut scenario).read(lines)?;
        Ok(scenario)
    }
}

/// The properties, as a scenario writes them.
fn known() -> String {
    PROPERTIES.map(|name| format!("\"{name}\"")).join(", ")
}

/// The text after the `#`.
fn comment(line: &str) -> String {
    let text = line.strip_prefix('#').unwrap_or(line);
    text.strip_prefix(' ').unwrap_or(text).to_owned()
}

#[derive(Default)]
struct Header {
    protocol: Option<String>,
    processes: Option<u32>,
    k: Option<u32>,
    model: Option<Model>,
    graph: Option<String>,
    root: Option<NodeId>,
    channels: Option<Channels>,
    down: Option<Down>,
    tolerate: Option<u32>,
    refresh: Option<()>,
    options: Option<SlotOptions>,
    as_printed: Option<String>,
    clean: Option<()>,
    states: Vec<(NodeId, String)>,
    then: Option<Then>,
    expect: Option<Expect>,
    repaired: Option<bool>,
}

impl Header {
    fn read(&mut self, number: usize, line: &str) -> Result<(), ScenarioError> {
        let wrong = || ScenarioError::Header(number, line.to_owned());
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let new = match (key, words.as_slice()) {
            ("protocol", [name]) => put(&mut self.protocol, (*name).to_owned()),
            ("processes", [count]) => {
                let count: u32 = count.parse().map_err(|_| wrong())?;
                if count > MOST_PROCESSES {
                    return Err(ScenarioError::TooMany(number, count));
                }
                put(&mut self.processes, count)
            }
            ("k", [count]) => put(&mut self.k, count.parse().map_err(|_| wrong())?),
            ("model", ["messages"]) => put(&mut self.model, Model::Messages),
            ("model", ["state"]) => put(&mut self.model, Model::State),
            ("graph", [_, ..]) => put(&mut self.graph, words.join(" ")),
            ("root", [node]) => put(&mut self.root, id(node).ok_or_else(wrong)?),
            ("channels", ["fifo"]) => put(&mut self.channels, Channels::Fifo),
            ("channels", ["unordered"]) => put(&mut self.channels, Channels::Unordered),
            ("down", ["lost"]) => put(&mut self.down, Down::Lost),
            ("down", ["kept"]) => put(&mut self.down, Down::Kept),
            ("tolerate", [count]) => put(&mut self.tolerate, count.parse().map_err(|_| wrong())?),
            ("options", [_, ..]) => {
                put(&mut self.options, options::parse(&words).ok_or_else(wrong)?)
            }
            ("refresh", []) => put(&mut self.refresh, ()),
            ("as-printed", [id]) => put(&mut self.as_printed, id.to_ascii_uppercase()),
            ("start", ["clean"]) => put(&mut self.clean, ()),
            ("state", [node, state @ ..]) if !state.is_empty() => {
                let node = id(node).ok_or_else(wrong)?;
                let new = self.states.iter().all(|(other, _)| *other != node);
                self.states.push((node, state.join(" ")));
                new
            }
            ("then", ["go", "on"]) => put(&mut self.then, Then::GoOn),
            ("then", ["stop"]) => put(&mut self.then, Then::Stop),
            ("expect", ["correct"]) => put(&mut self.expect, Expect::Correct),
            ("expect", [_, ..]) => {
                let property = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let property = property.ok_or_else(wrong)?.to_owned();
                if !PROPERTIES.contains(&property.as_str()) {
                    return Err(ScenarioError::Property(number, property));
                }
                put(&mut self.expect, Expect::Violated(property))
            }
            ("repaired", ["correct"]) => put(&mut self.repaired, true),
            ("repaired", ["none"]) => put(&mut self.repaired, false),
            _ => return Err(wrong()),
        };
        if new { Ok(()) } else { Err(ScenarioError::Twice(number, key.to_owned())) }
    }

    fn scenario(self, description: Vec<String>) -> Result<Scenario, ScenarioError> {
        let model = self.model.unwrap_or_default();
        if model == Model::Messages && !self.states.is_empty() {
            return Err(ScenarioError::Together(
                "`state` needs the state model: add `model state`, or leave it out",
            ));
        }
        if self.clean.is_some() && !self.states.is_empty() {
            return Err(ScenarioError::Together(
                "`start clean` and `state` contradict each other: leave out one of them",
            ));
        }
        if self.repaired.is_some() && self.as_printed.is_none() {
            return Err(ScenarioError::Together(
                "`repaired` needs a defect: add `as-printed`, or leave it out",
            ));
        }
        let mut states = self.states;
        states.sort();
        Ok(Scenario {
            description,
            protocol: self.protocol.ok_or(ScenarioError::Missing("protocol NAME"))?,
            processes: self.processes.ok_or(ScenarioError::Missing("processes N"))?,
            k: self.k.ok_or(ScenarioError::Missing("k K"))?,
            model,
            graph: self.graph,
            root: self.root,
            channels: self.channels.unwrap_or_default(),
            down: self.down.unwrap_or_default(),
            tolerate: self.tolerate,
            refresh: self.refresh.is_some(),
            options: self.options.unwrap_or_default(),
            repaired: self.as_printed.is_some() && self.repaired.unwrap_or(true),
            as_printed: self.as_printed,
            states,
            then: self.then.unwrap_or_default(),
            expect: self
                .expect
                .ok_or(ScenarioError::Missing("expect correct` or `expect \"PROPERTY\""))?,
            start: Vec::new(),
            steps: Vec::new(),
            end_notes: Vec::new(),
            end: Vec::new(),
        })
    }
}

/// Sets a header; false if it was set before.
fn put<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}

/// The element to which an indented line belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nothing,
    Start,
    Step,
    End,
}

struct Body<'a> {
    scenario: &'a mut Scenario,
    place: Place,
    notes: Vec<String>,
}

impl<'a> Body<'a> {
    fn new(scenario: &'a mut Scenario) -> Self {
        Self { scenario, place: Place::Nothing, notes: Vec::new() }
    }

    fn read<'t>(
        mut self,
        lines: impl Iterator<Item = (usize, &'t str)>,
    ) -> Result<(), ScenarioError> {
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            if line.starts_with('#') {
                self.notes.push(comment(line));
            } else if line.starts_with(char::is_whitespace) {
                self.below(number)?.push(line.trim_start().to_owned());
            } else {
                self.step(number, line)?;
            }
        }
        self.scenario.end_notes.append(&mut self.notes);
        Ok(())
    }

    fn below(&mut self, number: usize) -> Result<&mut Vec<String>, ScenarioError> {
        match self.place {
            Place::Nothing => Err(ScenarioError::BelowNothing(number)),
            Place::Start => Ok(&mut self.scenario.start),
            Place::Step => {
                Ok(&mut self.scenario.steps.last_mut().expect("there is a step").effects)
            }
            Place::End => Ok(&mut self.scenario.end),
        }
    }

    fn step(&mut self, number: usize, line: &str) -> Result<(), ScenarioError> {
        match (line, self.place) {
            ("start", Place::Nothing) => self.place = Place::Start,
            ("end", Place::Nothing | Place::Start | Place::Step) => {
                self.place = Place::End;
                self.scenario.end_notes.append(&mut self.notes);
            }
            ("start" | "end", _) | (_, Place::End) => {
                return Err(ScenarioError::OutOfOrder(number));
            }
            (_, Place::Nothing | Place::Start | Place::Step) => {
                let act = match self.scenario.model {
                    Model::Messages => {
                        Act::Step(line.parse().map_err(|error| ScenarioError::Step(number, error))?)
                    }
                    Model::State => {
                        let movers = movers(line)
                            .ok_or_else(|| ScenarioError::Move(number, line.to_owned()));
                        Act::Move(movers?)
                    }
                };
                let notes = std::mem::take(&mut self.notes);
                self.scenario.steps.push(Entry { line: number, notes, act, effects: Vec::new() });
                self.place = Place::Step;
            }
        }
        Ok(())
    }
}

fn movers(line: &str) -> Option<Movers> {
    let (who, "move" | "moves") = line.rsplit_once(' ')? else { return None };
    if who == "all" {
        return Some(Movers::All);
    }
    let mover = |word: &str| match word.split_once('(') {
        None => Some((id(word)?, None)),
        Some((node, action)) => Some((id(node)?, Some(action.strip_suffix(')')?.to_owned()))),
    };
    who.split_whitespace().map(mover).collect::<Option<Vec<_>>>().map(Movers::These)
}

/// `p7` is process 7.
fn id(word: &str) -> Option<NodeId> {
    word.strip_prefix('p').and_then(|number| number.parse().ok()).map(NodeId)
}
