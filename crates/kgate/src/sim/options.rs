//! Options that mean nothing to the chosen protocol or model are refused, not ignored.

use kgate_protocols::registry::{Entry, Network};

use crate::Failure;
use crate::cli::{ModelArg, SimArgs};

pub(crate) fn check(args: &SimArgs, entry: &Entry) -> Result<(), Failure> {
    let state = args.model == ModelArg::State;
    let rules = [
        (
            args.tolerate.is_some() && !entry.told_to_tolerate,
            format!(
                "{} is not told how many crashes to bear: leave out --tolerate, or choose timer-free",
                entry.name
            ),
        ),
        (
            args.refresh.is_some() && !entry.told_to_tolerate && entry.network != Network::Graph,
            format!("{} has nothing to refresh: leave out --refresh", entry.name),
        ),
        (
            args.daemon.is_some() && !state,
            "over messages nobody chooses who acts: leave out --daemon, or give --model state".into(),
        ),
        (
            args.rounds.is_some() && !state,
            "over messages time is not counted in rounds: give --duration, or --model state".into(),
        ),
        (
            state && (!args.crash.is_empty() || args.random_crashes > 0 || args.random_recoveries > 0),
            "in the state model nobody crashes: leave out crashes, or give --model messages".into(),
        ),
        (state && args.trace.is_some(), "the state model has no trace: leave out --trace".into()),
    ];
    match rules.into_iter().find(|(broken, _)| *broken) {
        Some((_, text)) => Err(Failure::Usage(text)),
        None => Ok(()),
    }
}
