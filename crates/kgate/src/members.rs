//! `kgate members`: the members and voters of a cluster.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use kgate_client::{Admin, Joined, Members, Operation};

use crate::status::{TargetArgs, block_on, say};
use crate::{Failure, Outcome};

/// Shown below `kgate members --help`.
pub(crate) const MEMBERS_HELP: &str = "\
A new node is a follower: it grants permits and does not vote. Have 1, 3, 5 or 7 voters; without \
a majority of them nothing is granted. Two voters are worse than one: the failure of either one \
stops the cluster. A voter loses its vote only by `demote`.

Exit codes: 0: success; 1: no such node; 2: usage error; 120: timed out; 122: no quorum or no \
node; 125: internal error.

Examples:
  Add a fourth node, on the machine db-4:
    kgate members add db-4 10.0.0.4:7401 > join.token
    # configuration there: join = \"join.token\", address = \"10.0.0.4:7401\", data, [tls]
  Remove it:
    kgate members demote db-4; kgate members remove db-4";

/// Arguments of `kgate members`.
#[derive(Debug, Args)]
pub(crate) struct MembersArgs {
    #[command(subcommand)]
    command: MembersCommand,
}

#[derive(Debug, Subcommand)]
enum MembersCommand {
    /// List all nodes with incarnation, state and role
    List {
        #[command(flatten)]
        target: TargetArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a node, and print the token that it joins with
    Add {
        /// Name of the node: letters, digits, -, _ and ., and not a number
        #[arg(value_name = "NAME")]
        name: String,
        /// Address where the other nodes reach it
        #[arg(value_name = "HOST:PORT")]
        address: String,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Remove a node for good; it is evicted first if it is alive
    Remove(OneNode),
    /// Make a node a voter
    Promote(OneNode),
    /// Make a voter a follower
    Demote(OneNode),
}

#[derive(Debug, Args)]
struct OneNode {
    /// The node, by id or name
    #[arg(id = "member", value_name = "NODE")]
    node: String,
    #[command(flatten)]
    target: TargetArgs,
}

pub(crate) fn run(args: &MembersArgs) -> Outcome {
    let target = match &args.command {
        MembersCommand::List { target, .. } | MembersCommand::Add { target, .. } => target,
        MembersCommand::Remove(one)
        | MembersCommand::Promote(one)
        | MembersCommand::Demote(one) => &one.target,
    };
    let address = target.address()?;
    block_on(async {
        let mut admin = Admin::connect(&address).await?;
        match &args.command {
            MembersCommand::List { json, .. } => list(&admin.members().await?, *json)?,
            MembersCommand::Add { name, address, .. } => {
                let Joined { node, token, .. } = admin.add_member(name, address).await?;
                writeln!(stdout(), "{token}")?;
                say(&format!(
                    "{name} is node {node}: start it with join = \"{token}\" and address \
                     = \"{address}\"; with [tls] its certificate has the name \
                     node-{node}.CLUSTER"
                ));
            }
            MembersCommand::Remove(one) => {
                report_operation(&admin.remove_member(&one.node).await?);
            }
            MembersCommand::Promote(one) => report_operation(&admin.promote(&one.node).await?),
            MembersCommand::Demote(one) => report_operation(&admin.demote(&one.node).await?),
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints the result of an operation.
pub(crate) fn report_operation(Operation { message, warning, .. }: &Operation) {
    say(message);
    if let Some(warning) = warning {
        say(&format!("warning: {warning}"));
    }
}

fn list(reply: &Members, json: bool) -> Result<(), Failure> {
    let mut out = stdout().lock();
    if json {
        writeln!(out, "{}", reply.to_json())?;
        return Ok(out.flush()?);
    }
    let row = |cells: [&str; 7]| {
        let [node, name, address, incarnation, state, role, since] = cells;
        format!(
            "{node:<5} {name:<16} {address:<24} {incarnation:<12} {state:<10} {role:<9} {since}"
        )
    };
    writeln!(
        out,
        "{}",
        row(["node", "name", "address", "incarnation", "state", "role", "since index"]).trim_end()
    )?;
    for member in reply.iter() {
        let incarnation =
            member.incarnation().map_or("-".to_owned(), |incarnation| incarnation.to_string());
        let since = member.since_index().map_or("-".to_owned(), |index| index.to_string());
        let state = member.state().to_string();
        let role = member.role().map_or("-".to_owned(), |role| role.to_string());
        let node = member.node().to_string();
        let cells: [&str; 7] =
            [&node, member.name(), member.address(), &incarnation, &state, &role, &since];
        let unreachable = if member.is_reachable() { "" } else { "  (unreachable)" };
        writeln!(out, "{}{unreachable}", kgate_api::printable(row(cells).trim_end()))?;
    }
    out.flush()?;
    if let Some(reason) = reply.stale_reason() {
        say(&format!("warning: this list may be stale: {reason}"));
    }
    Ok(())
}
