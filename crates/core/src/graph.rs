//! The network's shape, where processes do not all talk to each other: a connected undirected graph
//! with a root.
//!
//! The graph is shared knowledge. The driver builds it once and passes it to every process in its
//! `Setup`; a process looks up its own neighbours there.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use crate::NodeId;

/// A connected undirected graph of processes 0 .. n-1 with a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    root: NodeId,
    /// Where the neighbours of each process start in `ends`; one more entry than processes.
    starts: Box<[usize]>,
    /// The neighbours of all processes, one process after the other, in the order of ids.
    ends: Box<[NodeId]>,
    /// The parent in the breadth-first tree from the root; the root's is itself.
    parents: Box<[NodeId]>,
    /// The place of each process in a depth-first walk down that tree, and the process at each
    /// place.
    preorder: Box<[u32]>,
    walk: Box<[NodeId]>,
}

/// Why a list of edges is not a graph. Each text says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAGraph {
    /// There are no processes.
    #[error("a graph of no processes: give at least one")]
    Empty,
    /// An edge to a process that does not exist.
    #[error(
        "{0} is not a process of this graph: with n = {1} they are p0 .. p{last}",
        last = .1.saturating_sub(1)
    )]
    UnknownNode(NodeId, u32),
    /// An edge from a process to itself.
    #[error("an edge from {0} to itself: leave it out")]
    SelfLoop(NodeId),
    /// Two parts without an edge between them.
    #[error("{0} cannot be reached from {1}: the graph must be connected, add an edge")]
    Disconnected(NodeId, NodeId),
}

impl Graph {
    /// The graph of these edges; an edge given twice counts once.
    pub fn new(nodes: u32, edges: &[(NodeId, NodeId)], root: NodeId) -> Result<Self, NotAGraph> {
        if nodes == 0 {
            return Err(NotAGraph::Empty);
        }
        for &(a, b) in edges {
            if let Some(unknown) = [a, b].into_iter().find(|node| node.0 >= nodes) {
                return Err(NotAGraph::UnknownNode(unknown, nodes));
            }
            if a == b {
                return Err(NotAGraph::SelfLoop(a));
            }
        }
        if root.0 >= nodes {
            return Err(NotAGraph::UnknownNode(root, nodes));
        }
        let mut ways: Vec<(NodeId, NodeId)> =
            edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        ways.sort_unstable();
        ways.dedup();
        let starts = (0..=nodes).map(|node| ways.partition_point(|way| way.0.0 < node)).collect();
        let ends = ways.iter().map(|way| way.1).collect();
        let graph = Self {
            root,
            starts,
            ends,
            parents: Box::default(),
            preorder: Box::default(),
            walk: Box::default(),
        };
        graph.rooted_at(root)
    }

    /// The same graph with another root.
    pub fn with_root(&self, root: NodeId) -> Result<Self, NotAGraph> {
        if root.0 >= self.nodes() {
            return Err(NotAGraph::UnknownNode(root, self.nodes()));
        }
        self.clone().rooted_at(root)
    }

    fn rooted_at(mut self, root: NodeId) -> Result<Self, NotAGraph> {
        let mut parents: Vec<Option<NodeId>> = vec![None; self.nodes() as usize];
        parents[root.index()] = Some(root);
        let mut reached = VecDeque::from([root]);
        while let Some(node) = reached.pop_front() {
            for &next in self.neighbours(node) {
                if parents[next.index()].is_none() {
                    parents[next.index()] = Some(node);
                    reached.push_back(next);
                }
            }
        }
        if let Some(apart) = (0..).map(NodeId).zip(&parents).find(|(_, parent)| parent.is_none()) {
            return Err(NotAGraph::Disconnected(apart.0, root));
        }
        self.root = root;
        self.parents = parents.into_iter().flatten().collect();
        self.walk = self.walk_down();
        let mut preorder = vec![0; self.walk.len()];
        for (place, node) in (0..).zip(&self.walk) {
            preorder[node.index()] = place;
        }
        self.preorder = preorder.into();
        Ok(self)
    }

