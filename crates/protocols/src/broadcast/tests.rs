//! The broadcasts by hand: the papers' trees, their defects as printed and repaired, and random
//! crashes and orders.

use alloc::vec::Vec;

use kgate_core::{Input, InputOf, Never, Observation, Outbox, Protocol, Refusal, Setup, Time};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::collections::NodeList;
use crate::defects::{D1, D5, D7, D8};
use crate::harness::Net;

/// A broadcast without its mutex: `Acquire` starts one, and deliveries are remembered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Station<S: Broadcast> {
    me: NodeId,
    nodes: u32,
    defects: Defects,
    clock: u64,
    crashed: NodeList,
    broadcast: S,
    delivered: Vec<Stamp>,
}

impl<S: Broadcast> Station<S> {
    fn ready(&self) -> bool {
        self.broadcast.ready(self.me)
    }
}

impl<S: Broadcast> Protocol for Station<S> {
    const NAME: &'static str = "station";
    type Message = S::Message;
    type Timer = Never;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        let Setup { me, nodes, defects, .. } = *setup;
        let (crashed, broadcast) = (NodeList::default(), S::default());
        Self { me, nodes, defects, clock: 0, crashed, broadcast, delivered: Vec::new() }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if let Input::Crashed { node, .. } = input {
            self.crashed.insert(node);
        }
        let Self { broadcast, crashed, .. } = self;
        let at = Place {
            me: self.me,
            members: Members::new(self.nodes, crashed),
            defects: self.defects,
        };
        let send = &mut |to, message| out.send_to(to, message);
        if let Input::Acquire { .. } = input {
            self.clock += 1;
            broadcast.broadcast(at, self.clock, send);
        } else if let Input::Deliver { from, message } = input {
            let fresh = broadcast.accept(at, from, &message);
            if let Some(request) = fresh {
                self.clock = self.clock.max(request.clock);
                self.delivered.push(request);
            }
            broadcast.relay(at, from, message, fresh.is_some(), send);
        } else if let Input::Crashed { node, .. } = input {
            broadcast.crashed(at, node, send);
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        Observation::default()
    }
}

type Stations<S> = Net<Station<S>>;

fn stations<S: Broadcast>(nodes: u32) -> Stations<S> {
    Net::new(nodes, 1, Defects::NONE)
}

/// How often a process has got a request.
fn copies<S: Broadcast>(net: &Stations<S>, at: u32, request: Stamp) -> usize {
    net.nodes[at as usize].delivered.iter().filter(|&&delivered| delivered == request).count()
}

/// vcube-2018 section 5.2, figure 2(a): from p0 to 1, 2 and 4; from p2 to 3; from p4 to 5 and 6;
/// from p6 to 7. Figure 2(b), p4 known to be faulty: p5 takes its place, and sends to 7, which
/// sends to 6.
#[test]
fn figure_2_of_vcube_2018() {
    let mut net = stations::<Tree>(8);
    net.acquire(0);
    net.deliver_all();
    assert_eq!(net.sent("tree"), [(0, 1), (0, 2), (0, 4), (2, 3), (4, 5), (4, 6), (6, 7)]);
    assert_eq!(net.sent("ack"), [(1, 0), (2, 0), (3, 2), (4, 0), (5, 4), (6, 4), (7, 6)]);
    assert!(net.nodes[0].ready());

    let mut net = stations::<Tree>(8);
    net.crash(4);
    net.notify_crashed(net.live(), 4);
    net.acquire(0);
    net.deliver_all();
    assert_eq!(net.sent("tree"), [(0, 1), (0, 2), (0, 5), (2, 3), (5, 7), (7, 6)]);
    assert!(net.nodes[0].ready());
}

/// robust-2012 section 3.2, figure 3(a): from p0 to 1, 2 and 4; from p2 to 3; from p4 to 6 and 5;
/// from p6 to 7. Figure 3(b), p4 known to be faulty: p6 takes its place, with 5 and 7 below. ACKs
/// go straight to the root.
#[test]
fn figure_3_of_robust_2012() {
    let mut net = stations::<Sta>(8);
    net.acquire(0);
    net.deliver_all();
    assert_eq!(net.sent("tree"), [(0, 1), (0, 2), (0, 4), (2, 3), (4, 5), (4, 6), (6, 7)]);
    assert_eq!(net.sent("ack"), [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0)]);
    assert!(net.nodes[0].ready());

    let mut net = stations::<Sta>(8);
    net.crash(4);
    net.notify_crashed(net.live(), 4);
    net.acquire(0);
    net.deliver_all();
    assert_eq!(net.sent("tree"), [(0, 1), (0, 2), (0, 6), (2, 3), (6, 5), (6, 7)]);
    assert!(net.nodes[0].ready());
}

