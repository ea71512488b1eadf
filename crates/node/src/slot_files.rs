//! Slots bound to processes: one file per slot, locked by the process that uses it.
//!
//! The kernel drops a lock when the last process that has it ends, for whatever reason. So a slot
//! is in use exactly while its file is locked. No clock is needed, a frozen holder keeps its slot,
//! and a node that was killed finds the holders by trying the locks. For that case a file beside
//! the slots of a gate stores its k.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The folder of the slot files cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the folder of slots {0}: {1}")]
pub struct NoSlotFiles(PathBuf, std::io::Error);

/// The files of all slots.
#[derive(Clone, Debug)]
pub(crate) struct SlotFiles(PathBuf);

/// The path of a slot's file.
pub fn slot_file(folder: &Path, gate: &str, slot: u32) -> PathBuf {
    folder.join("slots").join(format!("{}.{slot}", escaped(gate)))
}

/// Names of gates may contain slashes, file names must not.
fn escaped(gate: &str) -> String {
    gate.replace('/', "%")
}

/// Locks the file of a granted slot, and creates it if needed. It is an error if another process
/// has the lock.
pub fn lock_slot(folder: &Path, gate: &str, slot: u32) -> std::io::Result<File> {
    let path = slot_file(folder, gate, slot);
    loop {
        let file = File::options().create(true).append(true).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // A node that has just started may have removed the file before it was locked.
        if std::fs::metadata(&path).is_ok_and(|named| is_same(&named, &file)) {
            return Ok(file);
        }
    }
}

fn is_same(named: &std::fs::Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|open| (open.dev(), open.ino()) == (named.dev(), named.ino()))
}

impl SlotFiles {
    pub(crate) fn open(folder: PathBuf) -> Result<Self, NoSlotFiles> {
        let made = std::fs::create_dir_all(folder.join("slots"));
        made.map_err(|error| NoSlotFiles(folder.clone(), error))?;
        Ok(Self(folder))
    }

    fn k_file(&self, gate: &str) -> PathBuf {
        self.0.join("slots").join(format!("{}.k", escaped(gate)))
    }

    /// Stores the k of a gate.
    pub(crate) fn note(&self, gate: &str, k: u32) {
        if let Err(error) = std::fs::write(self.k_file(gate), k.to_string()) {
            tracing::error!(gate, %error, "its k cannot be written down: if this node is killed, its holders will not be known");
        }
    }

    /// The gates of earlier incarnations with slots in use: name, k, slots. The files of all other
    /// slots are removed.
    pub(crate) fn gates(&self) -> Vec<(String, u32, Vec<u32>)> {
        let Ok(entries) = std::fs::read_dir(self.0.join("slots")) else { return Vec::new() };
        let mut found = Vec::new();
        for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            let Some(gate) = name.strip_suffix(".k").map(|gate| gate.replace('%', "/")) else {
                continue;
            };
            let k = std::fs::read_to_string(self.k_file(&gate))
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0);
            let in_use: Vec<u32> =
                (0..k).filter(|slot| !self.remove_if_free(&gate, *slot)).collect();
            if in_use.is_empty() {
                let _ = std::fs::remove_file(self.k_file(&gate));
            } else {
                found.push((gate, k, in_use));
            }
        }
        found.sort();
        found
    }

    /// The file is removed while it is locked. A process that opened it before finds the lock
    /// taken, or another file under its name, and never takes the lock of a removed file.
    fn remove_if_free(&self, gate: &str, slot: u32) -> bool {
        let path = slot_file(&self.0, gate, slot);
        let Ok(file) = File::open(&path) else { return true };
        let free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if free {
            let _ = std::fs::remove_file(&path);
        }
        free
    }

    /// Returns when no process uses these slots. A process that never locked them does not use
    /// them.
    pub(crate) fn wait_until_free(&self, gate: &str, slots: &[u32]) {
        for slot in slots {
            if let Ok(file) = File::open(slot_file(&self.0, gate, *slot)) {
                while flock(&file, FlockOperation::LockExclusive) == Err(rustix::io::Errno::INTR) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    /// A process that opened a slot's file before a starting node removed it must not take that
    /// lock for the slot's.
    #[test]
    fn a_file_that_is_gone_is_noticed() {
        let folder = std::env::temp_dir().join(format!("kgate-slots-gone-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let files = SlotFiles::open(folder.clone()).unwrap();
        files.note("gpu", 1);
        let path = slot_file(&folder, "gpu", 0);
        let early = File::create(&path).unwrap();
        assert!(is_same(&std::fs::metadata(&path).unwrap(), &early));
        assert_eq!(files.gates(), [], "nobody has locked it");
        flock(&early, FlockOperation::NonBlockingLockExclusive).unwrap();
        let _later = lock_slot(&folder, "gpu", 0).unwrap();
        assert!(!is_same(&std::fs::metadata(&path).unwrap(), &early));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A slot is in use exactly while its file is locked. A gate without slots in use is forgotten.
    #[test]
    fn locks_tell_who_uses_a_slot() {
        let folder = std::env::temp_dir().join(format!("kgate-slots-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let files = SlotFiles::open(folder.clone()).unwrap();
        files.note("a/b", 3);
        files.note("idle", 2);
        let lock = lock_slot(&folder, "a/b", 1).unwrap();
        assert!(lock_slot(&folder, "a/b", 1).is_err(), "one at a time");
        assert_eq!(files.gates(), [("a/b".to_owned(), 3, vec![1])]);
        assert!(!files.k_file("idle").exists());
        let (waiter, gate) = (files.clone(), "a/b");
        let given_back = Arc::new(AtomicBool::new(false));
        let (seen, (waits, begun)) = (given_back.clone(), channel());
        let waiting = std::thread::spawn(move || {
            waits.send(()).unwrap();
            waiter.wait_until_free(gate, &[1]);
            seen.load(Ordering::SeqCst)
        });
        begun.recv().unwrap();
        given_back.store(true, Ordering::SeqCst);
        drop(lock);
        assert!(waiting.join().unwrap(), "it waits for that");
        assert_eq!(files.gates(), []);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
