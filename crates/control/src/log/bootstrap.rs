//! Bootstrapping a cluster: its first voters learn each other's stores, the lowest of them writes
//! the first entry, and all agree on an id.
//!
//! All of them must run this once. From then on every node knows the store that each voter votes
//! with, so that a voter that has lost its store is refused even by one that has nothing but the
//! first entry (rule R4).

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::NodeId;
use openraft::error::{InitializeError, RaftError};
use tokio::time::Instant;

use super::api::Bootstrap;
use super::engine::Engine;
use super::error::{ProposeError, Unavailable};
use super::raft::Peer;
use super::wire::{LeaderReply, LeaderRequest};
use crate::membership::StoreId;
use crate::state::{Applied, ClusterId, Command, InvalidVoters, Rejected};
use crate::voters::VOTERS_MAX;

impl Engine {
    pub(super) async fn bootstrap(&self, bootstrap: Bootstrap) -> Result<ClusterId, ProposeError> {
        let deadline = Instant::now() + self.propose_timeout();
        let Bootstrap { cluster, name, nodes, voters, terms } = bootstrap;
        if voters.is_empty() || voters.len() > VOTERS_MAX {
            return rejected(InvalidVoters::Count(voters.len()));
        }
        let others: BTreeSet<NodeId> =
            voters.iter().filter(|node| !nodes.contains_key(node)).copied().collect();
        if !others.is_empty() {
            return rejected(InvalidVoters::NotInitialMembers(others));
        }
        if voters.contains(&self.me) && self.shared.roster().stores.is_empty() {
            let stores = self.identify_all(&voters, deadline).await?;
            // One voter writes the first entry, so that no two compete; the others receive it.
            if voters.first() == Some(&self.me) {
                self.initialize(&stores).await?;
            }
        }
        let command = Command::Bootstrap { cluster, name, nodes, terms };
        let reply = self.request(LeaderRequest::Propose(command), deadline).await?;
        let LeaderReply::Applied(Applied::Bootstrapped(id)) = reply else {
            return Err(super::unexpected(reply));
        };
        Ok(id)
    }

    /// The stores of all voters.
    async fn identify_all(
        &self,
        voters: &BTreeSet<NodeId>,
        deadline: Instant,
    ) -> Result<BTreeMap<NodeId, StoreId>, ProposeError> {
        let mut stores = BTreeMap::from([(self.me, self.store)]);
        for node in voters.iter().copied().filter(|node| *node != self.me) {
            let Some((store, known)) = self.identify_until(node, deadline).await else {
                let missing = voters.iter().filter(|node| !stores.contains_key(node)).copied();
                let missing = Unavailable::MissingVoters(missing.collect());
                return Err(ProposeError::NoQuorum(missing));
            };
            stores.insert(node, store);
            check_same_cluster(node, &known, &stores)?;
        }
        Ok(stores)
    }

    /// Asks until the node answers.
    async fn identify_until(
        &self,
        node: NodeId,
        deadline: Instant,
    ) -> Option<(StoreId, BTreeMap<NodeId, StoreId>)> {
        while Instant::now() < deadline {
            if let Ok(Some(answer)) = tokio::time::timeout_at(deadline, self.identify(node)).await {
                return Some(answer);
            }
        }
        None
    }

    async fn initialize(&self, stores: &BTreeMap<NodeId, StoreId>) -> Result<(), ProposeError> {
        let peers: BTreeMap<u32, Peer> =
            stores.iter().map(|(node, store)| (node.0, Peer { store: *store })).collect();
        match self.raft.initialize(peers).await {
            Ok(()) => Ok(()),
            // The first entry came from another voter meanwhile.
            Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(RaftError::APIError(InitializeError::NotInMembers(_))) => {
                rejected(InvalidVoters::NotInitialMembers(BTreeSet::from([self.me])))
            }
            Err(RaftError::Fatal(_)) => Err(ProposeError::Stopped),
        }
    }
}

/// A voter whose log is not empty must have the same cluster in it.
fn check_same_cluster(
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
            None => return rejected(InvalidVoters::OtherCluster { node, missing: *other }),
        }
    }
    Ok(())
}

fn rejected<T>(why: InvalidVoters) -> Result<T, ProposeError> {
    Err(ProposeError::Rejected(Rejected::Voters(why)))
}
