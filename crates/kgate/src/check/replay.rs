//! A counterexample as a scenario: the simulator plays it, and it can be saved and drawn.

use std::path::Path;

use kgate_check::properties::NOT_LEFT_LYING;
use kgate_check::{Bounds, Finding, Outcome};
use kgate_core::{Graph, NodeId, Setup, SlotOptions};
use kgate_lab::scenario::{self, Outcome as Came};
use kgate_protocols::registry;
use kgate_spec::scenario::{Act, Entry, Expect, Model, Then};
use kgate_spec::{EntryOrder, EveryoneServed, NoResidue, Scenario};

use super::options::{ChannelsArg, CheckArgs};
use crate::Failure;
use crate::sim::options::DownArg;

/// A counterexample played by the simulator, with the verdict of its checkers.
pub(super) struct Replayed {
    came: Came,
    property: &'static str,
}

/// Properties that the simulator may fail to see violated.
const NOT_SEEN_BY_SIMULATOR: [&str; 2] = [EntryOrder::NAME, NOT_LEFT_LYING];

/// What was explored, in the form of a scenario header.
pub(super) struct Setting {
    graph: Option<String>,
    root: Option<NodeId>,
    tolerate: Option<u32>,
    options: SlotOptions,
    /// Whether the bounds stay within the faults that the protocol claims to tolerate; the repaired
    /// protocol must then be correct.
    tolerated: bool,
}

impl Setting {
    pub(super) fn new(
        args: &CheckArgs,
        entry: &registry::Entry,
        setup: &Setup,
        bounds: &Bounds,
    ) -> Self {
        let graph = setup.graph.as_ref().filter(|_| args.graph.is_some());
        Self {
            graph: graph.map(|graph| edges(graph)),
            root: graph.map(|graph| graph.root()).filter(|root| root.0 != 0),
            tolerate: entry.needs_crash_bound.then_some(setup.tolerate),
            options: setup.slots,
            tolerated: super::unchecked(entry, bounds).is_none(),
        }
    }
}

/// The edges of a network in the form of a scenario.
fn edges(graph: &Graph) -> String {
    let nodes = (0..graph.nodes()).map(NodeId);
    let edges = nodes.flat_map(|node| {
        let later = graph.neighbours(node).iter().filter(move |other| **other > node);
        later.map(move |other| format!("{}-{}", node.0, other.0))
    });
    edges.collect::<Vec<_>>().join(" ")
}

/// Rejects files that cannot be written or that overwrite each other before the search begins,
/// which may be long.
pub(super) fn check_targets(args: &CheckArgs) -> Result<(), Failure> {
    if args.scenario.is_some() && args.scenario == args.diagram {
        return Err(Failure::Usage(
            "--scenario and --diagram name the same file: give each a file of its own".into(),
        ));
    }
    for path in args.scenario.iter().chain(&args.diagram) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
            let text = format!(
                "cannot write {}: it is a directory, or its directory does not exist",
                path.display()
            );
            return Err(Failure::Usage(text));
        }
    }
    Ok(())
}

/// Plays the counterexample, if one was found; the simulator must see the same violation.
pub(super) fn play(
    args: &CheckArgs,
    setting: &Setting,
    found: &Outcome,
) -> Result<Option<Replayed>, Failure> {
    let Some(finding) = found.properties.iter().find(|finding| finding.counterexample.is_some())
    else {
        return Ok(None);
    };
    match scenario::run(&scenario(args, setting, finding)) {
        // The simulator reports an overtaken request when it is granted, which may never happen. It
        // looks for unused free slots only after the last step, and counts a cached slot as in use.
        Ok(came) if came.unexpected.is_none() || NOT_SEEN_BY_SIMULATOR.contains(&finding.name) => {
            Ok(Some(Replayed { came, property: finding.name }))
        }
        Ok(came) => Err(disagree(finding, &came.unexpected.unwrap_or_default())),
        Err(error) => Err(disagree(finding, &error.to_string())),
    }
}

/// Both drive the same protocol: if they disagree, one of them has a bug.
fn disagree(finding: &Finding, how: &str) -> Failure {
    Failure::Internal(anyhow::anyhow!(
        "the model checker found a violation of '{}', and the simulator disagrees: {how}; this is \
         a bug in kgate, please report it with the command",
        finding.name
    ))
}

impl Replayed {
    /// The verdict of the simulator's checkers, in one line.
    pub(super) fn verdict(&self) -> String {
        match self.came.violations.iter().find(|violation| violation.property == self.property) {
            Some(violation) => format!("the simulator agrees: {violation}"),
            None => "the simulator plays the schedule too, but cannot see this violation: the \
                     schedule is infinite, the overtaken request is never granted, or a free slot \
                     stays unused"
                .into(),
        }
    }

