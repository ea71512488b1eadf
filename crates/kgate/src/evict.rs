//! `kgate evict`: evicts a node, whose permits are free when its lease has certainly expired; a
//! single holder, whose slots are free when it has stopped; or a durable permit.

use std::io::{BufRead, IsTerminal, Write, stdin};
use std::process::ExitCode;

use clap::Args;
use kgate_client::{Admin, Error, Operation, PermitSelector};

use crate::members::report_operation;
use crate::run::wanted::gate_name;
use crate::status::{TargetArgs, block_on, say};
use crate::{Failure, Outcome};

/// Arguments of `kgate evict`.
#[derive(Debug, Args)]
#[command(after_long_help = EVICT_HELP)]
pub(crate) struct EvictArgs {
    /// The node, by id or name
    #[arg(id = "evicted", value_name = "NODE")]
    node: Option<String>,
    /// Instead of a node: a durable permit, by id
    #[arg(long, value_name = "ID", conflicts_with = "evicted")]
    permit: Option<u64>,
    /// Instead of a node: the holder or durable permit of this gate. The right `operate` over the
    /// gate is enough
    #[arg(
        long, value_name = "NAME", value_parser = gate_name,
        conflicts_with_all = ["evicted", "permit"]
    )]
    gate: Option<String>,
    /// With --gate, if it has several: the one with this slot
    #[arg(long, value_name = "SLOT", requires = "gate")]
    slot: Option<u32>,
    /// Instead of a node: the holders of this session, as `kgate status` shows it
    #[arg(
        long,
        value_name = "NODE:ID",
        value_parser = session,
        conflicts_with_all = ["evicted", "permit", "gate"]
    )]
    session: Option<(u32, u64)>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Shown below `kgate evict --help`.
pub(crate) const EVICT_HELP: &str = "\
Says what the eviction means, and asks. A holder is told that its permit is lost: kgate run stops \
the whole process tree of its command. The command returns when the slots are free. The script of \
a kgate acquire is not stopped, only its holder is. A durable permit ends at once, and nobody is \
stopped.

Exit codes: 0: evicted, and its slots are free (those of a node when its lease has surely \
expired); 1: no such node, gate or holder, or not confirmed; 2: usage error; 120: told to stop, \
and has not stopped yet; 122: no quorum or no node; 125: internal error.

Examples:
  The holder of slot 0 of gate gpu:
    kgate evict --gate gpu --slot 0
  Node 2 of the cluster:
    kgate evict 2";

/// Parses `NODE:ID`.
fn session(text: &str) -> Result<(u32, u64), String> {
    let parse = || {
        let (node, id) = text.split_once(':')?;
        Some((node.parse().ok()?, id.parse().ok()?))
    };
    parse().ok_or_else(|| format!("`{text}` is no session: write NODE:ID, as `kgate status` does"))
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
        if let Some((node, id)) = self.session {
            return Ok(Target::Permit(PermitSelector::Session(node, id)));
        }
        let missing = "nothing to evict: name a node, a holder with --gate NAME --slot SLOT or \
                       --session NODE:ID, or a durable permit with --permit ID";
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
    let address = args.target.address()?;
    block_on(async {
        let mut admin = Admin::connect(&address).await?;
        say(&target.evict(&mut admin, true).await?.message);
        if !args.yes && !confirm()? {
            return Ok(ExitCode::from(1));
        }
        report_operation(&target.evict(&mut admin, false).await?);
        Ok(ExitCode::SUCCESS)
    })
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
