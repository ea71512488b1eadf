//! The state machine that openraft feeds: applies, stores how far, and only then tells (rule N3).

use std::io::Cursor;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageIOError};
use tokio::sync::mpsc;

use super::api::AppliedEntry;
use super::raft::{
    Answer, Entry, LogId, Roster, Snapshot, SnapshotMeta, StorageError, StoredMembership, Types,
};
use super::shared::Shared;
use super::store::{Store, decode, encode};
use crate::state::{Applied, Change, State};

/// The state, and who hears of it.
pub(super) struct Machine {
    store: Store,
    shared: Arc<Shared>,
    news: mpsc::UnboundedSender<AppliedEntry>,
    state: State,
    applied: Option<LogId>,
    membership: StoredMembership,
}

/// What the store says when it is opened: the snapshot, and what was applied after it.
#[derive(Default)]
pub(super) struct Recalled {
    pub(super) state: State,
    pub(super) applied: Option<LogId>,
    pub(super) membership: StoredMembership,
}

impl Recalled {
    /// Makes the state again as it was when this node last applied an entry.
    pub(super) fn from(store: &Store) -> Result<Self, String> {
        let mut recalled = Self::default();
        if let Some((meta, bytes)) = store.snapshot()? {
            recalled = Self {
                state: decode(&bytes)?,
                applied: meta.last_log_id,
                membership: meta.last_membership.clone(),
            };
        }
        let Some(applied) = store.applied()? else { return Ok(recalled) };
        let first = recalled.applied.map_or(0, |applied| applied.index + 1);
        for entry in store.entries(first..=applied.index, usize::MAX)? {
            // What came of it was told when it was applied first.
            let _ = recalled.step(entry);
        }
        if recalled.applied < Some(applied) {
            return Err(format!(
                "entries up to {} were applied, but are not there any more",
                applied.index
            ));
        }
        Ok(recalled)
    }

    pub(super) fn roster(&self) -> Roster {
        let voters = &self.state.cluster_state().voters;
        Roster::new(voters.at, self.membership.membership(), voters)
    }

    fn step(&mut self, entry: Entry) -> (Answer, Vec<Change>) {
        let index = entry.log_id.index;
        self.applied = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => {
                self.state.pass(index);
                (Ok(Applied::Nothing), Vec::new())
            }
            EntryPayload::Normal(command) => self.state.apply(index, command),
            EntryPayload::Membership(membership) => {
                let roster = Roster::new(index, &membership, &Default::default());
                self.membership = StoredMembership::new(Some(entry.log_id), membership);
                (Ok(Applied::Nothing), self.state.vote(roster.voters, roster.learners))
            }
        }
    }
}

impl Machine {
    pub(super) fn new(
        store: Store,
        shared: Arc<Shared>,
        news: mpsc::UnboundedSender<AppliedEntry>,
        recalled: Recalled,
    ) -> Self {
        let Recalled { state, applied, membership } = recalled;
        Self { store, shared, news, state, applied, membership }
    }

    fn recall(&mut self) -> Recalled {
        Recalled {
            state: std::mem::take(&mut self.state),
            applied: self.applied,
            membership: std::mem::take(&mut self.membership),
        }
    }

    fn keep(&mut self, recalled: Recalled) {
        Recalled { state: self.state, applied: self.applied, membership: self.membership } =
            recalled;
    }

    fn publish(&self, roster: Roster, news: Vec<AppliedEntry>) {
        self.shared.applied(self.state.cluster_state().clone(), roster);
        for news in news {
            // Nobody listens only when the node is ending.
            let _ = self.news.send(news);
        }
    }
}

/// A snapshot of the state as it was when this was made.
pub(super) struct Photographer {
    store: Store,
    meta: SnapshotMeta,
    bytes: Result<Vec<u8>, String>,
}

impl RaftSnapshotBuilder<Types> for Photographer {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let failed = |why: String| {
            StorageIOError::write_snapshot(Some(self.meta.signature()), &std::io::Error::other(why))
        };
        let bytes = self.bytes.clone().map_err(failed)?;
        // On disk before openraft may purge the entries that it replaces.
        self.store.put_snapshot(self.meta.clone(), bytes.clone(), false).await.map_err(failed)?;
        Ok(Snapshot { meta: self.meta.clone(), snapshot: Box::new(Cursor::new(bytes)) })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Photographer;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Answer>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut recalled = self.recall();
        let mut answers = Vec::new();
        let mut news = Vec::new();
        for entry in entries {
            let index = entry.log_id.index;
            let (answer, changes) = recalled.step(entry);
            answers.push(answer);
            news.push(AppliedEntry { index, changes });
        }
        let (applied, roster) = (recalled.applied, recalled.roster());
        self.keep(recalled);
        if let Some(applied) = applied {
            let stored = self.store.put_applied(applied).await;
            stored.map_err(|why| StorageIOError::apply(applied, &std::io::Error::other(why)))?;
        }
        self.publish(roster, news);
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Photographer {
        let index = self.applied.map_or(0, |applied| applied.index);
        let term = self.applied.map_or(0, |applied| applied.leader_id.term);
        Photographer {
            store: self.store.clone(),
            meta: SnapshotMeta {
                last_log_id: self.applied,
                last_membership: self.membership.clone(),
                snapshot_id: format!("{term}-{index}"),
            },
            bytes: encode(&self.state),
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
        let failed = |why: String| {
            StorageIOError::write_snapshot(Some(meta.signature()), &std::io::Error::other(why))
        };
        let bytes = snapshot.into_inner();
        let state: State = decode(&bytes).map_err(failed)?;
        self.store.put_snapshot(meta.clone(), bytes, true).await.map_err(failed)?;
        let changes = state.changes_since(self.state.cluster_state());
        let news = AppliedEntry { index: state.cluster_state().applied, changes };
        let recalled =
            Recalled { state, applied: meta.last_log_id, membership: meta.last_membership.clone() };
        let roster = recalled.roster();
        self.keep(recalled);
        self.publish(roster, vec![news]);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let found = self.store.snapshot();
        let found = found
            .map_err(|why| StorageIOError::read_snapshot(None, &std::io::Error::other(why)))?;
        Ok(found.map(|(meta, bytes)| Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) }))
    }
}
