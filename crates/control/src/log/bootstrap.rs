//! The beginning of a cluster: its first voters learn each other's stores, the first of them writes
//! the first entry, and all agree on an id.
//!
//! All of them must be there this once. From then on everybody knows with which store each of them
//! votes, so that one that has lost its store is refused even by a voter that lacks everything but
//! the first entry (rule R4).

use std::collections::BTreeMap;

use kgate_core::NodeId;
use openraft::error::{InitializeError, RaftError};
use tokio::time::Instant;

use super::api::{Bootstrap, ProposeError};
use super::engine::Engine;
use super::orders::named;
use super::raft::Peer;
use super::wire::{Order, Ruling};
use crate::membership::StoreId;
use crate::state::{Applied, ClusterId, Command, Rejected};

impl Engine {
    pub(super) async fn bootstrap(&self, founding: Bootstrap) -> Result<ClusterId, ProposeError> {
        let deadline = Instant::now() + self.patience();
        let Bootstrap { cluster, name, nodes, voters, terms } = founding;
        if voters.is_empty()
            || voters.len() > 7
            || !voters.iter().all(|node| nodes.contains_key(node))
        {
            return refused("1 to 7 of the first nodes vote");
        }
        if voters.contains(&self.me) && self.shared.roster().stores.is_empty() {
            let mut stores = BTreeMap::from([(self.me, self.store)]);
            for node in voters.iter().copied().filter(|node| *node != self.me) {
                let Some((store, known)) = self.meet(node, deadline).await else {
                    let missing = voters.iter().filter(|node| !stores.contains_key(node)).copied();
                    return Err(ProposeError::NoQuorum(format!(
                        "all voters must be there when a cluster is founded: {} is awaited",
                        named(missing)
                    )));
                };
                stores.insert(node, store);
                self.agrees(node, &known, &stores)?;
            }
            // One writes the first entry, so that nobody stands against it; the others get it from
            // there.
            if voters.first() == Some(&self.me) {
                self.begin(&stores).await?;
            }
        }
        let found = Command::Bootstrap { cluster, name, nodes, terms };
        match self.order(Order::Propose(found), deadline).await? {
            Ruling::Applied(Applied::Bootstrapped(id)) => Ok(id),
            other @ (Ruling::Applied(_)
            | Ruling::Rejected(_)
            | Ruling::ReadAt(_)
            | Ruling::Changed(_)
            | Ruling::NotNow(_)) => Err(super::unexpected(other)),
        }
    }

    /// Asks until it answers.
    async fn meet(
        &self,
        node: NodeId,
        deadline: Instant,
    ) -> Option<(StoreId, BTreeMap<NodeId, StoreId>)> {
        while Instant::now() < deadline {
            if let Ok(Some(answer)) = tokio::time::timeout_at(deadline, self.hello(node)).await {
                return Some(answer);
            }
        }
        None
    }

    /// Whoever has begun already must have begun the same.
    fn agrees(
        &self,
        node: NodeId,
        known: &BTreeMap<NodeId, StoreId>,
        stores: &BTreeMap<NodeId, StoreId>,
    ) -> Result<(), ProposeError> {
        if known.is_empty() {
            return Ok(());
        }
        for (other, store) in stores {
            match known.get(other) {
                Some(known) if known == store => {}
                Some(_) => return Err(ProposeError::Rejected(Rejected::StoreMismatch(*other))),
                None => {
                    return refused(format!(
                        "{node} belongs to a cluster without {other}: add {other} to it"
                    ));
                }
            }
        }
        Ok(())
    }

    async fn begin(&self, stores: &BTreeMap<NodeId, StoreId>) -> Result<(), ProposeError> {
        let peers: BTreeMap<u32, Peer> =
            stores.iter().map(|(node, store)| (node.0, Peer { store: *store })).collect();
        match self.raft.initialize(peers).await {
            Ok(()) => Ok(()),
            // Meanwhile the others have begun, and sent the first entry.
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(RaftError::APIError(InitializeError::NotInMembers(error))) => {
                refused(error.to_string())
            }
            Err(RaftError::Fatal(_)) => Err(ProposeError::Stopped),
        }
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, ProposeError> {
    Err(ProposeError::Rejected(Rejected::Refused(why.into())))
}