/// vcube-2018 section 6.3, figure 4 (n = 4): p2 crashes before it passes the second broadcast on;
/// p0 waits for its ACK until it hears of the crash, sends to p3 instead, and with p3's ACK
/// (message 11) the broadcast is completed.
#[test]
fn figure_4_of_vcube_2018() {
    let mut net = stations::<Tree>(4);
    net.acquire(0);
    net.deliver_all();
    assert_eq!(net.sent.len(), 6, "three TREE and three ACK");
    assert!(net.nodes[0].ready());

    net.crash(2);
    net.acquire(0);
    net.deliver_all();
    assert!(!net.nodes[0].ready(), "p2's ACK is lacking");
    assert_eq!(net.nodes[3].clock, 1, "p3 has only the first");
    net.notify_crashed([0, 3], 2);
    assert!(net.sent("tree").contains(&(0, 3)), "the next fault-free process of the cluster");
    net.deliver_all();
    assert_eq!(net.sent.len(), 11);
    assert!(net.nodes[0].ready());
    assert_eq!(net.nodes[3].delivered.len(), 2);
}

/// vcube-2018 Algorithm 6.1 lines 38-42: only a process whose ACK is awaited is replaced, and once
/// it is, its own late ACK no longer ends the wait.
#[test]
fn only_a_lost_child_is_replaced() {
    let mut net = stations::<Tree>(8);
    net.acquire(0);
    for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 3), (3, 2), (2, 0), (0, 4), (4, 6), (6, 7)] {
        net.deliver(from, to);
    }
    for (from, to) in [(7, 6), (6, 4), (4, 5), (5, 4)] {
        net.deliver(from, to);
    }
    net.sent.clear();
    net.crash(6);
    net.notify_crashed([0, 5, 7], 6);
    assert_eq!(net.sent("tree"), [], "p6 is in the cluster of p4, who has passed the request on");
    net.crash(4);
    net.notify_crashed([0, 5, 7], 4);
    assert_eq!(net.sent("tree"), [(0, 5)]);
    net.deliver(4, 0);
    assert!(!net.nodes[0].ready(), "p5 is waited for now");
    net.deliver_all();
    assert!(net.nodes[0].ready());
}

/// robust-2012 section 3.2: likewise, only the process responsible for a cluster is replaced, and
/// only while an ACK is lacking.
#[test]
fn only_the_responsible_process_is_replaced() {
    let mut net = stations::<Sta>(8);
    net.acquire(0);
    net.sent.clear();
    net.crash(5);
    net.notify_crashed([0], 5);
    assert_eq!(net.sent("tree"), [], "p4 is in charge of 6, 7 and 5");
    net.crash(4);
    net.notify_crashed([0], 4);
    assert_eq!(net.sent("tree"), [(0, 6)]);
    net.notify_crashed([6], 4);
    net.notify_crashed([6], 5);
    net.deliver_all();
    assert!(net.nodes[0].ready());
    net.sent.clear();
    net.crash(6);
    net.notify_crashed([0], 6);
    assert_eq!(net.sent("tree"), [], "everybody has it");
}

/// D1 (vcube-2018 Algorithm 6.1 line 19): a greater clock is new, even if it is not the next one. n
/// = 2, no crash. As printed, p1 drops p0's (3, p0) since the last it had of p0 was (1, p0).
#[test]
fn d1_a_greater_clock_is_new() {
    fn clocks_at_1(defects: Defects) -> Vec<u64> {
        let mut net: Stations<Tree> = Net::new(2, 1, defects);
        for source in [0, 1, 0] {
            net.acquire(source);
            net.deliver_all();
        }
        net.nodes[1].delivered.iter().map(|request| request.clock).collect()
    }
    assert_eq!(clocks_at_1(D1), [1]);
    assert_eq!(clocks_at_1(Defects::NONE), [1, 3]);
}

