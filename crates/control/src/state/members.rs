//! Members: the directory of who may take part, and the membership of who does.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Incarnation, NodeId, Span};

use super::{
    Admission, Applied, Change, Cluster, ClusterId, ClusterState, DirectoryEntry, ForcedEviction,
    Outcome, Rejected, State, bounds, check_text, membership, refused,
};
use crate::membership::{Eviction, LeaseTerms, MembershipChange, StoreId};

impl State {
    pub(super) fn found(
        &mut self,
        id: ClusterId,
        name: String,
        nodes: BTreeMap<NodeId, DirectoryEntry>,
        terms: LeaseTerms,
    ) -> Outcome {
        let founders: BTreeSet<NodeId> = nodes.keys().copied().collect();
        if let Some(cluster) = &self.cluster_state.cluster {
            if cluster.name == name && cluster.founders == founders {
                return Ok((Applied::Bootstrapped(cluster.id), Vec::new()));
            }
            return refused(format!(
                "the cluster `{}` was founded with {}: this node has `{name}` with {}",
                cluster.name,
                nodes_named(&cluster.founders),
                nodes_named(&founders)
            ));
        }
        check_text("the name of a cluster", &name, true)?;
        check_terms(terms)?;
        if nodes.is_empty() || nodes.len() > bounds::NODES {
            return refused(format!(
                "a cluster is founded with 1 to {} nodes: not {}",
                bounds::NODES,
                nodes.len()
            ));
        }
        let mut names = BTreeSet::new();
        for (node, listed) in &nodes {
            check_node(*node, listed)?;
            if !names.insert(&listed.name) {
                return refused(format!("two of the first nodes are called {}", listed.name));
            }
        }
        // Only the log knows who took part.
        self.cluster_state.directory = nodes
            .into_iter()
            .map(|(node, listed)| (node, DirectoryEntry { last: None, ..listed }))
            .collect();
        self.next_node = founders.last().map_or(0, |node| node.0 + 1);
        self.cluster_state.cluster = Some(Cluster { id, name, terms, founders });
        let listed = self
            .cluster_state
            .directory
            .iter()
            .map(|(node, listed)| Change::DirectoryUpdated(*node, listed.clone()));
        Ok((
            Applied::Bootstrapped(id),
            std::iter::once(Change::Bootstrapped(id)).chain(listed).collect(),
        ))
    }

    pub(super) fn admit(
        &mut self,
        wish: Option<NodeId>,
        name: String,
        address: String,
        store: Option<StoreId>,
    ) -> Outcome {
        let listed = DirectoryEntry { name, address, store, ..DirectoryEntry::default() };
        let known = self
            .cluster_state
            .directory
            .iter()
            .find(|(_, it)| store.is_some() && it.store == store);
        if let Some((node, _)) = known {
            let node = *node;
            let known = &self.cluster_state.directory[&node];
            if known.name != listed.name || wish.is_some_and(|wish| wish != node) {
                return refused(format!("this store is that of {node}, {}", known.name));
            }
            check_node(node, &listed)?;
            return Ok((Applied::Registered(node), self.move_to(node, listed.address)));
        }
        if let Some(node) = self.cluster_state.node(&listed.name) {
            // Again, because nobody heard the answer; whichever store takes part, it is the one
            // that was awaited.
            let same = self.cluster_state.directory[&node].address == listed.address;
            if store.is_none() && same && wish.is_none_or(|wish| wish == node) {
                return Ok((Applied::Registered(node), Vec::new()));
            }
            if wish == Some(node) || self.cluster_state.directory[&node].store.is_some() {
                return Err(Rejected::StoreMismatch(node));
            }
            return refused(format!("{node} is called {} already", listed.name));
        }
        let node = wish.unwrap_or(NodeId(self.next_node));
        if node.0 < self.next_node {
            return refused(format!(
                "{node} is the number of another node, or was: numbers are not used again; {} is free",
                NodeId(self.next_node)
            ));
        }
        check_node(node, &listed)?;
        if self.cluster_state.directory.len() >= bounds::NODES {
            return refused(format!("there are {} nodes already: remove one first", bounds::NODES));
        }
        self.next_node = node.0 + 1;
        self.cluster_state.directory.insert(node, listed.clone());
        Ok((Applied::Registered(node), vec![Change::DirectoryUpdated(node, listed)]))
    }

