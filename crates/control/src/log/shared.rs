//! What the store, the state machine and the handles share in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::Membership;
use tokio::sync::watch;

use super::raft::{Peer, Roster};
use crate::state::ClusterState;
use crate::voters::Voters;

/// Shared by all parts of one log.
#[derive(Debug)]
pub(super) struct Shared {
    rosters: Mutex<Rosters>,
    cluster_state: watch::Sender<Arc<ClusterState>>,
    committed: AtomicU64,
    /// Another node knows this one with another store (rule R4).
    store_mismatch: AtomicBool,
}

/// The rosters by the applied entries, and by the entries that are only in this node's log.
#[derive(Debug, Default)]
struct Rosters {
    applied: Roster,
    unapplied: BTreeMap<u64, Roster>,
}

impl Rosters {
    fn newest(&self) -> &Roster {
        self.unapplied.values().next_back().unwrap_or(&self.applied)
    }
}

impl Shared {
    pub(super) fn new(cluster_state: ClusterState, applied: Roster) -> Self {
        Self {
            committed: AtomicU64::new(cluster_state.applied),
            rosters: Mutex::new(Rosters { applied, unapplied: BTreeMap::new() }),
            cluster_state: watch::Sender::new(Arc::new(cluster_state)),
            store_mismatch: AtomicBool::new(false),
        }
    }

    fn rosters(&self) -> MutexGuard<'_, Rosters> {
        self.rosters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change of voters is in this node's log from now on (rule N4).
    pub(super) fn appended(&self, index: u64, membership: &Membership<u32, Peer>) {
        let mut rosters = self.rosters();
        let before = rosters.newest().voters.clone();
        rosters.unapplied.insert(index, Roster::new(index, membership, &before));
    }

    /// The entries from that index on were removed from this node's log.
    pub(super) fn truncated(&self, from: u64) {
        self.rosters().unapplied.retain(|index, _| *index < from);
    }

    /// The state was applied, and is stored.
    pub(super) fn applied(&self, cluster_state: ClusterState, roster: Roster) {
        {
            let mut rosters = self.rosters();
            rosters.unapplied.retain(|index, _| *index > cluster_state.applied);
            rosters.applied = roster;
        }
        self.commit(cluster_state.applied);
        self.cluster_state.send_replace(Arc::new(cluster_state));
    }

    pub(super) fn commit(&self, index: u64) {
        self.committed.fetch_max(index, Ordering::AcqRel);
    }

    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// The newest voters, committed or not.
    pub(super) fn voters_appended(&self) -> Voters {
        self.rosters().newest().voters.clone()
    }

    /// The newest roster, committed or not.
    pub(super) fn roster(&self) -> Roster {
        self.rosters().newest().clone()
    }

    pub(super) fn cluster_state(&self) -> Arc<ClusterState> {
        self.cluster_state.borrow().clone()
    }

    pub(super) fn states(&self) -> watch::Receiver<Arc<ClusterState>> {
        self.cluster_state.subscribe()
    }

    pub(super) fn has_store_mismatch(&self) -> bool {
        self.store_mismatch.load(Ordering::Acquire)
    }

    /// Whether it was not known before.
    pub(super) fn set_store_mismatch(&self) -> bool {
        !self.store_mismatch.swap(true, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// N4: the newest voters of the log are visible as soon as their entry is appended. They go
    /// when the entry is truncated, and stay when it is applied. Learners change nothing.
    #[test]
    fn appended_and_truncated() {
        let membership = |voters: std::ops::Range<u32>, nodes: std::ops::Range<u32>| {
            let nodes: BTreeMap<u32, Peer> = nodes.map(|node| (node, Peer::default())).collect();
            Membership::new(vec![voters.collect::<BTreeSet<u32>>()], nodes)
        };
        let shared = Shared::new(ClusterState::default(), Roster::default());
        shared.appended(0, &membership(0..1, 0..1));
        shared.appended(4, &membership(0..1, 0..3));
        let first = shared.voters_appended();
        assert_eq!((first.at, first.all().len()), (0, 1), "learners do not vote");
        shared.appended(7, &membership(0..3, 0..3));
        assert_eq!(shared.voters_appended().at, 7);
        shared.truncated(6);
        assert_eq!(shared.voters_appended(), first);
        let cluster_state =
            ClusterState { applied: 5, voters: first.clone(), ..ClusterState::default() };
        shared.applied(cluster_state, Roster::new(4, &membership(0..1, 0..3), &first));
        assert_eq!((shared.voters_appended(), shared.committed()), (first, 5));
    }
}
