//! The keys that are used at most once, at a node without a log.

use kgate_control::state::{Limit, bounds};
use redb::{ReadableTable, ReadableTableMetadata, Table, TableDefinition};
use serde::{Deserialize, Serialize};

use super::{Store, StoreError, durably};
use crate::core::{Marked, StoredMark};

/// By gate and key, which have no line breaks.
const ONCE: TableDefinition<&str, &[u8]> = TableDefinition::new("once");

/// A key that is used.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    token: [u8; 32],
    by: String,
    /// When it is not used any more, in milliseconds of the wall clock.
    until_ms: u64,
}

impl Store {
    /// Uses a key, if nobody does. The mark is on disk when this returns.
    pub(crate) fn mark_once(&self, mark: &StoredMark) -> Result<Marked, StoreError> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        self.mark_once_at(seconds.saturating_mul(1000), mark)
    }

    fn mark_once_at(&self, now_ms: u64, mark: &StoredMark) -> Result<Marked, StoreError> {
        let failed = |why: String| StoreError { path: self.path.clone(), why };
        let Some(database) = &self.database else {
            return Err(failed("it has no file, so no key can be marked".into()));
        };
        let done = durably(database, |write| {
            let mut table = write.open_table(ONCE)?;
            forget_expired(&mut table, now_ms)?;
            let name = format!("{}\n{}", mark.gate, mark.key);
            if let Some(known) = table.get(name.as_str())? {
                // One that cannot be read was written, so the key is used.
                let known = postcard::from_bytes::<Entry>(known.value()).ok();
                return Ok(match known {
                    Some(known) if known.token == mark.token => Marked::First,
                    Some(known) => Marked::UsedBy(known.by),
                    None => Marked::UsedBy("an unknown client".into()),
                });
            }
            let (first, last) = (format!("{}\n", mark.gate), format!("{}\u{b}", mark.gate));
            let of_gate = table.range(first.as_str()..last.as_str())?.count();
            let in_all = usize::try_from(table.len()?).unwrap_or(usize::MAX);
            if of_gate >= bounds::ONCE_KEYS || in_all >= bounds::ONCE_KEYS_IN_ALL {
                return Ok(Marked::Full(Limit::OnceKeys.to_string()));
            }
            let until_ms = now_ms.saturating_add(mark.ttl.0.div_ceil(1_000_000));
            let entry = Entry { token: mark.token, by: mark.by.clone(), until_ms };
            let bytes = postcard::to_allocvec(&entry).expect("a mark can be encoded");
            table.insert(name.as_str(), bytes.as_slice())?;
            Ok(Marked::First)
        });
        done.map_err(|error: redb::Error| failed(error.to_string()))
    }
}

fn forget_expired(table: &mut Table<'_, &str, &[u8]>, now_ms: u64) -> Result<(), redb::Error> {
    table.retain(|_, bytes| {
        postcard::from_bytes(bytes).map_or(true, |entry: Entry| entry.until_ms > now_ms)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use kgate_core::{Incarnation, Span};
    use kgate_testkit::TempFolder;

    use super::super::Mark;
    use super::*;

    fn open(folder: &TempFolder) -> Store {
        Store::open(Some(folder), Mark::IsErased, Incarnation(0)).unwrap().0
    }

    fn mark(gate: &str, key: &str, client: u8) -> StoredMark {
        let (gate, key) = (gate.to_owned(), key.to_owned());
        let by = format!("client {client}");
        StoredMark { gate, key, ttl: Span(60_000_000_000), token: [client; 32], by }
    }

    /// The first client uses a key, also when it asks again and after a restart; the next one does
    /// when the time to live is over. Keys of other gates are others.
    #[test]
    fn a_key_is_used_once() {
        let folder = TempFolder::new("store-once");
        let store = open(&folder);
        let first = mark("nightly", "2026-11-18", 1);
        for _ in 0..2 {
            assert_eq!(store.mark_once_at(1000, &first).unwrap(), Marked::First);
        }
        drop(store);
        let store = open(&folder);
        let second = mark("nightly", "2026-11-18", 2);
        let used = Marked::UsedBy("client 1".into());
        assert_eq!(store.mark_once_at(60_999, &second).unwrap(), used);
        for other in [mark("nightly", "2026-11-19", 2), mark("night", "ly\n", 2)] {
            assert_eq!(store.mark_once_at(60_999, &other).unwrap(), Marked::First);
        }
        assert_eq!(store.mark_once_at(61_000, &second).unwrap(), Marked::First);
        assert_eq!(store.mark_once_at(61_000, &first).unwrap(), Marked::UsedBy("client 2".into()));
    }

    /// The number of keys of a gate is bounded; a full gate has room again when keys expire.
    #[test]
    fn keys_are_bounded() {
        let folder = TempFolder::new("store-once-full");
        let store = open(&folder);
        let entry = Entry { token: [0; 32], by: String::new(), until_ms: 10 };
        let bytes = postcard::to_allocvec(&entry).unwrap();
        durably(store.database.as_ref().unwrap(), |write| {
            let mut table = write.open_table(ONCE)?;
            for key in 0..bounds::ONCE_KEYS {
                table.insert(format!("full\n{key}").as_str(), bytes.as_slice())?;
            }
            Ok::<_, redb::Error>(())
        })
        .unwrap();
        let marked = |now, gate: &str| store.mark_once_at(now, &mark(gate, "key", 1)).unwrap();
        assert!(matches!(marked(9, "full"), Marked::Full(_)));
        assert_eq!(marked(9, "other"), Marked::First);
        assert_eq!(marked(10, "full"), Marked::First);
    }
}
