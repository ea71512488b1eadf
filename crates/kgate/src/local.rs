//! The node of this machine or of this user: found if it runs, started otherwise.
//!
//! Without a configured cluster, the first `kgate run` of a user starts a node for that user alone,
//! which stops after 30 seconds without a client. Its socket and the locks of its slots are in the
//! user's runtime directory, which a reboot clears. Its incarnation is in the state directory, so
//! fences grow across reboots.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use kgate_client::local;
use kgate_node::{Config, OneOrMore};
use rustix::fs::FlockOperation;

/// Time without a client after which the node of one user stops.
const IDLE_STOP_MS: u64 = 30_000;

/// The address of the running node of this machine or of this user.
pub(crate) fn running() -> Option<String> {
    local::running_node().map(|socket| format!("unix:{}", socket.display()))
}

/// The address of the running node, or of one that this call starts.
pub(crate) fn node() -> anyhow::Result<String> {
    running().map_or_else(|| start().context("cannot start a node for this user"), Ok)
}

/// The runtime directory, which only this user may access. Created if necessary.
fn folder() -> anyhow::Result<PathBuf> {
    let path = local::user_directory();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    anyhow::ensure!(
        local::is_private(&path),
        "{} must be a directory that only this user may access: remove it, or set XDG_RUNTIME_DIR",
        path.display()
    );
    Ok(path)
}

/// The directory of what survives a reboot: the incarnation of the node.
fn state_folder() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state =
        std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    state.or_else(home).unwrap_or_else(std::env::temp_dir).join("kgate")
}

/// Runs the process that starts a node, if this process is one.
pub(crate) fn hidden(arguments: &[OsString]) -> Option<ExitCode> {
    if arguments.get(1)? != START {
        return None;
    }
    let node = Command::new("/proc/self/exe").args(["node", "--local"]).process_group(0).spawn();
    Some(if node.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The subcommand of the process that starts a node and exits, so that the node is no descendant of
/// `kgate run`, which ends all descendants of its command.
const START: &str = "start-local-node";

/// Starts a node and waits until it serves. Of several concurrent callers one starts it.
fn start() -> anyhow::Result<String> {
    let folder = folder()?;
    let lock = File::create(folder.join("start.lock"))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    if let Some(address) = running() {
        return Ok(address);
    }
    let log = File::options().create(true).append(true).open(folder.join("node.log"))?;
    let mut child = Command::new("/proc/self/exe")
        .arg(START)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("its output is not a pipe")?)
        .read_line(&mut line)?;
    child.wait()?;
    if line.is_empty() {
        anyhow::bail!("it exited at once: see {}", folder.join("node.log").display());
    }
    running().context("it has started and does not answer")
}

/// The configuration of the node for this user.
pub(crate) fn config() -> anyhow::Result<Config> {
    let folder = folder()?;
    let socket = format!("unix:{}", folder.join("node.sock").display());
    Ok(Config {
        api: OneOrMore::One(socket),
        data: Some(state_folder()),
        lease_ms: 0,
        slot_files: Some(folder),
        idle_stop_ms: Some(IDLE_STOP_MS),
        ..Config::alone("127.0.0.1:0")
    })
}

/// Writes the process id file and closes standard output, once the node serves.
pub(crate) fn close_output() -> anyhow::Result<()> {
    std::fs::write(folder()?.join("node.pid"), std::process::id().to_string())?;
    let nowhere = File::options().write(true).open(Path::new("/dev/null"))?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}