    /// Writes the scenario and the diagram, where requested.
    pub(super) fn write(&self, args: &CheckArgs) -> Result<(), Failure> {
        if let Some(path) = &args.scenario {
            crate::scenario::write(path, self.came.scenario.to_string().as_bytes())?;
        }
        if let Some(path) = &args.diagram {
            crate::scenario::draw(&self.came, path)?;
        }
        Ok(())
    }
}

fn scenario(args: &CheckArgs, setting: &Setting, finding: &Finding) -> Scenario {
    let steps = finding.counterexample.iter().flatten();
    // These are checked when the run is quiescent.
    let safety = ![EveryoneServed::NAME, EntryOrder::NAME, NoResidue::NAME].contains(&finding.name);
    let endless = finding.cycle.is_some();
    let claim = match &args.as_printed {
        Some(id) => {
            format!("{}: {} violates \"{}\".", id.to_ascii_uppercase(), args.protocol, finding.name)
        }
        None => format!("{} violates \"{}\".", args.protocol, finding.name),
    };
    Scenario {
        description: vec![claim, String::new(), format!("Source: {}", command(args))],
        protocol: args.protocol.clone(),
        processes: args.processes,
        k: args.k,
        model: Model::Messages,
        graph: setting.graph.clone(),
        root: setting.root,
        channels: args.channels.into(),
        down: args.down.into(),
        tolerate: setting.tolerate,
        refresh: false,
        options: setting.options,
        as_printed: args.as_printed.as_ref().map(|id| id.to_ascii_uppercase()),
        states: Vec::new(),
        then: if safety || endless { Then::Stop } else { Then::GoOn },
        expect: if endless { Expect::Correct } else { Expect::Violated(finding.name.into()) },
        repaired: args.as_printed.is_some() && !endless && setting.tolerated,
        start: Vec::new(),
        steps: steps.filter_map(|found| found.step.act()).cloned().map(entry).collect(),
        end_notes: Vec::new(),
        end: Vec::new(),
    }
}

fn entry(act: Act) -> Entry {
    Entry { line: 0, notes: Vec::new(), act, effects: Vec::new() }
}

/// The command that makes the search again.
fn command(args: &CheckArgs) -> String {
    let entries: Vec<String> = args.entries.iter().map(u32::to_string).collect();
    let mut words = vec![format!(
        "kgate check --protocol {} -n {} -k {} --entries {}",
        args.protocol,
        args.processes,
        args.k,
        entries.join(",")
    )];
    let numbers = [
        ("crashes", args.crashes),
        ("restarts", args.restarts),
        ("withdrawals", args.withdrawals),
        ("loss", args.loss),
        ("duplicates", args.duplicates),
    ];
    words.extend(
        numbers
            .iter()
            .filter(|(_, number)| *number > 0)
            .map(|(flag, number)| format!("--{flag} {number}")),
    );
    let from_one = [("weight-max", args.weight_max), ("clients", args.clients)];
    words.extend(
        from_one
            .iter()
            .filter(|(_, number)| *number > 1)
            .map(|(flag, number)| format!("--{flag} {number}")),
    );
    words.extend(args.expiries.iter().map(|most| format!("--expiries {most}")));
    if !args.resize.is_empty() {
        let values: Vec<String> = args.resize.iter().map(u32::to_string).collect();
        words.push(format!("--resize {}", values.join(",")));
    }
    words.extend(args.slots.words());
    let flags = [
        ("ask-inside", args.ask_inside),
        ("ask-again", args.ask_again),
        ("shortest", args.shortest),
        ("fair", args.fair),
    ];
    words.extend(flags.iter().filter(|(_, on)| *on).map(|(flag, _)| format!("--{flag}")));
    if args.channels == ChannelsArg::Unordered {
        words.push("--channels unordered".into());
    }
    if args.down == DownArg::Kept {
        words.push("--down kept".into());
    }
    words.extend(args.graph.iter().map(|shape| format!("--graph {shape}")));
    words.extend(args.tolerate.iter().map(|f| format!("--tolerate {f}")));
    words.extend(args.property.iter().map(|name| format!("--property {}", name.replace(' ', "-"))));
    words.extend(args.as_printed.iter().map(|id| format!("--as-printed {id}")));
    words.join(" ")
}

/// The first file that is to be written, if any.
pub(super) fn wanted(args: &CheckArgs) -> Option<&Path> {
    args.scenario.as_deref().or(args.diagram.as_deref())
}
