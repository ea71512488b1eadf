//! The tree by hand: what an entry, a recovery and a loss cost, and what they leave behind.

mod harness;
mod malformed;
mod random;
mod schedules;

use alloc::sync::Arc;
use alloc::vec::Vec;

use kgate_core::{Message, Setup};

use super::*;
use crate::harness::Net;
use crate::topology::graphs::Shape;

type Tree = Net<TreeToken>;

/// A system on this graph, INITIALIZE done.
fn tree(graph: &Graph, k: u32, defects: Defects) -> Tree {
    let setup = crate::harness::setup(graph.nodes(), k, defects);
    let mut net = Net::with(Setup { graph: Some(Arc::new(graph.clone())), ..setup });
    net.deliver_all();
    net.sent.clear();
    net
}

/// One behind the other, all tokens at p0.
fn path(nodes: u32, k: u32, defects: Defects) -> Tree {
    tree(&Shape::Path.build(nodes, &mut |_| 0).unwrap(), k, defects)
}

fn count(net: &Tree, kinds: &[&str]) -> usize {
    let counts = |kind: usize| kinds.contains(&TreeTokenMessage::kind_name(kind));
    net.sent.iter().filter(|copy| counts(copy.message.kind())).count()
}

fn grants(net: &Tree) -> Vec<u32> {
    let granted =
        net.notices.iter().filter(|told| matches!(told.2, kgate_core::Notice::Granted { .. }));
    granted.map(|told| told.1.0).collect()
}

const SHAPES: [Shape; 6] = [
    Shape::Radial,
    Shape::Balanced,
    Shape::Path,
    Shape::Star,
    Shape::Caterpillar,
    Shape::RandomTree,
];

/// A fixed choice for random trees.
fn draws() -> impl FnMut(u64) -> u64 {
    let mut state = 7u64;
    move |bound| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % bound
    }
}

/// Raymond 1989: an entry in a quiet system costs one REQUEST and one TOKEN for each edge between
/// requester and holder, for every pair, in every shape. tree-token-2019 section I says 2(D-1);
/// figure 1 with nodes 5 and 10 at distance 4 has 8.
#[test]
fn an_entry_costs_twice_the_distance() {
    for shape in SHAPES {
        let graph = shape.build(10, &mut draws()).unwrap();
        for holder in (0..graph.nodes()).map(NodeId) {
            let graph = graph.with_root(holder).unwrap();
            for (requester, distance) in (0..).zip(graph.distances(holder)) {
                let mut net = tree(&graph, 1, Defects::NONE);
                net.acquire(requester);
                net.deliver_all();
                assert_eq!(net.inside(), [requester]);
                assert_eq!(net.sent("request").len(), distance as usize, "{shape}");
                assert_eq!(
                    net.sent.len(),
                    2 * distance as usize,
                    "{shape}: p{requester} from {holder}"
                );
                net.release(requester);
                assert!(net.flights.is_empty(), "the token stays where it was used");
            }
        }
    }
}

/// The initial flood costs one message an edge, and a request made before it waits for it (section
/// V-D-5).
#[test]
fn initialize_floods_the_tree() {
    let graph = Shape::Radial.build(10, &mut draws()).unwrap();
    let mut net: Tree = Net::with(Setup {
        graph: Some(Arc::new(graph)),
        ..crate::harness::setup(10, 1, Defects::NONE)
    });
    net.acquire(9);
    assert_eq!(count(&net, &["request"]), 0);
    net.deliver_all();
    assert_eq!(count(&net, &["initialize"]), 9);
    assert_eq!(net.inside(), [9]);
}

/// tree-token-2019 section VI: recovery costs exactly 2K messages for K neighbours, in a quiet
/// system, wherever the token is; and changes nothing but the incarnation of the process.
#[test]
fn recovery_costs_two_messages_a_neighbour() {
    for shape in SHAPES {
        let graph = shape.build(10, &mut draws()).unwrap();
        for holder in 0..10 {
            for back in 0..10 {
                let mut net = tree(&graph, 1, Defects::NONE);
                net.acquire(holder);
                net.deliver_all();
                net.release(holder);
                net.sent.clear();
                let before = net.nodes[back as usize].places.clone();
                net.crash(back);
                net.restart(back);
                net.deliver_all();
                let neighbours = graph.neighbours(NodeId(back)).len();
                assert_eq!(net.sent("restart").len(), neighbours);
                assert_eq!(
                    net.sent.len(),
                    2 * neighbours,
                    "{shape}: p{back} with the token at p{holder}"
                );
                assert_eq!(net.nodes[back as usize].places, before);
                net.acquire(9 - back);
                net.deliver_all();
                assert_eq!(net.inside(), [9 - back]);
            }
        }
    }
}

