//! What must survive a restart: how often this node has started, and what protocols have stored. In one redb file, each write on disk before it returns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kgate_core::Incarnation;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::core::GateId;

const LIVES: TableDefinition<&str, u32> = TableDefinition::new("lives");
const GATES: TableDefinition<u32, &[u8]> = TableDefinition::new("gates");

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the store {path}: {why}")]
pub struct StoreError {
    path: PathBuf,
    why: String,
}

/// What gates have stored.
pub(crate) type Stored = BTreeMap<GateId, Vec<u8>>;

/// The store of a node.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    database: Option<Database>,
}

impl Store {
    /// Opens the store in that folder, or makes it; in memory only, if none. Returns what is in it, and which life begins.
    pub(crate) fn open(folder: Option<&Path>) -> Result<(Self, Incarnation, Stored), StoreError> {
        let Some(folder) = folder else {
            // A life without a store: later than all before it, as far as the clock on the wall tells.
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            let life = u32::try_from(now.tv_sec).unwrap_or(u32::MAX);
            let store = Self { path: PathBuf::new(), database: None };
            return Ok((store, Incarnation(life), BTreeMap::new()));
        };
        let path = folder.join("node.redb");
        let failed = |why: String| StoreError { path: path.clone(), why };
        std::fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
        let database = Database::create(&path).map_err(|error| failed(error.to_string()))?;
        let begin = || -> Result<(u32, Stored), redb::Error> {
            let write = database.begin_write()?;
            let life = {
                let mut lives = write.open_table(LIVES)?;
                let life = lives.get("life")?.map_or(0, |life| life.value()) + 1;
                lives.insert("life", life)?;
                write.open_table(GATES)?;
                life
            };
            write.commit()?;
            let read = database.begin_read()?;
            let mut stored = BTreeMap::new();
            for entry in read.open_table(GATES)?.iter()? {
                let (gate, bytes) = entry?;
                stored.insert(GateId(gate.value()), bytes.value().to_vec());
            }
            Ok((life, stored))
        };
        let (life, stored) = begin().map_err(|error| failed(error.to_string()))?;
        Ok((Self { path, database: Some(database) }, Incarnation(life), stored))
    }

    /// Another life of this node begins: which one. On disk when it returns.
    pub(crate) fn next_life(&self) -> Result<Incarnation, StoreError> {
        let Some(database) = &self.database else { return Err(self.failed("there is no folder `data`")) };
        let next = || -> Result<u32, redb::Error> {
            let write = database.begin_write()?;
            let life = {
                let mut lives = write.open_table(LIVES)?;
                let life = lives.get("life")?.map_or(0, |life| life.value()) + 1;
                lives.insert("life", life)?;
                life
            };
            write.commit()?;
            Ok(life)
        };
        next().map(Incarnation).map_err(|error| self.failed(&error.to_string()))
    }

    fn failed(&self, why: &str) -> StoreError {
        StoreError { path: self.path.clone(), why: why.to_owned() }
    }

    /// Has this on disk when it returns.
    pub(crate) fn put(&self, gate: GateId, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(database) = &self.database else { return Ok(()) };
        let write = || -> Result<(), redb::Error> {
            let write = database.begin_write()?;
            write.open_table(GATES)?.insert(gate.0, bytes)?;
            write.commit()?;
            Ok(())
        };
        write().map_err(|error| StoreError { path: self.path.clone(), why: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was put is there in the next life; two nodes cannot share a store.
    #[test]
    fn it_remembers() {
        let folder = std::env::temp_dir().join(format!("kgate-store-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let (store, first, stored) = Store::open(Some(&folder)).unwrap();
        assert!(stored.is_empty());
        store.put(GateId(3), b"abc").unwrap();
        let second = Store::open(Some(&folder));
        assert!(second.is_err_and(|error| error.to_string().contains("node.redb")));
        drop(store);
        let (_store, next, stored) = Store::open(Some(&folder)).unwrap();
        assert_eq!((next.0, stored[&GateId(3)].as_slice()), (first.0 + 1, &b"abc"[..]));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
