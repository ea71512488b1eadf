//! The state that survives a restart: the number of incarnations, the durable state of protocols,
//! and after a clean stop the whole state of the node. It is one redb file; each write is on disk
//! before it returns.
//!
//! **A clean stop** (LEASES R1) stores the state under a mark. The next start finds the mark and is
//! the **same incarnation**; it [takes](Store::take_suspended) the state, which erases the mark
//! durably, before its first message. So an incarnation that has sent anything since can never go
//! back: after a crash there is no mark, and the start is a new incarnation (R2). A start that
//! fails before it takes the state (its port is in use) leaves the mark for the next one.

mod once;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kgate_core::Incarnation;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    WriteTransaction,
};

use crate::core::{GateId, GateSetting};
use crate::folders::check_own;

const INCARNATIONS: TableDefinition<&str, u32> = TableDefinition::new("incarnations");
const GATES: TableDefinition<u32, &[u8]> = TableDefinition::new("gates");
/// The mark: the state of a clean stop, and the boot of the machine.
const SUSPENDED: TableDefinition<&str, (&str, &[u8])> = TableDefinition::new("suspended");
/// What operators set of gates of a node alone.
const GATE_SETTINGS: TableDefinition<&str, &[u8]> = TableDefinition::new("gate-settings");
/// Identifies a boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the store {}: {why}", .path.display())]
pub struct StoreError {
    path: PathBuf,
    why: String,
}

/// The durable state of each gate.
pub(crate) type Stored = BTreeMap<GateId, Vec<u8>>;

/// The store of a node.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    database: Option<Database>,
}

/// The stored state of a clean stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suspended {
    /// The state.
    pub(crate) bytes: Vec<u8>,
    /// Whether the machine has not rebooted since. Only then do times of the lease clock in it mean
    /// anything.
    pub(crate) same_boot: bool,
}

/// What to do with a mark when the store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The same incarnation resumes: the opener must [take](Store::take_suspended) the state before
    /// its first message.
    GoesOn,
    /// The mark is erased, and a new incarnation begins.
    IsErased,
}

impl Store {
    /// Opens or creates the store in that folder; in memory only, if none. Returns its contents,
    /// and the incarnation that begins or resumes. One that begins is at least `least`.
    pub(crate) fn open(
        folder: Option<&Path>,
        mark: Mark,
        least: Incarnation,
    ) -> Result<(Self, Incarnation, Stored), StoreError> {
        let Some(folder) = folder else {
            let store = Self { path: PathBuf::new(), database: None };
            return Ok((store, incarnation_by_clock(), BTreeMap::new()));
        };
        let path = folder.join("node.redb");
        let failed = |why: String| StoreError { path: path.clone(), why };
        let made = kgate_control::private_folder(folder).and_then(|()| check_own(folder));
        made.map_err(|error| StoreError { path: folder.into(), why: error.to_string() })?;
        let database = Database::create(&path).map_err(|error| failed(unreadable(&error)))?;
        kgate_control::private_file(&path).map_err(|error| failed(error.to_string()))?;
        let (incarnation, stored) =
            begin(&database, mark, least.0).map_err(|error| failed(error.to_string()))?;
        Ok((Self { path, database: Some(database) }, Incarnation(incarnation), stored))
    }

    /// Begins the next incarnation, and returns its number. It is on disk when this returns.
    pub(crate) fn next_incarnation(&self) -> Result<Incarnation, StoreError> {
        let mut incarnation = 0;
        self.write(|write| {
            let mut incarnations = write.open_table(INCARNATIONS)?;
            incarnation =
                incarnations.get("incarnation")?.map_or(0, |incarnation| incarnation.value()) + 1;
            incarnations.insert("incarnation", incarnation)?;
            Ok(())
        })?;
        Ok(Incarnation(incarnation))
    }

    /// Stores the durable state of a gate. It is on disk when this returns.
    pub(crate) fn put(&self, gate: GateId, bytes: &[u8]) -> Result<(), StoreError> {
        self.write(|write| {
            write.open_table(GATES)?.insert(gate.0, bytes)?;
            Ok(())
        })
    }

    /// Stores what an operator set of a gate. It is on disk when this returns.
    pub(crate) fn put_gate_setting(&self, setting: &GateSetting) -> Result<(), StoreError> {
        let bytes = postcard::to_allocvec(setting).expect("a setting can be encoded");
        self.write(|write| {
            write.open_table(GATE_SETTINGS)?.insert(setting.name.as_str(), bytes.as_slice())?;
            Ok(())
        })
    }

    /// What operators set of gates.
    pub(crate) fn gate_settings(&self) -> Result<Vec<GateSetting>, StoreError> {
        let failed = |why: String| StoreError { path: self.path.clone(), why };
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        read_gate_settings(database)
            .map_err(|error| failed(error.to_string()))?
            .iter()
            .map(|bytes| postcard::from_bytes(bytes))
            .collect::<Result<_, _>>()
            .map_err(|error| failed(format!("a gate's setting cannot be decoded: {error}")))
    }

