//! `kgate members`: who takes part in a cluster and who votes.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand};
use kgate_client::{Admin, Error, Joined, Members, Operation};

use crate::status::{AskedNode, block_on, said_no, say};
use crate::{Failure, Outcome};

/// Shown below `kgate members --help`.
pub(crate) const MEMBERS_HELP: &str = "\
A node that is added is a follower: it grants permits and does not vote. 1, 3, 5 or 7 nodes vote; more than half of them must answer, or nothing is \
granted. Two voters are worse than one: either one's failure stops everything. No vote is ever taken away but by `demote`.

Examples:
  A fourth node, on the machine db-4:
    kgate members add db-4 10.0.0.4:7401 > join.token
    # there: join = \"join.token\", address = \"10.0.0.4:7401\", data, [tls]
  Away with it:
    kgate members demote db-4; kgate members remove db-4

Exit codes: 0 done, 122 no quorum or no node, 120 not done in time, 1 there is no such node, 2 it cannot be, 125 kgate itself failed.";

/// `kgate members`.
#[derive(Debug, Args)]
pub(crate) struct MembersArgs {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Debug, Subcommand)]
enum Deed {
    /// List all nodes: which take part, which vote
    List {
        #[command(flatten)]
        asked: AskedNode,
        /// Print JSON
        #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
        json: bool,
    },
    /// Let a node take part: prints the token that it starts with
    Add {
        /// What people call it: letters, digits, -, _ and . that do not read as a number
        #[arg(value_name = "NAME")]
        name: String,
        /// Where other nodes reach it
        #[arg(value_name = "HOST:PORT")]
        address: String,
        #[command(flatten)]
        asked: AskedNode,
    },
    /// Take a node out for good; if it is alive, it is evicted first
    Remove(OneNode),
    /// Give a vote to a node
    Promote(OneNode),
    /// Take its vote from a node; it goes on as a follower
    Demote(OneNode),
}

#[derive(Debug, Args)]
struct OneNode {
    /// The node, by its number or its name
    #[arg(value_name = "NODE")]
    which: String,
    #[command(flatten)]
    asked: AskedNode,
}

pub(crate) fn run(args: &MembersArgs) -> Outcome {
    let asked = match &args.deed {
        Deed::List { asked, .. } | Deed::Add { asked, .. } => asked,
        Deed::Remove(one) | Deed::Promote(one) | Deed::Demote(one) => &one.asked,
    };
    let address = match asked.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    block_on(async {
        let mut admin = match Admin::connect(&address).await {
            Ok(admin) => admin,
            Err(error) => return Ok(said_no(&error)),
        };
        match &args.deed {
            Deed::List { json, .. } => match admin.members().await {
                Ok(reply) => list(&reply, *json).map(|()| ExitCode::SUCCESS),
                Err(error) => Ok(said_no(&error)),
            },
            Deed::Add { name, address, .. } => match admin.add_member(name, address).await {
                Ok(Joined { node, token, .. }) => {
                    writeln!(stdout(), "{token}")?;
                    say(&format!(
                        "{name} is node {node}: start it with join = \"{token}\" and address = \"{address}\"; with [tls] its certificate is that of node-{node}"
                    ));
                    Ok(ExitCode::SUCCESS)
                }
                Err(error) => Ok(said_no(&error)),
            },
            Deed::Remove(one) => Ok(done(admin.remove_member(&one.which).await)),
            Deed::Promote(one) => Ok(done(admin.promote(&one.which).await)),
            Deed::Demote(one) => Ok(done(admin.demote(&one.which).await)),
        }
    })?
}

/// What was done, in words.
pub(crate) fn done(reply: Result<Operation, Error>) -> ExitCode {
    match reply {
        Ok(Operation { message, warning, .. }) => {
            say(&message);
            if let Some(warning) = warning {
                say(&format!("warning: {warning}"));
            }
            ExitCode::SUCCESS
        }
        Err(error) => said_no(&error),
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
        format!("{node:<5} {name:<16} {address:<24} {incarnation:<5} {state:<10} {role:<9} {since}")
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
        let silent = if member.is_reachable() { "" } else { "  (does not answer)" };
        writeln!(out, "{}{silent}", row(cells).trim_end())?;
    }
    out.flush()?;
    if let Some(reason) = reply.stale_reason() {
        say(&format!("this list may be out of date: {reason}"));
    }
    Ok(())
}
