//! `kgate evict`: evicts a node, whose permits are free when its lease has surely expired, or a
//! durable permit.

use std::io::{BufRead, IsTerminal, Write, stdin};
use std::process::ExitCode;

use clap::Args;
use clap::builder::BoolishValueParser;
use kgate_client::{Admin, Error, Operation, PermitSelector};

use crate::members::report_operation;
use crate::status::{TargetArgs, block_on, report_error, say};
use crate::{Failure, Outcome};

/// Arguments of `kgate evict`.
#[derive(Debug, Args)]
pub(crate) struct EvictArgs {
    /// The node, by id or name
    #[arg(id = "evicted", value_name = "NODE")]
    node: Option<String>,
    /// Instead of a node: a durable permit, by id
    #[arg(long, value_name = "ID", env = "KGATE_OPT_PERMIT", conflicts_with = "evicted")]
    permit: Option<u64>,
    /// Instead of a node: the durable permit of this gate
    #[arg(
        long, value_name = "NAME", env = "KGATE_OPT_GATE", conflicts_with_all = ["evicted", "permit"]
    )]
    gate: Option<String>,
    /// With --gate, if it has several durable permits: the one with this slot
    #[arg(long, value_name = "SLOT", env = "KGATE_OPT_SLOT", requires = "gate")]
    slot: Option<u32>,
    /// Do not ask for confirmation
    #[arg(short, long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_YES")]
    yes: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// What to evict.
enum Target {
    Node(String),
    Permit(PermitSelector),
}

impl EvictArgs {
    fn target(&self) -> Result<Target, Failure> {
        if let Some(node) = &self.node {
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
    let address = match args.target.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    block_on(async {
        let mut admin = match Admin::connect(&address).await {
            Ok(admin) => admin,
            Err(error) => return Ok(report_error(&error)),
        };
        match target.evict(&mut admin, true).await {
            Ok(preview) => say(&preview.message),
            Err(error) => return Ok(report_error(&error)),
        }
        if !args.yes && !confirm()? {
            return Ok(ExitCode::from(1));
        }
        Ok(report_operation(target.evict(&mut admin, false).await))
    })?
}

/// Asks for confirmation at the terminal.
fn confirm() -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::Usage("not a terminal: pass --yes to confirm".into()));
    }
    write!(std::io::stderr(), "kgate: evict? [y/N] ")?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    let yes = matches!(answer.trim(), "y" | "Y" | "yes");
    if !yes {
        say("not confirmed: nothing was changed");
    }
    Ok(yes)
}
