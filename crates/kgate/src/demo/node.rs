//! `kgate demo-node FILE`: a node that is alive as long as whoever started it.
//!
//! Its standard input is a pipe from its parent: when that ends, the parent is gone or wants it to
//! stop, and it stops. So no node is left behind, however the parent dies. On standard output it
//! says `ready`, and, should it stop by itself, `stopped` and why.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use kgate_node::{Config, Node};

use super::cluster::FOLDER;
use crate::Outcome;

/// What `kgate demo-node` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoNodeArgs {
    /// Its configuration
    #[arg(value_name = "FILE")]
    config: PathBuf,
}

/// What a node says when clients can ask it.
pub(super) const READY: &str = "ready";

pub(crate) fn run(args: &DemoNodeArgs) -> Outcome {
    crate::node::log_if_configured();
    let (gone, parent_gone) = tokio::sync::oneshot::channel();
    // A thread of its own: nothing is ever written there, so it waits for the end and for nothing
    // else.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = gone.send(());
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let stopped: anyhow::Result<()> = runtime.context("starting a runtime")?.block_on(async {
        let mut node = Node::start(Config::read(&args.config)?).await?;
        say(READY);
        tokio::select! {
            _ = parent_gone => {
                sweep(&args.config);
                Ok(())
            }
            stopped = node.stopped() => Ok(stopped?),
        }
    });
    if let Err(error) = stopped {
        say(&format!("stopped: {error:#}"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The parent may have died too suddenly to remove what it wrote.
fn sweep(config: &Path) {
    let ours = |folder: &&Path| {
        folder
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(FOLDER))
    };
    if let Some(folder) = config.parent().filter(ours) {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Nobody may be listening any more.
fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}
