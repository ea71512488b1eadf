//! The store: one redb file, written by a thread of its own, one write after the other. Each write
//! is on disk before it is answered.
//!
//! It contains the vote, the log, the last snapshot of the state, and the index up to which the log
//! is applied. The state itself is not written with each entry: after a restart it is computed from
//! the snapshot and the entries up to that index, with the same result, because applying is
//! deterministic. So what was applied is never forgotten (rule N3), at the cost of one small write.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use kgate_core::{NodeId, Span};
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{EntryPayload, LogState, OptionalSend, RaftLogReader, StorageIOError, Vote};
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::StoreError;
use super::raft::{Entry, LogId, SnapshotMeta, StorageError, Types};
use super::shared::Shared;
use crate::membership::StoreId;

const FACTS: TableDefinition<&str, &[u8]> = TableDefinition::new("facts");
const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

const FORMAT: &str = "format";
const STORE: &str = "store";
const NODE: &str = "node";
const OPENED: &str = "opened";
const VOTE: &str = "vote";
const PURGED: &str = "purged";
const APPLIED: &str = "applied";
const SNAPSHOT_META: &str = "snapshot meta";
const SNAPSHOT: &str = "snapshot";

/// The version of the file's format. A later kgate must read it, or refuse.
const FORMAT_VERSION: u32 = 2;
/// The most bytes of entries that are read at once, so that they fit into one message.
const READ_BYTES_MAX: usize = 512 * 1024;

type Job = Box<dyn FnOnce(&Database) + Send>;

/// A handle to the store. The file is closed after the last handle is dropped.
#[derive(Clone)]
pub(super) struct Store {
    database: Arc<Database>,
    jobs: mpsc::Sender<Job>,
    /// Set before openraft starts.
    shared: Option<Arc<Shared>>,
}

/// An open store.
pub(super) struct OpenStore {
    pub(super) store: Store,
    pub(super) id: StoreId,
    /// The thread that writes. It ends when all handles are dropped.
    pub(super) thread: JoinHandle<()>,
    /// How long a write takes.
    pub(super) write_time: Span,
}

/// The file of the store in that folder.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("control.redb")
}

/// Opens the store of that node, or makes it.
pub(super) fn open(folder: &Path, me: NodeId) -> Result<OpenStore, StoreError> {
    let path = path(folder);
    crate::private_folder(folder)?;
    let mut database = Database::create(&path)?;
    crate::private_file(&path)?;
    // Purged entries leave holes in the file, and nothing reads or writes it yet.
    database.compact()?;
    let id = identify(&database, me)?;
    let write_time = measure(&database)?;
    let database = Arc::new(database);
    let (jobs, todo) = mpsc::channel::<Job>();
    let writer = Arc::clone(&database);
    let work = move || todo.into_iter().for_each(|job| job(&writer));
    let thread = std::thread::Builder::new().name("kgate-log-store".to_owned()).spawn(work)?;
    Ok(OpenStore { store: Store { database, jobs, shared: None }, id, thread, write_time })
}

/// How long a write takes: the median of three.
fn measure(database: &Database) -> Result<Span, StoreError> {
    let mut times = [Duration::ZERO; 3];
    for time in &mut times {
        let begun = Instant::now();
        write(database, |write| put(write, OPENED, &()))?;
        *time = begun.elapsed();
    }
    times.sort_unstable();
    Ok(Span(u64::try_from(times[1].as_nanos()).unwrap_or(u64::MAX)))
}