    pub(super) fn add(
        &mut self,
        index: u64,
        node: NodeId,
        admission: Admission,
        store: StoreId,
        terms: LeaseTerms,
        address: String,
    ) -> Outcome {
        check_terms(terms)?;
        let Some(listed) = self.cluster_state.directory.get_mut(&node) else {
            return refused(format!(
                "{node} is not on the directory: an operator must add it first"
            ));
        };
        if let Some(ForcedEviction { author, for_good: true, .. }) = &listed.forced_eviction {
            return Err(Rejected::Removed { node, author: author.clone() });
        }
        // R4: a node with another store has forgotten what it promised.
        if listed.store.is_some_and(|known| known != store) {
            return Err(Rejected::StoreMismatch(node));
        }
        if let Some(member) = self.cluster_state.membership.get(node) {
            return match listed.last {
                // The same start proposes again because it heard nothing.
                Some(last)
                    if last.start == admission.start
                        && last.incarnation == admission.incarnation =>
                {
                    Ok((Applied::Added(last.at), Vec::new()))
                }
                // R2: never two incarnations at once.
                _ => Err(Rejected::AlreadyMember { node, incarnation: member.incarnation }),
            };
        }
        if let Some(last) = listed.last.filter(|last| admission.incarnation <= last.incarnation) {
            return refused(format!(
                "{node} was a member as incarnation {}, which is gone for good: {} is not a later one",
                last.incarnation.0, admission.incarnation.0
            ));
        }
        check_text("an address", &address, true)?;
        listed.last = Some(admission);
        let pardoned = listed.forced_eviction.take().is_some();
        let announce = pardoned || listed.store != Some(store) || listed.address != address;
        listed.store = Some(store);
        listed.address = address;
        let mut changes = Vec::new();
        if announce {
            changes.push(Change::DirectoryUpdated(node, listed.clone()));
        }
        changes
            .push(self.enrol(index, MembershipChange::Added(node, admission.incarnation, terms)));
        Ok((Applied::Added(index), changes))
    }

    pub(super) fn leave(&mut self, index: u64, node: NodeId, incarnation: Incarnation) -> Outcome {
        self.incarnation(node, incarnation)?;
        Ok((Applied::Gone, vec![self.enrol(index, MembershipChange::Gone(node, incarnation))]))
    }

    pub(super) fn remove(&mut self, node: NodeId) -> Outcome {
        if let Some(member) = self.cluster_state.membership.get(node) {
            return refused(format!(
                "{node} is a member, as incarnation {}: stop it or evict it first",
                member.incarnation.0
            ));
        }
        if self.cluster_state.voters.has(node) {
            return refused(format!("{node} votes: demote it first"));
        }
        if self.cluster_state.directory.remove(&node).is_none() {
            return refused(format!("{node} is not on the directory"));
        }
        Ok((Applied::Removed, vec![Change::DirectoryRemoved(node)]))
    }

    pub(super) fn suspect(
        &mut self,
        index: u64,
        node: NodeId,
        incarnation: Incarnation,
    ) -> Outcome {
        // Again: the first suspicion stays, or nobody would ever have waited long enough.
        if let Some(at) = self.incarnation(node, incarnation)? {
            return Ok((Applied::Suspected(at), Vec::new()));
        }
        Ok((
            Applied::Suspected(index),
            vec![self.enrol(index, MembershipChange::Suspected(node, incarnation, index))],
        ))
    }

    /// The suspicion that is there stays; else this is one. Later words may make it final, never
    /// take that back.
    pub(super) fn condemn(
        &mut self,
        index: u64,
        node: NodeId,
        sentence: ForcedEviction,
    ) -> Outcome {
        check_text("an author", &sentence.author, false)?;
        let incarnation = sentence.incarnation;
        let suspected = self.incarnation(node, incarnation)?;
        let listed = self
            .cluster_state
            .directory
            .get_mut(&node)
            .expect("whoever takes part is on the directory");
        let mut changes = Vec::new();
        if listed
            .forced_eviction
            .as_ref()
            .is_none_or(|before| sentence.for_good && !before.for_good)
        {
            listed.forced_eviction = Some(sentence);
            changes.push(Change::DirectoryUpdated(node, listed.clone()));
        }
        if suspected.is_none() {
            changes.push(self.enrol(index, MembershipChange::Suspected(node, incarnation, index)));
        }
        Ok((Applied::Suspected(suspected.unwrap_or(index)), changes))
    }

    pub(super) fn unsuspect(
        &mut self,
        index: u64,
        node: NodeId,
        incarnation: Incarnation,
        at: u64,
    ) -> Outcome {
        if self.incarnation(node, incarnation)? != Some(at) {
            return refused(format!("{node} is not suspected by entry {at}, or not any more"));
        }
        let forced_eviction = self
            .cluster_state
            .directory
            .get(&node)
            .and_then(|listed| listed.forced_eviction.as_ref());
        if let Some(forced_eviction) =
            forced_eviction.filter(|forced_eviction| forced_eviction.incarnation == incarnation)
        {
            return refused(format!("{node} is being evicted by {}", forced_eviction.author));
        }
        Ok((
            Applied::Unsuspected,
            vec![self.enrol(index, MembershipChange::Unsuspected(node, incarnation))],
        ))
    }

