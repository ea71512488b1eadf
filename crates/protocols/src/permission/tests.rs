//! The mutex on a manually driven network: the papers' examples, their defects as printed and
//! repaired, and refusals.

use alloc::vec;
use alloc::vec::Vec;

use kgate_core::{Incarnation, ViewId};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::broadcast::{Direct, DirectMessage, Sta, StaMessage, Tree, TreeMessage};
use crate::defects::{D2, D3, D4, D6, D7, D8, D9};
use crate::harness::Net;

type Mutex<S> = Net<Permission<S>>;

fn mutex<S: Broadcast>(nodes: u32, k: u32) -> Mutex<S> {
    Net::new(nodes, k, Defects::NONE)
}

/// vcube-2018 section 7.3, figure 5 (n = 4, k = 2): p0 enters; p2 enters beside it with the replies
/// of p1 and p3; p1 gets the reply of p3 alone and waits until p0 releases.
#[test]
fn figure_5_of_vcube_2018() {
    let mut net = mutex::<Tree>(4, 2);
    net.acquire(0);
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
    assert_eq!(net.sent("tree"), [(0, 1), (0, 2), (2, 3)]);
    assert_eq!(net.sent("reply"), [(1, 0), (2, 0), (3, 0)], "everyone will reply immediately");

    net.sent.clear();
    net.acquire(2);
    net.deliver_all();
    assert_eq!(net.inside(), [0, 2]);
    assert_eq!(net.sent("tree"), [(0, 1), (2, 0), (2, 3)]);
    assert_eq!(net.sent("reply"), [(1, 2), (3, 2)], "p0 is executing and defers the reply");

    net.sent.clear();
    net.acquire(1);
    net.deliver_all();
    assert_eq!(net.inside(), [0, 2], "p1 waits");
    assert_eq!(net.sent("tree"), [(1, 0), (1, 3), (3, 2)]);
    assert_eq!(net.sent("reply"), [(3, 1)]);

    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1, 2]);
}

/// robust-2012 section 2, figure 1 (Raymond, n = 8, k = 5): p0 gets all 7 replies; p1 enters with
/// those of the 6 others, and gets the seventh when p0 releases.
#[test]
fn figure_1_of_robust_2012() {
    let mut net = mutex::<Direct>(8, 5);
    net.acquire(0);
    net.deliver_all();
    assert_eq!(net.sent("reply").len(), 7);
    net.sent.clear();
    net.acquire(1);
    net.deliver_all();
    assert_eq!(net.inside(), [0, 1]);
    assert_eq!(net.sent("reply"), [(2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1)]);
    net.sent.clear();
    net.release(0);
    assert_eq!(net.sent("reply"), [(0, 1)], "only to p1");
}

