//! `kgate check`: every schedule of a few processes.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use kgate_check::{Bounds, Channels, News, Order, Outcome as Found, explore};
use kgate_core::{Printed, Protocol, Setup};
use kgate_protocols::registry::{self, Entry, Network, Visitor};
use kgate_sim::Rng;

use crate::cli::{ChannelsArg, CheckArgs};
use crate::{Failure, Outcome};

pub(crate) fn run(args: &CheckArgs) -> Outcome {
    let entry = registry::entry(&args.protocol).map_err(|error| Failure::Usage(error.to_string()))?;
    let printed = match &args.as_printed {
        None => Printed::NONE,
        Some(id) => entry.as_printed(id).map_err(|error| Failure::Usage(error.to_string()))?,
    };
    check(args, entry)?;
    let search =
        Search { setup: setup(args, entry, printed)?, bounds: bounds(args, entry), order: order(args) };
    let found = registry::visit(entry, false, search);
    let mut stdout = io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(&found).context("printing JSON")?)?;
    } else {
        print(&mut stdout, &found)?;
    }
    stdout.flush()?;
    let wrong = found
        .properties
        .iter()
        .any(|finding| !finding.holds && (finding.schedule.is_some() || found.complete));
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn check(args: &CheckArgs, entry: &Entry) -> Result<(), Failure> {
    if args.units >= args.processes {
        let (k, n) = (args.units, args.processes);
        return Err(Failure::Usage(format!("k = {k} with n = {n}: nothing is excluded; choose k below n")));
    }
    if entry.heals {
        return Err(Failure::Usage(format!(
            "{} never rests, so its schedules have no end: run kgate sim --protocol {} --model state",
            entry.name, entry.name
        )));
    }
    if args.crashes >= args.processes {
        return Err(Failure::Usage(format!(
            "{} crashes with n = {}: let one live",
            args.crashes, args.processes
        )));
    }
    Ok(())
}

fn setup(args: &CheckArgs, entry: &Entry, printed: Printed) -> Result<Setup, Failure> {
    let graph = match entry.network {
        Network::Everybody => None,
        Network::Tree | Network::Graph => {
            let mut dice = Rng::fork(1, "graph");
            let shape = entry.network.usual_shape().expect("it has a network");
            let built = shape.build(args.processes, &mut |bound| dice.below(bound));
            Some(Arc::new(built.map_err(|error| Failure::Usage(error.to_string()))?))
        }
    };
    // Nobody may be suspected: every schedule is tried, so whoever could be would be, wrongly.
    Ok(Setup { printed, graph, ..Setup::new(args.processes, args.units) })
}

fn bounds(args: &CheckArgs, entry: &Entry) -> Bounds {
    Bounds {
        entries: args.entries,
        crashes: args.crashes,
        withdrawals: args.withdrawals,
        bears: entry.bears(args.processes, args.units),
        news: match entry.detector {
            None => News::None,
            Some(registry::LOG) => News::InOrder,
            Some(_) => News::AnyOrder,
        },
        channels: match args.channels {
            ChannelsArg::Fifo => Channels::Fifo,
            ChannelsArg::Unordered => Channels::Unordered,
        },
        max_states: Some(args.max_states),
    }
}

fn order(args: &CheckArgs) -> Order {
    if args.shortest { Order::Breadth } else { Order::Depth }
}

/// Hands the chosen protocol to the explorer; crashes are told by an oracle, so it needs no detector.
struct Search {
    setup: Setup,
    bounds: Bounds,
    order: Order,
}

impl Visitor for Search {
    type Output = Found;
    fn visit<M: Protocol, D: Protocol>(self) -> Found {
        explore::<M>(self.setup, self.bounds, self.order)
    }
}

fn print(to: &mut impl Write, found: &Found) -> io::Result<()> {
    let wrong = found.properties.iter().any(|finding| !finding.holds && finding.schedule.is_some());
    let exhaustive = match (found.complete, wrong) {
        (true, _) => "exhaustive",
        (false, true) => "stopped at the first wrong state",
        (false, false) => "not exhaustive, stopped by --max-states",
    };
    writeln!(
        to,
        "{exhaustive}: {} different states of {} generated, schedules of up to {} steps, {:.1} s",
        found.unique, found.states, found.depth, found.seconds
    )?;
    for finding in &found.properties {
        let reached = finding.name == kgate_check::properties::K_INSIDE;
        let word = if finding.holds { "holds" } else { "DOES NOT HOLD" };
        writeln!(to, "{:<45} {word}", finding.name)?;
        for (step, what) in (1..).zip(finding.schedule.iter().flatten()).filter(|_| !reached) {
            writeln!(to, "  {step:>3}  {what}")?;
        }
    }
    Ok(())
}
