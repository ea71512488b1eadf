//! Slots bound to processes: one file per grant of a slot, locked by the process that uses it.
//!
//! The kernel drops a lock when the last process that has it ends, for whatever reason. So a slot
//! is in use while the file of its grant is locked. No clock is needed, a frozen holder keeps its
//! slot, and a node that was killed finds the holders by trying the locks. For that case a file
//! beside the slots of a gate stores its k, and what k comes from.
//!
//! The node may serve users who do not trust each other. So only the holder learns the name of its
//! file, which ends in 128 random bits, and nobody but the node can list or change the folder.
//! Nobody can lock the file of somebody else's grant. A process that keeps an old lock keeps its
//! own slot: the slot is not granted again before the lock is free (`prober.rs`).

mod lockers;
mod prober;

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use kgate_control::state::{KSource, Slots};
use rustix::fs::{FlockOperation, flock};

use crate::core::Process;
use crate::folders::make_own;
pub(crate) use lockers::process as describe_process;
pub(crate) use prober::{Prober, Watched};

/// The folder of the slot files in the node's folder.
const FOLDER: &str = "slots";
/// Users may open a file whose name they know, and may not list the folder.
const FOLDER_MODE: u32 = 0o711;
/// Reading suffices to lock a file. Nobody else can fill the disk by it.
const FILE_MODE: u32 = 0o644;

/// Digits of the part of a name that only the holder knows.
const SECRET_DIGITS: usize = 32;

/// The folder of the slot files cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the folder of slots {}: {cause}", .folder.display())]
pub struct NoSlotFiles {
    folder: PathBuf,
    cause: io::Error,
}

/// The files of all slots.
#[derive(Debug)]
pub(crate) struct SlotFiles {
    /// The folder of the node, which the names given to holders are relative to.
    folder: PathBuf,
    /// The files of each slot that was granted and may be in use.
    files: BTreeMap<(String, u32), Vec<PathBuf>>,
}

/// A gate of earlier incarnations, with its slots in use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FoundGate {
    pub(crate) name: String,
    pub(crate) slots: Slots,
    pub(crate) in_use: Vec<u32>,
    pub(crate) holders: BTreeMap<u32, Process>,
}

/// A slot whose file a process has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedSlot {
    /// The gate.
    pub gate: String,
    /// The slot.
    pub slot: u32,
    /// The process.
    pub holder: Process,
}

/// The slots in use of the node in this folder, by the locks of their files: for messages while the
/// node does not run. Slots of processes that this one cannot see are missing.
pub fn locked_slots(folder: &Path) -> Vec<LockedSlot> {
    let Ok(entries) = std::fs::read_dir(folder.join(FOLDER)) else { return Vec::new() };
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let slot = |(file, holder): (PathBuf, Process)| {
        let (gate, slot) = parse(file.file_name()?.to_str()?)?;
        Some(LockedSlot { gate, slot, holder })
    };
    let mut slots: Vec<_> = lockers::lockers(&files).into_iter().filter_map(slot).collect();
    slots.sort_by(|one, other| (&one.gate, one.slot).cmp(&(&other.gate, other.slot)));
    slots
}

/// Names of gates may contain slashes, file names must not.
fn escaped(gate: &str) -> String {
    gate.replace('/', "%")
}

/// The gate and the slot of a file. The name of a gate may end like that of a slot.
fn parse(name: &str) -> Option<(String, u32)> {
    let (rest, secret) = name.rsplit_once('.')?;
    if secret.len() != SECRET_DIGITS {
        return None;
    }
    let (gate, slot) = rest.rsplit_once('.')?;
    Some((gate.replace('%', "/"), slot.parse().ok()?))
}

/// The content of a file with the slots of a gate: k, and below it its expression or the names.
fn text_of(slots: &Slots) -> String {
    let Slots { k, source } = slots;
    match source {
        KSource::Number => k.to_string(),
        KSource::Expression(text) => format!("{k}\nexpression\n{text}\n"),
        KSource::Names(names) => format!("{k}\nnames\n{}\n", names.join("\n")),
    }
}

/// The slots that [`text_of`] wrote. A file that was cut off while it was written has only its k.
fn slots_of(text: &str) -> Option<Slots> {
    let mut lines = text.lines();
    let k: u32 = lines.next()?.parse().ok()?;
    let source = match lines.next().filter(|_| text.ends_with('\n')) {
        Some("expression") => KSource::Expression(lines.next().unwrap_or_default().to_owned()),
        Some("names") => KSource::Names(lines.map(str::to_owned).collect()),
        Some(_) | None => KSource::Number,
    };
    let slots = Slots { k, source };
    Some(if slots.check().is_ok() { slots } else { k.into() })
}