/// robust-2012 section 2: with p4 .. p7 faulty and no crash reported, p1 gets two replies of the
/// three that it needs, and must wait until p0 releases, although four slots are free. When the
/// crashes are reported, it enters at once.
#[test]
fn raymond_degrades_with_every_crash() {
    let mut net = mutex::<Direct>(8, 5);
    net.acquire(0);
    net.deliver_all();
    (4..8).for_each(|node| net.crash(node));
    net.acquire(1);
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
    let mut told = mutex::<Direct>(8, 5);
    told.nodes.clone_from(&net.nodes);
    (4..8).for_each(|node| told.notify_crashed([1], node));
    assert_eq!(told.inside(), [0, 1]);
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// Raymond 1989, vcube-2018 section 7.2: a requester enters with the (n-f-k)-th permission and not
/// before; with none at all if that many slots are free.
#[test]
fn enters_with_n_f_k_permissions() {
    fn check<S: Broadcast>(n: u32, k: u32, f: u32) {
        let mut net = mutex::<S>(n, k);
        for dead in n - f..n {
            net.crash(dead);
            net.notify_crashed(net.live(), dead);
        }
        net.acquire(0);
        let mut replies = 0;
        while net.inside().is_empty() {
            assert!(replies < n - f - k, "n={n} k={k} f={f}: {replies} replies and still outside");
            let next = net.flights.values().next().expect("something is in flight");
            replies += u32::from(matches!(next.message, PermissionMessage::Reply { .. }));
            net.deliver_nth(0);
        }
        assert_eq!(replies, (n - f).saturating_sub(k), "n={n} k={k} f={f}");
    }
    for (n, k, f) in
        [(2, 1, 0), (4, 1, 0), (4, 2, 1), (8, 5, 0), (8, 3, 2), (9, 2, 8), (5, 5, 0), (4, 3, 2)]
    {
        check::<Direct>(n, k, f);
        check::<Tree>(n, k, f);
        check::<Sta>(n, k, f);
    }
}

/// robust-2012 section 2 and vcube-2018: an entry without contention costs 2(n-1) messages with
/// direct requests, and 3(n-1) along a tree with ACKs, for every n.
#[test]
fn an_entry_has_the_published_cost() {
    fn check<S: Broadcast>(kinds: &[&str]) {
        for n in [1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 31, 64] {
            for source in [0, n / 2, n - 1] {
                let mut net = mutex::<S>(n, 1);
                net.acquire(source);
                net.deliver_all();
                net.release(source);
                net.deliver_all();
                for kind in kinds {
                    assert_eq!(net.sent(kind).len(), n as usize - 1, "{kind} of n={n}");
                }
                assert_eq!(net.sent.len(), kinds.len() * (n as usize - 1));
            }
        }
    }
    check::<Direct>(&["request", "reply"]);
    check::<Tree>(&["tree", "ack", "reply"]);
    check::<Sta>(&["tree", "ack", "reply"]);
}

/// vcube-2018 section 7.1: the smaller clock comes first, and the smaller id among equal clocks.
#[test]
fn priority_is_by_clock_then_by_id() {
    fn check<S: Broadcast>() {
        let mut net = mutex::<S>(4, 1);
        net.acquire(3); // Stamp (1, p3); p1 and nobody else hears of it in time.
        let heard =
            net.flights.values().position(|copy| copy.to.0 == 1).expect("p3 or its child asks p1");
        net.deliver_nth(heard);
        for node in [1, 2, 0] {
            net.acquire(node); // (2, p1), (1, p2), (1, p0)
        }
        for next in [0, 2, 3, 1] {
            net.deliver_all();
            assert_eq!(net.inside(), [next]);
            net.release(next);
        }
    }
    check::<Direct>();
    check::<Tree>();
    check::<Sta>();
}

/// D2 (vcube-2018 Algorithm 7.1 lines 9-14 with 6.1 line 5): a REPLY to the request before does not
/// count for this one. n = 4, k = 2, channels in order, no crash. As printed, three are inside.
#[test]
fn d2_a_late_reply_is_not_counted() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net: Mutex<Tree> = Net::new(4, 2, defects);
        net.acquire(0);
        net.deliver(0, 1); // p1's REPLY and ACK stay on their way.
        net.deliver(0, 2);
        net.deliver(2, 3);
        deliver_channels(&mut net, &[(3, 2), (3, 0), (2, 0)]);
        assert_eq!(net.inside(), [0]);
        net.acquire(2); // (2, p2) reaches p3 and p0, not yet p1.
        net.deliver(2, 0);
        net.deliver(2, 3);
        net.release(0);
        deliver_channels(&mut net, &[(0, 2), (3, 2)]);
        assert_eq!(net.inside(), [2], "with the permissions of p0 and p3");
        net.acquire(1); // (2, p1): it has not heard of p2's.
        net.acquire(0); // (3, p0): waits for p1's ACK to the request before.
        net.deliver(1, 0); // The late REPLY to (1, p0).
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(D2), [0, 1, 2]);
    assert_eq!(inside(Defects::NONE), [1, 2]);
}

/// D3 (vcube-2018 Algorithm 7.1 lines 36-37 while blocked in 6.1 line 5): a crash takes no
/// permission back that was never given. n = 4, k = 1, one crash. As printed, p0 waits for ever.
#[test]
fn d3_a_crash_takes_back_only_what_was_given() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net: Mutex<Tree> = Net::new(4, 1, defects);
        net.acquire(0);
        net.deliver(0, 1);
        net.deliver(1, 0); // p1's REPLY; its ACK stays on its way.
        net.deliver(0, 2);
        net.deliver(2, 3);
        deliver_channels(&mut net, &[(3, 2), (3, 0), (2, 0)]);
        assert_eq!(net.inside(), [0]);
        net.release(0);
        net.acquire(0);
        net.crash(1);
        net.notify_crashed([0, 2, 3], 1);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(D3), []);
    assert_eq!(inside(Defects::NONE), [0]);
}

/// D4 (vcube-2018 Algorithms 6.1 and 7.1, robust-2012 Algorithm 2): the permission of a crashed
/// process is removed before the process. n = 3, k = 1, one crash. As printed, p2 needs one
/// permission and still counts that of p1.
#[test]
fn d4_the_permission_of_a_crashed_process_is_removed_first() {
    fn inside<S: Broadcast>(defects: Defects) -> Vec<u32> {
        let mut net: Mutex<S> = Net::new(3, 1, defects);
        net.acquire(0);
        net.deliver_all();
        net.acquire(2);
        net.deliver_all();
        assert_eq!(net.inside(), [0]);
        net.crash(1);
        net.notify_crashed([0, 2], 1);
        net.deliver_all();
        net.inside()
    }
    for inside in [inside::<Direct>, inside::<Tree>, inside::<Sta>] {
        assert_eq!(inside(D4), [0, 2]);
        assert_eq!(inside(Defects::NONE), [0]);
    }
}

