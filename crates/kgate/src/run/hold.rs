//! `kgate acquire` and `kgate release`: a permit for a script, held by background processes.
//!
//! `acquire` starts `kgate run NAME .. -- kgate hold DESCRIPTION` in a session of its own, so the
//! holder has all properties of `kgate run`. `hold` is a CMD that listens on a socket in a
//! directory of the user, prints the permit, and exits on request; then the guard releases the
//! permit as usual. `release` waits for the end of the front, which follows the release.
//!
//! The token is the name of the socket: 128 random bits. Only a user who may open the directory can
//! release. `hold` gets the token by standard input, because `ps` shows arguments to every user of
//! the machine, and `kgate status` to every client that may see the gate. DESCRIPTION is for those:
//! the script that has acquired the permit.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::ArgMatches;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, getppid, getuid, pidfd_open};
use serde::{Deserialize, Serialize};

use super::exit;
use super::keeper::Wait;
use super::options::{AcquireArgs, ReleaseArgs, UsageError};

/// Number of words of the holder's CMD that `kgate status` does not show: `/proc/self/exe hold`.
pub(crate) const HIDDEN_WORDS: usize = 2;

/// Length of a token.
const TOKEN_DIGITS: u64 = 32;

/// The output of `acquire`.
#[derive(Debug, Serialize, Deserialize)]
struct Held {
    token: String,
    gate: String,
    slots: Vec<u32>,
    k: u32,
    fence: String,
    node: String,
}

/// `kgate acquire` of a permit that processes hold.
pub(crate) fn acquire(args: &AcquireArgs, given: &ArgMatches) -> Result<ExitCode, UsageError> {
    let request = args.acquire.request(given)?;
    let mut run = Command::new("/proc/self/exe");
    run.args(["run", "--detached"]);
    run.arg(&request.gate).arg("-p").arg(request.weight.to_string());
    run.arg("-E").arg(args.acquire.conflict_exit_code.to_string());
    if let Some(grace) = request.grace {
        run.arg("--grace").arg(format!("{}ms", grace.as_millis()));
    }
    if let Some(node) = &request.node {
        run.arg("--node").arg(node);
    }
    run.args(request.credentials.flags());
    if let Some(k) = request.k {
        run.arg("-k").arg(k.to_string());
    }
    match request.wait {
        Wait::ForEver => {}
        Wait::AtMost(span) => drop(run.arg("-w").arg(format!("{}ms", span.as_millis().max(1)))),
        Wait::No => drop(run.arg("-n")),
    }
    if args.acquire.verbose {
        run.arg("--verbose");
    }
    let token = match new_token() {
        Ok(token) => token,
        Err(error) => return Ok(super::failed(&format!("cannot create a token: {error}"))),
    };
    run.args(["--", "/proc/self/exe", "hold", &description(&request.gate)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Ok(start_holder(run, &token, args.json)
        .unwrap_or_else(|error| super::failed(&format!("cannot hold a permit: {error}"))))
}

/// Describes the calling script by its process id and name.
fn description(gate: &str) -> String {
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    format!("kgate acquire {gate} (for {parent} {})", name.trim_end())
}

/// Starts the holder, and waits for its output or for its end without a permit.
fn start_holder(mut run: Command, token: &str, json: bool) -> io::Result<ExitCode> {
    let mut front = run.spawn()?;
    if let Some(mut input) = front.stdin.take() {
        // If it has ended already, its exit code says why.
        let _gone = input.write_all(token.as_bytes());
    }
    let mut line = String::new();
    if let Some(output) = front.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.is_empty() {
        let code = front.wait()?.code().and_then(|code| u8::try_from(code).ok());
        return Ok(ExitCode::from(code.unwrap_or(exit::FAILED)));
    }
    let held: Held = serde_json::from_str(&line)?;
    let text = if json { line.trim_end() } else { held.token.as_str() };
    if let Err(error) = writeln!(io::stdout(), "{text}") {
        // The token is lost, so the permit could never be released.
        end_holder(&socket_of(&held.token)?)?;
        return Err(error);
    }
    Ok(ExitCode::SUCCESS)
}

/// `kgate hold DESCRIPTION`: the CMD that holds the permit.
pub(crate) fn main() -> ExitCode {
    let hold = || -> io::Result<()> {
        let mut token = String::new();
        io::stdin().take(TOKEN_DIGITS + 1).read_to_string(&mut token)?;
        if !is_token(&token) {
            return Err(io::Error::other("`kgate hold` is an internal part of `kgate acquire`"));
        }
        let path = socket_of(&token)?;
        let listener = UnixListener::bind(&path)?;
        let variable = |name| std::env::var(name).unwrap_or_default();
        let slots =
            variable("KGATE_SLOTS").split(',').filter_map(|slot| slot.parse().ok()).collect();
        let k = variable("KGATE_K").parse().unwrap_or(0);
        let (gate, fence, node) =
            (variable("KGATE_GATE"), variable("KGATE_FENCE"), variable("KGATE_NODE"));
        let held = serde_json::to_string(&Held { token, gate, slots, k, fence, node })?;
        // Without a reader the permit could never be released: this call fails then, and the permit
        // is released.
        writeln!(io::stdout(), "{held}")?;
        super::close_output()?;
        loop {
            let (client, _) = listener.accept()?;
            // A client that went away has no effect.
            if is_release(client).unwrap_or(false) {
                break;
            }
        }
        fs::remove_file(path)
    };
    match hold() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&format!("cannot hold the permit: {error}")),
    }
}

