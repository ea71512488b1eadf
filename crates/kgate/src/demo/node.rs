//! `kgate demo-node FILE`: a node that runs as long as its parent process.
//!
//! Its standard input is a pipe from its parent. It stops when the pipe closes, so no node is left
//! behind, however the parent dies. It writes each [`NodeReport`] as a line of JSON to standard
//! output.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use kgate_node::{Config, Node, NotStarted};
use serde::{Deserialize, Serialize};

use super::cluster::FOLDER;
use crate::Outcome;

/// Arguments of `kgate demo-node`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoNodeArgs {
    /// Configuration file (TOML)
    #[arg(value_name = "FILE")]
    config: PathBuf,
}

/// A report of a node to its parent.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum NodeReport {
    /// Clients can connect.
    Ready,
    /// The node stopped by itself, or did not start.
    Stopped {
        /// It did not start because an address is in use.
        port_taken: bool,
        message: String,
    },
}

pub(crate) fn run(args: &DemoNodeArgs) -> Outcome {
    crate::node::log_if_configured();
    let (closed, parent_gone) = tokio::sync::oneshot::channel();
    // A thread that waits for the end of the pipe, to which nothing is ever written.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = closed.send(());
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let stopped: anyhow::Result<()> = runtime.context("starting a runtime")?.block_on(async {
        let mut node = Node::start(Config::read(&args.config)?).await?;
        send(&NodeReport::Ready);
        tokio::select! {
            _ = parent_gone => {
                remove_directory(&args.config);
                Ok(())
            }
            stopped = node.stopped() => Ok(stopped?),
        }
    });
    if let Err(error) = stopped {
        let port_taken = matches!(error.downcast_ref(), Some(NotStarted::Listen(..)));
        send(&NodeReport::Stopped { port_taken, message: format!("{error:#}") });
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the cluster's directory: a killed parent could not.
fn remove_directory(config: &Path) {
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

/// Sends a report. The parent may be gone.
fn send(report: &NodeReport) {
    let mut stdout = std::io::stdout().lock();
    let line = serde_json::to_string(report).expect("plain data");
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
