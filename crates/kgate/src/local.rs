//! The node of this machine, or of this user: found if it runs, started if not.
//!
//! With no cluster configured, the first `kgate run` of a user starts a node for that user alone.
//! It goes away when nobody has used it for 30 seconds. Its socket and the locks of its slots are
//! in the user's runtime folder, so they are gone after a reboot; how often it has started is in
//! the state folder, so that fences grow across reboots.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use kgate_node::{Config, OneOrMore};
use rustix::fs::FlockOperation;

/// Where the node of a machine serves everybody.
const MACHINE: &str = "/run/kgate/node.sock";
/// A node for one user stays so long when nobody uses it.
const IDLE_STOP_MS: u64 = 30_000;

/// The address of a node that runs: of this machine, or of this user.
pub(crate) fn running() -> Option<String> {
    let sockets =
        [Some(PathBuf::from(MACHINE)), folder().ok().map(|folder| folder.join("node.sock"))];
    let serves = |path: &PathBuf| UnixStream::connect(path).is_ok();
    sockets.into_iter().flatten().find(serves).map(|path| format!("unix:{}", path.display()))
}

/// The address of a node that runs, or of one that was just started.
pub(crate) fn node() -> Result<String, String> {
    running().map_or_else(
        || start().map_err(|error| format!("cannot start a node for this user: {error:#}")),
        Ok,
    )
}

/// A folder that is this user's alone, made if it is not there.
fn folder() -> anyhow::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let path = match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("kgate"),
        None => std::env::temp_dir().join(format!("kgate-{user}")),
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .with_context(|| format!("cannot make {}", path.display()))?;
    let found = std::fs::symlink_metadata(&path)?;
    anyhow::ensure!(
        found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0,
        "{} is not a folder of this user alone: remove it, or set XDG_RUNTIME_DIR",
        path.display()
    );
    Ok(path)
}

/// How often the node has started survives a reboot.
fn state_folder() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state =
        std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    state.or_else(home).unwrap_or_else(std::env::temp_dir).join("kgate")
}

/// The parts of starting a node, if we were started as one of them.
pub(crate) fn hidden(arguments: &[OsString]) -> Option<ExitCode> {
    if arguments.get(1)? != START {
        return None;
    }
    let node = Command::new("/proc/self/exe").args(["node", "--local"]).process_group(0).spawn();
    Some(if node.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The name of the process that starts a node and goes away, so that the node is nobody's child:
/// `kgate run` ends all descendants of what it runs.
const START: &str = "start-local-node";

/// Starts a node and waits until it serves. Of several who want to, one does.
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
    BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
    child.wait()?;
    if line.is_empty() {
        anyhow::bail!("it ended at once: {} says why", folder.join("node.log").display());
    }
    running().context("it has started, and does not answer")
}

/// What the node for this user is told.
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

/// It serves: its number is written down for whoever wants to stop it, and nobody reads its output
/// any more.
pub(crate) fn fall_silent() -> anyhow::Result<()> {
    std::fs::write(folder()?.join("node.pid"), std::process::id().to_string())?;
    let nowhere = File::options().write(true).open(Path::new("/dev/null"))?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}