/// D6 (robust-2012 Algorithm 2 line 8): every request has a stamp of its own. As printed, the
/// second request of a lone requester looks like its first, and every process drops it.
#[test]
fn d6_every_request_has_a_new_stamp() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net: Mutex<Sta> = Net::new(4, 1, defects);
        net.acquire(0);
        net.deliver_all();
        net.release(0);
        net.acquire(0);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(D6), []);
    assert_eq!(inside(Defects::NONE), [0]);
}

/// D7 and D8 (robust-2012 Algorithm 1 line 12, keyed by the forwarder or by the root): an old TREE
/// that comes late draws no permission. n = 4, k = 1, one crash, channels in order. As printed, p3
/// answers p0's first request twice, and the second answer counts for p0's second request.
#[test]
fn d7_d8_an_old_request_draws_no_permission() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net: Mutex<Sta> = Net::new(4, 1, defects);
        net.acquire(0);
        net.deliver(0, 1);
        // p2 passes (1, p0) on to p3 and crashes; its TREE is on its way for long.
        net.deliver(0, 2);
        net.crash(2);
        net.notify_crashed([0, 1, 3], 2);
        net.deliver(0, 3); // So p0 sends it again.
        deliver_channels(&mut net, &[(1, 0), (3, 0)]);
        net.release(0);
        net.acquire(3); // (2, p3), permitted by p1 and p0.
        net.deliver(3, 1);
        net.deliver(1, 0);
        net.acquire(0); // (3, p0), put off by p3.
        deliver_channels(&mut net, &[(0, 3)]);
        net.deliver(2, 3); // The late (1, p0).
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(D7), [0, 3]);
    assert_eq!(inside(D8), [0, 3]);
    assert_eq!(inside(Defects::NONE), [3]);
}

/// D9 (robust-2012 section 4, prose): permission goes to the earlier request. n = 3, k = 1, no
/// crash. As printed, it goes to the later one: p0 and p1 permit each other.
#[test]
fn d9_the_earlier_request_is_permitted() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net: Mutex<Sta> = Net::new(3, 1, defects);
        net.acquire(0);
        net.deliver(0, 1);
        net.acquire(1); // Later than p0's, which it has permitted.
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(D9), [0, 1]);
    assert_eq!(inside(Defects::NONE), [0]);
}

/// A withdrawn request blocks no other: a deferred process gets its answer, and late answers to the
/// request do not count.
#[test]
fn a_withdrawn_request_blocks_no_other() {
    fn check<S: Broadcast>() {
        let mut net = mutex::<S>(4, 1);
        for node in [0, 1, 2] {
            net.acquire(node);
            net.deliver_all();
        }
        assert_eq!(net.nodes[1].observe().owing, [NodeId(2)]);
        net.input(1, Input::Withdraw).unwrap();
        net.deliver_all();
        assert_eq!(net.nodes[1].observe(), Observation::default(), "idle, and owes nobody");
        net.acquire(1); // Anew, behind p2. The answer that p0 owes it is to the withdrawn request.
        net.deliver_all();
        net.release(0);
        net.deliver_all();
        assert_eq!(net.inside(), [2]);
        net.release(2);
        net.deliver_all();
        assert_eq!(net.inside(), [1]);
    }
    check::<Direct>();
    check::<Tree>();
    check::<Sta>();
}

/// vcube-2018 section 7.2 and theorem 7.4: a crashed process, inside or waiting, blocks no entry;
/// the last live one of n enters alone.
#[test]
fn crashed_processes_block_no_entry() {
    fn check<S: Broadcast>() {
        let mut net = mutex::<S>(7, 2);
        for node in 0..7 {
            net.acquire(node);
            net.deliver_all();
        }
        for dead in 0..6 {
            assert_eq!(net.inside(), (dead..7).take(2).collect::<Vec<_>>());
            net.crash(dead);
            net.notify_crashed(net.live(), dead);
            net.deliver_all();
        }
        assert_eq!(net.inside(), [6]);
    }
    check::<Direct>();
    check::<Tree>();
    check::<Sta>();
}

