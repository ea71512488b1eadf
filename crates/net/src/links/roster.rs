//! Who is a peer now: asked by the owner at each message and by the port at each greeting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kgate_core::NodeId;
use tokio::task::AbortHandle;

use super::config::{LinkConfig, WhenFull};
use crate::link::{Peer, named};

/// The peers of a node, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Roster(RwLock<Peers>);

#[derive(Debug, Default)]
struct Peers {
    here: BTreeMap<NodeId, (Arc<Peer>, AbortHandle)>,
    /// Those who were removed and not added again: they are told so.
    removed: BTreeSet<NodeId>,
}

impl Roster {
    pub(crate) fn find(&self, id: NodeId) -> Option<Arc<Peer>> {
        self.read().here.get(&id).map(|(peer, _)| peer.clone())
    }

    pub(super) fn insert(&self, peer: Arc<Peer>, task: AbortHandle) {
        let mut peers = self.write();
        peers.removed.remove(&peer.id);
        peers.here.insert(peer.id, (peer, task));
    }

    /// The task of a peer that is none any more.
    pub(super) fn remove(&self, id: NodeId) -> Option<AbortHandle> {
        let mut peers = self.write();
        let (_, task) = peers.here.remove(&id)?;
        peers.removed.insert(id);
        Some(task)
    }

    /// What to say to somebody who is not in it.
    pub(crate) fn why_unknown(&self, config: &LinkConfig, from: NodeId) -> String {
        let here = named(config.me, &config.cluster);
        match config.when_full {
            WhenFull::Break => {
                format!("{here} knows no {from}: add it to the nodes, or correct its id")
            }
            WhenFull::Drop if self.read().removed.contains(&from) => format!(
                "{here} has removed {from} from its members: stop {from}, or add it again with `kgate members add`"
            ),
            WhenFull::Drop => format!(
                "{here} knows no {from}: add it with `kgate members add`, or correct its id; if it was added just now, \
                 {here} will hear of it"
            ),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Peers> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Peers> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
