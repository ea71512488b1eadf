//! `kgate acquire` and `kgate release`: a permit for a script, held by processes in the background.
//!
//! `acquire` starts `kgate run NAME .. -- kgate hold WORDS` in a session of its own, so everything
//! that is true of `kgate run` is true of the holder. `hold` is a CMD that listens on a socket of
//! the user's own folder, prints what was got, and ends when it is told to; then the guard gives
//! the permit back as ever. `release` waits for the end of the front, which comes after that.
//!
//! The token is the name of the socket: 128 random bits. Whoever may open the folder may release;
//! nobody else can. It reaches `hold` by its standard input: arguments are shown by `ps` to
//! everybody on the machine and by `kgate status` to everybody who may see the gate. WORDS are for
//! those: who has asked.

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
use super::options::{AcquireArgs, ReleaseArgs};

/// So many words of the CMD that holds are not for people: `/proc/self/exe hold`.
pub(crate) const UNSAID: usize = 2;

/// How long a token is.
const TOKEN_DIGITS: u64 = 32;

/// What `acquire` prints.
#[derive(Debug, Serialize, Deserialize)]
struct Held {
    token: String,
    gate: String,
    slots: Vec<u32>,
    k: u32,
    fence: String,
    node: String,
}

/// `kgate acquire`. A command line that cannot be meant is an error.
pub(crate) fn acquire(args: &AcquireArgs, given: &ArgMatches) -> Result<ExitCode, String> {
    let wish = args.ask.wish(given)?;
    let mut run = Command::new("/proc/self/exe");
    run.args(["run", "--detached"]);
    run.arg(&wish.gate).arg("-p").arg(wish.permits.to_string());
    run.arg("-E").arg(args.ask.conflict_exit_code.to_string());
    if let Some(grace) = wish.grace {
        run.arg("--grace").arg(format!("{}ms", grace.as_millis()));
    }
    if let Some(node) = &wish.node {
        run.arg("--node").arg(node);
    }
    run.args(wish.credentials.words());
    if let Some(k) = wish.k {
        run.arg("-k").arg(k.to_string());
    }
    match wish.wait {
        Wait::ForEver => {}
        Wait::AtMost(span) => drop(run.arg("-w").arg(format!("{}ms", span.as_millis().max(1)))),
        Wait::No => drop(run.arg("-n")),
    }
    if args.ask.verbose {
        run.arg("--verbose");
    }
    let token = match new_token() {
        Ok(token) => token,
        Err(error) => return Ok(super::failed(&format!("cannot make a token: {error}"))),
    };
    run.args(["--", "/proc/self/exe", "hold", &asker(&wish.gate)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Ok(started(run, &token, args.json)
        .unwrap_or_else(|error| super::failed(&format!("cannot hold a permit: {error}"))))
}

/// Who asks, for people: the script, of which nothing but its name is told.
fn asker(gate: &str) -> String {
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    format!("kgate acquire {gate} (for {parent} {})", name.trim_end())
}

/// Waits for the line that tells what was got, or for the end of a holder that got nothing.
fn started(mut run: Command, token: &str, json: bool) -> io::Result<ExitCode> {
    let mut front = run.spawn()?;
    if let Some(mut input) = front.stdin.take() {
        // If it has ended already, its code says why.
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
        // Nobody learns the token, so nobody could release it.
        end_holder(&socket_of(&held.token)?)?;
        return Err(error);
    }
    Ok(ExitCode::SUCCESS)
}

/// `kgate hold WORDS`, the CMD of it.
pub(crate) fn main() -> ExitCode {
    let held = || -> io::Result<()> {
        let mut token = String::new();
        io::stdin().take(TOKEN_DIGITS + 1).read_to_string(&mut token)?;
        if !is_token(&token) {
            return Err(io::Error::other(
                "`kgate hold` is a part of `kgate acquire`, not for use by hand",
            ));
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
        // If nobody hears it, nobody could release it: then we end, and the permit goes back.
        writeln!(io::stdout(), "{held}")?;
        super::fall_silent()?;
        loop {
            let (asker, _) = listener.accept()?;
            // Who went away meanwhile does not matter.
            if told_to_end(asker).unwrap_or(false) {
                break;
            }
        }
        fs::remove_file(path)
    };
    match held() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(&format!("cannot hold the permit: {error}")),
    }
}

/// Says whose end means that the permit is given back; ends when the asker has understood.
fn told_to_end(mut asker: UnixStream) -> io::Result<bool> {
    let front = getppid().and_then(parent_of).ok_or_else(|| io::Error::other("no front"))?;
    writeln!(asker, "{}", front.as_raw_nonzero())?;
    let mut word = [0; 1];
    Ok(asker.read(&mut word)? == 1)
}

fn parent_of(process: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Pid::from_raw(rest.split_whitespace().nth(1)?.parse().ok()?)
}

/// `kgate release`. A token that cannot be one is an error.
pub(crate) fn release(args: &ReleaseArgs) -> Result<ExitCode, String> {
    if !is_token(&args.token) {
        return Err(format!(
            "`{}` is no token of kgate acquire: it has 32 hexadecimal digits, or is permit-NUMBER-DIGITS",
            args.token
        ));
    }
    let path = match socket_of(&args.token) {
        Ok(path) => path,
        Err(error) => return Ok(super::failed(&format!("cannot look for the holder: {error}"))),
    };
    Ok(match end_holder(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _absent = fs::remove_file(&path);
            super::say(&format!(
                "nobody holds that permit: it was released before, or lost ({error})"
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
    let front = front.ok_or_else(|| io::Error::other("the holder is ending"))?;
    let process = pidfd_open(front, PidfdFlags::empty())?;
    holder.write_all(b"!")?;
    // Whoever is told that it is released may ask at once for the same slot.
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
    // In a folder for all, somebody else may have made it first.
    let data = fs::symlink_metadata(&folder)?;
    if !data.is_dir() || data.uid() != user || data.mode() & 0o077 != 0 {
        let text =
            format!("{} must be a folder of yours that nobody else may enter", folder.display());
        return Err(io::Error::other(text));
    }
    Ok(folder.join(token))
}

pub(crate) fn new_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
