//! `kgate check`: the model checker; it explores every schedule of a few processes.

mod logged;
pub(crate) mod options;
mod replay;
mod rules;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::ArgMatches;
use kgate_check::{
    Bounds, CrashNotifications, Limits, Outcome as Found, ProtocolModel, SearchOrder, Tolerates,
    explore_fair, explore_model,
};
use kgate_core::{Defects, MembershipSource, Protocol, Setup, Span};
use kgate_protocols::registry::{self, Entry, MutexProtocol, Visitor};
use serde_json::Value;

use crate::sim::graph;
use crate::sim::options::DownArg;
use crate::{Failure, Outcome};
use options::CheckArgs;

pub(crate) fn run(args: &CheckArgs, given: &ArgMatches) -> Outcome {
    let (entry, printed) = protocol(args, given)?;
    if entry.heals {
        return rules::run(args, entry, printed);
    }
    if entry.follows_log {
        return logged::run(args, entry, printed);
    }
    let setup = setup(args, entry, printed)?;
    let bounds = bounds(args, entry, &setup);
    replay::check_targets(args)?;
    let played = replay::Setting::new(args, entry, &setup, &bounds);
    if let Some(address) = args.explore {
        return serve(entry, setup, bounds, address);
    }
    let found = search(args, entry, setup, bounds)?;
    let mut stdout = io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(&found).context("printing JSON")?)?;
    } else {
        text::print(&mut stdout, &found)?;
    }
    stdout.flush()?;
    match (replay::play(args, &played, &found)?, replay::wanted(args)) {
        (Some(replayed), _) => {
            eprintln!("kgate: {}", replayed.verdict());
            replayed.write(args)?;
        }
        (None, Some(path)) => {
            eprintln!("kgate: no counterexample: {} is not written", path.display())
        }
        (None, None) => {}
    }
    Ok(if found.is_wrong() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Makes one search without output; returns what `--json` prints, and whether no violation was
/// found.
pub(crate) fn measure(args: &CheckArgs, given: &ArgMatches) -> Result<(Value, bool), Failure> {
    let (entry, printed) = protocol(args, given)?;
    let found = if entry.heals {
        rules::search(args, entry, printed)?
    } else if entry.follows_log {
        logged::search(args, entry, printed)?
    } else {
        let setup = setup(args, entry, printed)?;
        let bounds = bounds(args, entry, &setup);
        search(args, entry, setup, bounds)?
    };
    Ok((serde_json::to_value(&found).context("what was found, as JSON")?, !found.is_wrong()))
}

/// The protocol and the defects of the command line; options that make no sense are rejected.
fn protocol(args: &CheckArgs, given: &ArgMatches) -> Result<(&'static Entry, Defects), Failure> {
    let entry =
        registry::entry(&args.protocol).map_err(|error| Failure::Usage(error.to_string()))?;
    let printed = match &args.as_printed {
        None => Defects::NONE,
        Some(id) => entry.as_printed(id).map_err(|error| Failure::Usage(error.to_string()))?,
    };
    reject(args, given, entry)?;
    Ok((entry, printed))
}

/// Explores the schedules.
fn search(args: &CheckArgs, entry: &Entry, setup: Setup, bounds: Bounds) -> Result<Found, Failure> {
    let unchecked = unchecked(entry, &bounds);
    let order = if args.shortest { SearchOrder::Breadth } else { SearchOrder::Depth };
    let search = Search {
        setup,
        bounds,
        limits: limits(args),
        order,
        fair: args.fair,
        symmetry: args.symmetry,
        wanted: &args.property,
    };
    let mut found = registry::visit(entry, false, search)?;
    let liveness = [kgate_spec::EveryoneServed::NAME, kgate_check::fair::NAME];
    for finding in found.properties.iter_mut().filter(|finding| liveness.contains(&finding.name)) {
        finding.note = finding.note.take().or_else(|| unchecked.clone());
    }
    Ok(found)
}

/// Rejects options that make no sense, or that this protocol does not have.
fn reject(args: &CheckArgs, given: &ArgMatches, entry: &Entry) -> Result<(), Failure> {
    let (k, n, name) = (args.k, args.processes, entry.name);
    let text = if k >= n && !entry.slots {
        format!("k = {k} with n = {n}: the gate excludes no process; choose k below n")
    } else if entry.heals
        && let Some(flag) = rules::meaningless(given)
    {
        format!("{name} is explored in the state model, where {flag} has no meaning: leave it out")
    } else if let Some(text) = logged::conflict(args, given, entry) {
        text
    } else if args.crashes >= n {
        format!("{} crashes with n = {n}: leave at least one process alive", args.crashes)
    } else if args.restarts > 0 && !entry.recovers && !entry.returns {
        format!(
            "processes of {name} do not recover from a crash: give --crashes, or choose tree-token \
             or slots"
        )
    } else if args.down == DownArg::Kept && entry.returns {
        format!(
            "processes of {name} recover with empty memory, in a new incarnation: leave out --down \
             kept"
        )
    } else if args.ask_inside && !entry.asks_inside {
        format!(
            "{name} takes one request at a time: leave out --ask-inside, or choose tree-token or \
             slots"
        )
    } else if let Some(flag) = slots_only(args).filter(|_| !entry.slots) {
        format!("{name} has no numbered slots: leave out {flag}, or choose slots")
    } else if args.weight_max > most_at_once(args) {
        format!(
            "--weight-max {} with k = {k}: such a request could never be granted",
            args.weight_max
        )
    } else if args.tolerate.is_some() && !entry.needs_crash_bound {
        format!("{name} has no setting for the crashes to tolerate: leave out --tolerate")
    } else if args.tolerate.is_some_and(|f| f >= k) {
        format!(
            "--tolerate with k = {k}: so many crashed processes could hold every slot for ever; \
             choose at most {}",
            k - 1
        )
    } else if args.entries.len() > n as usize {
        format!(
            "{} numbers in --entries with n = {n}: give at most one per process",
            args.entries.len()
        )
    } else if !entry.heals && most_asked(args) < k {
        format!(
            "{} processes request with k = {k}: all k slots can never be in use; raise --entries",
            requesters(args)
        )
    } else {
        return Ok(());
    };
    Err(Failure::Usage(text))
}

/// The first given flag that only protocols with numbered slots understand.
fn slots_only(args: &CheckArgs) -> Option<&'static str> {
    let given = [
        (args.weight_max > 1, "--weight-max"),
        (!args.resize.is_empty(), "--resize"),
        (args.clients > 1, "--clients"),
        (args.ask_again, "--ask-again"),
    ];
    let given = given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag);
    given.or_else(|| args.slots.given())
}

