//! `kgate evict`: has a node's permits come back, when its lease is surely over; or takes back a
//! permit that the log holds.

use std::io::{BufRead, IsTerminal, Write, stdin};
use std::process::ExitCode;

use clap::Args;
use clap::builder::BoolishValueParser;
use kgate_client::{Admin, Error, Operation, PermitSelector};

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

/// What to evict.
enum Target {
    Node(String),
    Permit(PermitSelector),
}

impl EvictArgs {
    fn target(&self) -> Result<Target, Failure> {
        if let Some(node) = &self.which {
            return Ok(Target::Node(node.clone()));
        }
        if let Some(permit_id) = self.permit {
            return Ok(Target::Permit(PermitSelector::Id(permit_id)));
        }
        let missing =
            "nothing to evict: name a node, or a durable permit with --permit ID or --gate NAME";
        let gate = self.gate.clone().ok_or_else(|| Failure::Usage(missing.into()))?;
        Ok(Target::Permit(PermitSelector::Gate(gate, self.slot)))
    }
}

impl Target {
    async fn evict(&self, admin: &mut Admin, dry_run: bool) -> Result<Operation, Error> {
        match self {
            Self::Node(node) => admin.evict(node, dry_run).await,
            Self::Permit(permit) => admin.evict_permit(permit, dry_run).await,
        }
    }
}

pub(crate) fn run(args: &EvictArgs) -> Outcome {
    let target = args.target()?;
    let address = match args.asked.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    block_on(async {
        let mut admin = match Admin::connect(&address).await {
            Ok(admin) => admin,
            Err(error) => return Ok(said_no(&error)),
        };
        match target.evict(&mut admin, true).await {
            Ok(before) => say(&before.message),
            Err(error) => return Ok(said_no(&error)),
        }
        if !args.yes && !is_meant()? {
            return Ok(ExitCode::from(1));
        }
        Ok(done(target.evict(&mut admin, false).await))
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