/// Sends the process whose end confirms the release; true if the client has confirmed.
fn is_release(mut client: UnixStream) -> io::Result<bool> {
    let front =
        getppid().and_then(parent_of).ok_or_else(|| io::Error::other("the front is gone"))?;
    writeln!(client, "{}", front.as_raw_nonzero())?;
    let mut confirmation = [0; 1];
    Ok(client.read(&mut confirmation)? == 1)
}

fn parent_of(process: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Pid::from_raw(rest.split_whitespace().nth(1)?.parse().ok()?)
}

/// `kgate release` of a permit that processes hold.
pub(crate) fn release(args: &ReleaseArgs) -> Result<ExitCode, UsageError> {
    if !is_token(&args.token) {
        return Err(UsageError::Token(args.token.clone()));
    }
    let path = match socket_of(&args.token) {
        Ok(path) => path,
        Err(error) => return Ok(super::failed(&format!("cannot find the holder: {error}"))),
    };
    Ok(match end_holder(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _absent = fs::remove_file(&path);
            super::print_message(&format!(
                "permit lost or released before: no process holds it ({error})"
            ));
            ExitCode::from(exit::LOST)
        }
    })
}

fn end_holder(path: &Path) -> io::Result<()> {
    let mut holder = UnixStream::connect(path)?;
    let mut line = String::new();
    BufReader::new(holder.try_clone()?).read_line(&mut line)?;
    let front = line.trim().parse().ok().and_then(Pid::from_raw);
    let front = front.ok_or_else(|| io::Error::other("the holder is exiting"))?;
    let process = pidfd_open(front, PidfdFlags::empty())?;
    holder.write_all(b"!")?;
    // After this command the caller may request the same slot at once.
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None)?;
    Ok(())
}

fn is_token(text: &str) -> bool {
    text.len() as u64 == TOKEN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn socket_of(token: &str) -> io::Result<PathBuf> {
    let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let user = getuid().as_raw();
    let folder = match base {
        Some(base) => base.join("kgate"),
        None => std::env::temp_dir().join(format!("kgate-{user}")),
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    // In a directory for all users, another user may have created it first.
    let data = fs::symlink_metadata(&folder)?;
    if !data.is_dir() || data.uid() != user || data.mode() & 0o077 != 0 {
        let text =
            format!("{} must be a directory that only this user may access", folder.display());
        return Err(io::Error::other(text));
    }
    Ok(folder.join(token))
}

pub(crate) fn new_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
