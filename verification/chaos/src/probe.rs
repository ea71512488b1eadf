//! The probe: the command under `kgate run`. It records heartbeats, uses the resource, and ends.
//!
//! Most probes end at SIGTERM. Stubborn ones ignore it, and start a descendant in a session of its
//! own that keeps the lock of the slot: only the end of the whole tree frees the lock.

use std::fs::File;
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kgate_client::LeaseInstant;
use tokio::signal::unix::{SignalKind, signal};

use crate::record::{What, Writer};
use crate::{clock, resource};

/// Interval of the heartbeats.
pub(crate) const BEAT: Duration = Duration::from_millis(10);
/// The probe uses the resource at every N-th heartbeat.
pub(crate) const BEATS_A_USE: u64 = 4;

/// The argument of a probe that ignores SIGTERM.
pub(crate) const STUBBORN: &str = "stubborn";

/// `probe RUN NODE WHO HOLD_MS [stubborn]`.
pub(crate) fn main(words: &[&str]) -> Result<()> {
    let [run, node, who, hold_ms, rest @ ..] = words else {
        bail!("a probe is started by a chaos run")
    };
    let run = Path::new(run);
    let mut writer = Writer::open(run, &format!("probe-{who}"), node.parse()?)?;
    let page = page()?;
    let t = clock::now();
    let until = clock::real(read(&page)?);
    let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let (gate, fence) = (variable("KGATE_GATE")?, variable("KGATE_FENCE")?);
    let slots: Vec<u32> =
        variable("KGATE_SLOTS")?.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let mut locks = Vec::new();
    for slot in &slots {
        match resource::lock(run, &gate, *slot)? {
            Ok(lock) => locks.push(lock),
            Err(owner) => writer.write(who, What::LockTaken { slot: *slot, owner })?,
        }
    }
    let pid = std::process::id();
    let granted = What::Granted {
        gate: gate.clone(),
        slots: slots.clone(),
        fence: fence.clone(),
        until,
        pid,
        process: true,
    };
    writer.write_at(t, who, granted)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _enter = runtime.enter();
    let _deaf = if rest.contains(&STUBBORN) {
        leave_behind(&locks)?;
        Some(signal(SignalKind::terminate())?)
    } else {
        None
    };
    let end = t + hold_ms.parse::<u64>()? * 1_000_000;
    for beat in 0.. {
        if beat % BEATS_A_USE == 0 {
            for slot in &slots {
                use_resource(run, &mut writer, who, &gate, *slot, &fence, || {
                    Ok(clock::real(read(&page)?))
                })?;
            }
        }
        let t = clock::now();
        let until = clock::real(read(&page)?);
        writer.write_at(t, who, What::Inside { until })?;
        if t >= end {
            break;
        }
        clock::pause(BEAT);
    }
    writer.write(who, What::Out)
}

/// Uses a slot of the resource, and records a refusal. The deadline is read before the use and the
/// time after it: a holder that the resource refuses must be past its deadline.
pub(crate) fn use_resource(
    run: &Path,
    writer: &mut Writer,
    who: &str,
    gate: &str,
    slot: u32,
    fence: &str,
    until: impl Fn() -> Result<u64>,
) -> Result<()> {
    let until = until()?;
    if let Some(greatest) = resource::access(run, gate, slot, fence)? {
        writer.write(who, What::Stale { slot, greatest, until })?;
    }
    Ok(())
}

/// A descendant that inherits the locks, and that no signal to a process group reaches.
fn leave_behind(locks: &[File]) -> Result<()> {
    for lock in locks {
        rustix::io::fcntl_setfd(lock, rustix::io::FdFlags::empty())?;
    }
    let quiet = || Stdio::null();
    let mut sleeper = Command::new("setsid");
    sleeper.args(["sleep", "600"]).stdin(quiet()).stdout(quiet()).stderr(quiet());
    drop(sleeper.spawn().context("cannot start setsid")?);
    Ok(())
}

/// The page with the deadline, as `kgate run` hands it to its command.
fn page() -> Result<File> {
    let text = std::env::var("KGATE_DEADLINE_FD").context("KGATE_DEADLINE_FD is not set")?;
    let number: RawFd = text.parse().context("KGATE_DEADLINE_FD is no number")?;
    let path = PathBuf::from(format!("/proc/self/fd/{number}"));
    File::open(path).context("KGATE_DEADLINE_FD is not open")
}

/// The deadline and its complement; torn while they are written, they do not agree.
fn read(page: &File) -> Result<LeaseInstant> {
    for _ in 0..1000 {
        let mut bytes = [0; 16];
        page.read_exact_at(&mut bytes, 0).context("the page with the deadline is too short")?;
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        if word(0) == !word(8) {
            return Ok(LeaseInstant(word(0)));
        }
    }
    bail!("the page with the deadline does not agree with itself")
}
