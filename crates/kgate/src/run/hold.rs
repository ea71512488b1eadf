//! `kgate acquire` and `kgate release`: a permit for a script, held by background processes.
//!
//! `acquire` starts `kgate run NAME .. -- kgate hold DESCRIPTION` in a session of its own, so the
//! holder has all properties of `kgate run`. `hold` is a CMD that listens on a socket in a
//! directory of the user, prints the permit, and exits on request; then the guard releases the
//! permit as usual. `release` waits for the end of the front, which follows the release.
//!
//! A permit is bound to the process that called `acquire`, or to the one of `--for-pid`: when that
//! process ends, for whatever reason, the permit is released. With `--ttl` it is bound to time.
//!
//! The token is the name of the socket: 128 random bits. Only a user who may open the directory can
//! release. `hold` gets the token by standard input, because `ps` shows arguments to every user of
//! the machine, and `kgate status` to every client that may see the gate. DESCRIPTION is for those:
//! the script that has acquired the permit.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::ArgMatches;
use kgate_client::local::create_user_folder;
use rustix::process::{Pid, getppid};
use serde::{Deserialize, Serialize};

use super::holder::{self, BoundProcess, Instructions};
use super::keeper::{UseCgroup, Wait, Weight};
use super::options::{AcquireArgs, ForPid, LONGEST_TTL, ReleaseArgs, SHORTEST_TTL, UsageError};
use super::wanted::note_options;
use super::{caller, exit};

/// Number of words of the holder's CMD that `kgate status` does not show: `/proc/self/exe hold`.
pub(crate) const HIDDEN_WORDS: usize = 2;

/// Length of a token.
const TOKEN_DIGITS: u64 = 32;

/// The output of `acquire`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Held {
    token: String,
    gate: String,
    slots: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slot_names: Vec<String>,
    k: u32,
    fence: String,
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
}

impl Held {
    /// The permit of this process, which `kgate run` started.
    pub(super) fn of_environment(token: String, ttl_ms: Option<u64>) -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let slots =
            variable("KGATE_SLOTS").split(',').filter_map(|slot| slot.parse().ok()).collect();
        let names = variable("KGATE_SLOT_NAMES");
        let slot_names =
            names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let k = variable("KGATE_K").parse().unwrap_or(0);
        let (gate, fence, node) =
            (variable("KGATE_GATE"), variable("KGATE_FENCE"), variable("KGATE_NODE"));
        Self { token, gate, slots, slot_names, k, fence, node, ttl_ms }
    }
}