/// The largest weight that can ever be granted: the greatest number of slots of the widest lane.
fn most_at_once(args: &CheckArgs) -> u32 {
    args.resize.iter().copied().fold(args.k, u32::max).div_ceil(args.slots.lanes.unwrap_or(1))
}

/// The greatest number of slots that may be requested at once.
fn most_asked(args: &CheckArgs) -> u32 {
    let entries =
        |index: usize| args.entries.get(index).or(args.entries.last()).copied().unwrap_or(0);
    let at_once = |entries: u32| if args.ask_inside { entries } else { entries.min(args.clients) };
    (0..args.processes as usize).map(|index| at_once(entries(index)) * args.weight_max).sum()
}

/// The number of processes that request at all.
fn requesters(args: &CheckArgs) -> u32 {
    let last = args.entries.last().copied().unwrap_or(0);
    let further = args.processes
        - u32::try_from(args.entries.len()).unwrap_or(args.processes).min(args.processes);
    let named = args.entries.iter().filter(|entries| **entries > 0).count();
    u32::try_from(named).unwrap_or(u32::MAX) + if last > 0 { further } else { 0 }
}

/// No request is guaranteed an answer beyond the faults that a protocol claims to tolerate: names
/// the limit if the bounds go beyond it.
fn unchecked(entry: &Entry, bounds: &Bounds) -> Option<String> {
    let mut beyond = Vec::new();
    if bounds.crashes > bounds.tolerates.crashes {
        beyond.push(format!("with more than {} crashes", bounds.tolerates.crashes));
    }
    if bounds.losses > 0 && !bounds.tolerates.loss {
        beyond.push("once a message is lost".into());
    }
    if bounds.duplicates > 0 && !bounds.tolerates.duplicates {
        beyond.push("once a message is duplicated".into());
    }
    (!beyond.is_empty()).then(|| {
        format!(
            "not checked {}: {} does not claim to tolerate this",
            beyond.join(" or "),
            entry.name
        )
    })
}

fn setup(args: &CheckArgs, entry: &Entry, printed: Defects) -> Result<Setup, Failure> {
    let graph = graph::build(entry, args.graph.as_deref(), args.processes, 1)?;
    if let Some(has) =
        graph.as_ref().map(|graph| graph.nodes()).filter(|has| *has != args.processes)
    {
        let n = args.processes;
        return Err(Failure::Usage(format!(
            "a graph of {has} processes with n = {n}: give -n {has}"
        )));
    }
    let told = args.tolerate.unwrap_or(args.crashes.min(args.k - 1));
    let tolerate = if entry.needs_crash_bound { told } else { 0 };
    // The model checker ignores how long a timer runs.
    let slots = args.slots.options(args.ask_again.then_some(Span::UNIT));
    Ok(Setup { defects: printed, graph, tolerate, slots, ..Setup::new(args.processes, args.k) })
}

