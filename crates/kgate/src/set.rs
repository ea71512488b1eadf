//! `kgate set`: changes k or the policy of a gate, online.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use kgate_client::{Admin, GateChange};

use crate::run::exit::BUSY;
use crate::run::options::Policy;
use crate::run::wanted::gate_name;
use crate::run::wanted::{K, Names, SlotsArgs, WantedSlots, k_or_closed};
use crate::status::{TargetArgs, block_on, say};
use crate::{Failure, Outcome};

/// Shown below `kgate set --help`.
pub(crate) const SET_HELP: &str = "\
A greater k takes effect at once. A smaller k is committed at once and takes effect when every \
slot at or above it has been released: until then kgate set waits. k = 0 closes a gate: no \
request is granted, and waiting requests are refused. A new policy applies to permits granted \
from then on.

A gate with names has as many slots as names: -k accepts their number and 0, --names gives other \
names, --no-names drops them.

Without a cluster the node of this machine or user changes its own gate, and creates it if need \
be. It remembers k until it is set again: -k of a request no longer changes it, not even while \
the gate is unused.

Exit codes: 0: the change is in effect; 1: no such gate; 2: usage error; 120: committed, but not \
drained in time (the remaining holders are printed); 122: no quorum or no node; 123: concurrent \
change by another client (both values and who set them are printed); 125: internal error.

Examples:
  Five slots instead of three, and back:
    kgate set gpu -k 5
    kgate set gpu -k 3 --wait 10m
  Other slots, by their names:
    kgate set gpu --names cuda:0,cuda:3
  Close a gate and return at once:
    kgate set gpu -k 0 --no-wait";

/// Arguments of `kgate set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The gate
    #[arg(value_name = "NAME", value_parser = gate_name)]
    name: String,
    /// New k: the number of slots of the gate; 0 closes it. Or an expression that the node resolves
    /// for its machine: cores, cores/2, mem/8GiB
    #[arg(short = 'k', value_name = "K", value_parser = k_or_closed)]
    k: Option<K>,
    /// New names of all slots, in order, separated by commas; k is their number
    #[arg(long, value_name = "NAMES")]
    names: Option<Names>,
    /// The slots lose their names: k may be any number again
    #[arg(long, conflicts_with = "names")]
    no_names: bool,
    /// New policy for the slots of an unreachable holder: lease, they are free when its node is
    /// evicted; hold, they stay in use until it releases them
    #[arg(long, value_enum)]
    policy: Option<Policy>,
    /// Return when the change is committed, before the slots above k are released
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// Maximum time to wait for the change to take effect, for example 30s or 5m [default: 1h]
    #[arg(short, long, value_name = "DUR", value_parser = crate::run::options::duration)]
    wait: Option<Duration>,
    #[command(flatten)]
    target: TargetArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &SetArgs) -> Outcome {
    let slots = SlotsArgs { k: args.k.clone(), names: args.names.clone() }.wanted()?;
    if slots == WantedSlots::Any && !args.no_names && args.policy.is_none() {
        let text = format!(
            "nothing to change at gate `{}`: give -k K, --names NAMES, --no-names or --policy \
             POLICY",
            args.name
        );
        return Err(Failure::Usage(text));
    }
    let address = args.target.address_or_start()?;
    block_on(async {
        let mut admin = Admin::connect(&address).await?;
        let mut change = admin.set_gate(&args.name);
        change = match &slots {
            WantedSlots::Any => change,
            WantedSlots::Number(k) => change.k(*k),
            WantedSlots::Expression(text) => change.k_expression(text),
            WantedSlots::Names(names) => change.names(names.iter().map(String::as_str)),
        };
        if args.no_names {
            change = change.no_names();
        }
        if let Some(policy) = args.policy {
            change = change.policy(policy.into());
        }
        if let Some(wait) = args.wait {
            change = change.timeout(wait);
        }
        if args.no_wait {
            change = change.no_wait();
        }
        let reply = change.send().await?;
        if args.json {
            writeln!(stdout(), "{}", reply.to_json())?;
        }
        let GateChange { k, log_index, previous_k, drained, draining, .. } = reply;
        let policy = match args.policy {
            Some(Policy::Hold) => " and policy hold",
            Some(Policy::Lease) => " and policy lease",
            None => "",
        };
        let entry =
            if log_index == 0 { String::new() } else { format!(" at log index {log_index}") };
        let origin = match &slots {
            WantedSlots::Any | WantedSlots::Number(_) => String::new(),
            WantedSlots::Expression(text) => format!(" ({text})"),
            WantedSlots::Names(names) => format!(" (names {})", names.join(", ")),
        };
        say(&format!("gate `{}`: k = {k}{origin}{policy}{entry}; k was {previous_k}", args.name));
        if !drained {
            say(&format!("up to {} slots are in use until these are released:", previous_k.max(k)));
            draining.iter().for_each(|holder| say(&format!("  {holder}")));
        }
        Ok(if drained || args.no_wait { ExitCode::SUCCESS } else { ExitCode::from(BUSY) })
    })
}
