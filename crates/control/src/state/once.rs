//! Keys of a gate that are used at most once: the first command to mark a key wins, and the key is
//! used until its time to live is over.
//!
//! A proposer that received no answer proposes again with the same token, and learns that it was
//! the first. Nobody can take a mark back: what it allowed may have begun.

use std::collections::BTreeMap;

use kgate_core::Span;
use serde::{Deserialize, Serialize};

use super::{
    Applied, Change, ClusterState, GateId, Limit, Outcome, Rejected, SecretHash, State, TextField,
    bounds, check_text, start,
};

/// A key that is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnceMark {
    /// The entry that marked it.
    pub at: u64,
    /// The hash of a random number of the client: it tells a repeated proposal from another client.
    pub token: SecretHash,
    /// Who marked it, for people.
    pub by: String,
    /// How long it is used.
    pub ttl: Span,
}

impl ClusterState {
    /// The mark of a key, if it is used.
    pub fn once_mark(&self, gate: GateId, key: &str) -> Option<&OnceMark> {
        self.once.get(&gate)?.get(key)
    }

    /// The gate and the key that the entry of this index marked.
    pub fn once_marked_at(&self, index: u64) -> Option<(GateId, &str, &OnceMark)> {
        self.once_marks().find(|(.., mark)| mark.at == index)
    }

    /// All keys that are used.
    pub fn once_marks(&self) -> impl Iterator<Item = (GateId, &str, &OnceMark)> {
        self.once.iter().flat_map(|(gate, keys)| {
            keys.iter().map(move |(key, mark)| (*gate, key.as_str(), mark))
        })
    }

    pub(super) fn once_since(&self, older: &ClusterState, changes: &mut Vec<Change>) {
        let same = |other: &ClusterState, gate, key, mark: &OnceMark| {
            other.once_mark(gate, key).is_some_and(|known| known.at == mark.at)
        };
        for (gate, key, mark) in older.once_marks() {
            if self.gates.contains_key(&gate) && !same(self, gate, key, mark) {
                changes.push(Change::OnceExpired(gate, key.to_owned()));
            }
        }
        for (gate, key, mark) in self.once_marks() {
            if !same(older, gate, key, mark) {
                changes.push(Change::OnceMarked(gate, key.to_owned(), mark.clone()));
            }
        }
    }

    pub(super) fn forget_once(&mut self, gate: GateId, key: &str) {
        let Some(keys) = self.once.get_mut(&gate) else { return };
        keys.remove(key);
        if keys.is_empty() {
            self.once.remove(&gate);
        }
    }
}

impl State {
    pub(super) fn mark_once(&mut self, gate: GateId, key: String, mark: OnceMark) -> Outcome {
        check_text(TextField::OnceKey, &key, 1)?;
        check_text(TextField::Author, &mark.by, 0)?;
        let state = &self.cluster_state;
        let name = state.gates.get(&gate).map(|gate| gate.name.clone());
        let name = name.ok_or(Rejected::GateDeleted(gate))?;
        if let Some(known) = state.once_mark(gate, &key) {
            if known.token == mark.token {
                return Ok((Applied::Marked, Vec::new()));
            }
            let (key, by) = (start(&key), known.by.clone());
            return Err(Rejected::OnceUsed { gate: name, key, by });
        }
        let of_gate = state.once.get(&gate).map_or(0, BTreeMap::len);
        if of_gate >= bounds::ONCE_KEYS || state.once_marks().count() >= bounds::ONCE_KEYS_IN_ALL {
            return Err(Rejected::LimitReached(Limit::OnceKeys));
        }
        let keys = self.cluster_state.once.entry(gate).or_default();
        keys.insert(key.clone(), mark.clone());
        Ok((Applied::Marked, vec![Change::OnceMarked(gate, key, mark)]))
    }

    pub(super) fn expire_once(&mut self, gate: GateId, key: String, at: u64) -> Outcome {
        if self.cluster_state.once_mark(gate, &key).is_none_or(|mark| mark.at != at) {
            return Err(Rejected::OnceExpired { key: start(&key) });
        }
        self.cluster_state.forget_once(gate, &key);
        Ok((Applied::OnceExpired, vec![Change::OnceExpired(gate, key)]))
    }
}
