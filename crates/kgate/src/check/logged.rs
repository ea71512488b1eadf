//! `kgate check` for a protocol that follows an agreed log: the log is a part of what is explored.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::{ArgMatches, Args};
use kgate_check::log_model::Omissions;
use kgate_check::{LogBounds, LogModel, Outcome as Found, SearchOrder, explore_log};
use kgate_core::{Defects, NodeId, Protocol, Setup, Span};
use kgate_protocols::registry::{self, Entry, MutexProtocol, Visitor};
use kgate_sim::LinkCut;

use super::options::CheckArgs;
use super::{chosen, limits, text};
use crate::sim::conflicts::{flag, typed};
use crate::slots::SlotArgs;
use crate::{Failure, Outcome};

/// What the agreed log decides and what clients do, for a protocol that follows the log.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The only processes that crash, lose leases, or that the log suspects or drains (home)
    /// [default: all]
    #[arg(long, value_name = "P,..", value_delimiter = ',')]
    pub(crate) faulty: Vec<u32>,
    /// Number of times that the log suspects a process that runs, which moves its home roles;
    /// each suspicion is cleared at any time, or never. Crashed processes are suspected in any
    /// case (home)
    #[arg(
        long, value_name = "S", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=16)
    )]
    pub(crate) suspicions: u32,
    /// Number of processes that the log drains: their home roles move for good (home)
    #[arg(
        long, value_name = "D", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=16)
    )]
    pub(crate) drains: u32,
    /// Number of times that a process that runs loses its lease: it gets another one, or the log
    /// evicts it and adds it again. Crashed processes are evicted in any case (home)
    #[arg(
        long, value_name = "E", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=16)
    )]
    pub(crate) evictions: u32,
    /// Number of times that a client inside asks another process to go on there, whether its own
    /// runs or not; a client may ask several, one after the other (home)
    #[arg(
        long, value_name = "A", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=16)
    )]
    pub(crate) adoptions: u32,
    /// Number of clients inside that die: their sessions lapse (home)
    #[arg(
        long, value_name = "C", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=16)
    )]
    pub(crate) client_deaths: u32,
    /// Number of permits that clients make durable: the log holds them (home)
    #[arg(
        long, value_name = "H", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(..=16)
    )]
    pub(crate) durable: u32,
    /// Links that may be cut, each at any time and for good: P-Q loses every message from process P
    /// to process Q. Every two processes must still reach each other through a third one (home)
    #[arg(long, value_name = "P-Q,..", value_delimiter = ',', value_parser = link)]
    pub(crate) cuts: Vec<(NodeId, NodeId)>,
}

/// A link from a process to another, as `1-0`.
fn link(text: &str) -> Result<(NodeId, NodeId), String> {
    let node = |name: &str| name.parse().ok().map(NodeId);
    let parse = || {
        let (from, to) = text.split_once('-')?;
        Some((node(from)?, node(to)?))
    };
    let link = parse().filter(|(from, to)| from != to);
    link.ok_or_else(|| "not a link: write 1-0 for messages from p1 to p0".into())
}

impl LogArgs {
    /// The argument ids of all these options, as clap knows them.
    pub(crate) const IDS: [&str; 8] = [
        "faulty",
        "suspicions",
        "drains",
        "evictions",
        "adoptions",
        "client_deaths",
        "durable",
        "cuts",
    ];
}

/// Options that a protocol which follows the log has no use for. Its messages arrive in any order.
const MEANINGLESS: [&str; 17] = [
    "ask_inside",
    "ask_again",
    "channels",
    "down",
    "tolerate",
    "graph",
    "fair",
    "symmetry",
    "scenario",
    "diagram",
    "explore",
    "dissemination",
    "membership",
    "defer",
    "quiet",
    "batch",
    "lanes",
];