    /// Stores the state of a clean stop, with the mark. It is on disk when this returns, and the
    /// node must send nothing more. Without a folder nothing is stored.
    pub(crate) fn suspend(&self, bytes: &[u8]) -> Result<(), StoreError> {
        self.suspend_in(&boot_id(), bytes)
    }

    fn suspend_in(&self, boot: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.write(|write| {
            write.open_table(SUSPENDED)?.insert("node", (boot, bytes))?;
            Ok(())
        })
    }

    /// Takes the state of the last stop, if that was a clean one. The mark is durably erased when
    /// this returns: the state cannot be taken again.
    pub(crate) fn take_suspended(&self) -> Result<Option<Suspended>, StoreError> {
        let mut taken = None;
        self.write(|write| {
            let mut table = write.open_table(SUSPENDED)?;
            taken = table.remove("node")?.map(|found| {
                let (boot, bytes) = found.value();
                Suspended {
                    bytes: bytes.to_vec(),
                    same_boot: !boot.is_empty() && boot == boot_id(),
                }
            });
            Ok(())
        })?;
        Ok(taken)
    }

    fn write(
        &self,
        what: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let Some(database) = &self.database else { return Ok(()) };
        durably(database, what)
            .map_err(|error| StoreError { path: self.path.clone(), why: error.to_string() })
    }
}

/// Why the file cannot be opened, and what to do.
fn unreadable(error: &DatabaseError) -> String {
    if let DatabaseError::Storage(StorageError::Io(error)) = error
        && !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
    {
        return error.to_string();
    }
    if matches!(error, DatabaseError::DatabaseAlreadyOpen) {
        return "another node uses it: stop that one".to_owned();
    }
    format!(
        "it is damaged, or no store of kgate ({error}). On one machine move it away once no \
         command holds a permit: what `kgate set` set is lost. In a cluster remove this node, and \
         add it again with an empty data folder"
    )
}

/// Runs one transaction, on disk when this returns.
fn durably<T>(
    database: &Database,
    what: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
) -> Result<T, redb::Error> {
    let mut write = database.begin_write()?;
    write.set_two_phase_commit(true);
    let done = what(&write)?;
    write.commit()?;
    Ok(done)
}

/// Reads the incarnation that begins or resumes, and the durable state of the gates.
fn begin(database: &Database, mark: Mark, least: u32) -> Result<(u32, Stored), redb::Error> {
    let incarnation = durably(database, |write| {
        let mut incarnations = write.open_table(INCARNATIONS)?;
        let mut suspended = write.open_table(SUSPENDED)?;
        write.open_table(GATES)?;
        let last = incarnations.get("incarnation")?.map_or(0, |incarnation| incarnation.value());
        let goes_on = mark == Mark::GoesOn && suspended.get("node")?.is_some();
        if goes_on {
            return Ok(last);
        }
        suspended.remove("node")?;
        let next = least.max(last + 1);
        incarnations.insert("incarnation", next)?;
        Ok(next)
    })?;
    let mut stored = BTreeMap::new();
    for entry in database.begin_read()?.open_table(GATES)?.iter()? {
        let (gate, bytes) = entry?;
        stored.insert(GateId(gate.value()), bytes.value().to_vec());
    }
    Ok((incarnation, stored))
}

/// An incarnation number from the wall clock: later than all before it, as far as that clock tells.
pub(crate) fn incarnation_by_clock() -> Incarnation {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Incarnation(u32::try_from(now.tv_sec).unwrap_or(u32::MAX))
}