/// D5 (vcube-2018 Algorithm 6.1 lines 28-29): one ACK answers every parent that waits for it. n =
/// 16; p8 and then p9 charge p12, which charges p14 for both before p14 has its ACK from p15. As
/// printed, p9 and so p0 wait for ever.
#[test]
fn d5_one_ack_answers_all_parents() {
    fn ends(defects: Defects) -> bool {
        let mut net: Stations<Tree> = Net::new(16, 1, defects);
        net.acquire(0);
        for (from, to) in [(0, 8), (8, 12), (12, 14)] {
            net.deliver(from, to);
        }
        net.crash(8);
        net.crash(13);
        net.notify_crashed([9], 13); // So p12 is now the first of c(9,3) = 13, 12, 15, 14.
        net.notify_crashed([0, 9], 8); // And p9 the first of c(0,4).
        for (from, to) in [(0, 9), (9, 12), (12, 14)] {
            net.deliver(from, to);
        }
        net.deliver_all();
        for dead in [8, 13] {
            net.notify_crashed(net.live(), dead);
        }
        net.deliver_all();
        for living in net.live().into_iter().filter(|&node| node != 0) {
            assert_eq!(net.nodes[living as usize].delivered.len(), 1, "p{living}");
        }
        net.nodes[0].ready()
    }
    assert!(!ends(D5));
    assert!(ends(Defects::NONE));
}

/// D7 (robust-2012 Algorithm 1 line 12): a request is identified by its root, not by the process
/// that forwarded it. n = 4, one crash. As printed, p3 takes the same request from p2 and from p0
/// for two, and acknowledges both.
#[test]
fn d7_the_same_request_by_another_route_is_not_new() {
    fn copies_at_3(defects: Defects) -> usize {
        let mut net: Stations<Sta> = Net::new(4, 1, defects);
        net.acquire(0);
        for (from, to) in [(0, 2), (2, 3)] {
            net.deliver(from, to);
        }
        net.crash(2);
        net.notify_crashed([0, 1, 3], 2);
        net.deliver_all();
        let copies = copies(&net, 3, Stamp { clock: 1, node: NodeId(0) });
        assert_eq!(net.sent("ack").iter().filter(|pair| pair.0 == 3).count(), copies);
        copies
    }
    assert_eq!(copies_at_3(D7), 2);
    assert_eq!(copies_at_3(Defects::NONE), 1);
}

/// D7 again: requests of two roots that come by the same route are both remembered. n = 16, one
/// crash. p12 gets p8's own request and p0's, both from p8; when p14 crashes before it has passed
/// them on, both must go to p15. As printed the second has wiped out the first, and p8 waits for
/// ever.
#[test]
fn d7_another_request_by_the_same_route_is_not_lost() {
    fn ready(defects: Defects) -> [bool; 2] {
        let mut net: Stations<Sta> = Net::new(16, 1, defects);
        net.acquire(8);
        net.deliver(8, 12);
        net.acquire(0);
        for (from, to) in [(0, 8), (8, 12)] {
            net.deliver(from, to);
        }
        net.crash(14);
        net.notify_crashed(net.live(), 14);
        net.deliver_all();
        [0, 8].map(|root| net.nodes[root].ready())
    }
    assert_eq!(ready(D7), [true, false]);
    assert_eq!(ready(Defects::NONE), [true, true]);
}

/// D8 (robust-2012 Algorithm 1 line 12, even if keyed by the root): an old request that comes late
/// is not new. n = 4, one crash; p2's TREE to p3 is overtaken by two of p0's. As printed, p3
/// delivers p0's first request again.
#[test]
fn d8_an_old_request_is_not_new() {
    fn clocks_at_3(defects: Defects) -> Vec<u64> {
        let mut net: Stations<Sta> = Net::new(4, 1, defects);
        net.acquire(0);
        net.deliver(0, 2);
        net.crash(2);
        net.notify_crashed([0, 1, 3], 2);
        for (from, to) in [(0, 1), (1, 0), (0, 3), (3, 0)] {
            net.deliver(from, to);
        }
        net.acquire(0);
        net.deliver(0, 3);
        net.deliver(2, 3);
        net.deliver_all();
        net.nodes[3].delivered.iter().map(|request| request.clock).collect()
    }
    assert_eq!(clocks_at_3(D8), [1, 2, 1]);
    assert_eq!(clocks_at_3(Defects::NONE), [1, 2]);
}