/// vcube-2018 Algorithm 7.1 line 19: on release, crashed processes get no answer.
#[test]
fn crashed_processes_get_no_answer() {
    let mut net = mutex::<Direct>(3, 1);
    net.acquire(0);
    net.deliver_all();
    net.acquire(1);
    net.deliver_all();
    net.crash(1);
    net.notify_crashed([0, 2], 1);
    net.sent.clear();
    net.release(0);
    assert_eq!(net.sent("reply"), []);
}

/// Law 4 and law 5: an impossible input, and a malformed message from a peer, is refused with a
/// reason and changes nothing, whether the process is idle, waits or holds.
#[test]
fn refusals_change_nothing() {
    fn check<S: Broadcast>(malformed: &[S::Message]) {
        let mut net = mutex::<S>(4, 1);
        let unknown = |node| Refusal::UnknownNode(NodeId(node));
        let unsupported = |what| Refusal::Unsupported { protocol: "permission", what };
        for phase in [Phase::Idle, Phase::Waiting, Phase::Holding] {
            let here = net.nodes[1].observe();
            assert_eq!(here.phase, phase);
            let mut expected: Vec<(InputOf<Permission<S>>, Refusal)> = vec![
                (Input::Acquire { weight: 0 }, Refusal::Weight { weight: 0, most: 1 }),
                (Input::Acquire { weight: 2 }, Refusal::Weight { weight: 2, most: 1 }),
                (Input::Release { grant: GrantId(0) }, Refusal::NoSuchRequest),
                (Input::Release { grant: GrantId(9) }, Refusal::NoSuchRequest),
                (Input::Resize(2), unsupported("a change of k")),
                (Input::Lease(false), unsupported("leases")),
                (
                    Input::Joined { node: NodeId(2), incarnation: Incarnation(1), view: ViewId(1) },
                    unsupported("processes that come back: a crash is permanent"),
                ),
                (Input::Crashed { node: NodeId(4), incarnation: Incarnation(0) }, unknown(4)),
                (Input::Crashed { node: NodeId(1), incarnation: Incarnation(0) }, unknown(1)),
            ];
            match phase {
                Phase::Idle => expected.push((Input::Withdraw, Refusal::NoSuchRequest)),
                Phase::Waiting => {
                    let clock = here.stamp.expect("it waits").clock;
                    expected
                        .push((Input::Release { grant: GrantId(clock) }, Refusal::NoSuchRequest));
                    expected.push((Input::Acquire { weight: 1 }, Refusal::Busy));
                }
                Phase::Holding => {
                    expected.push((Input::Withdraw, Refusal::NoSuchRequest));
                    expected.push((Input::Acquire { weight: 1 }, Refusal::Busy));
                }
            }
            let clock = here.stamp.map_or(1, |stamp| stamp.clock);
            for from in [1, 4, u32::MAX] {
                let message = PermissionMessage::Reply { clock };
                expected.push((Input::Deliver { from: NodeId(from), message }, unknown(from)));
                for message in malformed {
                    let message = PermissionMessage::Broadcast(*message);
                    expected.push((Input::Deliver { from: NodeId(from), message }, unknown(from)));
                }
            }
            for message in malformed.iter().filter(|message| S::source(message).is_some()) {
                let message = PermissionMessage::Broadcast(*message);
                expected.push((Input::Deliver { from: NodeId(0), message }, unknown(4)));
            }
            for (input, refusal) in expected {
                assert_eq!(net.refusal(1, input.clone()), refusal, "{input:?} while {phase:?}");
            }
            match phase {
                Phase::Idle => net.acquire(1),
                Phase::Waiting | Phase::Holding => net.deliver_all(),
            }
        }
    }
    let request = Stamp { clock: 7, node: NodeId(4) };
    check::<Direct>(&[DirectMessage { clock: 7 }]);
    check::<Tree>(&[TreeMessage::Tree { request }, TreeMessage::Ack { request }]);
    check::<Sta>(&[StaMessage::Tree { request }, StaMessage::Ack { clock: 1 }]);
}

/// Law 5: a clock that would leave no room for the process's own is malformed; if adopted, the next
/// request would overflow.
#[test]
fn an_absurd_clock_is_refused() {
    fn check<S: Broadcast>(absurd: impl Fn(u64) -> S::Message) {
        for clock in [(1 << 32) + 1, u64::MAX] {
            let mut net = mutex::<S>(2, 1);
            let message = PermissionMessage::Broadcast(absurd(clock));
            let refusal = net.refusal(0, Input::Deliver { from: NodeId(1), message });
            assert!(matches!(refusal, Refusal::Malformed(_)), "{refusal:?}");
            net.acquire(0);
            net.deliver_all();
            assert_eq!(net.inside(), [0], "it goes on as if nothing had come");
        }
    }
    let request = |clock| Stamp { clock, node: NodeId(1) };
    check::<Direct>(|clock| DirectMessage { clock });
    check::<Tree>(|clock| TreeMessage::Tree { request: request(clock) });
    check::<Sta>(|clock| StaMessage::Tree { request: request(clock) });
}

