//! Members: the directory of the nodes that may become members, and the membership of those that
//! are.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Incarnation, NodeId, Span};

use super::{
    Admission, Applied, Change, Cluster, ClusterId, ClusterState, DirectoryEntry, ForcedEviction,
    Invalid, Limit, Outcome, Rejected, State, TextField, bounds, check_text, invalid,
    membership_change,
};
use crate::membership::{Eviction, LeaseTerms, MembershipChange, StoreId};

impl State {
    pub(super) fn bootstrap(
        &mut self,
        id: ClusterId,
        name: String,
        nodes: BTreeMap<NodeId, DirectoryEntry>,
        terms: LeaseTerms,
    ) -> Outcome {
        let initial_members: BTreeSet<NodeId> = nodes.keys().copied().collect();
        if let Some(cluster) = &self.cluster_state.cluster {
            if cluster.name == name && cluster.initial_members == initial_members {
                return Ok((Applied::Bootstrapped(cluster.id), Vec::new()));
            }
            return Err(Rejected::OtherCluster {
                name: cluster.name.clone(),
                initial_members: cluster.initial_members.clone(),
                wanted_name: name,
                wanted_members: initial_members,
            });
        }
        check_text(TextField::ClusterName, &name, 0)?;
        check_terms(terms)?;
        if nodes.is_empty() || nodes.len() > bounds::NODES {
            return invalid(Invalid::InitialMemberCount(nodes.len()));
        }
        let mut names = BTreeSet::new();
        for (node, entry) in &nodes {
            check_entry(*node, entry)?;
            if !names.insert(&entry.name) {
                return invalid(Invalid::DuplicateName(entry.name.clone()));
            }
        }
        // Which incarnations were members only the log says.
        let unadmitted = |(node, entry)| (node, DirectoryEntry { last: None, ..entry });
        self.cluster_state.directory = nodes.into_iter().map(unadmitted).collect();
        self.next_node = initial_members.last().map_or(0, |node| node.0 + 1);
        let cluster = Cluster { id, name, terms, initial_members };
        self.cluster_state.cluster = Some(cluster.clone());
        let mut changes = vec![Change::Bootstrapped(cluster)];
        let updated = |(node, entry): (&NodeId, &DirectoryEntry)| {
            Change::DirectoryUpdated(*node, entry.clone())
        };
        changes.extend(self.cluster_state.directory.iter().map(updated));
        Ok((Applied::Bootstrapped(id), changes))
    }

    pub(super) fn register(
        &mut self,
        wanted: Option<NodeId>,
        name: String,
        address: String,
        store: Option<StoreId>,
    ) -> Outcome {
        let entry = DirectoryEntry { name, address, store, ..DirectoryEntry::default() };
        let same_store = |known: &DirectoryEntry| store.is_some() && known.store == store;
        let mut directory = self.cluster_state.directory.iter();
        if let Some((node, known)) = directory.find(|(_, known)| same_store(known)) {
            let node = *node;
            if known.name != entry.name || wanted.is_some_and(|wanted| wanted != node) {
                return Err(Rejected::StoreTaken { node, name: known.name.clone() });
            }
            check_entry(node, &entry)?;
            return Ok((Applied::Registered(node), self.update_address(node, entry.address)));
        }
        if let Some(node) = self.cluster_state.node(&entry.name) {
            return self.register_again(node, wanted, entry);
        }
        let node = wanted.unwrap_or(NodeId(self.next_node));
        if node.0 < self.next_node {
            return Err(Rejected::NumberTaken { node, next: NodeId(self.next_node) });
        }
        check_entry(node, &entry)?;
        if self.cluster_state.directory.len() >= bounds::NODES {
            return Err(Rejected::LimitReached(Limit::Nodes));
        }
        self.next_node = node.0 + 1;
        self.cluster_state.directory.insert(node, entry.clone());
        Ok((Applied::Registered(node), vec![Change::DirectoryUpdated(node, entry)]))
    }

    /// The name is in the directory already, under that number.
    fn register_again(
        &self,
        node: NodeId,
        wanted: Option<NodeId>,
        entry: DirectoryEntry,
    ) -> Outcome {
        let known = &self.cluster_state.directory[&node];
        // The proposer did not receive the answer and proposes again. Whichever store joins under
        // this number becomes the node's.
        let repeated = entry.store.is_none() && known.address == entry.address;
        if repeated && wanted.is_none_or(|wanted| wanted == node) {
            return Ok((Applied::Registered(node), Vec::new()));
        }
        if wanted == Some(node) || known.store.is_some() {
            return Err(Rejected::StoreMismatch(node));
        }
        Err(Rejected::NameTaken { node, name: entry.name })
    }