/// A process that is back is told what it had asked for, and does not ask again; its neighbours do
/// not either.
#[test]
fn recovery_requests_no_token_twice() {
    for back in [0, 1] {
        let mut net = path(3, 1, Defects::NONE);
        net.acquire(0);
        net.acquire(2);
        net.deliver_all();
        net.crash(2 - back);
        net.sent.clear();
        net.restart(2 - back);
        net.deliver_all();
        assert_eq!(net.sent.len(), 2 + 2 * back as usize, "RESTART and ADVISE");
        net.release(0);
        net.deliver_all();
        assert_eq!(net.inside(), [2]);
    }
}

/// A client that is inside and waits for its next entry keeps no idle token from those behind it.
#[test]
fn a_holder_that_waits_blocks_no_entry() {
    let mut net = path(2, 2, Defects::NONE);
    net.acquire(0);
    net.acquire(0);
    net.acquire(1);
    net.deliver_all();
    assert_eq!((net.inside(), grants(&net)), (Vec::from([0, 1]), Vec::from([0, 1])));
    net.release(0);
    net.deliver_all();
    assert_eq!(grants(&net), [0, 1, 0]);
}

/// A crash after a loss was stored and before the token was made anew: it is made when the process
/// is back.
#[test]
fn a_token_is_regenerated_after_a_crash_in_between() {
    let mut net = path(2, 1, Defects::NONE);
    net.acquire(1);
    net.deliver_all();
    net.crash(1);
    net.crash(0);
    net.stored.get_mut(&NodeId(0)).unwrap().lost.insert(NodeId(1));
    net.restart(0);
    net.acquire(0);
    assert_eq!(net.inside(), [0]);
}

/// k clients are inside at once, each with a slot of its own; the next waits. (Raymond 1989 has k =
/// 1.)
#[test]
fn k_tokens_let_k_in() {
    for shape in SHAPES {
        for k in 1..4 {
            let mut net = tree(&shape.build(9, &mut draws()).unwrap(), k, Defects::NONE);
            (0..9).for_each(|node| net.acquire(node));
            for done in 0..9 {
                net.deliver_all();
                let inside = net.inside();
                assert_eq!(inside.len(), (k as usize).min(9 - done), "{shape}, k = {k}");
                net.release(inside[0]);
            }
            net.deliver_all();
            assert_eq!(net.inside(), []);
        }
    }
}

/// The lemma of the module's head: two of three tokens are in use for ever, wherever, and all
/// others are served one after the other.
#[test]
fn all_but_one_may_stay_inside_for_ever() {
    for shape in SHAPES {
        let graph = shape.build(8, &mut draws()).unwrap();
        for (one, two) in (0..8).flat_map(|one| (0..one).map(move |two| (one, two))) {
            let mut net = tree(&graph, 3, Defects::NONE);
            net.acquire(one);
            net.acquire(two);
            net.deliver_all();
            let others: Vec<u32> = (0..8).filter(|node| ![one, two].contains(node)).collect();
            others.iter().for_each(|&node| net.acquire(node));
            for _ in &others {
                net.deliver_all();
                let next = net.inside().into_iter().find(|node| ![one, two].contains(node));
                net.release(
                    next.unwrap_or_else(|| panic!("{shape}: p{one} and p{two} keep all out")),
                );
            }
            net.deliver_all();
            assert_eq!((net.inside(), grants(&net).len()), (Vec::from([two, one]), 8));
        }
    }
}

/// A token that was sent and lost with the crash of its receiver is sent again: persisted before it
/// left, and its revision tells that it did not arrive. The same if the sender crashes before it
/// has left.
#[test]
fn a_token_lost_on_its_way_is_sent_again() {
    for crash in [0, 1] {
        let mut net = path(2, 1, Defects::NONE);
        net.acquire(1);
        net.deliver(1, 0);
        net.crash(crash);
        if crash == 0 {
            net.keep_sent(0, |_| 0);
        } else {
            net.deliver_all(); // Lost at p1.
        }
        net.restart(crash);
        net.deliver_all();
        assert_eq!(net.inside(), [1], "with the stored request, or as it was");
    }
}