/// The next steps of a random run.
#[derive(Clone, Copy)]
enum Step {
    Arrive(usize),
    /// Requests, or releases what it holds.
    Client(u32),
    Withdraw(u32),
    Crash(u32),
    /// The first process learns that the second has crashed.
    Hear(u32, u32),
}

/// vcube-2018 lemmas 7.1 and 7.2: never more than k are inside, and every request of a live process
/// is eventually granted (or withdrawn), however messages overtake each other and whichever
/// processes crash, some in the middle of a send.
fn safe_and_live<S: Broadcast>(
    (n, k): (u32, u32),
    clients: &[Index],
    doomed: &[Index],
    order: &[Index],
) -> Result<(), TestCaseError> {
    let mut net = mutex::<S>(n, k);
    let all = net.live();
    let mut clients: Vec<u32> = clients.iter().map(|client| *client.get(&all)).collect();
    let mut doomed: Vec<u32> = doomed.iter().map(|node| *node.get(&all)).collect();
    let mut unheard = Vec::new();
    let mut order = order.iter();
    loop {
        let mut steps: Vec<Step> = (0..net.flights.len()).map(Step::Arrive).collect();
        steps.extend(unheard.iter().map(|&(at, of)| Step::Hear(at, of)));
        for node in net.live() {
            match phase_of(&net, node) {
                Phase::Idle if clients.contains(&node) => steps.push(Step::Client(node)),
                Phase::Holding => steps.push(Step::Client(node)),
                // Never the last resort.
                Phase::Waiting if order.len() > 0 => steps.push(Step::Withdraw(node)),
                Phase::Idle | Phase::Waiting => {}
            }
        }
        steps.extend(doomed.iter().map(|&node| Step::Crash(node)));
        if steps.is_empty() {
            break;
        }
        match order.next().map_or(steps[0], |choice| *choice.get(&steps)) {
            Step::Arrive(place) => net.deliver_nth(place),
            Step::Client(node) if phase_of(&net, node) == Phase::Holding => net.release(node),
            Step::Client(node) => {
                let place =
                    clients.iter().position(|&other| other == node).expect("chosen from these");
                clients.remove(place);
                net.acquire(node);
            }
            Step::Withdraw(node) => net.input(node, Input::Withdraw).unwrap(),
            Step::Crash(node) => {
                net.crash(node);
                doomed.retain(|&other| other != node);
                unheard.retain(|&(at, _)| at != node);
                unheard.extend(net.live().into_iter().map(|at| (at, node)));
                // Its last messages may never have been sent.
                net.keep_sent(node, |sent| {
                    order.next().map_or(sent, |choice| choice.index(sent + 1))
                });
            }
            Step::Hear(at, of) => {
                unheard.retain(|&news| news != (at, of));
                net.notify_crashed([at], of);
            }
        }
        prop_assert!(net.inside().len() <= k as usize, "{:?} are inside", net.inside());
    }
    for node in net.live() {
        prop_assert_eq!(phase_of(&net, node), Phase::Idle, "p{} waits for ever", node);
    }
    Ok(())
}

fn phase_of<S: Broadcast>(net: &Mutex<S>, node: u32) -> Phase {
    net.nodes[node as usize].observe().phase
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// vcube-2018 lemmas 7.1 (safety) and 7.2 (liveness), with each of the broadcasts: see
    /// `safe_and_live`.
    #[test]
    fn at_most_k_inside_and_no_process_waits_for_ever(
        size in (2u32..=9, 1u32..=3),
        clients in prop::collection::vec(any::<Index>(), 1..20),
        doomed in prop::collection::vec(any::<Index>(), 0..8),
        order in prop::collection::vec(any::<Index>(), 0..400),
    ) {
        safe_and_live::<Direct>(size, &clients, &doomed, &order)?;
        safe_and_live::<Tree>(size, &clients, &doomed, &order)?;
        safe_and_live::<Sta>(size, &clients, &doomed, &order)?;
    }
}

/// Delivers everything now in flight on each of these channels.
fn deliver_channels<S: Broadcast>(net: &mut Mutex<S>, channels: &[(u32, u32)]) {
    for &(from, to) in channels {
        let ours =
            net.flights.values().filter(|copy| (copy.from.0, copy.to.0) == (from, to)).count();
        (0..ours).for_each(|_| net.deliver(from, to));
    }
}