    pub(super) fn add(
        &mut self,
        node: NodeId,
        admission: Admission,
        store: StoreId,
        terms: LeaseTerms,
        address: String,
    ) -> Outcome {
        check_terms(terms)?;
        let Admission { incarnation, at, .. } = admission;
        let Some(entry) = self.cluster_state.directory.get_mut(&node) else {
            return Err(Rejected::NotRegistered(node));
        };
        if let Some(ForcedEviction { author, for_good: true, .. }) = &entry.forced_eviction {
            return Err(Rejected::Removed { node, author: author.clone() });
        }
        // R4: a node with another store has forgotten what it promised.
        if entry.store.is_some_and(|known| known != store) {
            return Err(Rejected::StoreMismatch(node));
        }
        if let Some(member) = self.cluster_state.membership.get(node) {
            // The same start proposes again because it did not receive the answer.
            let same =
                |last: &Admission| last.start == admission.start && last.incarnation == incarnation;
            return match entry.last.filter(same) {
                Some(last) => Ok((Applied::Added(last.at), Vec::new())),
                // R2: never two incarnations at once.
                None => Err(Rejected::AlreadyMember { node, incarnation: member.incarnation }),
            };
        }
        if let Some(last) = entry.last.filter(|last| incarnation <= last.incarnation) {
            let (last, given) = (last.incarnation, incarnation);
            return Err(Rejected::StaleIncarnation { node, last, given });
        }
        check_text(TextField::Address, &address, 0)?;
        entry.last = Some(admission);
        // A forced eviction concerns the incarnation that it names, which is gone.
        let was_evicted = entry.forced_eviction.take().is_some();
        let updated = was_evicted || entry.store != Some(store) || entry.address != address;
        entry.store = Some(store);
        entry.address = address;
        let updated = updated.then(|| Change::DirectoryUpdated(node, entry.clone()));
        let mut changes: Vec<Change> = updated.into_iter().collect();
        changes.push(self.change_members(at, MembershipChange::Added(node, incarnation, terms)));
        Ok((Applied::Added(at), changes))
    }

    pub(super) fn leave(&mut self, index: u64, node: NodeId, incarnation: Incarnation) -> Outcome {
        self.suspicion(node, incarnation)?;
        let gone = self.change_members(index, MembershipChange::Gone(node, incarnation));
        Ok((Applied::Gone, vec![gone]))
    }

    pub(super) fn remove(&mut self, node: NodeId) -> Outcome {
        if let Some(member) = self.cluster_state.membership.get(node) {
            return Err(Rejected::StillMember { node, incarnation: member.incarnation });
        }
        if self.cluster_state.voters.has(node) {
            return Err(Rejected::StillVoter(node));
        }
        if self.cluster_state.directory.remove(&node).is_none() {
            return Err(Rejected::NotRegistered(node));
        }
        Ok((Applied::Removed, vec![Change::DirectoryRemoved(node)]))
    }

    pub(super) fn suspect(
        &mut self,
        index: u64,
        node: NodeId,
        incarnation: Incarnation,
    ) -> Outcome {
        // The first suspicion stays in force: with a new one for each proposal the wait before the
        // eviction would never end.
        if let Some(at) = self.suspicion(node, incarnation)? {
            return Ok((Applied::Suspected(at), Vec::new()));
        }
        let suspected = MembershipChange::Suspected(node, incarnation, index);
        Ok((Applied::Suspected(index), vec![self.change_members(index, suspected)]))
    }