/// Rejects options that this protocol does not have.
pub(super) fn conflict(args: &CheckArgs, given: &ArgMatches, entry: &Entry) -> Option<String> {
    let name = entry.name;
    let is_given = |id: &&&str| typed(given, id);
    if !entry.follows_log {
        let id = LogArgs::IDS.iter().chain(&SlotArgs::FOLLOWS_LOG).find(is_given)?;
        let flag = flag(id);
        return Some(format!("{name} follows no agreed log: leave out {flag}, or choose home"));
    }
    if let Some(id) = MEANINGLESS.iter().find(is_given) {
        let flag = flag(id);
        return Some(format!(
            "{flag} has no meaning for {name}, which is explored with its log and with messages \
             in any order: leave it out"
        ));
    }
    let n = args.processes;
    if let Some(unknown) = args.log.faulty.iter().find(|node| **node >= n) {
        return Some(format!("--faulty {unknown} with n = {n}: processes are 0 .. {}", n - 1));
    }
    if let Some((from, to)) = args.log.cuts.iter().find(|(from, to)| from.0.max(to.0) >= n) {
        let (from, to) = (from.0, to.0);
        return Some(format!("--cuts {from}-{to} with n = {n}: processes are 0 .. {}", n - 1));
    }
    let cut = |&(from, to): &(NodeId, NodeId)| LinkCut { from, to, at: Span::ZERO };
    let cuts: Vec<LinkCut> = args.log.cuts.iter().map(cut).collect();
    let all: Vec<NodeId> = (0..n).map(NodeId).collect();
    let (one, other) = LinkCut::separated(&cuts, &all)?;
    Some(format!(
        "--cuts leaves no process that {one} and {other} both reach in both directions: cut fewer \
         links, or take more processes"
    ))
}

pub(super) fn run(args: &CheckArgs, entry: &Entry, left_out: Defects) -> Outcome {
    let found = search(args, entry, left_out)?;
    let mut stdout = io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(&found).context("printing JSON")?)?;
    } else {
        text::print(&mut stdout, &found)?;
    }
    stdout.flush()?;
    Ok(if found.is_wrong() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Explores the schedules.
pub(super) fn search(args: &CheckArgs, entry: &Entry, left_out: Defects) -> Result<Found, Failure> {
    // Where messages are lost, processes repeat them. The length of a timer does not matter.
    let repeat = args.loss > 0 || !args.log.cuts.is_empty();
    let slots = args.slots.options(repeat.then_some(Span::UNIT));
    let setup = Setup { defects: left_out, slots, ..Setup::new(args.processes, args.k) };
    registry::visit(entry, false, Search { setup, args })
}

/// The bounds, and the rules of a driver that are left out.
fn bounds(args: &CheckArgs, left_out: Defects) -> LogBounds {
    let evict = left_out.has(Defects::EVICTS_EARLY);
    LogBounds {
        entries: args.entries.clone(),
        clients: args.clients,
        weight_max: args.weight_max,
        withdrawals: args.withdrawals,
        faulty: args.log.faulty.clone(),
        crashes: args.crashes,
        restarts: args.restarts,
        suspicions: args.log.suspicions,
        drains: args.log.drains,
        evictions: args.log.evictions,
        adoptions: args.log.adoptions,
        deaths: args.log.client_deaths,
        durable: args.log.durable,
        resizes: args.resize.clone(),
        losses: args.loss,
        cuts: args.log.cuts.clone(),
        duplicates: args.duplicates,
        expiries: args.expiries.unwrap_or(0),
        omissions: Omissions {
            barrier: left_out.has(Defects::LAPSES_EARLY),
            held: left_out.has(Defects::RELEASES_EARLY),
            evict,
            evict_asked: evict,
        },
    }
}

struct Search<'a> {
    setup: Setup,
    args: &'a CheckArgs,
}

impl Visitor for Search<'_> {
    type Output = Result<Found, Failure>;
    fn visit<M: MutexProtocol, D: Protocol>(self) -> Self::Output {
        let Self { setup, args } = self;
        let bounds = bounds(args, setup.defects);
        let mut model = LogModel::<M>::new(setup, bounds).with_limits(limits(args));
        if !args.property.is_empty() {
            model = model.checking(chosen(LogModel::<M>::property_names(), &args.property)?);
        }
        let order = if args.shortest { SearchOrder::Breadth } else { SearchOrder::Depth };
        Ok(explore_log(model, order))
    }
}