/// What can happen next in a random run.
#[derive(Clone, Copy)]
enum Step {
    Arrive(usize),
    Broadcast(u32),
    Crash(u32),
    /// This one hears that that one has crashed.
    Hear(u32, u32),
}

/// vcube-2018 lemmas 6.1 and 6.2, and robust-2012 section 3.2: processes broadcast, once or several
/// times, and crash, some in the middle of a send; notifications and messages arrive in any order.
/// Every broadcast of a live process ends, so that it can start its next one, and every live
/// process has delivered it exactly once. No process has delivered a broadcast of a crashed process
/// twice.
fn broadcasts_end<S: Broadcast>(
    n: u32,
    sources: &[Index],
    doomed: &[Index],
    order: &[Index],
) -> Result<(), TestCaseError> {
    let mut net = stations::<S>(n);
    let all: Vec<u32> = net.live();
    let mut sources: Vec<u32> = sources.iter().map(|source| *source.get(&all)).collect();
    let mut doomed: Vec<u32> = doomed.iter().map(|node| *node.get(&all)).collect();
    doomed.sort();
    doomed.dedup();
    doomed.retain(|&node| node != sources[0]);
    let (mut started, mut unheard) = (Vec::new(), Vec::new());
    let mut order = order.iter();
    loop {
        let mut steps: Vec<Step> = (0..net.flights.len()).map(Step::Arrive).collect();
        steps.extend(unheard.iter().map(|&(at, of)| Step::Hear(at, of)));
        let ready = sources.iter().filter(|&&source| net.nodes[source as usize].ready());
        steps.extend(ready.map(|&source| Step::Broadcast(source)));
        steps.extend(doomed.iter().map(|&node| Step::Crash(node)));
        if steps.is_empty() {
            break;
        }
        match order.next().map_or(steps[0], |choice| *choice.get(&steps)) {
            Step::Arrive(place) => net.deliver_nth(place),
            Step::Broadcast(source) => {
                let place =
                    sources.iter().position(|&other| other == source).expect("chosen from these");
                sources.remove(place);
                net.acquire(source);
                started
                    .push(Stamp { clock: net.nodes[source as usize].clock, node: NodeId(source) });
            }
            Step::Crash(node) => {
                net.crash(node);
                doomed.retain(|&other| other != node);
                sources.retain(|&source| source != node);
                unheard.retain(|&(at, _)| at != node);
                unheard.extend(net.live().into_iter().map(|at| (at, node)));
                // What it sent last may never have left.
                net.keep_sent(node, |sent| {
                    order.next().map_or(sent, |choice| choice.index(sent + 1))
                });
            }
            Step::Hear(at, of) => {
                unheard.retain(|&news| news != (at, of));
                net.notify_crashed([at], of);
            }
        }
    }
    prop_assert!(sources.is_empty(), "{sources:?} wait for ever");
    let living = net.live();
    for request in started {
        let source = request.node.0;
        let alive = living.contains(&source);
        prop_assert!(!alive || net.nodes[source as usize].ready(), "p{source} waits for ever");
        for &node in living.iter().filter(|&&node| node != source) {
            let copies = copies(&net, node, request);
            prop_assert!(
                copies == 1 || !alive && copies == 0,
                "p{node} got {request:?} {copies} times"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// vcube-2018 lemmas 6.1 (validity) and 6.2 (integrity), with crashes: see `broadcasts_end`.
    #[test]
    fn tree_broadcasts_end(
        n in 2u32..=20,
        sources in prop::collection::vec(any::<Index>(), 1..6),
        doomed in prop::collection::vec(any::<Index>(), 0..12),
        order in prop::collection::vec(any::<Index>(), 0..300),
    ) {
        broadcasts_end::<Tree>(n, &sources, &doomed, &order)?;
    }

    /// robust-2012 section 3.2, every process gets every request, once, with crashes: see
    /// `broadcasts_end`.
    #[test]
    fn sta_broadcasts_end(
        n in 2u32..=20,
        sources in prop::collection::vec(any::<Index>(), 1..6),
        doomed in prop::collection::vec(any::<Index>(), 0..12),
        order in prop::collection::vec(any::<Index>(), 0..300),
    ) {
        broadcasts_end::<Sta>(n, &sources, &doomed, &order)?;
    }
}