fn read_gate_settings(database: &Database) -> Result<Vec<Vec<u8>>, redb::Error> {
    let table = match database.begin_read()?.open_table(GATE_SETTINGS) {
        Ok(table) => table,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    table.iter()?.map(|entry| Ok(entry?.1.value().to_vec())).collect()
}

/// The id of this boot of the machine; empty if unknown.
fn boot_id() -> String {
    std::fs::read_to_string(BOOT_ID).map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No least incarnation.
    const NONE: Incarnation = Incarnation(0);

    /// An empty folder for a test.
    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("kgate-store-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    fn open(folder: &Path, mark: Mark) -> (Store, u32) {
        let (store, incarnation, _) = Store::open(Some(folder), mark, NONE).unwrap();
        (store, incarnation.0)
    }

    /// The next incarnation finds what was stored. Two nodes cannot share a store.
    #[test]
    fn it_remembers() {
        let folder = folder("remembers");
        let (store, first, stored) = Store::open(Some(&folder), Mark::IsErased, NONE).unwrap();
        assert!(stored.is_empty());
        store.put(GateId(3), b"abc").unwrap();
        let second = Store::open(Some(&folder), Mark::IsErased, NONE);
        assert!(second.is_err_and(|error| error.to_string().contains("node.redb")));
        drop(store);
        let (_store, next, stored) = Store::open(Some(&folder), Mark::IsErased, NONE).unwrap();
        assert_eq!((next.0, stored[&GateId(3)].as_slice()), (first.0 + 1, &b"abc"[..]));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A damaged file is named, with what to do, and stays as it is. So is a file in place of the
    /// folder.
    #[test]
    fn a_damaged_store() {
        let folder = folder("damaged");
        let (store, _) = open(&folder, Mark::GoesOn);
        drop(store);
        let file = folder.join("node.redb");
        let refused = |folder: &Path| {
            Store::open(Some(folder), Mark::GoesOn, NONE).map(drop).unwrap_err().to_string()
        };
        let whole = std::fs::read(&file).unwrap();
        for damaged in [&b"no store"[..], &vec![0; whole.len()], &whole[..100]] {
            std::fs::write(&file, damaged).unwrap();
            let text = refused(&folder);
            assert!(text.contains("node.redb") && text.contains("move it away"), "{text}");
            assert_eq!(std::fs::read(&file).unwrap(), damaged);
        }
        assert!(refused(&file).contains("node.redb"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A least incarnation counts where the stored one is smaller, and never sets it back.
    #[test]
    fn a_least_incarnation() {
        let folder = folder("least");
        for (least, expected) in [(0, 1), (700, 700), (5, 701), (701, 702), (900, 900)] {
            let least = Incarnation(least);
            let (_, incarnation, _) = Store::open(Some(&folder), Mark::IsErased, least).unwrap();
            assert_eq!(incarnation.0, expected);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// R1: after a clean stop the same incarnation resumes with its state. R2: after a crash a new
    /// one begins without.
    #[test]
    fn a_clean_stop_is_no_new_incarnation() {
        let folder = folder("suspended");
        let (store, first) = open(&folder, Mark::GoesOn);
        assert_eq!(store.take_suspended().unwrap(), None, "a first start");
        store.suspend(b"all").unwrap();
        drop(store);
        let (store, again) = open(&folder, Mark::GoesOn);
        assert_eq!(again, first);
        let suspended = Suspended { bytes: b"all".to_vec(), same_boot: !boot_id().is_empty() };
        assert_eq!(store.take_suspended().unwrap(), Some(suspended));
        assert_eq!(store.take_suspended().unwrap(), None, "taken once");
        drop(store);
        let (store, crashed) = open(&folder, Mark::GoesOn);
        assert_eq!((crashed, store.take_suspended().unwrap()), (first + 1, None));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// R1: taking the state erases the mark on disk, not only in memory: a copy of the file has
    /// none.
    #[test]
    fn the_mark_is_erased_durably() {
        let (here, copy) = (folder("erased"), folder("erased-copy"));
        let (store, first) = open(&here, Mark::GoesOn);
        store.suspend(b"all").unwrap();
        drop(store);
        let (store, _) = open(&here, Mark::GoesOn);
        store.take_suspended().unwrap().unwrap();
        // As `kill -9` would leave it.
        std::fs::create_dir_all(&copy).unwrap();
        std::fs::copy(here.join("node.redb"), copy.join("node.redb")).unwrap();
        let (copied, incarnation) = open(&copy, Mark::GoesOn);
        assert_eq!((incarnation, copied.take_suspended().unwrap()), (first + 1, None));
        drop((store, copied));
        std::fs::remove_dir_all(&here).unwrap();
        std::fs::remove_dir_all(&copy).unwrap();
    }

    /// A start that fails before it takes the state leaves the mark. A start that does not resume
    /// erases it and is a new incarnation.
    #[test]
    fn a_mark_waits_or_is_erased() {
        let folder = folder("waits");
        let (store, first) = open(&folder, Mark::GoesOn);
        store.suspend(b"all").unwrap();
        drop(store);
        for _ in 0..2 {
            assert_eq!(open(&folder, Mark::GoesOn).1, first);
        }
        assert_eq!(open(&folder, Mark::IsErased).1, first + 1);
        let (store, next) = open(&folder, Mark::GoesOn);
        assert_eq!((next, store.take_suspended().unwrap()), (first + 2, None));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// Times of the lease clock mean nothing in another boot, or where the boot is unknown.
    #[test]
    fn another_boot_is_told() {
        let folder = folder("boot");
        let (store, _) = open(&folder, Mark::GoesOn);
        for boot in ["", "another"] {
            store.suspend_in(boot, b"all").unwrap();
            let suspended = store.take_suspended().unwrap().unwrap();
            assert_eq!((suspended.bytes.as_slice(), suspended.same_boot), (&b"all"[..], false));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// Without a folder nothing is stored, and no incarnation resumes.
    #[test]
    fn memory_keeps_nothing() {
        let (store, ..) = Store::open(None, Mark::GoesOn, NONE).unwrap();
        store.suspend(b"all").unwrap();
        assert_eq!(store.take_suspended().unwrap(), None);
    }
}
