//! `kgate evict`: has a node's permits come back, when its lease is surely over; or takes back a
//! permit that the log holds.

use std::io::{BufRead, IsTerminal, Write, stdin};
use std::process::ExitCode;

use clap::Args;
use clap::builder::BoolishValueParser;
use kgate_client::{Operators, api};

use crate::members::done;
use crate::status::{AskedNode, block_on, said_no, say};
use crate::{Failure, Outcome};

/// `kgate evict`.
#[derive(Debug, Args)]
pub(crate) struct EvictArgs {
    /// The node, by its number or its name
    #[arg(value_name = "NODE")]
    which: Option<String>,
    /// Instead of a node: a permit that the log holds, by its number
    #[arg(long, value_name = "ID", env = "KGATE_OPT_PERMIT", conflicts_with = "which")]
    permit: Option<u64>,
    /// Instead of a node: the permit that the log holds of this gate
    #[arg(long, value_name = "NAME", env = "KGATE_OPT_GATE", conflicts_with_all = ["which", "permit"])]
    gate: Option<String>,
    /// Of several of that gate, the one with this slot
    #[arg(long, value_name = "SLOT", env = "KGATE_OPT_SLOT", requires = "gate")]
    slot: Option<u32>,
    /// Do not ask whether it is meant
    #[arg(short, long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_YES")]
    yes: bool,
    #[command(flatten)]
    asked: AskedNode,
}

impl EvictArgs {
    fn permit_wish(&self, dry_run: bool) -> api::EvictPermitRequest {
        let (permit_id, gate, slot) =
            (self.permit, self.gate.clone().unwrap_or_default(), self.slot);
        api::EvictPermitRequest { permit_id, gate, slot, dry_run }
    }
}

pub(crate) fn run(args: &EvictArgs) -> Outcome {
    if args.which.is_none() && args.permit.is_none() && args.gate.is_none() {
        let text = "who is to be evicted? Name a node, or a permit that the log holds by --permit ID or --gate NAME";
        return Err(Failure::Usage(text.into()));
    }
    let address = match args.asked.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    block_on(async {
        let mut operators = match Operators::connect(&address).await {
            Ok(operators) => operators,
            Err(error) => return Ok(said_no(&error)),
        };
        let before = match &args.which {
            Some(node) => operators.before_evict(node).await,
            None => operators.evict_permit(args.permit_wish(true)).await,
        };
        match before {
            Ok(before) => say(&before.message),
            Err(error) => return Ok(said_no(&error)),
        }
        if !args.yes && !is_meant()? {
            return Ok(ExitCode::from(1));
        }
        Ok(done(match &args.which {
            Some(node) => operators.evict(node).await,
            None => operators.evict_permit(args.permit_wish(false)).await,
        }))
    })?
}

/// Asks whoever sits at the terminal; whoever does not must say so beforehand.
fn is_meant() -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::Usage(
            "nobody can be asked here whether it is meant: say --yes".into(),
        ));
    }
    write!(std::io::stderr(), "kgate: evict it? [y/N] ")?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    let yes = matches!(answer.trim(), "y" | "Y" | "yes");
    if !yes {
        say("nothing was done");
    }
    Ok(yes)
}