/// A token that arrives twice, or late after it was sent again, is one token.
#[test]
fn an_old_copy_is_nothing() {
    let mut net = path(2, 1, Defects::NONE);
    net.acquire(1);
    net.deliver(1, 0);
    net.crash(0);
    net.restart(0); // Its TOKEN is still on its way, and p1's ADVISE says that it has not come.
    net.deliver(0, 1);
    assert_eq!(net.inside(), [1]);
    net.release(1);
    net.acquire(0);
    net.deliver_all();
    assert_eq!((net.inside(), count(&net, &["token"])), (Vec::from([0]), 2));
}

/// Withdrawn while it waits: the token may still come, stays there, and is passed on when asked
/// for.
#[test]
fn a_withdrawn_request_blocks_no_other() {
    let mut net = path(3, 1, Defects::NONE);
    net.acquire(2);
    net.deliver(2, 1);
    net.input(2, Input::Withdraw).unwrap();
    net.acquire(0);
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
    net.release(0);
    net.deliver_all();
    assert_eq!(net.nodes[2].places[0].towards, NodeId(2), "with nobody who wants it");
    assert_eq!(net.nodes[2].observe().phase, Phase::Idle);
    net.acquire(1);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// The neighbours of a lost process are served: with a regenerated token under a greater fence if
/// the token was lost, otherwise with the old token. Every place of the token and every lost
/// process, in every shape.
#[test]
fn a_lost_process_blocks_no_entry() {
    for shape in SHAPES {
        let graph = shape.build(8, &mut draws()).unwrap();
        for (holder, gone) in (0..8).flat_map(|holder| (0..8).map(move |gone| (holder, gone))) {
            let mut net = tree(&graph, 1, Defects::NONE);
            net.acquire(holder);
            net.deliver_all();
            net.crash(gone);
            for node in net.live() {
                net.notify_crashed([node], gone);
            }
            net.deliver_all();
            if holder != gone {
                assert_eq!(net.inside(), [holder], "{shape}: p{gone} lost");
                net.release(holder);
            }
            for next in net.live() {
                net.acquire(next);
                net.deliver_all();
                assert_eq!(
                    net.inside(),
                    [next],
                    "{shape}: p{gone} lost, the token was at p{holder}"
                );
                net.release(next);
            }
            let fences: Vec<_> = net.notices.iter().filter_map(|told| fence_of(&told.2)).collect();
            assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
            let epoch = u128::from(holder == gone);
            assert_eq!(fences.last().unwrap() >> 64, epoch, "made anew only if lost");
        }
    }
}

/// A neighbour of the lost process that is down may have the token: no process regenerates it
/// before that neighbour is back.
#[test]
fn a_token_is_not_regenerated_while_it_may_exist() {
    let mut net = path(4, 1, Defects::NONE); // p0 - p1 - p2 - p3
    net.acquire(2);
    net.deliver_all();
    net.release(2);
    net.crash(2);
    net.crash(1);
    net.notify_crashed([0, 3], 1);
    net.acquire(0);
    net.deliver_all();
    assert_eq!(net.inside(), [], "p2 is down, not lost");
    net.restart(2);
    net.notify_crashed([2], 1);
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
    assert_eq!(net.nodes[0].places[0].revision.epoch, 0, "the same token");
}

fn fence_of(notice: &kgate_core::Notice) -> Option<u128> {
    match notice {
        kgate_core::Notice::Granted { fence, .. } => fence.map(|fence| fence.0),
        kgate_core::Notice::Asked
        | kgate_core::Notice::Lost { .. }
        | kgate_core::Notice::Adopted { .. }
        | kgate_core::Notice::AdoptionRefused { .. }
        | kgate_core::Notice::TooLarge { .. }
        | kgate_core::Notice::Suspected { .. } => None,
    }
}

/// Law 6: an idle process keeps O(k + neighbours), after any number of entries and recoveries.
#[test]
fn an_idle_process_is_small() {
    let graph = Shape::Star.build(50, &mut draws()).unwrap();
    let mut net = tree(&graph, 2, Defects::NONE);
    for round in 0..4 {
        (0..50).for_each(|node| net.acquire(node));
        net.deliver_all();
        while let Some(&node) = net.inside().first() {
            net.release(node);
            net.deliver_all();
        }
        net.crash(round);
        net.restart(round);
        net.deliver_all();
    }
    for (node, process) in (0..).map(NodeId).zip(&net.nodes) {
        assert_eq!(process.links.len(), graph.neighbours(node).len());
        assert_eq!((process.queue.len(), process.places.len()), (0, 2));
        assert!(process.as_printed.is_none() && process.lost.is_empty());
    }
}