    /// E6: a suspicion that is in force stays; without one this is a suspicion. A later command may
    /// make the forced eviction one for good, never the other way round.
    pub(super) fn force_evict(
        &mut self,
        index: u64,
        node: NodeId,
        eviction: ForcedEviction,
    ) -> Outcome {
        check_text(TextField::Author, &eviction.author, 1)?;
        let incarnation = eviction.incarnation;
        let suspected = self.suspicion(node, incarnation)?;
        let entry =
            self.cluster_state.directory.get_mut(&node).expect("a member is in the directory");
        let mut changes = Vec::new();
        let before = entry.forced_eviction.as_ref();
        if before.is_none_or(|before| eviction.for_good && !before.for_good) {
            entry.forced_eviction = Some(eviction);
            changes.push(Change::DirectoryUpdated(node, entry.clone()));
        }
        if suspected.is_none() {
            let suspected = MembershipChange::Suspected(node, incarnation, index);
            changes.push(self.change_members(index, suspected));
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
        if self.suspicion(node, incarnation)? != Some(at) {
            return Err(Rejected::NotSuspected { node, at });
        }
        let entry = self.cluster_state.directory.get(&node);
        let forced = entry.and_then(|entry| entry.forced_eviction.as_ref());
        if let Some(forced) = forced.filter(|forced| forced.incarnation == incarnation) {
            return Err(Rejected::BeingEvicted { node, author: forced.author.clone() });
        }
        let cleared = self.change_members(index, MembershipChange::Unsuspected(node, incarnation));
        Ok((Applied::Unsuspected, vec![cleared]))
    }

    pub(super) fn evict(&mut self, index: u64, eviction: Eviction) -> Outcome {
        let Eviction { node, incarnation, .. } = eviction;
        self.suspicion(node, incarnation)?;
        let ClusterState { membership, voters, .. } = &self.cluster_state;
        membership.may_evict(eviction, voters.at).map_err(Rejected::Eviction)?;
        let gone = self.change_members(index, MembershipChange::Gone(node, incarnation));
        Ok((Applied::Gone, vec![gone]))
    }

    /// The entry by which that incarnation is suspected, if it is. An error if it is not a member.
    fn suspicion(&self, node: NodeId, incarnation: Incarnation) -> Result<Option<u64>, Rejected> {
        let member = self.cluster_state.membership.incarnation(node, incarnation);
        member.map(|member| member.suspected).ok_or(Rejected::NotMember { node, incarnation })
    }

    fn change_members(&mut self, index: u64, change: MembershipChange) -> Change {
        self.cluster_state.membership.apply(change);
        if matches!(change, MembershipChange::Added(..) | MembershipChange::Gone(..)) {
            self.cluster_state.view = index;
        }
        membership_change(index, change)
    }

    fn update_address(&mut self, node: NodeId, address: String) -> Vec<Change> {
        match self.cluster_state.directory.get_mut(&node) {
            Some(entry) if entry.address != address => {
                entry.address = address;
                vec![Change::DirectoryUpdated(node, entry.clone())]
            }
            Some(_) | None => Vec::new(),
        }
    }
}

impl ClusterState {
    /// First the members and directory entries that are gone, then the new ones in the order of
    /// their entries in the log.
    pub(super) fn members_since(&self, older: &ClusterState, changes: &mut Vec<Change>) {
        if let (Some(cluster), None) = (&self.cluster, &older.cluster) {
            changes.push(Change::Bootstrapped(cluster.clone()));
        }
        for (node, member) in older.membership.iter() {
            if self.membership.incarnation(node, member.incarnation).is_none() {
                let gone = MembershipChange::Gone(node, member.incarnation);
                changes.push(membership_change(self.view, gone));
            }
        }
        let removed = older.directory.keys().filter(|node| !self.directory.contains_key(node));
        changes.extend(removed.map(|node| Change::DirectoryRemoved(*node)));
        // An admission alone is no update of the directory: the membership says it.
        let public = |entry: &DirectoryEntry| DirectoryEntry { last: None, ..entry.clone() };
        for (node, entry) in &self.directory {
            if older.directory.get(node).map(public) != Some(public(entry)) {
                changes.push(Change::DirectoryUpdated(*node, entry.clone()));
            }
        }
        let mut later = self.incarnations_since(older);
        later.sort_by_key(|(at, _)| *at);
        changes.extend(later.into_iter().map(|(at, change)| membership_change(at, change)));
    }

    /// What happened to the present members, each with the entry that did it.
    fn incarnations_since(&self, older: &ClusterState) -> Vec<(u64, MembershipChange)> {
        let mut changes = Vec::new();
        for (node, member) in self.membership.iter() {
            let incarnation = member.incarnation;
            let before = older.membership.incarnation(node, incarnation);
            if before.is_none() {
                let last = self.directory.get(&node).and_then(|entry| entry.last);
                let at = last.map_or(self.view, |last| last.at);
                changes.push((at, MembershipChange::Added(node, incarnation, member.terms)));
            }
            match (before.and_then(|before| before.suspected), member.suspected) {
                (before, Some(at)) if before != Some(at) => {
                    changes.push((at, MembershipChange::Suspected(node, incarnation, at)));
                }
                (Some(_), None) => {
                    changes.push((self.applied, MembershipChange::Unsuspected(node, incarnation)));
                }
                (Some(_) | None, Some(_)) | (None, None) => {}
            }
        }
        changes
    }
}

fn check_entry(node: NodeId, entry: &DirectoryEntry) -> Result<(), Rejected> {
    if node.0 >= bounds::NODE_NUMBERS {
        return invalid(Invalid::NodeNumber(node));
    }
    check_text(TextField::NodeName, &entry.name, 1)?;
    check_text(TextField::Address, &entry.address, 0)
}

fn check_terms(terms: LeaseTerms) -> Result<(), Rejected> {
    if terms.lease == Span::ZERO || terms.clock_error >= 1_000_000 {
        return invalid(Invalid::LeaseTerms);
    }
    Ok(())
}
