//! The current peers, looked up for each message and for each handshake.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kgate_core::NodeId;
use tokio::task::AbortHandle;

use super::config::{LinkConfig, WhenFull};
use crate::link::{Peer, Refusal, describe_node};
use crate::wire::RefuseCode;

/// The peers of a node, by id.
#[derive(Debug, Default)]
pub(crate) struct PeerTable(RwLock<Peers>);

#[derive(Debug, Default)]
struct Peers {
    present: BTreeMap<NodeId, (Arc<Peer>, AbortHandle)>,
    /// Peers that were removed and not added again, which get a refusal of their own.
    removed: BTreeSet<NodeId>,
}

impl PeerTable {
    pub(crate) fn find(&self, id: NodeId) -> Option<Arc<Peer>> {
        self.read().present.get(&id).map(|(peer, _)| peer.clone())
    }

    pub(super) fn insert(&self, peer: Arc<Peer>, task: AbortHandle) {
        let mut peers = self.write();
        peers.removed.remove(&peer.id);
        peers.present.insert(peer.id, (peer, task));
    }

    /// Removes a peer, and returns its task.
    pub(super) fn remove(&self, id: NodeId) -> Option<AbortHandle> {
        let mut peers = self.write();
        let (_, task) = peers.present.remove(&id)?;
        peers.removed.insert(id);
        Some(task)
    }

    /// The refusal of a node that is no peer.
    pub(crate) fn refusal_of_unknown(&self, config: &LinkConfig, from: NodeId) -> Refusal {
        let here = describe_node(config.me, &config.cluster);
        let (code, message) = match config.when_full {
            WhenFull::Break => (
                RefuseCode::UnknownNode,
                format!("{here} does not know {from}: add it to `nodes`, or correct its id"),
            ),
            WhenFull::Drop if self.read().removed.contains(&from) => (
                RefuseCode::RemovedNode,
                format!(
                    "{here} has removed {from} from its members: stop {from}, or add it again with \
                     `kgate members add`"
                ),
            ),
            WhenFull::Drop => (
                RefuseCode::UnknownNode,
                format!(
                    "{here} does not know {from}: add it with `kgate members add`, or correct its \
                     id; after a recent `add`, {here} learns of it from the log"
                ),
            ),
        };
        Refusal::local(code, message)
    }

    fn read(&self) -> RwLockReadGuard<'_, Peers> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Peers> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