/// The id of the store, drawn when it is made.
fn identify(database: &Database, me: NodeId) -> Result<StoreId, StoreError> {
    let known: Option<(u32, NodeId, StoreId)> = write(database, |write| {
        write.open_table(LOG)?;
        let facts = write.open_table(FACTS)?;
        let get = |name| -> Result<Option<Vec<u8>>, StoreError> {
            Ok(facts.get(name)?.map(|bytes| bytes.value().to_vec()))
        };
        let (Some(format), Some(node), Some(store)) = (get(FORMAT)?, get(NODE)?, get(STORE)?)
        else {
            return Ok(None);
        };
        Ok(Some((decode(&format)?, decode(&node)?, decode(&store)?)))
    })?;
    match known {
        Some((found, ..)) if found != FORMAT_VERSION => {
            Err(StoreError::Format { found, supported: FORMAT_VERSION })
        }
        Some((_, owner, _)) if owner != me => Err(StoreError::OtherNode { owner, node: me }),
        Some((_, _, store)) => Ok(store),
        None => {
            let store = StoreId(super::random());
            write(database, |write| {
                put(write, FORMAT, &FORMAT_VERSION)?;
                put(write, NODE, &me)?;
                put(write, STORE, &store)
            })?;
            Ok(store)
        }
    }
}

impl Store {
    pub(super) fn share(&mut self, shared: Arc<Shared>) {
        self.shared = Some(shared);
    }

    fn shared(&self) -> &Shared {
        self.shared.as_deref().expect("set before openraft starts")
    }

    /// Writes a change; it is on disk when this returns.
    async fn write(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let (done, result) = oneshot::channel();
        let job = Box::new(move |database: &Database| {
            let _ = done.send(write(database, change));
        });
        self.jobs.send(job).map_err(|_| StoreError::Closed)?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    fn fact<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let read = self.database.begin_read()?;
        let facts = read.open_table(FACTS)?;
        facts.get(name)?.map(|bytes| decode(bytes.value())).transpose()
    }

    /// The last entry of the log.
    pub(super) fn last(&self) -> Result<Option<LogId>, StoreError> {
        let read = self.database.begin_read()?;
        let log = read.open_table(LOG)?;
        let last = log.last()?;
        match last.map(|(_, bytes)| decode::<Entry>(bytes.value())).transpose()? {
            Some(entry) => Ok(Some(entry.log_id)),
            None => self.fact(PURGED),
        }
    }

    /// The last entry that is applied.
    pub(super) fn applied(&self) -> Result<Option<LogId>, StoreError> {
        self.fact(APPLIED)
    }

    pub(super) async fn put_applied(&self, applied: LogId) -> Result<(), StoreError> {
        self.write(move |write| put(write, APPLIED, &applied)).await
    }

    /// The last snapshot, encoded.
    pub(super) fn snapshot(&self) -> Result<Option<(SnapshotMeta, Vec<u8>)>, StoreError> {
        let Some(meta) = self.fact(SNAPSHOT_META)? else { return Ok(None) };
        let read = self.database.begin_read()?;
        let facts = read.open_table(FACTS)?;
        let bytes = facts.get(SNAPSHOT)?.map(|bytes| bytes.value().to_vec());
        Ok(bytes.map(|bytes| (meta, bytes)))
    }

    /// Stores a snapshot, unless a later one is stored. One that was received also counts as
    /// applied.
    pub(super) async fn put_snapshot(
        &self,
        meta: SnapshotMeta,
        bytes: Vec<u8>,
        received: bool,
    ) -> Result<(), StoreError> {
        let change = move |write: &WriteTransaction| {
            let stored: Option<SnapshotMeta> = get(write, SNAPSHOT_META)?;
            if stored.is_some_and(|stored| stored.last_log_id > meta.last_log_id) {
                return Ok(());
            }
            put(write, SNAPSHOT_META, &meta)?;
            let mut facts = write.open_table(FACTS)?;
            facts.insert(SNAPSHOT, bytes.as_slice())?;
            drop(facts);
            match meta.last_log_id {
                Some(last) if received => put(write, APPLIED, &last),
                _ => Ok(()),
            }
        };
        self.write(change).await
    }

    /// The entries of that range, in order, up to so many bytes; at least one, if there is one.
    pub(super) fn entries(
        &self,
        range: impl RangeBounds<u64>,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let read = self.database.begin_read()?;
        let log = read.open_table(LOG)?;
        let mut entries = Vec::new();
        let mut bytes = 0;
        for found in log.range(range)? {
            let (_, found) = found?;
            bytes += found.value().len();
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(decode(found.value())?);
        }
        Ok(entries)
    }
}