    fn walk_down(&self) -> Box<[NodeId]> {
        let mut walk = Vec::with_capacity(self.starts.len() - 1);
        let mut stack = vec![self.root];
        while let Some(node) = stack.pop() {
            walk.push(node);
            let children = self.neighbours(node).iter().rev();
            stack.extend(children.filter(|&&child| self.parent(child) == Some(node)));
        }
        walk.into()
    }

    /// The number of processes.
    pub fn nodes(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).expect("ids have 32 bits")
    }

    /// The root.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// The processes that share an edge with `node`, in the order of ids.
    pub fn neighbours(&self, node: NodeId) -> &[NodeId] {
        &self.ends[self.starts[node.index()]..self.starts[node.index() + 1]]
    }

    /// The number of edges.
    pub fn edges(&self) -> usize {
        self.ends.len() / 2
    }

    /// Whether there is exactly one path between any two processes.
    pub fn is_tree(&self) -> bool {
        self.edges() + 1 == self.nodes() as usize
    }

    /// The neighbour of `node` on its path to the root (in a graph with cycles, on a shortest
    /// path); none at the root.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        (node != self.root).then(|| self.parents[node.index()])
    }

    /// The place of `node` in a walk from the root that visits children in the order of ids, each
    /// with its whole subtree.
    pub fn preorder(&self, node: NodeId) -> u32 {
        self.preorder[node.index()]
    }

    /// All processes in the order of that walk, the root first.
    pub fn walk(&self) -> &[NodeId] {
        &self.walk
    }

    /// The distance of each process from `node`, in edges.
    pub fn distances(&self, node: NodeId) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.nodes() as usize];
        distances[node.index()] = 0;
        let mut reached = VecDeque::from([node]);
        while let Some(node) = reached.pop_front() {
            for &next in self.neighbours(node) {
                if distances[next.index()] == u32::MAX {
                    distances[next.index()] = distances[node.index()] + 1;
                    reached.push_back(next);
                }
            }
        }
        distances
    }
}

/// Hashes the size alone: every process of a system has the same graph, and states are hashed
/// millions of times.
impl Hash for Graph {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.root, self.ends.len()).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: u32, edges: &[(u32, u32)]) -> Result<Graph, NotAGraph> {
        let edges: Vec<_> = edges.iter().map(|&(a, b)| (NodeId(a), NodeId(b))).collect();
        Graph::new(nodes, &edges, NodeId(0))
    }

    /// Neighbours are symmetric, sorted and unique; parents point towards the root; the walk visits
    /// a child with its whole subtree.
    #[test]
    fn a_small_tree() {
        let tree = graph(5, &[(0, 2), (2, 1), (0, 3), (1, 4), (4, 1)]).unwrap();
        assert_eq!(tree.neighbours(NodeId(1)), [NodeId(2), NodeId(4)]);
        assert!(tree.is_tree() && tree.edges() == 4);
        assert_eq!([0, 1, 2, 3, 4].map(|node| tree.preorder(NodeId(node))), [0, 2, 1, 4, 3]);
        assert_eq!(tree.parent(NodeId(4)), Some(NodeId(1)));
        assert_eq!(tree.parent(NodeId(0)), None);
        assert_eq!(tree.distances(NodeId(4)), [3, 1, 2, 4, 0]);
        let other = tree.with_root(NodeId(4)).unwrap();
        assert_eq!((other.parent(NodeId(0)), other.preorder(NodeId(4))), (Some(NodeId(2)), 0));
    }

    /// An edge list that is not a connected graph is refused, and the error names the offending
    /// process.
    #[test]
    fn malformed_graphs_are_refused() {
        assert_eq!(graph(0, &[]), Err(NotAGraph::Empty));
        assert_eq!(graph(2, &[(0, 2)]), Err(NotAGraph::UnknownNode(NodeId(2), 2)));
        assert_eq!(graph(2, &[(1, 1)]), Err(NotAGraph::SelfLoop(NodeId(1))));
        assert_eq!(graph(4, &[(0, 1), (2, 3)]), Err(NotAGraph::Disconnected(NodeId(2), NodeId(0))));
        assert!(graph(1, &[]).unwrap().is_tree());
        assert!(!graph(3, &[(0, 1), (1, 2), (2, 0)]).unwrap().is_tree());
    }
}
