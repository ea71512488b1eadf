//! `kgate evict`: has a node's permits come back, when its lease is surely over.

use std::io::{BufRead, IsTerminal, Write, stdin};
use std::process::ExitCode;

use clap::Args;
use clap::builder::BoolishValueParser;
use kgate_client::Operators;

use crate::members::done;
use crate::status::{AskedNode, block_on, said_no, say};
use crate::{Failure, Outcome};

/// `kgate evict`.
#[derive(Debug, Args)]
pub(crate) struct EvictArgs {
    /// The node, by its number or its name
    #[arg(value_name = "NODE")]
    which: String,
    /// Do not ask whether it is meant
    #[arg(short, long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_YES")]
    yes: bool,
    #[command(flatten)]
    asked: AskedNode,
}

pub(crate) fn run(args: &EvictArgs) -> Outcome {
    let address = match args.asked.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    block_on(async {
        let mut operators = match Operators::connect(&address).await {
            Ok(operators) => operators,
            Err(error) => return Ok(said_no(&error)),
        };
        match operators.before_evict(&args.which).await {
            Ok(before) => say(&before.text),
            Err(error) => return Ok(said_no(&error)),
        }
        if !args.yes && !is_meant()? {
            return Ok(ExitCode::from(1));
        }
        Ok(done(operators.evict(&args.which).await))
    })?
}

/// Asks whoever sits at the terminal; whoever does not must say so beforehand.
fn is_meant() -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        return Err(Failure::Usage("nobody can be asked here whether it is meant: say --yes".into()));
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
