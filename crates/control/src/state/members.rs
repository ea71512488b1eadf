//! Members: the directory of who may take part, and the roll of who does.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Incarnation, NodeId, Span};

use super::{
    Change, Cluster, ClusterId, Condemned, Done, Life, Listed, Outcome, Picture, State, Void, bounds,
    check_text, refused, roll,
};
use crate::roll::{Eviction, LeaseTerms, RollChange, StoreId};

impl State {
    pub(super) fn found(
        &mut self,
        id: ClusterId,
        name: String,
        nodes: BTreeMap<NodeId, Listed>,
        terms: LeaseTerms,
    ) -> Outcome {
        let founders: BTreeSet<NodeId> = nodes.keys().copied().collect();
        if let Some(cluster) = &self.picture.cluster {
            if cluster.name == name && cluster.founders == founders {
                return Ok((Done::Founded(cluster.id), Vec::new()));
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
        self.picture.directory =
            nodes.into_iter().map(|(node, listed)| (node, Listed { last: None, ..listed })).collect();
        self.next_node = founders.last().map_or(0, |node| node.0 + 1);
        self.picture.cluster = Some(Cluster { id, name, terms, founders });
        let listed =
            self.picture.directory.iter().map(|(node, listed)| Change::Listed(*node, listed.clone()));
        Ok((Done::Founded(id), std::iter::once(Change::Founded(id)).chain(listed).collect()))
    }

    pub(super) fn admit(
        &mut self,
        wish: Option<NodeId>,
        name: String,
        address: String,
        store: Option<StoreId>,
    ) -> Outcome {
        let listed = Listed { name, address, store, ..Listed::default() };
        let known = self.picture.directory.iter().find(|(_, it)| store.is_some() && it.store == store);
        if let Some((node, _)) = known {
            let node = *node;
            let known = &self.picture.directory[&node];
            if known.name != listed.name || wish.is_some_and(|wish| wish != node) {
                return refused(format!("this store is that of {node}, {}", known.name));
            }
            check_node(node, &listed)?;
            return Ok((Done::Admitted(node), self.move_to(node, listed.address)));
        }
        if let Some(node) = self.picture.node(&listed.name) {
            // Again, because nobody heard the answer; whichever store takes part, it is the one that was awaited.
            let same = self.picture.directory[&node].address == listed.address;
            if store.is_none() && same && wish.is_none_or(|wish| wish == node) {
                return Ok((Done::Admitted(node), Vec::new()));
            }
            if wish == Some(node) || self.picture.directory[&node].store.is_some() {
                return Err(Void::Stranger(node));
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
        if self.picture.directory.len() >= bounds::NODES {
            return refused(format!("there are {} nodes already: remove one first", bounds::NODES));
        }
        self.next_node = node.0 + 1;
        self.picture.directory.insert(node, listed.clone());
        Ok((Done::Admitted(node), vec![Change::Listed(node, listed)]))
    }

    pub(super) fn add(
        &mut self,
        index: u64,
        node: NodeId,
        life: Life,
        store: StoreId,
        terms: LeaseTerms,
        address: String,
    ) -> Outcome {
        check_terms(terms)?;
        let Some(listed) = self.picture.directory.get_mut(&node) else {
            return refused(format!("{node} is not on the directory: an operator must add it first"));
        };
        if let Some(Condemned { author, for_good: true, .. }) = &listed.condemned {
            return Err(Void::Removed { node, author: author.clone() });
        }
        // R4: a node with another store has forgotten what it promised.
        if listed.store.is_some_and(|known| known != store) {
            return Err(Void::Stranger(node));
        }
        if let Some(member) = self.picture.roll.get(node) {
            return match listed.last {
                // The same start proposes again because it heard nothing.
                Some(last) if last.start == life.start && last.incarnation == life.incarnation => {
                    Ok((Done::Added(last.at), Vec::new()))
                }
                // R2: never two lives at once.
                _ => Err(Void::Occupied { node, incarnation: member.incarnation }),
            };
        }
        if let Some(last) = listed.last.filter(|last| life.incarnation <= last.incarnation) {
            return refused(format!(
                "{node} was a member as incarnation {}, which is gone for good: {} is not a later one",
                last.incarnation.0, life.incarnation.0
            ));
        }
        check_text("an address", &address, true)?;
        listed.last = Some(life);
        let pardoned = listed.condemned.take().is_some();
        let announce = pardoned || listed.store != Some(store) || listed.address != address;
        listed.store = Some(store);
        listed.address = address;
        let mut changes = Vec::new();
        if announce {
            changes.push(Change::Listed(node, listed.clone()));
        }
        changes.push(self.enrol(index, RollChange::Added(node, life.incarnation, terms)));
        Ok((Done::Added(index), changes))
    }

    pub(super) fn leave(&mut self, index: u64, node: NodeId, incarnation: Incarnation) -> Outcome {
        self.life(node, incarnation)?;
        Ok((Done::Gone, vec![self.enrol(index, RollChange::Gone(node, incarnation))]))
    }

    pub(super) fn remove(&mut self, node: NodeId) -> Outcome {
        if let Some(member) = self.picture.roll.get(node) {
            return refused(format!(
                "{node} is a member, as incarnation {}: stop it or evict it first",
                member.incarnation.0
            ));
        }
        if self.picture.voters.has(node) {
            return refused(format!("{node} votes: demote it first"));
        }
        if self.picture.directory.remove(&node).is_none() {
            return refused(format!("{node} is not on the directory"));
        }
        Ok((Done::Removed, vec![Change::Unlisted(node)]))
    }

    pub(super) fn suspect(&mut self, index: u64, node: NodeId, incarnation: Incarnation) -> Outcome {
        // Again: the first suspicion stays, or nobody would ever have waited long enough.
        if let Some(at) = self.life(node, incarnation)? {
            return Ok((Done::Suspected(at), Vec::new()));
        }
        Ok((Done::Suspected(index), vec![self.enrol(index, RollChange::Suspected(node, incarnation, index))]))
    }

    /// The suspicion that is there stays; else this is one. Later words may make it final, never take that back.
    pub(super) fn condemn(&mut self, index: u64, node: NodeId, sentence: Condemned) -> Outcome {
        check_text("an author", &sentence.author, false)?;
        let incarnation = sentence.incarnation;
        let suspected = self.life(node, incarnation)?;
        let listed = self.picture.directory.get_mut(&node).expect("whoever takes part is on the directory");
        let mut changes = Vec::new();
        if listed.condemned.as_ref().is_none_or(|before| sentence.for_good && !before.for_good) {
            listed.condemned = Some(sentence);
            changes.push(Change::Listed(node, listed.clone()));
        }
        if suspected.is_none() {
            changes.push(self.enrol(index, RollChange::Suspected(node, incarnation, index)));
        }
        Ok((Done::Suspected(suspected.unwrap_or(index)), changes))
    }

    pub(super) fn unsuspect(
        &mut self,
        index: u64,
        node: NodeId,
        incarnation: Incarnation,
        at: u64,
    ) -> Outcome {
        if self.life(node, incarnation)? != Some(at) {
            return refused(format!("{node} is not suspected by entry {at}, or not any more"));
        }
        let condemned = self.picture.directory.get(&node).and_then(|listed| listed.condemned.as_ref());
        if let Some(condemned) = condemned.filter(|condemned| condemned.incarnation == incarnation) {
            return refused(format!("{node} is being evicted by {}", condemned.author));
        }
        Ok((Done::Unsuspected, vec![self.enrol(index, RollChange::Unsuspected(node, incarnation))]))
    }

    pub(super) fn evict(&mut self, index: u64, eviction: Eviction) -> Outcome {
        let Eviction { node, incarnation, .. } = eviction;
        self.life(node, incarnation)?;
        if let Err(why) = self.picture.roll.may_evict(eviction, self.picture.voters.at) {
            return refused(why.to_string());
        }
        Ok((Done::Gone, vec![self.enrol(index, RollChange::Gone(node, incarnation))]))
    }

    /// By which entry that life is suspected; void if it is not the present one.
    fn life(&self, node: NodeId, incarnation: Incarnation) -> Result<Option<u64>, Void> {
        let member = self.picture.roll.life(node, incarnation);
        member.map(|member| member.suspected).ok_or(Void::NoMember { node, incarnation })
    }

    fn enrol(&mut self, index: u64, change: RollChange) -> Change {
        self.picture.roll.apply(change);
        if matches!(change, RollChange::Added(..) | RollChange::Gone(..)) {
            self.picture.view = index;
        }
        roll(index, change)
    }

    fn move_to(&mut self, node: NodeId, address: String) -> Vec<Change> {
        match self.picture.directory.get_mut(&node) {
            Some(listed) if listed.address != address => {
                listed.address = address;
                vec![Change::Listed(node, listed.clone())]
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn members_since(&self, older: &Picture, changes: &mut Vec<Change>) {
        let now = &self.picture;
        if let (Some(cluster), None) = (&now.cluster, &older.cluster) {
            changes.push(Change::Founded(cluster.id));
        }
        for (node, member) in older.roll.iter() {
            if now.roll.life(node, member.incarnation).is_none() {
                changes.push(roll(now.view, RollChange::Gone(node, member.incarnation)));
            }
        }
        let removed = older.directory.keys().filter(|node| !now.directory.contains_key(node));
        changes.extend(removed.map(|node| Change::Unlisted(*node)));
        let listed = now.directory.iter().filter(|(node, listed)| {
            let seen = |listed: &Listed| {
                (listed.name.clone(), listed.address.clone(), listed.store, listed.condemned.clone())
            };
            older.directory.get(node).map(seen) != Some(seen(listed))
        });
        changes.extend(listed.map(|(node, listed)| Change::Listed(*node, listed.clone())));

        let mut lives: Vec<(u64, RollChange)> = Vec::new();
        for (node, member) in now.roll.iter() {
            let before = older.roll.life(node, member.incarnation);
            if before.is_none() {
                let last = now.directory.get(&node).and_then(|listed| listed.last);
                let at = last.map_or(now.view, |last| last.at);
                lives.push((at, RollChange::Added(node, member.incarnation, member.terms)));
            }
            match (before.and_then(|before| before.suspected), member.suspected) {
                (before, Some(at)) if before != Some(at) => {
                    lives.push((at, RollChange::Suspected(node, member.incarnation, at)));
                }
                (Some(_), None) => {
                    lives.push((now.applied, RollChange::Unsuspected(node, member.incarnation)))
                }
                _ => {}
            }
        }
        lives.sort_by_key(|(at, _)| *at);
        changes.extend(lives.into_iter().map(|(at, change)| roll(at, change)));
    }
}

fn check_node(node: NodeId, listed: &Listed) -> Result<(), Void> {
    if node.0 >= bounds::NODE_NUMBERS {
        return refused(format!("numbers of nodes are below {}: not {}", bounds::NODE_NUMBERS, node.0));
    }
    check_text("the name of a node", &listed.name, false)?;
    check_text("an address", &listed.address, true)
}

fn check_terms(terms: LeaseTerms) -> Result<(), Void> {
    if terms.lease == Span::ZERO || terms.clock_error >= 1_000_000 {
        return refused("a lease is longer than nothing, and a clock errs by less than its whole rate");
    }
    Ok(())
}

fn nodes_named(nodes: &BTreeSet<NodeId>) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}
