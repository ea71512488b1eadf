//! Graphs by name, at random and from a file.
//!
//! A file has one edge per line, two process numbers; `root R` names the root (0 if left out); `#`
//! starts a comment.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use kgate_core::{Graph, NodeId, NotAGraph};

/// The shape of a network. Process 0 is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// tree-token-2019 figure 1 and its larger kin: a centre with three children, every inner
    /// process with two more.
    Radial,
    /// A binary tree, as balanced as possible.
    Balanced,
    /// A path.
    Path,
    /// All processes around process 0.
    Star,
    /// A ring.
    Ring,
    /// Rows of the square root of n, rounded down; the last row may be shorter.
    Grid,
    /// A path, the spine, each of whose processes has one leaf; the root is at one end.
    Caterpillar,
    /// Every process beside every other one.
    Complete,
    /// A tree drawn at random: every process hangs below one drawn from those before it.
    RandomTree,
    /// Such a tree and up to as many edges in addition.
    Random,
}

/// Every shape with its name.
pub const SHAPES: [(&str, Shape); 9] = [
    ("radial", Shape::Radial),
    ("balanced", Shape::Balanced),
    ("path", Shape::Path),
    ("star", Shape::Star),
    ("ring", Shape::Ring),
    ("grid", Shape::Grid),
    ("caterpillar", Shape::Caterpillar),
    ("complete", Shape::Complete),
    ("random", Shape::Random),
];

impl Shape {
    /// Whether every graph of this shape is a tree.
    pub fn is_tree(self) -> bool {
        match self {
            Self::Radial
            | Self::Balanced
            | Self::Path
            | Self::Star
            | Self::Caterpillar
            | Self::RandomTree => true,
            Self::Ring | Self::Grid | Self::Complete | Self::Random => false,
        }
    }

    /// The graph of this shape with `nodes` processes; `below(b)` draws a number below b.
    pub fn build(self, nodes: u32, below: &mut dyn FnMut(u64) -> u64) -> Result<Graph, NotAGraph> {
        let child = |parent: fn(u32) -> u32| {
            (1..nodes).map(move |node| (parent(node), node)).collect::<Vec<_>>()
        };
        let edges = match self {
            Self::Radial => child(|node| if node <= 3 { 0 } else { (node - 2) / 2 }),
            Self::Balanced => child(|node| (node - 1) / 2),
            Self::Path => child(|node| node - 1),
            Self::Star => child(|_| 0),
            Self::Ring => {
                let mut edges = child(|node| node - 1);
                if nodes > 2 {
                    edges.push((nodes - 1, 0));
                }
                edges
            }
            Self::Grid => {
                let row = nodes.isqrt().max(1);
                let right = (1..nodes).filter(|node| node % row != 0).map(|node| (node - 1, node));
                right.chain((row..nodes).map(|node| (node - row, node))).collect()
            }
            // Spine 0, 1, 3, 5, ..; the leaf of each is the even number that follows its successor.
            Self::Caterpillar => child(|node| match node {
                1 | 2 => 0,
                odd if odd % 2 == 1 => odd - 2,
                even => even - 3,
            }),
            Self::Complete => {
                (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))).collect()
            }
            Self::RandomTree => random_tree(nodes, below),
            Self::Random => {
                let mut edges = random_tree(nodes, below);
                for _ in 1..nodes {
                    let (a, b) = (draw(below, nodes), draw(below, nodes));
                    if a != b {
                        edges.push((a, b));
                    }
                }
                edges
            }
        };
        let edges: Vec<(NodeId, NodeId)> =
            edges.into_iter().map(|(a, b)| (NodeId(a), NodeId(b))).collect();
        Graph::new(nodes, &edges, NodeId(0))
    }
}

fn random_tree(nodes: u32, below: &mut dyn FnMut(u64) -> u64) -> Vec<(u32, u32)> {
    (1..nodes).map(|node| (draw(below, node), node)).collect()
}

fn draw(below: &mut dyn FnMut(u64) -> u64, bound: u32) -> u32 {
    u32::try_from(below(u64::from(bound))).expect("below a number of 32 bits")
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same =
            |shape: Shape| shape == *self || (shape, *self) == (Self::Random, Self::RandomTree);
        let named = SHAPES.iter().find(|(_, shape)| same(*shape));
        f.write_str(named.map_or("?", |(name, _)| name))
    }
}

/// Why a text is not a graph; the error names the line and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAGraphFile {
    /// A line that is neither an edge nor the root.
    #[error("line {0}: write an edge as two process numbers such as '0 1', or 'root 0', not '{1}'")]
    Line(usize, String),
    /// The edges do not make a graph.
    #[error(transparent)]
    Graph(#[from] NotAGraph),
}

