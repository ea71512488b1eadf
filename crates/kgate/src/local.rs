//! The node of this machine or of this user: found if it runs, started otherwise.
//!
//! A command without `--node` uses the machine's node if there is one, and else its user's, which
//! the first command starts. Such a node stops after 30 seconds without a client. Everything of it
//! is in one folder of the user's home directory: its socket, the locks of its slots, and its
//! incarnation, so that fences grow across reboots. `--node private` is the user's node even where
//! the machine has one, and `--node private:DIR` one in another folder.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use kgate_client::local::{self, Rendezvous};
use kgate_node::{Config, LockedSlot, OneOrMore};
use rustix::fs::{FlockOperation, statvfs};

use crate::companion;
use crate::node_arg::PRIVATE;

/// Time without a client after which the node of one user stops.
const IDLE_STOP_MS: u64 = 30_000;

/// What a name of a node stands for.
enum Target {
    /// It runs, or its administrator starts it.
    Address(String),
    /// A user's own, in this folder, which is started if it does not run.
    Folder(PathBuf),
}

/// The node to contact, which runs: the named one, or the one of this machine or of this user.
pub(crate) fn running(named: Option<&str>) -> anyhow::Result<String> {
    match target(named)? {
        Target::Address(address) => Ok(address),
        Target::Folder(folder) => running_in(&folder)?.with_context(|| not_running(&folder)),
    }
}

/// The node to contact; one of this user is started if it does not run.
pub(crate) fn node(named: Option<&str>) -> anyhow::Result<String> {
    match target(named)? {
        Target::Address(address) => Ok(address),
        Target::Folder(folder) => running_in(&folder)?
            .map_or_else(|| start(&folder).context("cannot start a node for this user"), Ok),
    }
}

/// Says that no node runs in that folder, and who holds slots all the same.
fn not_running(folder: &Path) -> String {
    let start = "`kgate run` starts it, and --node names another one";
    let slots = kgate_node::locked_slots(folder);
    if slots.is_empty() {
        return format!(
            "the node of this user does not run ({}); commands that hold permits, if any, keep \
             their slots: {start}",
            folder.display()
        );
    }
    let mut text = format!(
        "the node of this user does not run ({}); these processes keep their slots: {start}",
        folder.display()
    );
    for LockedSlot { gate, slot, holder } in slots {
        text.push_str(&format!("\n  slot {slot} of gate `{gate}`: {holder}"));
    }
    text
}

fn target(named: Option<&str>) -> anyhow::Result<Target> {
    let Some(named) = named else {
        return Ok(match local::rendezvous()? {
            Rendezvous::Machine(socket) => Target::Address(address(&socket)),
            Rendezvous::User(folder) => Target::Folder(folder),
        });
    };
    if named == PRIVATE {
        return Ok(Target::Folder(local::user_folder()?));
    }
    Ok(match named.strip_prefix("private:") {
        Some(folder) => Target::Folder(local::private_folder(Path::new(folder))?),
        None => Target::Address(named.to_owned()),
    })
}

fn address(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

/// The node in that folder, if it runs. It does not stop for lack of clients before this process
/// ends, which may be just about to connect.
fn running_in(folder: &Path) -> anyhow::Result<Option<String>> {
    let way = match local::keep_running(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        way => way.with_context(|| format!("cannot use the node in {}", folder.display()))?,
    };
    Ok(local::serves(folder).then(|| {
        std::mem::forget(way);
        address(&local::socket_in(folder))
    }))
}

/// Runs the process that starts a node, if this process is one.
pub(crate) fn hidden(arguments: &[OsString]) -> Option<ExitCode> {
    let [_, start, folder] = arguments else { return None };
    if start != START {
        return None;
    }
    let mut node = Command::new("/proc/self/exe");
    let node = node.arg0("kgate").args(["node", "--local"]).arg(folder).process_group(0).spawn();
    Some(if node.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The subcommand of the process that starts a node and exits, so that the node is no descendant of
/// `kgate run`, which ends all descendants of its command.
const START: &str = "start-local-node";

/// Starts a node and waits until it serves. Of several concurrent callers one starts it.
fn start(folder: &Path) -> anyhow::Result<String> {
    // The default folder may not exist yet; another one was created when it was named.
    if !folder.exists() {
        local::create_user_folder()?;
    }
    let lock = open(&folder.join("start.lock"))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    if let Some(address) = running_in(folder)? {
        return Ok(address);
    }
    let log = folder.join("node.log");
    let mut child = Command::new(companion::full().map_err(anyhow::Error::msg)?)
        .arg(START)
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(open(&log)?)
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("its output is not a pipe")?)
        .read_line(&mut line)?;
    child.wait()?;
    if line.is_empty() {
        anyhow::bail!("it exited at once: {}", last_line(&log));
    }
    running_in(folder)?.context("it has started and does not answer")
}

fn open(path: &Path) -> anyhow::Result<File> {
    let opened = File::options().create(true).append(true).open(path);
    opened.with_context(|| format!("cannot open {}", path.display()))
}

/// What a node that has exited said last, and where the rest is.
fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().next_back().unwrap_or_default().trim_start_matches("kgate: ");
    let line = if line.is_empty() { "it said nothing" } else { line };
    let free = log.parent().and_then(|folder| statvfs(folder).ok()).map(|disk| disk.f_bavail);
    let full = if free == Some(0) { "; the disk is full: free space there" } else { "" };
    format!("{line} (see {}){full}", log.display())
}

/// The configuration of the node of one user in that folder.
pub(crate) fn config(folder: &Path) -> Config {
    Config {
        api: OneOrMore::One(address(&local::socket_in(folder))),
        data: Some(folder.to_owned()),
        lease_ms: 0,
        slot_files: Some(folder.to_owned()),
        idle_stop_ms: Some(IDLE_STOP_MS),
        ..Config::alone("127.0.0.1:0")
    }
}

/// Writes the process id file and closes standard output, once the node serves.
pub(crate) fn close_output(folder: &Path) -> anyhow::Result<()> {
    std::fs::write(folder.join(local::PID_FILE), std::process::id().to_string())?;
    let nowhere = File::options().write(true).open(Path::new("/dev/null"))?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}
