//! The layer under toy rules: every tick sees its neighbours' present states, whatever the initial
//! states and whatever malformed messages the channels contain at the start.

extern crate std;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

use kgate_core::{Defects, Graph, Incarnation, Step, Survey};

use super::*;
use crate::harness::{self, Copy, Net};

mod layer;
mod token;

/// The longest delay of a message.
const DELAY: Span = Span(1_000);
/// How often processes resend.
const RESEND: Span = Span(4_000);
/// What a message of a neighbour takes at the longest if any number of them may get lost between
/// two that do not.
const EXCHANGE: u64 = DELAY.0 + RESEND.0;

/// Rng: the high bits of a linear congruence.
#[derive(Clone)]
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        let mut rng = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x0123_4567_89AB_CDEF);
        rng.below(2);
        rng
    }

    fn below(&mut self, bound: u64) -> u64 {
        let mut draw = || {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 32
        };
        (draw() << 32 | draw()) % bound
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).expect("a small number")
}

/// A ring, a path, a star, or a random tree with some edges more, of 2 .. 8 processes whose ids are
/// in any order.
fn random_graph(rng: &mut Rng) -> Graph {
    let nodes = 2 + small(rng.below(7));
    let mut edges: Vec<(u32, u32)> = match rng.below(4) {
        0 => (0..nodes).map(|node| (node, (node + 1) % nodes)).collect(),
        1 => (1..nodes).map(|node| (node - 1, node)).collect(),
        2 => (1..nodes).map(|node| (0, node)).collect(),
        3.. => {
            let tree: Vec<_> =
                (1..nodes).map(|node| (small(rng.below(node.into())), node)).collect();
            let more = (0..rng.below(4))
                .map(|_| (small(rng.below(nodes.into())), small(rng.below(nodes.into()))));
            tree.into_iter().chain(more.filter(|(a, b)| a != b)).collect()
        }
    };
    if rng.below(2) == 0 {
        let turn = small(rng.below(nodes.into()));
        edges = edges
            .iter()
            .map(|&(a, b)| (nodes - 1 - (a + turn) % nodes, nodes - 1 - (b + turn) % nodes))
            .collect();
    }
    graph(nodes, &edges)
}

fn graph(nodes: u32, edges: &[(u32, u32)]) -> Graph {
    let edges: Vec<_> = edges.iter().map(|&(a, b)| (NodeId(a), NodeId(b))).collect();
    Graph::new(nodes, &edges, NodeId(0)).unwrap()
}

fn ring(nodes: u32) -> Graph {
    graph(nodes, &(0..nodes).map(|node| (node, (node + 1) % nodes)).collect::<Vec<_>>())
}

fn diameter(graph: &Graph) -> u64 {
    let farthest = (0..graph.nodes()).flat_map(|node| graph.distances(NodeId(node))).max();
    farthest.unwrap().into()
}

/// A clean network whose messages take 1 .. [`DELAY`], in any order.
fn net<R: Rules>(graph: Graph, rng: &mut Rng) -> Net<Refined<R>> {
    let base = harness::setup(graph.nodes(), 1, Defects::NONE);
    let mut net = Net::with(Setup { refresh: Some(RESEND), graph: Some(Arc::new(graph)), ..base });
    let mut own = rng.clone();
    own.below(2);
    rng.below(2);
    net.delay = Box::new(move || Span(1 + own.below(DELAY.0)));
    net
}

/// The worst transient fault: the memory of every process is arbitrary, and up to `most` arbitrary
/// messages are added to every channel. Every other time all clocks are close together, which is
/// harder to tell from a correct configuration. Returns B, the greatest clock anywhere.
fn strike<R: Rules>(net: &mut Net<Refined<R>>, most: u64, rng: &mut Rng) -> u64 {
    let setups: Vec<Setup> = net.nodes.iter().map(|node| node.setup.clone()).collect();
    let (near, close) = (net.nodes[0].clock, rng.below(2) == 0);
    for node in &mut net.nodes {
        assert!(node.scramble(&mut |bound| rng.below(bound)));
        if close {
            node.clock = near + rng.below(4);
            node.clocks.iter_mut().for_each(|clock| *clock = near + rng.below(4));
        }
    }
    let mut scheduled = u64::MAX / 2;
    for setup in &setups {
        for &from in neighbours(setup) {
            for _ in 0..rng.below(most + 1) {
                let mut message = Refined::<R>::forge(setup, from, &mut |bound| rng.below(bound))
                    .expect("a neighbour's");
                if close {
                    message.clock = near + rng.below(4);
                }
                scheduled += 1;
                let due = (net.now + Span(1 + rng.below(DELAY.0)), scheduled);
                net.flights.insert(due, Copy { from, to: setup.me, message });
            }
        }
    }
    highest(net)
}

/// The greatest clock in any memory or channel.
fn highest<R: Rules>(net: &Net<Refined<R>>) -> u64 {
    let memory = net.nodes.iter().flat_map(|node| node.clocks.iter().copied().chain([node.clock]));
    memory.chain(net.flights.values().map(|copy| copy.message.clock)).max().unwrap()
}

/// How long the head of the layer says that it takes until all clocks are above B.
fn convergence(graph: &Graph) -> Span {
    let (n, d) = (u64::from(graph.nodes()), diameter(graph));
    Span(EXCHANGE * (1 + d + n * (d + 2)))
}

/// The time within which, after that, every process ticks at least once.
fn turn(graph: &Graph) -> Span {
    Span(EXCHANGE * u64::from(graph.nodes()) * (diameter(graph) + 1))
}