/// Whether no process has locked the file, which is then removed. That happens while it is locked
/// here: a process that opened it before finds the lock taken, or another file under its name, and
/// never takes the lock of a removed file.
pub(crate) fn remove_if_free(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return true };
    let free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    if free {
        let _ = std::fs::remove_file(path);
    }
    free
}

/// Whether a process has the lock of a slot of the node in this folder, which does not run. Files
/// that are not locked are removed.
pub fn is_any_slot_locked(folder: &Path) -> io::Result<bool> {
    let entries = match std::fs::read_dir(folder.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    let is_slot = |name: &std::ffi::OsStr| name.to_str().and_then(parse).is_some();
    let mut locked = false;
    for entry in entries {
        let entry = entry?;
        locked |= is_slot(&entry.file_name()) && !remove_if_free(&entry.path());
    }
    Ok(locked)
}

impl SlotFiles {
    pub(crate) fn open(folder: PathBuf) -> Result<Self, NoSlotFiles> {
        let slots = folder.join(FOLDER);
        make_own(&slots, FOLDER_MODE).map_err(|cause| NoSlotFiles { folder: slots, cause })?;
        Ok(Self { folder, files: BTreeMap::new() })
    }

    fn slots(&self) -> PathBuf {
        self.folder.join(FOLDER)
    }

    fn k_file(&self, gate: &str) -> PathBuf {
        self.slots().join(format!("{}.k", escaped(gate)))
    }

    /// Stores the slots of a gate.
    pub(crate) fn note(&self, gate: &str, slots: &Slots) {
        let mut options = File::options();
        let written = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.k_file(gate))
            .and_then(|mut file| io::Write::write_all(&mut file, text_of(slots).as_bytes()));
        if let Err(error) = written {
            let text = "cannot persist k: after a restart the gate has the k of its slots in use";
            tracing::error!(gate, %error, "{text}");
        }
    }

    /// Creates the files of a grant, and returns their names for the holder. It is an error if a
    /// process still uses one of the slots.
    pub(crate) fn lend(&mut self, gate: &str, slots: &[u32]) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for slot in slots {
            match self.lend_one(gate, *slot) {
                Ok(name) => names.push(name),
                Err(error) => {
                    names
                        .iter()
                        .for_each(|name| drop(std::fs::remove_file(self.folder.join(name))));
                    return Err(error);
                }
            }
        }
        Ok(names)
    }

    fn lend_one(&mut self, gate: &str, slot: u32) -> io::Result<String> {
        let files = self.files.entry((gate.to_owned(), slot)).or_default();
        files.retain(|file| !remove_if_free(file));
        if !files.is_empty() {
            let text = format!("a process of an earlier holder still uses slot {slot} of {gate}");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        let secret = u128::from_ne_bytes(secret);
        let name = format!("{FOLDER}/{}.{slot}.{secret:0SECRET_DIGITS$x}", escaped(gate));
        let path = self.folder.join(&name);
        let file = File::options().write(true).create_new(true).mode(FILE_MODE).open(&path)?;
        // The process may have been started with another mask.
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        files.push(path);
        Ok(name)
    }

    /// The files of slots that may be in use.
    pub(crate) fn files_of(&self, gate: &str, slots: &[u32]) -> Vec<PathBuf> {
        let of = |slot: &u32| self.files.get(&(gate.to_owned(), *slot)).cloned();
        slots.iter().filter_map(of).flatten().collect()
    }

    /// The gates of earlier incarnations with slots in use. The files of all other slots are
    /// removed.
    pub(crate) fn gates(&mut self) -> Vec<FoundGate> {
        let Ok(entries) = std::fs::read_dir(self.slots()) else { return Vec::new() };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if let Some(slot) = parse(&name) {
                let path = entry.path();
                if !remove_if_free(&path) {
                    self.files.entry(slot).or_default().push(path);
                }
            }
        }
        let mut found: Vec<FoundGate> = Vec::new();
        let locked: Vec<PathBuf> = self.files.values().flatten().cloned().collect();
        let mut holders = lockers::lockers(&locked);
        for ((name, slot), files) in &self.files {
            if found.last().is_none_or(|gate| gate.name != *name) {
                let (name, slots) = (name.clone(), Slots::default());
                found.push(FoundGate { name, slots, in_use: Vec::new(), holders: BTreeMap::new() });
            }
            let gate = found.last_mut().expect("just added");
            gate.in_use.push(*slot);
            gate.holders.extend(files.iter().find_map(|file| Some((*slot, holders.remove(file)?))));
        }
        for gate in &mut found {
            let noted = std::fs::read_to_string(self.k_file(&gate.name)).ok();
            let noted = noted.and_then(|text| slots_of(&text)).unwrap_or_default();
            let used = gate.in_use.iter().map(|slot| slot + 1).max().unwrap_or(0);
            gate.slots = if used > noted.k { used.into() } else { noted };
        }
        self.forget_other_gates(&found);
        found
    }

    fn forget_other_gates(&self, found: &[FoundGate]) {
        let Ok(entries) = std::fs::read_dir(self.slots()) else { return };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let gate = name.strip_suffix(".k").map(|gate| gate.replace('%', "/"));
            if gate.is_some_and(|gate| !found.iter().any(|found| found.name == gate)) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kgate_client::local::lock_file;
    use kgate_testkit::TempFolder;

    use super::*;

    fn open(folder: &Path) -> SlotFiles {
        SlotFiles::open(folder.to_owned()).unwrap()
    }

    /// The file of a grant.
    fn lend(files: &mut SlotFiles, gate: &str, slot: u32) -> PathBuf {
        let names = files.lend(gate, &[slot]).unwrap();
        files.folder.join(&names[0])
    }

    /// A slot is in use while the file of its grant is locked, also after a restart. A gate without
    /// slots in use is forgotten.
    #[test]
    fn locks_tell_which_slots_are_in_use() {
        let folder = TempFolder::new("slot-files");
        let mut files = open(&folder);
        // Without a check `a/b.0.k` would be a file of slot 0 of `a/b`.
        files.note("a/b.0", &3.into());
        files.note("idle", &2.into());
        lend(&mut files, "idle", 0);
        let lock = lock_file(&lend(&mut files, "a/b.0", 1)).unwrap();
        let mut next = open(&folder);
        let [gate] = &next.gates()[..] else { panic!("one gate is in use") };
        assert_eq!(
            (gate.name.as_str(), &gate.slots, &gate.in_use[..]),
            ("a/b.0", &3.into(), &[1][..])
        );
        assert_eq!(gate.holders[&1].pid, std::process::id());
        let [slot] = &locked_slots(&folder)[..] else { panic!("one slot is locked") };
        assert_eq!((slot.gate.as_str(), slot.slot, &slot.holder), ("a/b.0", 1, &gate.holders[&1]));
        assert!(!next.k_file("idle").exists());
        assert!(next.lend("a/b.0", &[1]).is_err(), "it is in use");
        next.note("a/b.0", &1.into());
        assert_eq!(open(&folder).gates()[0].slots.k, 2, "a smaller k hides no holder");
        let named = Slots::named(["a", "b"].map(str::to_owned).to_vec());
        next.note("a/b.0", &named);
        assert_eq!(open(&folder).gates()[0].slots, named);
        drop(lock);
        assert_eq!(open(&folder).gates(), []);
        assert!(next.lend("a/b.0", &[1]).is_ok());
    }

    /// Each grant has a file of its own: who knows an old one cannot lock the slot of the next
    /// holder, and a holder that is late finds its file gone.
    #[test]
    fn an_old_file_does_not_lock_the_next_grant() {
        let folder = TempFolder::new("slot-files-old");
        let mut files = open(&folder);
        let first = lend(&mut files, "gpu", 0);
        let early = File::open(&first).unwrap();
        let second = lend(&mut files, "gpu", 0);
        assert!(first != second && !first.exists());
        flock(&early, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(lock_file(&first).is_err(), "too late");
        assert!(lock_file(&second).is_ok());
        assert_eq!(open(&folder).gates(), [], "the lock of a removed file counts for nothing");
    }

    /// What k comes from is read as it was written; a file that was cut off gives k alone.
    #[test]
    fn slots_as_text() {
        let named = Slots::named(["cuda:0", "cuda:1"].map(str::to_owned).to_vec());
        let expression = Slots { k: 4, source: KSource::Expression("cores/2".to_owned()) };
        for slots in [Slots::from(3), named.clone(), expression] {
            assert_eq!(slots_of(&text_of(&slots)), Some(slots));
        }
        for cut in ["2\nnames\ncuda:0\n", "2\nnames\ncuda:0\ncud", "2\nexpression\ncores"] {
            assert_eq!(slots_of(cut), Some(2.into()), "{cut:?}");
        }
        assert_eq!((slots_of(""), slots_of("names")), (None, None));
    }

    /// Nobody else can list the folder, or write to a file.
    #[test]
    fn others_cannot_find_the_files() {
        let folder = TempFolder::new("slot-files-mode");
        let mut files = open(&folder);
        let file = lend(&mut files, "gpu", 0);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&files.slots()), mode(&file)), (0o711, 0o644));
    }
}
