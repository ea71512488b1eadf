//! `kgate hold`: the CMD of `kgate acquire`, which holds the permit until it is told to release it.
//!
//! It also ends when the process that the permit is bound to ends, or when its time to live has
//! passed without a renewal. Then the guard releases the permit as after any other CMD.
//!
//! On its socket the holder sends a line with the process whose end confirms a release. The client
//! answers with one byte: `!` releases, `+` renews. A renewal is answered with a line: the time to
//! live in milliseconds, or `-` without one.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use kgate_node::process_tree::read_proc;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open};
use serde::{Deserialize, Serialize};

use super::alarm::Alarm;
use super::hold::{Held, is_token, socket_of};
use super::lease_clock::LeaseInstant;

/// Maximum time for a client to answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of the instructions.
const INSTRUCTIONS_MAX: u64 = 4096;

/// A process that cannot be mistaken for a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundProcess {
    pub(crate) pid: i32,
    /// When it started, in clock ticks since the boot.
    started: u64,
}

impl BoundProcess {
    /// The process with this id, if there is one.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let pid = pid.as_raw_nonzero().get();
        let started = fields(pid)?.split_whitespace().nth(19)?.parse().ok()?;
        Some(Self { pid, started })
    }

    /// Whether this process descends from it.
    pub(crate) fn is_ancestor(self) -> bool {
        let mut process = Some(getpid());
        while let Some(pid) = process {
            if pid.as_raw_nonzero().get() == self.pid {
                return Self::of(pid) == Some(self);
            }
            process = parent_of(pid);
        }
        false
    }

    /// A descriptor that is readable when the process has ended.
    fn open(self) -> io::Result<OwnedFd> {
        let ended = || io::Error::other(format!("process {} has ended", self.pid));
        let pid = Pid::from_raw(self.pid).ok_or_else(ended)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| ended())?;
        // Compared after the descriptor was opened: so it is this process that it stands for.
        if Self::of(pid) == Some(self) { Ok(process) } else { Err(ended()) }
    }
}

/// The fields of `/proc/PID/stat` after the name, from the state on.
pub(super) fn fields(pid: i32) -> Option<String> {
    let stat = read_proc(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')').map(|(_, rest)| rest.to_owned())
}

/// What `kgate acquire` tells the holder by standard input, where nobody else reads it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Instructions {
    pub(super) token: String,
    /// The process whose end ends the permit.
    pub(super) bound: Option<BoundProcess>,
    /// The time to live.
    pub(super) ttl_ms: Option<u64>,
}

/// `kgate hold DESCRIPTION`.
pub(crate) fn main() -> ExitCode {
    let _unnamed = rustix::thread::set_name(c"kgate holder");
    match hold() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&format!("cannot hold the permit: {error}")),
    }
}

fn hold() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().take(INSTRUCTIONS_MAX).read_to_string(&mut text)?;
    let misuse = || io::Error::other("`kgate hold` is an internal part of `kgate acquire`");
    let instructions: Instructions = serde_json::from_str(&text).map_err(|_| misuse())?;
    if !is_token(&instructions.token) {
        return Err(misuse());
    }
    let bound = instructions.bound.map(BoundProcess::open).transpose()?;
    let path = socket_of(&instructions.token)?;
    let listener = UnixListener::bind(&path)?;
    let held =
        serde_json::to_string(&Held::of_environment(instructions.token, instructions.ttl_ms))?;
    // Without a reader the permit could never be released: this call fails then, and the permit is
    // released.
    writeln!(io::stdout(), "{held}")?;
    super::close_output()?;
    let ttl = instructions.ttl_ms.map(Duration::from_millis);
    let mut holder = Holder { listener, bound, ttl, expires_at: LeaseInstant::FOR_EVER };
    holder.renew();
    let waited = holder.wait();
    fs::remove_file(path)?;
    waited
}

struct Holder {
    listener: UnixListener,
    bound: Option<OwnedFd>,
    ttl: Option<Duration>,
    expires_at: LeaseInstant,
}

impl Holder {
    fn renew(&mut self) {
        let expires_at = self.ttl.map(|ttl| LeaseInstant::now() + ttl);
        self.expires_at = expires_at.unwrap_or(LeaseInstant::FOR_EVER);
    }

    /// Waits until the permit is to be released.
    fn wait(&mut self) -> io::Result<()> {
        let alarm = Alarm::new()?;
        loop {
            let now = LeaseInstant::now();
            if now >= self.expires_at {
                return Ok(());
            }
            alarm.set(self.expires_at, now)?;
            let mut sources = vec![self.listener.as_fd(), alarm.as_fd()];
            sources.extend(self.bound.as_ref().map(AsFd::as_fd));
            let mut polled: Vec<PollFd<'_>> = sources
                .iter()
                .map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN))
                .collect();
            match poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
            if ready.get(2) == Some(&true) {
                return Ok(());
            }
            // A client that went away has no effect.
            if ready[0] && self.serve_client().unwrap_or(false) {
                return Ok(());
            }
        }
    }

    /// Serves one client; true if it has confirmed the release.
    fn serve_client(&mut self) -> io::Result<bool> {
        let (mut client, _) = self.listener.accept()?;
        client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        let front =
            getppid().and_then(parent_of).ok_or_else(|| io::Error::other("the front is gone"))?;
        writeln!(client, "{}", front.as_raw_nonzero())?;
        let mut answer = [0; 1];
        client.read_exact(&mut answer)?;
        match &answer {
            b"!" => Ok(true),
            b"+" => {
                self.renew();
                let ttl = self.ttl.map(|ttl| ttl.as_millis().to_string());
                writeln!(client, "{}", ttl.as_deref().unwrap_or("-"))?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }
}

pub(super) fn parent_of(process: Pid) -> Option<Pid> {
    let fields = fields(process.as_raw_nonzero().get())?;
    Pid::from_raw(fields.split_whitespace().nth(1)?.parse().ok()?)
}

/// A connection to a holder, and its front.
fn connect(path: &Path) -> io::Result<(UnixStream, BufReader<UnixStream>, Pid)> {
    let holder = UnixStream::connect(path)?;
    let mut lines = BufReader::new(holder.try_clone()?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let front = line.trim().parse().ok().and_then(Pid::from_raw);
    let front = front.ok_or_else(|| io::Error::other("the holder is exiting"))?;
    Ok((holder, lines, front))
}

/// Ends the holder, and waits until its permit is released.
pub(super) fn end(path: &Path) -> io::Result<()> {
    let (mut holder, _, front) = connect(path)?;
    let process = pidfd_open(front, PidfdFlags::empty())?;
    holder.write_all(b"!")?;
    // After this command the caller may request the same slot at once.
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None)?;
    Ok(())
}

/// Restarts the time to live, and returns it.
pub(super) fn renew(path: &Path) -> io::Result<Option<Duration>> {
    let (mut holder, mut lines, _) = connect(path)?;
    holder.write_all(b"+")?;
    let mut line = String::new();
    lines.read_line(&mut line)?;
    match line.trim() {
        "" => Err(io::Error::other("the holder is exiting")),
        "-" => Ok(None),
        ttl => ttl
            .parse()
            .map(|ttl| Some(Duration::from_millis(ttl)))
            .map_err(|_| io::Error::other("unexpected answer of the holder")),
    }
}
