//! The state machine that openraft feeds: it applies entries, stores how far, and only then
//! publishes them (rule N3).

use std::io::Cursor;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageIOError};
use tokio::sync::mpsc;

use super::api::AppliedEntry;
use super::error::StoreError;
use super::raft::{
    Answer, Entry, LogId, Roster, Snapshot, SnapshotMeta, StorageError, StoredMembership, Types,
};
use super::shared::Shared;
use super::store::{Store, decode, encode};
use crate::state::{Applied, Change, State};

/// The state, and the channel on which applied entries are published.
pub(super) struct StateMachine {
    store: Store,
    shared: Arc<Shared>,
    entries: mpsc::UnboundedSender<AppliedEntry>,
    state: StoredState,
}

/// The state with what openraft must know of it. After a start it is made from the store: the
/// snapshot, and the entries that were applied after it.
#[derive(Default)]
pub(super) struct StoredState {
    pub(super) state: State,
    pub(super) applied: Option<LogId>,
    pub(super) membership: StoredMembership,
}

impl StoredState {
    /// The state as it was when this node last applied an entry.
    pub(super) fn load(store: &Store) -> Result<Self, StoreError> {
        let mut loaded = match store.snapshot()? {
            Some((meta, bytes)) => Self {
                state: decode(&bytes)?,
                applied: meta.last_log_id,
                membership: meta.last_membership.clone(),
            },
            None => Self::default(),
        };
        let Some(applied) = store.applied()? else { return Ok(loaded) };
        let first = loaded.applied.map_or(0, |applied| applied.index + 1);
        for entry in store.entries(first..=applied.index, usize::MAX)? {
            // Its changes were published when it was applied first.
            let _ = loaded.apply(entry);
        }
        if loaded.applied < Some(applied) {
            return Err(StoreError::MissingEntries(applied.index));
        }
        Ok(loaded)
    }

    pub(super) fn roster(&self) -> Roster {
        let voters = &self.state.cluster_state().voters;
        Roster::new(voters.at, self.membership.membership(), voters)
    }

    fn apply(&mut self, entry: Entry) -> (Answer, Vec<Change>) {
        let index = entry.log_id.index;
        self.applied = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => {
                self.state.apply_blank(index);
                (Ok(Applied::Nothing), Vec::new())
            }
            EntryPayload::Normal(command) => self.state.apply(index, command),
            EntryPayload::Membership(membership) => {
                let roster = Roster::new(index, &membership, &Default::default());
                self.membership = StoredMembership::new(Some(entry.log_id), membership);
                (Ok(Applied::Nothing), self.state.set_voters(roster.voters, roster.learners))
            }
        }
    }
}

impl StateMachine {
    pub(super) fn new(
        store: Store,
        shared: Arc<Shared>,
        entries: mpsc::UnboundedSender<AppliedEntry>,
        state: StoredState,
    ) -> Self {
        Self { store, shared, entries, state }
    }

    fn publish(&self, entries: Vec<AppliedEntry>) {
        self.shared.applied(self.state.state.cluster_state().clone(), self.state.roster());
        for entry in entries {
            // An error: the node is stopping and does not listen any more.
            let _ = self.entries.send(entry);
        }
    }
}

/// Builds a snapshot of the state as it was when the builder was made.
pub(super) struct SnapshotBuilder {
    store: Store,
    meta: SnapshotMeta,
    bytes: Result<Vec<u8>, StoreError>,
}

impl RaftSnapshotBuilder<Types> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let failed =
            |error: StoreError| StorageIOError::write_snapshot(Some(self.meta.signature()), &error);
        let bytes = self.bytes.clone().map_err(failed)?;
        // On disk before openraft may purge the entries that it replaces.
        self.store.put_snapshot(self.meta.clone(), bytes.clone(), false).await.map_err(failed)?;
        Ok(Snapshot { meta: self.meta.clone(), snapshot: Box::new(Cursor::new(bytes)) })
    }
}

impl RaftStateMachine<Types> for StateMachine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.state.applied, self.state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Answer>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        let mut published = Vec::new();
        for entry in entries {
            let index = entry.log_id.index;
            let (answer, changes) = self.state.apply(entry);
            answers.push(answer);
            published.push(AppliedEntry { index, changes });
        }
        if let Some(applied) = self.state.applied {
            let stored = self.store.put_applied(applied).await;
            stored.map_err(|error| StorageIOError::apply(applied, &error))?;
        }
        self.publish(published);
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        let StoredState { state, applied, membership } = &self.state;
        let index = applied.map_or(0, |applied| applied.index);
        let term = applied.map_or(0, |applied| applied.leader_id.term);
        SnapshotBuilder {
            store: self.store.clone(),
            meta: SnapshotMeta {
                last_log_id: *applied,
                last_membership: membership.clone(),
                snapshot_id: format!("{term}-{index}"),
            },
            bytes: encode(state),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let failed =
            |error: StoreError| StorageIOError::write_snapshot(Some(meta.signature()), &error);
        let bytes = snapshot.into_inner();
        let state: State = decode(&bytes).map_err(failed)?;
        self.store.put_snapshot(meta.clone(), bytes, true).await.map_err(failed)?;
        let changes = state.cluster_state().changes_since(self.state.state.cluster_state());
        let entry = AppliedEntry { index: state.cluster_state().applied, changes };
        let membership = meta.last_membership.clone();
        self.state = StoredState { state, applied: meta.last_log_id, membership };
        self.publish(vec![entry]);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let stored = self.store.snapshot();
        let stored = stored.map_err(|error| StorageIOError::read_snapshot(None, &error))?;
        Ok(stored.map(|(meta, bytes)| Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) }))
    }
}