/// The graph that a file describes; its processes are 0 .. the greatest number in it.
pub fn parse(text: &str) -> Result<Graph, NotAGraphFile> {
    let mut edges = Vec::new();
    let mut root = NodeId(0);
    for (number, line) in (1..).zip(text.lines()) {
        let said = line.split('#').next().unwrap_or_default().trim();
        let wrong = || NotAGraphFile::Line(number, said.chars().take(40).collect());
        let id = |word: &str| {
            word.parse().ok().filter(|&id: &u32| id < MOST).map(NodeId).ok_or_else(wrong)
        };
        match said.split_whitespace().collect::<Vec<_>>()[..] {
            [] => {}
            ["root", node] => root = id(node)?,
            [a, b] => edges.push((id(a)?, id(b)?)),
            _ => return Err(wrong()),
        }
    }
    let nodes = edges.iter().flat_map(|&(a, b)| [a.0 + 1, b.0 + 1]).max().unwrap_or(0);
    Ok(Graph::new(nodes, &edges, root)?)
}

/// Numbers in a file are below this: a typing error must not allocate a graph of 2^32 processes.
const MOST: u32 = 1 << 24;

/// The text that [`parse`] reads back.
pub fn print(graph: &Graph) -> String {
    let mut text = format!("root {}\n", graph.root().0);
    for node in (0..graph.nodes()).map(NodeId) {
        for other in graph.neighbours(node).iter().filter(|other| **other > node) {
            text += &format!("{} {}\n", node.0, other.0);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(shape: Shape, nodes: u32) -> Graph {
        let mut state = u64::from(nodes);
        shape
            .build(nodes, &mut |bound| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            })
            .unwrap()
    }

    fn degrees(shape: Shape, nodes: u32) -> Vec<usize> {
        let graph = build(shape, nodes);
        (0..nodes).map(|node| graph.neighbours(NodeId(node)).len()).collect()
    }

    /// Every shape is connected at every size, and is a tree where its documentation says so.
    #[test]
    fn connected_at_every_size() {
        for (name, shape) in SHAPES.into_iter().chain([("random", Shape::RandomTree)]) {
            for nodes in 1..40 {
                let graph = build(shape, nodes);
                assert_eq!(graph.nodes(), nodes, "{name}");
                assert!(!shape.is_tree() || graph.is_tree(), "{name}");
                assert_eq!(
                    parse(&print(&graph)).ok(),
                    (nodes > 1).then_some(graph),
                    "{name}, n={nodes}"
                );
            }
            assert_eq!(format!("{shape}"), name);
        }
    }

    /// tree-token-2019 figure 1: ten processes, every inner one with three neighbours; and the same
    /// with 22.
    #[test]
    fn radial_is_figure_1() {
        assert_eq!(degrees(Shape::Radial, 10), [3, 3, 3, 3, 1, 1, 1, 1, 1, 1]);
        assert_eq!(degrees(Shape::Radial, 22)[..10], [3; 10]);
    }

    /// Each spine process has one leaf and one spine child; the last may lack one.
    #[test]
    fn caterpillar_has_a_spine() {
        assert_eq!(degrees(Shape::Caterpillar, 8), [2, 3, 1, 3, 1, 2, 1, 1]);
        let deep = build(Shape::Caterpillar, 9).distances(NodeId(0));
        assert_eq!(deep, [0, 1, 1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn known_degrees() {
        assert_eq!(degrees(Shape::Ring, 5), [2; 5]);
        assert_eq!(degrees(Shape::Complete, 5), [4; 5]);
        assert_eq!(degrees(Shape::Grid, 9), [2, 3, 2, 3, 4, 3, 2, 3, 2]);
    }

    /// A file that is not a graph is refused with its line.
    #[test]
    fn files() {
        let graph = parse("# two\nroot 1\n0 1 # an edge\n\n1 2\n").unwrap();
        assert_eq!((graph.root(), graph.nodes(), graph.edges()), (NodeId(1), 3, 2));
        assert!(matches!(parse("0 1\n0 x"), Err(NotAGraphFile::Line(2, _))));
        assert!(matches!(parse("0 99999999"), Err(NotAGraphFile::Line(1, _))));
        assert!(matches!(
            parse("0 1\n2 3"),
            Err(NotAGraphFile::Graph(NotAGraph::Disconnected(..)))
        ));
        assert!(matches!(parse(""), Err(NotAGraphFile::Graph(NotAGraph::Empty))));
    }
}