    pub(super) fn evict(&mut self, index: u64, eviction: Eviction) -> Outcome {
        let Eviction { node, incarnation, .. } = eviction;
        self.incarnation(node, incarnation)?;
        if let Err(why) =
            self.cluster_state.membership.may_evict(eviction, self.cluster_state.voters.at)
        {
            return refused(why.to_string());
        }
        Ok((Applied::Gone, vec![self.enrol(index, MembershipChange::Gone(node, incarnation))]))
    }

    /// By which entry that incarnation is suspected; void if it is not the present one.
    fn incarnation(&self, node: NodeId, incarnation: Incarnation) -> Result<Option<u64>, Rejected> {
        let member = self.cluster_state.membership.incarnation(node, incarnation);
        member.map(|member| member.suspected).ok_or(Rejected::NotMember { node, incarnation })
    }

    fn enrol(&mut self, index: u64, change: MembershipChange) -> Change {
        self.cluster_state.membership.apply(change);
        if matches!(change, MembershipChange::Added(..) | MembershipChange::Gone(..)) {
            self.cluster_state.view = index;
        }
        membership(index, change)
    }

    fn move_to(&mut self, node: NodeId, address: String) -> Vec<Change> {
        match self.cluster_state.directory.get_mut(&node) {
            Some(listed) if listed.address != address => {
                listed.address = address;
                vec![Change::DirectoryUpdated(node, listed.clone())]
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn members_since(&self, older: &ClusterState, changes: &mut Vec<Change>) {
        let now = &self.cluster_state;
        if let (Some(cluster), None) = (&now.cluster, &older.cluster) {
            changes.push(Change::Bootstrapped(cluster.id));
        }
        for (node, member) in older.membership.iter() {
            if now.membership.incarnation(node, member.incarnation).is_none() {
                changes
                    .push(membership(now.view, MembershipChange::Gone(node, member.incarnation)));
            }
        }
        let removed = older.directory.keys().filter(|node| !now.directory.contains_key(node));
        changes.extend(removed.map(|node| Change::DirectoryRemoved(*node)));
        let listed = now.directory.iter().filter(|(node, listed)| {
            let seen = |listed: &DirectoryEntry| {
                (
                    listed.name.clone(),
                    listed.address.clone(),
                    listed.store,
                    listed.forced_eviction.clone(),
                )
            };
            older.directory.get(node).map(seen) != Some(seen(listed))
        });
        changes
            .extend(listed.map(|(node, listed)| Change::DirectoryUpdated(*node, listed.clone())));

        let mut incarnations: Vec<(u64, MembershipChange)> = Vec::new();
        for (node, member) in now.membership.iter() {
            let before = older.membership.incarnation(node, member.incarnation);
            if before.is_none() {
                let last = now.directory.get(&node).and_then(|listed| listed.last);
                let at = last.map_or(now.view, |last| last.at);
                incarnations
                    .push((at, MembershipChange::Added(node, member.incarnation, member.terms)));
            }
            match (before.and_then(|before| before.suspected), member.suspected) {
                (before, Some(at)) if before != Some(at) => {
                    incarnations
                        .push((at, MembershipChange::Suspected(node, member.incarnation, at)));
                }
                (Some(_), None) => incarnations
                    .push((now.applied, MembershipChange::Unsuspected(node, member.incarnation))),
                _ => {}
            }
        }
        incarnations.sort_by_key(|(at, _)| *at);
        changes.extend(incarnations.into_iter().map(|(at, change)| membership(at, change)));
    }
}

fn check_node(node: NodeId, listed: &DirectoryEntry) -> Result<(), Rejected> {
    if node.0 >= bounds::NODE_NUMBERS {
        return refused(format!(
            "numbers of nodes are below {}: not {}",
            bounds::NODE_NUMBERS,
            node.0
        ));
    }
    check_text("the name of a node", &listed.name, false)?;
    check_text("an address", &listed.address, true)
}

fn check_terms(terms: LeaseTerms) -> Result<(), Rejected> {
    if terms.lease == Span::ZERO || terms.clock_error >= 1_000_000 {
        return refused(
            "a lease is longer than nothing, and a clock errs by less than its whole rate",
        );
    }
    Ok(())
}

fn nodes_named(nodes: &BTreeSet<NodeId>) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}
