//! The membership as one process knows it: the members, each in one incarnation, and the view.

use alloc::vec::Vec;

use kgate_core::{Incarnation, InitialMembers, NodeId, ViewId};
use serde::{Deserialize, Serialize};

use crate::collections::{NodeList, SortedMap};
use crate::topology::{self, ClusterOrder, Members, first_member};

/// The membership. Sparse: every process is a member in its first incarnation unless recorded
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Fleet {
    /// The bound of the ids.
    pub(super) nodes: u32,
    /// The last installed view. With a log, a member's incarnation is the number of the view that
    /// added it.
    pub(super) view: ViewId,
    /// The processes that are not members.
    absent: NodeList,
    /// The latest known incarnation of each process, where it is not the first.
    incarnations: SortedMap<NodeId, Incarnation>,
}

impl Fleet {
    /// Every process, in its first incarnation.
    pub(super) fn new(nodes: u32) -> Self {
        Self {
            nodes,
            view: ViewId::default(),
            absent: NodeList::default(),
            incarnations: SortedMap::default(),
        }
    }

    /// These members, each in its incarnation, as of this view.
    pub(super) fn of_members(initial_members: &InitialMembers) -> Self {
        let mut fleet = Self::new(0);
        for &(node, incarnation) in &initial_members.members {
            fleet.add(node, incarnation);
        }
        Self { view: initial_members.view, ..fleet }
    }

    /// The incarnation in which `node` is a member.
    pub(super) fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        (node.0 < self.nodes && !self.absent.contains(node)).then(|| self.latest(node))
    }

    /// The latest known incarnation of `node`, ended or not.
    pub(super) fn latest(&self, node: NodeId) -> Incarnation {
        self.incarnations.get(node).unwrap_or_default()
    }

    /// `node` becomes a member in that incarnation.
    pub(super) fn add(&mut self, node: NodeId, incarnation: Incarnation) {
        for gap in self.nodes..node.0 {
            self.absent.insert(NodeId(gap));
        }
        self.nodes = self.nodes.max(node.0 + 1);
        self.absent.remove(node);
        if incarnation > Incarnation::default() {
            self.incarnations.insert(node, incarnation);
        }
    }

    /// `node` is no longer a member, and was last in that incarnation.
    pub(super) fn remove(&mut self, node: NodeId, incarnation: Incarnation) {
        self.absent.insert(node);
        if incarnation > self.latest(node) {
            self.incarnations.insert(node, incarnation);
        }
    }

    /// The number of members in a range of ids.
    pub(super) fn count_in(&self, low: u32, high: u32) -> u32 {
        let high = high.min(self.nodes);
        high.saturating_sub(low) - self.absent.count_in(low, high)
    }

    /// Whether every id is a member's.
    pub(super) fn is_full(&self) -> bool {
        self.absent.is_empty()
    }

    /// All members but `me`, in the order of ids.
    pub(super) fn others(&self, me: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes).map(NodeId).filter(move |&node| node != me && !self.absent.contains(node))
    }

    /// The processes that are not members.
    pub(super) fn absent(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.absent.iter()
    }

    /// The number of clusters of each process.
    pub(super) fn dimension(&self) -> u8 {
        u8::try_from(topology::dimension(self.nodes)).expect("at most 32")
    }

    /// The first member of each of the clusters 1 .. `height` of `me`, with its cluster's number.
    pub(super) fn neighbours(&self, me: NodeId, height: u8) -> Vec<(NodeId, u8)> {
        let members = Members::new(self.nodes, &self.absent);
        let first =
            |s: u8| Some((first_member(me, u32::from(s), ClusterOrder::VCube, &members)?, s));
        (1..=height).filter_map(first).collect()
    }
}
