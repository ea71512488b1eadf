//! Rejects options that have no meaning for the chosen protocol or model instead of ignoring them.

use clap::ArgMatches;
use clap::parser::ValueSource;
use kgate_protocols::registry::{Entry, Network};
use kgate_sim::Chance;

use super::log::LogArgs;
use super::options::{ModelArg, SimArgs, StartArg};
use crate::Failure;
use crate::slots::SlotArgs;

/// Options for protocols with numbered slots, besides [`SlotArgs::IDS`].
const SLOTS_ONLY: [&str; 6] =
    ["clients", "weight_max", "withdraw", "patience", "resize", "ask_again"];

/// Options of `slots` that `home` has no use for.
const SLOTS_OWN: [&str; 6] = ["dissemination", "membership", "defer", "quiet", "batch", "lanes"];

/// Options for messages, clients and detectors, which the state model does not have.
const MESSAGES_ONLY: [&str; 27] = [
    "pause",
    "partition",
    "cut",
    "loss",
    "duplicates",
    "load",
    "hold",
    "think",
    "rho",
    "first_request",
    "entries",
    "ask_inside",
    "send",
    "transmit",
    "latency",
    "receive",
    "send_cost",
    "receive_cost",
    "fifo",
    "duration",
    "warmup",
    "down_for",
    "down",
    "refresh",
    "detector",
    "forged",
    "engine",
];

pub(crate) fn check(args: &SimArgs, given: &ArgMatches, entry: &Entry) -> Result<(), Failure> {
    let typed = |id: &str| typed(given, id);
    for id in ["seeds", "save"] {
        if typed(id) {
            return usage(format!("--{id} needs --swarm: add it, or leave out --{id}"));
        }
    }
    let state = args.model == ModelArg::State;
    let recoveries =
        args.random_recoveries > 0 || args.crash.iter().any(|crash| crash.back.is_some());
    let faults = args.start == StartArg::Random || !args.corrupt.is_empty();
    if state && let Some(id) = MESSAGES_ONLY.iter().find(|id| typed(id)) {
        return usage(format!(
            "{} has no meaning in the state model: leave it out, or leave out --model",
            flag(id)
        ));
    }
    if !entry.follows_log
        && let Some(id) = LogArgs::IDS.iter().chain(&SlotArgs::FOLLOWS_LOG).find(|id| typed(id))
    {
        let (flag, name) = (flag(id), entry.name);
        return usage(format!("{name} follows no agreed log: leave out {flag}, or choose home"));
    }
    if !entry.slots
        && let Some(id) = SLOTS_ONLY.iter().chain(&SlotArgs::IDS).find(|id| typed(id))
    {
        let (flag, name) = (flag(id), entry.name);
        return usage(format!("{name} has no numbered slots: leave out {flag}, or choose slots"));
    }
    if entry.follows_log
        && let Some(id) = SLOTS_OWN.iter().find(|id| typed(id))
    {
        let (flag, name) = (flag(id), entry.name);
        return usage(format!("{flag} has no meaning for {name}: leave it out, or choose slots"));
    }
    if typed("patience") && args.withdraw == Chance::NEVER {
        return usage("--patience has no meaning without withdrawals: add --withdraw".into());
    }
    if entry.slots && args.loss > Chance::NEVER && args.ask_again.is_none() {
        return usage(format!(
            "{} tolerates loss only if it repeats requests: add --ask-again, or leave out --loss",
            entry.name
        ));
    }
    for id in ["down", "down_for"] {
        let used = if id == "down" { recoveries } else { args.random_recoveries > 0 };
        if typed(id) && !used {
            return usage(format!(
                "{} has no meaning without crashes with recovery: add --random-recoveries",
                flag(id)
            ));
        }
    }
    if typed("forged") && !faults {
        return usage(
            "--forged has no meaning without transient faults: add --start random or --corrupt"
                .into(),
        );
    }
    if args.ask_inside && (typed("think") || typed("rho")) {
        return usage("--ask-inside excludes pauses: leave out --think and --rho".into());
    }
    let rules = [
        (
            args.tolerate.is_some() && !entry.needs_crash_bound,
            format!(
                "{} has no setting for the crashes to tolerate: leave out --tolerate, or choose \
                 timer-free",
                entry.name
            ),
        ),
        (
            args.refresh.is_some() && !entry.needs_crash_bound && entry.network != Network::Graph,
            format!("{} has no refresh timer: leave out --refresh", entry.name),
        ),
        (
            args.daemon.is_some() && !state,
            "--daemon needs the state model: leave it out, or add --model state".into(),
        ),
        (
            args.rounds.is_some() && !state,
            "--rounds needs the state model: give --duration instead, or add --model state".into(),
        ),
        (
            state
                && (!args.crash.is_empty()
                    || args.random_crashes > 0
                    || args.random_recoveries > 0),
            "the state model has no crashes: leave them out, or give --model messages".into(),
        ),
        (state && args.trace.is_some(), "the state model has no trace: leave out --trace".into()),
        (
            state && args.diagram.is_some(),
            "a run in the state model cannot be drawn: leave out --diagram, or draw a short one \
             with kgate scenario"
                .into(),
        ),
    ];
    match rules.into_iter().find(|(broken, _)| *broken) {
        Some((_, text)) => usage(text),
        None => Ok(()),
    }
}

/// The options of a swarm; it generates everything else.
const SWARM: [&str; 7] = ["swarm", "seeds", "seed", "protocol", "as_printed", "save", "json"];

/// Rejects options that a swarm generates.
pub(crate) fn check_swarm(given: &ArgMatches) -> Result<(), Failure> {
    // clap lists the argument groups among the ids.
    let groups = [
        <SimArgs as clap::Args>::group_id(),
        <SlotArgs as clap::Args>::group_id(),
        <LogArgs as clap::Args>::group_id(),
    ];
    let options =
        given.ids().filter(|id| !groups.contains(&Some((*id).clone()))).map(clap::Id::as_str);
    match options.filter(|id| !SWARM.contains(id)).find(|id| typed(given, id)) {
        None => Ok(()),
        Some(id) => usage(format!(
            "a swarm generates every setting: leave out {}, or leave out --swarm",
            flag(id)
        )),
    }
}

/// Whether an option is on the command line: variables of the environment may be meant for other
/// runs.
pub(crate) fn typed(given: &ArgMatches, id: &str) -> bool {
    given.value_source(id) == Some(ValueSource::CommandLine)
}

/// An option as it is typed.
pub(crate) fn flag(id: &str) -> String {
    match id {
        "processes" => "-n".into(),
        "k" => "-k".into(),
        id => format!("--{}", id.replace('_', "-")),
    }
}

fn usage(text: String) -> Result<(), Failure> {
    Err(Failure::Usage(text))
}
