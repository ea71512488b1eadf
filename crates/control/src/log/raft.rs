//! The types that openraft is used with.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use kgate_core::NodeId;
use openraft::Membership;
use serde::{Deserialize, Serialize};

use super::runtime::LogRuntime;
use crate::membership::StoreId;
use crate::state::{Applied, Command, Rejected};
use crate::voters::Voters;

/// A node as openraft knows it: with the store that it votes with (rule R4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Peer {
    pub(super) store: StoreId,
}

/// What applying an entry returns.
pub(super) type Answer = Result<Applied, Rejected>;

openraft::declare_raft_types!(
    pub(super) Types:
        D = Command,
        R = Answer,
        NodeId = u32,
        Node = Peer,
        Entry = openraft::Entry<Types>,
        SnapshotData = Cursor<Vec<u8>>,
        AsyncRuntime = LogRuntime,
);

pub(super) type Raft = openraft::Raft<Types>;
pub(super) type Entry = openraft::Entry<Types>;
pub(super) type LogId = openraft::LogId<u32>;
pub(super) type StoredMembership = openraft::StoredMembership<u32, Peer>;
pub(super) type SnapshotMeta = openraft::SnapshotMeta<u32, Peer>;
pub(super) type Snapshot = openraft::Snapshot<Types>;
pub(super) type StorageError = openraft::StorageError<u32>;

/// The voters and learners as of one entry, and the store of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roster {
    pub(super) voters: Voters,
    pub(super) learners: BTreeSet<NodeId>,
    pub(super) stores: BTreeMap<NodeId, StoreId>,
}

impl Roster {
    /// The roster by the entry of index `at`. Voters that are the same as before keep the index of
    /// the entry that made them voters, as in [`crate::state::State::set_voters`].
    pub(super) fn new(at: u64, membership: &Membership<u32, Peer>, before: &Voters) -> Self {
        let set = |ids: &BTreeSet<u32>| ids.iter().copied().map(NodeId).collect();
        let sets: Vec<BTreeSet<NodeId>> = membership.get_joint_config().iter().map(set).collect();
        let at = if sets == before.sets { before.at } else { at };
        Self {
            voters: Voters { at, sets },
            learners: membership.learner_ids().map(NodeId).collect(),
            stores: membership.nodes().map(|(node, peer)| (NodeId(*node), peer.store)).collect(),
        }
    }
}