fn bounds(args: &CheckArgs, entry: &Entry, setup: &Setup) -> Bounds {
    Bounds {
        entries: args.entries.clone(),
        asks_inside: args.ask_inside,
        clients: args.clients,
        weight_max: args.weight_max,
        resizes: args.resize.clone(),
        crashes: args.crashes,
        restarts: args.restarts,
        returns: entry.returns,
        expiries: args.expiries,
        down: args.down.into(),
        withdrawals: args.withdrawals,
        losses: args.loss,
        duplicates: args.duplicates,
        tolerates: Tolerates {
            crashes: if entry.needs_crash_bound {
                setup.tolerate
            } else {
                entry.tolerates(args.processes, args.k)
            },
            loss: entry.tolerates_loss,
            duplicates: entry.tolerates_duplicates,
        },
        notifications: match entry.detector {
            None => CrashNotifications::None,
            Some(registry::LOG)
                if entry.returns && setup.slots.membership == MembershipSource::Log =>
            {
                CrashNotifications::Log
            }
            Some(registry::LOG) if !entry.returns => CrashNotifications::InOrder,
            Some(_) => CrashNotifications::AnyOrder,
        },
        channels: args.channels.into(),
        responsive: entry.needs_crash_bound,
    }
}

fn limits(args: &CheckArgs) -> Limits {
    Limits {
        states: args.max_states,
        time: args.max_seconds.map(Duration::from_secs),
        memory: Some(args.max_memory << 30),
    }
}

/// Passes the chosen protocol to the model checker. An oracle reports crashes, so no detector runs.
struct Search<'a> {
    setup: Setup,
    bounds: Bounds,
    limits: Limits,
    order: SearchOrder,
    fair: bool,
    symmetry: bool,
    wanted: &'a [String],
}

impl Visitor for Search<'_> {
    type Output = Result<Found, Failure>;
    fn visit<M: MutexProtocol, D: Protocol>(self) -> Self::Output {
        let mut world = ProtocolModel::<M>::new(self.setup, self.bounds).with_limits(self.limits);
        if !self.wanted.is_empty() {
            let names =
                kgate_check::properties::all::<M>().iter().map(|property| property.name).collect();
            world = world.checking(chosen(names, self.wanted)?);
        }
        if self.symmetry {
            world = world.with_symmetry().map_err(|error| Failure::Usage(error.to_string()))?;
        }
        Ok(if self.fair {
            explore_fair(world, self.order)
        } else {
            explore_model(world, self.order)
        })
    }
}

/// The properties whose names contain one of the texts; `at-most-k` stands for 'at most k'.
fn chosen(names: Vec<&'static str>, wanted: &[String]) -> Result<Vec<&'static str>, Failure> {
    let wanted: Vec<String> = wanted.iter().map(|text| text.replace('-', " ")).collect();
    if let Some(text) =
        wanted.iter().find(|text| !names.iter().any(|name| name.contains(text.as_str())))
    {
        let names = names.join("; ");
        return Err(Failure::Usage(format!(
            "no property has '{text}' in its name: choose one of {names}"
        )));
    }
    Ok(names
        .into_iter()
        .filter(|name| wanted.iter().any(|text| name.contains(text.as_str())))
        .collect())
}

/// Serves the Explorer until it is interrupted.
fn serve(entry: &Entry, setup: Setup, bounds: Bounds, address: std::net::SocketAddr) -> Outcome {
    // The library panics if it cannot listen on the address.
    drop(std::net::TcpListener::bind(address).map_err(|error| {
        Failure::Usage(format!(
            "cannot listen on {address}: {error}; give another address to --explore"
        ))
    })?);
    eprintln!("kgate: open http://{address}/ in a browser; stop with Ctrl-C");
    registry::visit(entry, false, Walk { setup, bounds, address });
    Ok(ExitCode::SUCCESS)
}

struct Walk {
    setup: Setup,
    bounds: Bounds,
    address: std::net::SocketAddr,
}

impl Visitor for Walk {
    type Output = ();
    fn visit<M: MutexProtocol, D: Protocol>(self) {
        kgate_check::explore::serve::<M>(self.setup, self.bounds, self.address);
    }
}
