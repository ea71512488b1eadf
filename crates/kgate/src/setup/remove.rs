//! `kgate setup machine --remove`: gives up the node of this machine.
//!
//! Afterwards each user has a node of its own, which does not know the permits of the machine's. So
//! nobody may hold one: first the node is asked, then it is stopped, and then the locks of its
//! slots decide, when nobody can be granted another one. Until the last file is removed,
//! commands fail.

use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use kgate_client::local::{MACHINE_CONFIG, MACHINE_SOCKET, accepts};
use kgate_client::{Address, Status};
use kgate_node::{Config, LockedSlot, is_any_slot_locked, locked_slots};

use super::{COMMANDS, SERVICE_UNIT, SOCKET_UNIT, SYSTEMD, UNITS, execute};
use crate::run::exit::BUSY;
use crate::status::{block_on, say};
use crate::{Failure, Outcome};

/// The command that stops the service, and the one that tells systemd that its units are gone.
const DISABLE: &[&str] = &["systemctl", "disable", "--now", SOCKET_UNIT, SERVICE_UNIT];
const RELOAD: &[&str] = COMMANDS[0];

/// Where the configuration is kept.
fn kept() -> PathBuf {
    PathBuf::from(format!("{MACHINE_CONFIG}.old"))
}

pub(super) fn run(dry_run: bool) -> Outcome {
    let units = [SOCKET_UNIT, SERVICE_UNIT].map(|name| Path::new(UNITS).join(name));
    let is_service = Path::new(SYSTEMD).is_dir() && units.iter().any(|unit| unit.exists());
    if dry_run {
        print(&units)?;
        return Ok(ExitCode::SUCCESS);
    }
    let socket = Path::new(MACHINE_SOCKET);
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if !is_service && !is_there(socket) && !is_there(Path::new(MACHINE_CONFIG)) {
        say("nothing to remove: this machine has no node");
        return Ok(ExitCode::SUCCESS);
    }
    if !rustix::process::geteuid().is_root() {
        let text = "only root can remove the node of this machine: nothing was changed";
        return Err(Failure::Internal(anyhow::anyhow!(text)));
    }
    check_unused()?;
    if is_service {
        execute(DISABLE)?;
    }
    if accepts(socket).is_ok() {
        let text = format!(
            "the node of this machine still runs, and no unit of systemd starts it: end the \
             process `kgate node --machine` and what starts it again, and run this again; \
             {MACHINE_CONFIG} is still there"
        );
        return Err(Failure::Internal(anyhow::anyhow!(text)));
    }
    let folder = socket.parent().unwrap_or(socket);
    let locked = is_any_slot_locked(folder);
    if locked.context("cannot read who holds slots: run this as root")? {
        if is_service {
            execute(COMMANDS[1])?;
        }
        let name = |slot: &LockedSlot| format!("slot {} of gate `{}`", slot.slot, slot.gate);
        let slots: Vec<String> = locked_slots(folder).iter().map(name).collect();
        let what = if slots.is_empty() { "a slot".to_owned() } else { slots.join(", ") };
        return Err(held(&format!("a process holds {what}")));
    }
    if is_service {
        units.iter().try_for_each(|unit| remove(unit))?;
        execute(RELOAD)?;
    }
    let data = data_folder();
    let kept_text = match fs::rename(MACHINE_CONFIG, kept()) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        renamed => {
            renamed.with_context(|| cannot_change(Path::new(MACHINE_CONFIG)))?;
            format!(" {MACHINE_CONFIG} is kept as {}.", kept().display())
        }
    };
    // Last: as long as the socket is there, nobody takes another node.
    remove(socket)?;
    say(&format!(
        "this machine has no node any more: each user has one of its own again.{kept_text} The \
         state of the node stays in {}",
        data.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Where the node has its state.
fn data_folder() -> PathBuf {
    let file = Path::new(MACHINE_CONFIG);
    let config = Config::machine(Path::new(MACHINE_SOCKET), file.exists().then_some(file));
    config.ok().and_then(|config| config.data).unwrap_or_else(|| "/var/lib/kgate".into())
}

fn print(units: &[PathBuf]) -> Result<(), std::io::Error> {
    let mut out = stdout().lock();
    writeln!(out, "$ {}", DISABLE.join(" "))?;
    for unit in units {
        writeln!(out, "$ rm {}", unit.display())?;
    }
    writeln!(out, "$ {}", RELOAD.join(" "))?;
    writeln!(out, "$ mv {MACHINE_CONFIG} {}", kept().display())?;
    writeln!(out, "$ rm {MACHINE_SOCKET}")
}

/// Asks the node, if it runs, who holds a permit or waits for one. The locks decide in the end, so
/// a node that does not answer can be removed too.
fn check_unused() -> Result<(), Failure> {
    if accepts(Path::new(MACHINE_SOCKET)).is_err() {
        return Ok(());
    }
    let status = block_on(async { Ok(Status::fetch(Address::unix(MACHINE_SOCKET), None).await) })?;
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            say(&format!(
                "warning: the node does not say who holds a permit ({error}): it is stopped, and \
                 the locks of its slots are looked at"
            ));
            return Ok(());
        }
    };
    let of = |gate: kgate_client::GateStatus<'_>| {
        let (taken, waiting) = (gate.slots_in_use(), gate.waiting_count());
        let in_use = kgate_api::count(usize::try_from(taken).unwrap_or(usize::MAX), "slot");
        (taken > 0 || waiting > 0)
            .then(|| format!("gate `{}`: {in_use} in use, {waiting} waiting", gate.name()))
    };
    let used: Vec<String> = status.gates().filter_map(of).collect();
    if used.is_empty() { Ok(()) } else { Err(held(&used.join("; "))) }
}

fn held(what: &str) -> Failure {
    let text = format!(
        "not removed, because the nodes of users would not know the permits of this one: {what}; \
         wait until `kgate status` shows no holder, or evict them"
    );
    Failure::Exit(BUSY, text)
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| cannot_change(path)),
    }
}

fn cannot_change(path: &Path) -> String {
    format!("cannot remove {}: run this as root", path.display())
}