fn write<T>(
    database: &Database,
    change: impl FnOnce(&WriteTransaction) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut write = database.begin_write()?;
    write.set_durability(Durability::Immediate)?;
    write.set_two_phase_commit(true);
    let result = change(&write)?;
    write.commit()?;
    if cfg!(debug_assertions) {
        slow_disk();
    }
    Ok(result)
}

/// Development builds can simulate a slow disk, in milliseconds per write: the fault `slow-disk` of
/// the chaos suite. This sleep waits for no condition; it is the time that a slow disk would take.
#[allow(clippy::disallowed_methods)]
fn slow_disk() {
    static SLOW: OnceLock<Duration> = OnceLock::new();
    let from_environment = || {
        std::env::var("KGATE_TEST_SLOW_DISK").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let slow = *SLOW.get_or_init(|| Duration::from_millis(from_environment()));
    if !slow.is_zero() {
        std::thread::sleep(slow);
    }
}

fn put(write: &WriteTransaction, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
    let bytes = encode(value)?;
    write.open_table(FACTS)?.insert(name, bytes.as_slice())?;
    Ok(())
}

fn get<T: DeserializeOwned>(write: &WriteTransaction, name: &str) -> Result<Option<T>, StoreError> {
    let facts = write.open_table(FACTS)?;
    facts.get(name)?.map(|bytes| decode(bytes.value())).transpose()
}

pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    postcard::to_stdvec(value).map_err(StoreError::Encode)
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(StoreError::Decode)
}

impl RaftLogReader<Types> for Store {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        self.entries(range, usize::MAX).map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, StorageError> {
        self.entries(start..end, READ_BYTES_MAX)
            .map_err(|error| StorageIOError::read_logs(&error).into())
    }
}

impl RaftLogStorage<Types> for Store {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let state = || -> Result<LogState<Types>, StoreError> {
            Ok(LogState { last_purged_log_id: self.fact(PURGED)?, last_log_id: self.last()? })
        };
        state().map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u32>) -> Result<(), StorageError> {
        let vote = *vote;
        let written = self.write(move |write| put(write, VOTE, &vote)).await;
        written.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u32>>, StorageError> {
        self.fact(VOTE).map_err(|error| StorageIOError::read_vote(&error).into())
    }

    /// Not stored: the applied index is. Voters report it with their answers (rule N6).
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        self.shared().commit(committed.map_or(0, |committed| committed.index));
        Ok(())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut rows = Vec::new();
        for entry in entries {
            // N4: visible before any other node can count this entry as stored here.
            if let EntryPayload::Membership(membership) = &entry.payload {
                self.shared().appended(entry.log_id.index, membership);
            }
            let bytes = encode(&entry).map_err(|error| StorageIOError::write_logs(&error))?;
            rows.push((entry.log_id.index, bytes));
        }
        let change = move |write: &WriteTransaction| {
            let mut log = write.open_table(LOG)?;
            for (index, bytes) in rows {
                log.insert(index, bytes.as_slice())?;
            }
            Ok(())
        };
        let written = self.write(change).await;
        callback.log_io_completed(written.clone().map_err(std::io::Error::other));
        written.map_err(|error| StorageIOError::write_logs(&error).into())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let change = move |write: &WriteTransaction| {
            let mut log = write.open_table(LOG)?;
            Ok(log.retain_in(log_id.index.., |_, _| false)?)
        };
        let written = self.write(change).await;
        // N4: only after the entry cannot be read here any more.
        self.shared().truncated(log_id.index);
        written.map_err(|error| StorageIOError::write_logs(&error).into())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let change = move |write: &WriteTransaction| {
            put(write, PURGED, &log_id)?;
            let mut log = write.open_table(LOG)?;
            Ok(log.retain_in(..=log_id.index, |_, _| false)?)
        };
        let written = self.write(change).await;
        written.map_err(|error| StorageIOError::write_logs(&error).into())
    }
}