/// `kgate acquire` of a permit that processes hold.
pub(crate) fn acquire(args: &AcquireArgs, given: &ArgMatches) -> Result<ExitCode, UsageError> {
    let request = args.acquire.request(given)?;
    let bound = bound_process(args)?;
    if args.ttl.is_some_and(|ttl| ttl < SHORTEST_TTL || ttl > LONGEST_TTL) {
        return Err(UsageError::Ttl);
    }
    let mut run = Command::new("/proc/self/exe");
    run.args(["run", "--detached"]);
    run.arg(&request.gate);
    match request.weight {
        Weight::Slots(weight) => drop(run.arg("-p").arg(weight.to_string())),
        Weight::All => drop(run.arg("--exclusive")),
    }
    run.arg("-E").arg(args.acquire.conflict_exit_code.to_string());
    if let Some(grace) = request.grace {
        run.arg("--grace").arg(format!("{}ms", grace.as_millis()));
    }
    match request.cgroup {
        UseCgroup::Off => {}
        UseCgroup::Auto => drop(run.arg("--cgroup=auto")),
        UseCgroup::Require => drop(run.arg("--cgroup=require")),
    }
    if let Some(node) = &request.node {
        run.arg("--node").arg(node);
    }
    run.args(request.credentials.flags());
    run.args(request.slots.options());
    run.args(note_options(&request.note));
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
    run.args(["--", "/proc/self/exe", "hold", &description(&request.gate, bound, args.ttl)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let ttl_ms = args.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    Ok(start_holder(run, &Instructions { token, bound, ttl_ms }, args.json)
        .unwrap_or_else(|error| super::failed(&format!("cannot hold a permit: {error}"))))
}

/// The process that the permit is bound to: the one that was named, else the caller. A time to live
/// replaces the caller.
fn bound_process(args: &AcquireArgs) -> Result<Option<BoundProcess>, UsageError> {
    match args.for_pid {
        Some(ForPid::None) => Ok(None),
        Some(ForPid::Pid(pid)) => {
            let process = Pid::from_raw(pid).and_then(BoundProcess::of);
            process.map(Some).ok_or(UsageError::NoProcess(pid))
        }
        None if args.ttl.is_some() => Ok(None),
        None => caller::calling_process().map(Some).ok_or(UsageError::NoCaller),
    }
}

/// Describes the permit: until when it is held, and by which script.
fn description(gate: &str, bound: Option<BoundProcess>, ttl: Option<Duration>) -> String {
    let named = |pid: i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("process {pid} {}", name.trim_end())
    };
    let by = named(getppid().map_or(0, |parent| parent.as_raw_nonzero().get()));
    let until = match (bound, ttl) {
        (Some(bound), None) => format!("until {} ends", named(bound.pid)),
        (Some(bound), Some(ttl)) => {
            format!("until {} ends, or {ttl:?} pass without a renewal", named(bound.pid))
        }
        (None, Some(ttl)) => format!("until {ttl:?} pass without a renewal; acquired by {by}"),
        (None, None) => format!("until `kgate release`; acquired by {by}"),
    };
    format!("kgate acquire {gate} ({until})")
}

/// Starts the holder, and waits for its output or for its end without a permit.
fn start_holder(mut run: Command, instructions: &Instructions, json: bool) -> io::Result<ExitCode> {
    let mut front = run.spawn()?;
    if let Some(mut input) = front.stdin.take() {
        // If it has ended already, its exit code says why.
        let _gone = input.write_all(&serde_json::to_vec(instructions)?);
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
        holder::end(&socket_of(&held.token)?)?;
        return Err(error);
    }
    Ok(ExitCode::SUCCESS)
}

/// `kgate release` of a permit that processes hold.
pub(crate) fn release(args: &ReleaseArgs) -> Result<ExitCode, UsageError> {
    with_holder(&args.token, holder::end)
}

/// `kgate renew` of a permit that processes hold.
pub(crate) fn renew(token: &str) -> Result<ExitCode, UsageError> {
    with_holder(token, |path| {
        let text = match holder::renew(path)? {
            Some(ttl) => format!("permit renewed: it expires in {ttl:?}"),
            None => "the permit has no time to live: it needs no renewal".to_owned(),
        };
        super::print_message(&text);
        Ok(())
    })
}

/// Does something with the holder of a token: 121 if there is none.
fn with_holder(
    token: &str,
    what: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<ExitCode, UsageError> {
    if !is_token(token) {
        return Err(UsageError::Token(token.to_owned()));
    }
    let path = match socket_of(token) {
        Ok(path) => path,
        Err(error) => return Ok(super::failed(&format!("cannot find the holder: {error}"))),
    };
    Ok(match what(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                let _absent = fs::remove_file(&path);
            }
            super::print_message(&format!(
                "permit lost or released before: no process holds it ({}: {error})",
                path.display()
            ));
            ExitCode::from(exit::LOST)
        }
    })
}

pub(super) fn is_token(text: &str) -> bool {
    text.len() as u64 == TOKEN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn socket_of(token: &str) -> io::Result<PathBuf> {
    // Not in the folder of the node, which may be another one: the same for every caller.
    Ok(create_user_folder().map_err(io::Error::other)?.join(token))
}

pub(crate) fn new_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
