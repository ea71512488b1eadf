//! A counterexample as a scenario: played by the simulator, written down, drawn.

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

/// What the simulator and its checkers make of a counterexample.
pub(super) struct Replayed {
    came: Came,
    property: &'static str,
}

/// What the simulator may not tell.
const UNTOLD: [&str; 2] = [EntryOrder::NAME, NOT_LEFT_LYING];

/// What was explored, in the words of a scenario.
pub(super) struct Setting {
    graph: Option<String>,
    root: Option<NodeId>,
    tolerate: Option<u32>,
    options: SlotOptions,
    /// Nothing may go wrong that the protocol does not claim to tolerate, so that it must be right
    /// without a defect.
    borne: bool,
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
            tolerate: entry.told_to_tolerate.then_some(setup.tolerate),
            options: setup.slots,
            borne: super::unchecked(entry, bounds).is_none(),
        }
    }
}

/// The edges of a network, as a scenario has them.
fn edges(graph: &Graph) -> String {
    let nodes = (0..graph.nodes()).map(NodeId);
    let edges = nodes.flat_map(|node| {
        let later = graph.neighbours(node).iter().filter(move |other| **other > node);
        later.map(move |other| format!("{}-{}", node.0, other.0))
    });
    edges.collect::<Vec<_>>().join(" ")
}

/// Files that could not be written, or would overwrite each other, are refused before the search,
/// which may be long.
pub(super) fn check_targets(args: &CheckArgs) -> Result<(), Failure> {
    if args.scenario.is_some() && args.scenario == args.diagram {
        return Err(Failure::Usage("--scenario and --diagram name the same file: give two".into()));
    }
    for path in args.scenario.iter().chain(&args.diagram) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
            let text = format!(
                "cannot write {}: it is a folder, or its folder is not there",
                path.display()
            );
            return Err(Failure::Usage(text));
        }
    }
    Ok(())
}

/// Plays the counterexample, if one was found; it must come to the same there.
pub(super) fn play(
    args: &CheckArgs,
    setting: &Setting,
    found: &Outcome,
) -> Result<Option<Replayed>, Failure> {
    let Some(finding) = found.properties.iter().find(|finding| finding.counterexample.is_some())
    else {
        return Ok(None);
    };
    let told = scenario(args, setting, finding);
    match scenario::run(&told) {
        // The simulator tells that somebody was overtaken when that one is granted, which may never
        // be; and it asks what is left lying only of the last step, and takes a slot that is kept
        // for one in use.
        Ok(came) if came.unexpected.is_none() || UNTOLD.contains(&finding.name) => {
            Ok(Some(Replayed { came, property: finding.name }))
        }
        Ok(came) => Err(disagree(finding, &came.unexpected.unwrap_or_default())),
        Err(error) => Err(disagree(finding, &error.to_string())),
    }
}

/// Two drivers of the same protocol: if they disagree, one of them is wrong.
fn disagree(finding: &Finding, how: &str) -> Failure {
    Failure::Broken(anyhow::anyhow!(
        "the explorer found that '{}' does not hold, and the simulator disagrees: {how}; this is a bug of kgate, please report it with the command",
        finding.name
    ))
}

impl Replayed {
    /// What the checkers said, in a line.
    pub(super) fn verdict(&self) -> String {
        match self.came.violations.iter().find(|violation| violation.property == self.property) {
            Some(violation) => format!("the simulator agrees: {violation}"),
            None => "the simulator plays it too, and cannot checker it: it goes round for ever, who was overtaken is never granted, or something is left lying".into(),
        }
    }

    /// Writes what was asked for.
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
    // These are checked when everything has taken its way.
    let safety = ![EveryoneServed::NAME, EntryOrder::NAME, NoResidue::NAME].contains(&finding.name);
    let endless = finding.cycle.is_some();
    let story = match &args.as_printed {
        Some(id) => {
            format!(
                "{}: \"{}\" does not hold of {}.",
                id.to_ascii_uppercase(),
                finding.name,
                args.protocol
            )
        }
        None => format!("\"{}\" does not hold of {}.", finding.name, args.protocol),
    };
    Scenario {
        story: vec![story, String::new(), format!("Source: {}", command(args))],
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
        repaired: args.as_printed.is_some() && !endless && setting.borne,
        start: Vec::new(),
        steps: steps.map(|told| entry(told.step.clone())).collect(),
        end_notes: Vec::new(),
        end: Vec::new(),
    }
}

fn entry(act: Act) -> Entry {
    Entry { line: 0, notes: Vec::new(), act, followed: Vec::new() }
}

/// The search that found it.
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

/// Whether anything is to be written, and where.
pub(super) fn wanted(args: &CheckArgs) -> Option<&Path> {
    args.scenario.as_deref().or(args.diagram.as_deref())
}
