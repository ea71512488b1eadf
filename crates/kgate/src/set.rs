//! `kgate set`: another k or another policy for a gate, online.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;
use kgate_client::{Admin, GateChange};

use crate::run::exit::OCCUPIED;
use crate::run::options::Policy;
use crate::status::{AskedNode, block_on, said_no, say};
use crate::{Failure, Outcome};

/// Shown below `kgate set --help`.
pub(crate) const SET_HELP: &str = "\
A greater k is there at once. A smaller one is agreed on at once, and is true when whoever holds a slot at or above it has given it back: until then kgate set \
waits. k = 0 closes a gate: nobody gets in, and whoever waits is refused. Another policy is for whoever gets in from then on.

Exit codes: 0 it is so; 120 agreed on, but not drained in time (the names of those who still hold are printed); 122 no quorum or no node; 123 somebody \
else has changed it meanwhile (both values and who set them are printed); 1 there is no such gate; 2 neither -k nor --policy, or a k that cannot be.";

/// `kgate set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The gate
    #[arg(value_name = "NAME")]
    name: String,
    /// How many may be through at once from now on
    #[arg(short = 'k', value_name = "K", env = "KGATE_OPT_K")]
    k: Option<u32>,
    /// What becomes of the slots of a silent holder: lease, they return when its node is evicted;
    /// hold, they stay taken until it gives them back
    #[arg(long, value_enum, env = "KGATE_OPT_POLICY")]
    policy: Option<Policy>,
    /// Return as soon as it is agreed on, though more may still be held
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_NO_WAIT", conflicts_with = "wait")]
    no_wait: bool,
    /// Wait at most so long until it is so, as in 30s or 5m [default: an hour]
    #[arg(short, long, value_name = "DUR", value_parser = crate::run::options::duration, env = "KGATE_OPT_WAIT")]
    wait: Option<Duration>,
    #[command(flatten)]
    asked: AskedNode,
    /// Print JSON
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    json: bool,
}

pub(crate) fn run(args: &SetArgs) -> Outcome {
    if args.k.is_none() && args.policy.is_none() {
        let text = format!(
            "what of gate {} is to be changed? Say -k K, --policy POLICY, or both",
            args.name
        );
        return Err(Failure::Usage(text));
    }
    let address = match args.asked.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    block_on(async {
        let reply = async {
            let mut admin = Admin::connect(&address).await?;
            let mut change = admin.set_gate(&args.name);
            if let Some(k) = args.k {
                change = change.k(k);
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
            change.send().await
        };
        let reply = reply.await;
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return Ok(said_no(&error)),
        };
        if args.json {
            writeln!(stdout(), "{}", reply.to_json())?;
        }
        let GateChange { k, log_index, previous_k, drained, draining, .. } = reply;
        let policy = match args.policy {
            Some(Policy::Hold) => " and policy hold",
            Some(Policy::Lease) => " and policy lease",
            None => "",
        };
        say(&format!(
            "gate {} has k = {k}{policy} at log index {log_index}; k was {previous_k}",
            args.name
        ));
        if !drained {
            say(&format!("until this is over, up to {} are through:", previous_k.max(k)));
            draining.iter().for_each(|who| say(&format!("  {who}")));
        }
        Ok(if drained || args.no_wait { ExitCode::SUCCESS } else { ExitCode::from(OCCUPIED) })
    })?
}
