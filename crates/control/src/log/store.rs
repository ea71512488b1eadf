//! The store: one redb file, written by a thread of its own, one write after the other, each on
//! disk before it is answered.
//!
//! It has the vote, the log, the last snapshot of the state, and the index up to which the log is
//! applied. The state itself is not written with each entry: it is made again from the snapshot and
//! the entries up to that index, which comes to the same because applying is deterministic. So what
//! was applied is never forgotten (rule N3) at the cost of one small write.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::Path;
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

use super::api::LogError;
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

/// Of what is in the file. Another version must read it, or refuse.
const VERSION: u32 = 1;
/// At most so many bytes of entries are read at once, so that they fit into one message.
const READ_BYTES: usize = 512 * 1024;

/// Why a write or a read failed, in words; the log cannot go on after it.
type Failure = String;
type Job = Box<dyn FnOnce(&Database) + Send>;

/// A handle to the store; its file is closed after the last of them is gone.
#[derive(Clone)]
pub(super) struct Store {
    database: Arc<Database>,
    jobs: mpsc::Sender<Job>,
    /// Set once the rest of the log is made.
    shared: Option<Arc<Shared>>,
}

/// What was found when it was opened.
pub(super) struct Found {
    pub(super) store: Store,
    pub(super) id: StoreId,
    /// Ends when all handles are gone.
    pub(super) thread: JoinHandle<()>,
    /// So long took a write.
    pub(super) sync: Span,
}

/// Opens or makes the store of that node.
pub(super) fn open(folder: &Path, me: NodeId) -> Result<Found, LogError> {
    let path = folder.join("control.redb");
    let failed = |why: String| LogError { path: path.clone(), why };
    crate::private_folder(folder).map_err(|error| failed(error.to_string()))?;
    let mut database = Database::create(&path).map_err(|error| failed(error.to_string()))?;
    crate::private_file(&path).map_err(|error| failed(error.to_string()))?;
    // What was purged leaves holes; nobody reads or writes yet.
    database.compact().map_err(|error| failed(error.to_string()))?;
    let id = identify(&database, me, &path)?;
    let sync = measure(&database).map_err(failed)?;
    let database = Arc::new(database);
    let (jobs, todo) = mpsc::channel::<Job>();
    let writer = Arc::clone(&database);
    let work = move || todo.into_iter().for_each(|job| job(&writer));
    let thread = std::thread::Builder::new().name("kgate-log-store".to_owned()).spawn(work);
    let thread = thread.map_err(|error| failed(error.to_string()))?;
    Ok(Found { store: Store { database, jobs, shared: None }, id, thread, sync })
}

/// How long a write takes: of three, the one in the middle.
fn measure(database: &Database) -> Result<Span, Failure> {
    let mut times = [Duration::ZERO; 3];
    for time in &mut times {
        let begun = Instant::now();
        write(database, |write| put(write, OPENED, &()))?;
        *time = begun.elapsed();
    }
    times.sort_unstable();
    Ok(Span(u64::try_from(times[1].as_nanos()).unwrap_or(u64::MAX)))
}

/// The id of the store, made with it.
fn identify(database: &Database, me: NodeId, path: &Path) -> Result<StoreId, LogError> {
    let failed = |why: Failure| LogError { path: path.to_owned(), why };
    let known: Option<(u32, NodeId, StoreId)> = write(database, |write| {
        write.open_table(LOG).map_err(text)?;
        let facts = write.open_table(FACTS).map_err(text)?;
        let get = |name| {
            facts.get(name).map_err(text).map(|found| found.map(|bytes| bytes.value().to_vec()))
        };
        let (Some(format), Some(node), Some(store)) = (get(FORMAT)?, get(NODE)?, get(STORE)?)
        else {
            return Ok(None);
        };
        Ok(Some((decode(&format)?, decode(&node)?, decode(&store)?)))
    })
    .map_err(failed)?;
    match known {
        Some((format, ..)) if format != VERSION => Err(failed(format!(
            "it is of version {format}, this kgate reads version {VERSION}: use the kgate that wrote it"
        ))),
        Some((_, node, _)) if node != me => Err(failed(format!(
            "it is the store of {node}, not of {me}: a copied or foreign store must not be used (rule R4)"
        ))),
        Some((_, _, store)) => Ok(store),
        None => {
            let store = StoreId(super::random());
            let put = write(database, |write| {
                put(write, FORMAT, &VERSION)?;
                put(write, NODE, &me)?;
                put(write, STORE, &store)
            });
            put.map_err(failed).map(|()| store)
        }
    }
}

impl Store {
    pub(super) fn share(&mut self, shared: Arc<Shared>) {
        self.shared = Some(shared);
    }

    fn shared(&self) -> &Shared {
        self.shared.as_deref().expect("set before openraft begins")
    }

    /// Writes, and is on disk when it returns.
    async fn write(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let (done, result) = oneshot::channel();
        let job = Box::new(move |database: &Database| {
            let _ = done.send(write(database, change));
        });
        self.jobs.send(job).map_err(|_| "the store is closed".to_owned())?;
        result.await.map_err(|_| "the store is closed".to_owned())?
    }

    fn fact<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let read = self.database.begin_read().map_err(text)?;
        let facts = read.open_table(FACTS).map_err(text)?;
        facts.get(name).map_err(text)?.map(|bytes| decode(bytes.value())).transpose()
    }

    /// Where the log ends.
    pub(super) fn last(&self) -> Result<Option<LogId>, Failure> {
        let read = self.database.begin_read().map_err(text)?;
        let log = read.open_table(LOG).map_err(text)?;
        let last = log.last().map_err(text)?;
        match last.map(|(_, bytes)| decode::<Entry>(bytes.value())).transpose()? {
            Some(entry) => Ok(Some(entry.log_id)),
            None => self.fact(PURGED),
        }
    }

    /// Up to where the log is applied.
    pub(super) fn applied(&self) -> Result<Option<LogId>, Failure> {
        self.fact(APPLIED)
    }

    pub(super) async fn put_applied(&self, applied: LogId) -> Result<(), Failure> {
        self.write(move |write| put(write, APPLIED, &applied)).await
    }

    /// The last snapshot, as bytes.
    pub(super) fn snapshot(&self) -> Result<Option<(SnapshotMeta, Vec<u8>)>, Failure> {
        let Some(meta) = self.fact(SNAPSHOT_META)? else { return Ok(None) };
        let read = self.database.begin_read().map_err(text)?;
        let facts = read.open_table(FACTS).map_err(text)?;
        let bytes = facts.get(SNAPSHOT).map_err(text)?.map(|bytes| bytes.value().to_vec());
        Ok(bytes.map(|bytes| (meta, bytes)))
    }

    /// Stores a snapshot, unless a later one is there. One that was received is applied by that.
    pub(super) async fn put_snapshot(
        &self,
        meta: SnapshotMeta,
        bytes: Vec<u8>,
        received: bool,
    ) -> Result<(), Failure> {
        let change = move |write: &WriteTransaction| {
            let stored: Option<SnapshotMeta> = get(write, SNAPSHOT_META)?;
            if stored.is_some_and(|stored| stored.last_log_id > meta.last_log_id) {
                return Ok(());
            }
            put(write, SNAPSHOT_META, &meta)?;
            let mut facts = write.open_table(FACTS).map_err(text)?;
            facts.insert(SNAPSHOT, bytes.as_slice()).map_err(text)?;
            drop(facts);
            match meta.last_log_id {
                Some(last) if received => put(write, APPLIED, &last),
                _ => Ok(()),
            }
        };
        self.write(change).await
    }

    /// Entries of that range, in order, until there are so many bytes; one at least, if there is
    /// one.
    pub(super) fn entries(
        &self,
        range: impl RangeBounds<u64>,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, Failure> {
        let read = self.database.begin_read().map_err(text)?;
        let log = read.open_table(LOG).map_err(text)?;
        let mut entries = Vec::new();
        let mut bytes = 0;
        for found in log.range(range).map_err(text)? {
            let (_, found) = found.map_err(text)?;
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
    change: impl FnOnce(&WriteTransaction) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut write = database.begin_write().map_err(text)?;
    write.set_durability(Durability::Immediate).map_err(text)?;
    write.set_two_phase_commit(true);
    let result = change(&write)?;
    write.commit().map_err(text)?;
    if cfg!(debug_assertions) {
        slow_disk();
    }
    Ok(result)
}

/// A build for development can be told that its disk is slow, in milliseconds a write: the fault
/// `slow-disk` of the chaos suite. Nobody waits for anything here but for the time to pass that a
/// slow disk would take.
#[allow(clippy::disallowed_methods)]
fn slow_disk() {
    static SLOW: OnceLock<Duration> = OnceLock::new();
    let told = || {
        std::env::var("KGATE_TEST_SLOW_DISK").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let slow = *SLOW.get_or_init(|| Duration::from_millis(told()));
    if !slow.is_zero() {
        std::thread::sleep(slow);
    }
}

fn put(write: &WriteTransaction, name: &str, value: &impl Serialize) -> Result<(), Failure> {
    let bytes = encode(value)?;
    write.open_table(FACTS).map_err(text)?.insert(name, bytes.as_slice()).map_err(text)?;
    Ok(())
}

fn get<T: DeserializeOwned>(write: &WriteTransaction, name: &str) -> Result<Option<T>, Failure> {
    let facts = write.open_table(FACTS).map_err(text)?;
    facts.get(name).map_err(text)?.map(|bytes| decode(bytes.value())).transpose()
}

fn text(error: impl std::error::Error) -> Failure {
    error.to_string()
}

pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    postcard::to_stdvec(value).map_err(|error| format!("it cannot be written: {error}"))
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    postcard::from_bytes(bytes).map_err(|_| {
        "what is stored cannot be read: it is damaged, or of another version of kgate".to_owned()
    })
}

fn io(failure: Failure) -> std::io::Error {
    std::io::Error::other(failure)
}

impl RaftLogReader<Types> for Store {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        self.entries(range, usize::MAX).map_err(|why| StorageIOError::read_logs(&io(why)).into())
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, StorageError> {
        self.entries(start..end, READ_BYTES)
            .map_err(|why| StorageIOError::read_logs(&io(why)).into())
    }
}

impl RaftLogStorage<Types> for Store {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let state = || -> Result<LogState<Types>, Failure> {
            Ok(LogState { last_purged_log_id: self.fact(PURGED)?, last_log_id: self.last()? })
        };
        state().map_err(|why| StorageIOError::read_logs(&io(why)).into())
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u32>) -> Result<(), StorageError> {
        let vote = *vote;
        let written = self.write(move |write| put(write, VOTE, &vote)).await;
        written.map_err(|why| StorageIOError::write_vote(&io(why)).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u32>>, StorageError> {
        self.fact(VOTE).map_err(|why| StorageIOError::read_vote(&io(why)).into())
    }

    /// What is applied is stored, so what is agreed on need not be; it is told to whoever asks
    /// (rule N6).
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
            // N4: from before anybody can count this entry as ours.
            if let EntryPayload::Membership(membership) = &entry.payload {
                self.shared().appended(entry.log_id.index, membership);
            }
            let bytes = encode(&entry).map_err(|why| StorageIOError::write_logs(&io(why)))?;
            rows.push((entry.log_id.index, bytes));
        }
        let change = move |write: &WriteTransaction| {
            let mut log = write.open_table(LOG).map_err(text)?;
            for (index, bytes) in rows {
                log.insert(index, bytes.as_slice()).map_err(text)?;
            }
            Ok(())
        };
        let written = self.write(change).await;
        callback.log_io_completed(written.clone().map_err(io));
        written.map_err(|why| StorageIOError::write_logs(&io(why)).into())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let change = move |write: &WriteTransaction| {
            let mut log = write.open_table(LOG).map_err(text)?;
            log.retain_in(log_id.index.., |_, _| false).map_err(text)
        };
        let written = self.write(change).await;
        // N4: only after nobody can read the entry here any more.
        self.shared().truncated(log_id.index);
        written.map_err(|why| StorageIOError::write_logs(&io(why)).into())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let change = move |write: &WriteTransaction| {
            put(write, PURGED, &log_id)?;
            let mut log = write.open_table(LOG).map_err(text)?;
            log.retain_in(..=log_id.index, |_, _| false).map_err(text)
        };
        let written = self.write(change).await;
        written.map_err(|why| StorageIOError::write_logs(&io(why)).into())
    }
}
