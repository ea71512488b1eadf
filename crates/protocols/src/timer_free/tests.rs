//! The algorithm by hand: what the paper says, its defects as printed and repaired, and what is
//! refused.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::harness::{Net, setup};

mod disorder;
mod grid;

type Mutex = Net<TimerFree>;

fn mutex(nodes: u32, k: u32, tolerate: u32, defects: Defects) -> Mutex {
    Net::with(Setup { tolerate, ..setup(nodes, k, defects) })
}

fn ids(nodes: &[u32]) -> NodeList {
    nodes.iter().copied().map(NodeId).collect()
}

/// Which process reported the crash of which other, in the order of the reports.
fn suspicions(net: &Mutex) -> Vec<(u32, u32)> {
    let told = net.notices.iter().filter_map(|(_, at, notice)| match notice {
        Notice::Suspected { node, .. } => Some((at.0, node.0)),
        Notice::Asked
        | Notice::Granted { .. }
        | Notice::Lost { .. }
        | Notice::Adopted { .. }
        | Notice::AdoptionRefused { .. }
        | Notice::TooLarge { .. } => None,
    });
    told.collect()
}

/// One asks, gets its answers, enters and releases.
fn pass(net: &mut Mutex, node: u32) {
    net.acquire(node);
    net.deliver_all();
    assert_eq!(net.inside(), [node]);
    net.release(node);
    net.deliver_all();
}

/// Line 15: a requester enters with the (n-k)-th permission and not before; with none at all if
/// that many units are there.
#[test]
fn enters_with_n_minus_k_permissions() {
    for (n, k) in [(1, 1), (2, 1), (3, 2), (4, 1), (8, 5), (8, 3), (5, 5)] {
        let mut net = mutex(n, k, 0, Defects::NONE);
        net.acquire(0);
        let mut permissions = 0;
        while net.inside().is_empty() {
            assert!(permissions < n - k, "n={n} k={k}: {permissions} and still outside");
            let next = net.flights.values().next().expect("something is in flight");
            permissions += u32::from(matches!(next.message, TimerFreeMessage::Reply { .. }));
            net.deliver_nth(0);
        }
        assert_eq!(permissions, n - k, "n={n} k={k}");
    }
}

/// Lines 14, 29, 32 and 18: 2(n-1) messages per entry without contention; 3(n-1) if all others
/// defer the request, a NOPERM and a PERM from each.
#[test]
fn an_entry_costs_between_two_and_three_messages_a_process() {
    let mut net = mutex(5, 1, 0, Defects::NONE);
    pass(&mut net, 2);
    assert_eq!(net.sent("request"), [(2, 0), (2, 1), (2, 3), (2, 4)]);
    assert_eq!(net.sent("perm"), [(0, 2), (1, 2), (3, 2), (4, 2)]);
    assert_eq!(net.sent.len(), 8);
    for node in 0..5 {
        net.acquire(node);
        net.deliver_all();
    }
    net.sent.retain(|copy| copy.from.0 == 4);
    assert_eq!(net.sent("request").len(), 4);
    net.sent.clear();
    for node in 0..5 {
        assert_eq!(net.inside(), [node]);
        net.release(node);
        net.deliver_all();
    }
    assert_eq!(net.sent("perm").iter().filter(|pair| pair.1 == 4).count(), 4);
}

/// Lines 28-30 and 17-18: a process that holds a slot answers NOPERM at once and PERM when it
/// releases; the PERM admits the requester.
#[test]
fn noperm_then_perm() {
    let mut net = mutex(3, 1, 0, Defects::NONE);
    net.acquire(0);
    net.deliver_all();
    net.acquire(1);
    net.deliver_all();
    assert_eq!((net.sent("noperm"), net.inside()), (vec![(0, 1)], vec![0]));
    let waits = net.nodes[1].observe();
    assert_eq!((waits.phase, &waits.lacking[..]), (Phase::Waiting, &[NodeId(0)][..]));
    assert_eq!(net.nodes[0].observe().owing, [NodeId(1)]);
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// Lines 36-38: a process finds a crash in its second round after it, once all processes that
/// answer have had a round without the crashed one's answer. It reports the crash once; the
/// threshold falls, and the crashed process is sent no more requests. Line 27: a request informs
/// the others.
#[test]
fn a_crash_is_found_in_the_second_round() {
    let mut net = mutex(5, 2, 1, Defects::NONE);
    net.crash(4);
    (0..4).for_each(|node| pass(&mut net, node));
    assert_eq!(suspicions(&net), [], "somebody has always heard p4");
    assert_eq!(net.nodes[0].not_rec_from, ids(&[4]));
    pass(&mut net, 0);
    assert_eq!(suspicions(&net), [(0, 4)]);
    assert_eq!(net.nodes[0].observe().crashed, [NodeId(4)]);
    net.sent.clear();
    net.acquire(0);
    net.deliver(0, 1);
    net.deliver(1, 0);
    assert_eq!(net.inside(), []);
    net.deliver(0, 3);
    net.deliver(3, 0);
    assert_eq!(net.inside(), [0], "with 5-1-2 permissions");
    net.deliver_all();
    assert_eq!(net.sent("request"), [(0, 1), (0, 2), (0, 3)]);
    net.release(0);
    (0..4).for_each(|node| pass(&mut net, node));
    assert_eq!(suspicions(&net), [(0, 4), (1, 4), (3, 4), (2, 4)], "each tells it once");
}

/// Lines 23-27: a dead process's permission goes before the process does. n = 5, k = 2: p2 has
/// permissions of p3 and p4 and hears that p3 has crashed. Needing one less, it also has one less.
#[test]
fn the_permission_of_a_crashed_process_is_removed_first() {
    let mut net = mutex(5, 2, 1, Defects::NONE);
    for node in 0..3 {
        net.acquire(node);
        net.deliver_all();
    }
    assert_eq!(net.nodes[2].observe().lacking, [NodeId(0), NodeId(1)]);
    net.crash(3);
    net.notify_crashed([4], 3);
    assert_eq!(suspicions(&net), [], "the driver knows it already");
    net.acquire(4);
    net.deliver_all();
    assert_eq!(net.inside(), [0, 1]);
    assert_eq!(net.nodes[2].observe().crashed, [NodeId(3)]);
    net.release(1);
    net.deliver_all();
    assert_eq!(net.inside(), [0, 2]);
}

/// Line 15 waits for crashes as well as for permissions: a process that learns of a crash from a
/// request, a query or the driver enters at once if only the crashed process's permission was
/// lacking. n = 4, k = 2: p1 crashes inside while p2 waits.
#[test]
fn learning_of_a_crash_admits_a_waiting_process() {
    let inside = |tell: fn(&mut Mutex)| {
        let mut net: Mutex =
            Net::with(Setup { refresh: Some(Span::UNIT), ..setup(4, 2, Defects::NONE) });
        for node in 0..3 {
            net.acquire(node);
            net.deliver_all();
        }
        net.crash(1);
        net.notify_crashed([3], 1);
        assert_eq!(net.inside(), [0]);
        tell(&mut net);
        net.inside()
    };
    let request = inside(|net| {
        net.acquire(3);
        net.deliver(3, 2);
    });
    let query = inside(|net| {
        net.input(3, Input::Expire(TimerFreeTimer::Refresh)).unwrap();
        net.deliver(3, 2);
    });
    let driver = inside(|net| net.notify_crashed([2], 1));
    assert_eq!([request, query, driver], [[0, 2]; 3]);
}

/// T1 (footnote 1): ties go to the smaller id. n = 2, k = 1, no crash. As printed, both enter.
#[test]
fn t1_ties_go_to_the_smaller_id() {
    let inside = |defects| {
        let mut net = mutex(2, 1, 0, defects);
        net.acquire(1);
        net.acquire(0);
        net.deliver_all();
        net.inside()
    };
    assert_eq!(inside(T1), [0, 1]);
    assert_eq!(inside(Defects::NONE), [0]);
}

/// T2 (lines 18, 29, 32): a REPLY to the request before does not count for this one. n = 3, k = 2,
/// channels in order, no crash. As printed, three are inside.
#[test]
fn t2_a_late_reply_is_not_counted() {
    let inside = |defects| {
        let mut net = mutex(3, 2, 0, defects);
        net.acquire(0);
        net.deliver(0, 1);
        net.deliver(0, 2); // p2's PERM stays on its way.
        net.deliver(1, 0);
        net.release(0);
        net.acquire(2);
        net.deliver(2, 1);
        net.deliver(1, 2);
        net.acquire(1);
        net.deliver(1, 0);
        net.deliver(0, 1);
        assert_eq!(net.inside(), [1, 2]);
        net.acquire(0);
        net.deliver(2, 0); // The late PERM.
        net.deliver_all();
        net.inside()
    };
    assert_eq!(inside(T2), [0, 1, 2]);
    assert_eq!(inside(Defects::NONE), [1, 2]);
}

/// T3 (lines 19 and 30): a release answers the newest request of each. n = 3, k = 2, one crash. As
/// printed, it answers p1's first request, over long ago, and p1 waits for ever.
#[test]
fn t3_the_newest_request_is_answered() {
    let inside = |defects| {
        let mut net = mutex(3, 2, 1, defects);
        net.acquire(0);
        net.deliver_all();
        net.acquire(1); // Put off by p0, permitted by p2.
        net.deliver_all();
        assert_eq!(net.inside(), [0, 1]);
        net.release(1);
        net.crash(2);
        net.acquire(1); // Put off by p0 again.
        net.deliver_all();
        assert_eq!(net.inside(), [0]);
        net.release(0);
        net.deliver_all();
        net.inside()
    };
    assert_eq!(inside(T3), []);
    assert_eq!(inside(Defects::NONE), [1]);
}

/// T3, where channels reorder: an old request that comes late does not take the place of a newer
/// one.
#[test]
fn an_old_request_does_not_replace_a_newer() {
    let mut net = mutex(2, 1, 0, Defects::NONE);
    net.acquire(0);
    net.deliver_all();
    net.acquire(1);
    net.input(1, Input::Withdraw).unwrap();
    net.acquire(1);
    net.deliver_nth(1);
    net.deliver_all();
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// T4 (lines 7-14): a request is one step. n = 2, k = 1, no crash. As printed, p0 puts off p1's
/// request by the stamp of the request before its own, then p1 puts off p0's, and both wait for
/// ever.
#[test]
fn t4_a_request_is_one_step() {
    fn go_on(net: &mut Mutex, node: u32) {
        if net.timers.remove(&(NodeId(node), TimerFreeTimer::Announce)).is_some() {
            assert_eq!(net.nodes[node as usize].observe().stamp, None, "no stamp yet");
            net.input(node, Input::Expire(TimerFreeTimer::Announce)).unwrap();
        }
    }
    let inside = |defects| {
        let mut net = mutex(2, 1, 0, defects);
        net.acquire(1);
        go_on(&mut net, 1);
        net.acquire(0);
        net.deliver(1, 0);
        go_on(&mut net, 0);
        net.deliver_all();
        net.inside()
    };
    assert_eq!(inside(T4), []);
    assert_eq!(inside(Defects::NONE), [0]);
    let mut net = mutex(2, 1, 0, T4);
    net.acquire(0);
    net.input(0, Input::Withdraw).unwrap();
    assert!(net.timers.is_empty(), "a withdrawn request is never asked");
}

/// n = 3, k = 2, f = 1: p2 is inside, and p0 and p1 go twice in and out before an answer of p2
/// arrives. So each has a round without p2's answer, and in their second rounds both hold it for
/// crashed; and stay inside.
fn responsiveness_violated(defects: Defects) -> Mutex {
    let mut net = mutex(3, 2, 1, defects);
    net.acquire(2);
    net.deliver(2, 1);
    net.deliver(1, 2);
    assert_eq!(net.inside(), [2]);
    for (one, other) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
        net.acquire(one);
        net.deliver(one, other);
        net.deliver(other, one);
        if net.nodes[one as usize].observe().crashed.is_empty() {
            net.release(one);
        }
    }
    net
}

/// T6: lemmas 1 and 2 need the responsiveness property. Where it is violated, a live process is
/// declared dead, and k+1 processes are inside, with and without the repairs.
#[test]
fn t6_without_responsiveness_slow_processes_are_suspected() {
    let net = responsiveness_violated(Defects::NONE);
    assert_eq!(suspicions(&net), [(0, 2), (1, 2)]);
    assert_eq!(net.inside(), [0, 1, 2]);
}

/// T7 (line 17): a live process that was declared dead is still answered. As printed, p2 gets
/// NOPERM from both other processes, and nothing when they release.
#[test]
fn t7_the_wrongly_suspected_are_served() {
    let inside = |defects| {
        let mut net = responsiveness_violated(defects);
        net.release(2);
        net.acquire(2);
        net.deliver_all();
        assert_eq!(net.inside(), [0, 1]);
        net.release(0);
        net.release(1);
        net.deliver_all();
        net.inside()
    };
    assert_eq!(inside(T7), []);
    assert_eq!(inside(Defects::NONE), [2]);
}

/// T8: a process that never requests reports forever that it has heard from all others, and no
/// crash is found. With a refresh it sends queries, which neither delay nor admit any process, and
/// the crash is found.
#[test]
fn t8_idle_processes_hide_crashes_unless_they_send_queries() {
    let found = |refresh| {
        let mut net: Mutex =
            Net::with(Setup { refresh, tolerate: 1, ..setup(4, 2, Defects::NONE) });
        net.crash(3);
        for _ in 0..5 {
            if net.timers.remove(&(NodeId(2), TimerFreeTimer::Refresh)).is_some() {
                net.input(2, Input::Expire(TimerFreeTimer::Refresh)).unwrap();
            }
            (0..2).for_each(|node| pass(&mut net, node)); // p2 never asks.
        }
        assert_eq!(net.sent("query").is_empty(), refresh.is_none());
        let knows = |node: &u32| net.nodes[*node as usize].observe().crashed == [NodeId(3)];
        (0..3).filter(knows).collect::<Vec<u32>>()
    };
    assert_eq!(found(None), []);
    assert_eq!(found(Some(Span::UNIT)), [0, 1, 2]);
}

/// T8's repair: a refresh changes nothing for a waiting request. At a process that holds a slot, it
/// defers no other process and the grant stays.
#[test]
fn a_refresh_disturbs_no_request() {
    let mut net: Mutex =
        Net::with(Setup { refresh: Some(Span::UNIT), tolerate: 0, ..setup(3, 1, Defects::NONE) });
    let refresh =
        |net: &mut Mutex, node| net.input(node, Input::Expire(TimerFreeTimer::Refresh)).unwrap();
    net.acquire(0);
    net.deliver_all();
    net.acquire(1);
    net.deliver_all();
    net.sent.clear();
    net.timers.clear();
    let before = net.nodes[1].clone();
    refresh(&mut net, 1);
    assert_eq!((&net.nodes[1], net.sent.len()), (&before, 0));
    assert!(net.timers.contains_key(&(NodeId(1), TimerFreeTimer::Refresh)), "and it comes again");
    let held = net.nodes[0].observe();
    refresh(&mut net, 0);
    net.deliver_all();
    assert_eq!(net.nodes[0].observe(), held);
    assert_eq!(net.sent("query"), [(0, 1), (0, 2)]);
    assert_eq!(net.sent("noperm"), [(1, 0), (2, 0)]);
    refresh(&mut net, 2);
    refresh(&mut net, 2);
    assert_eq!(net.sent("query").len(), 4, "a round under way is left to end");
    net.deliver_all();
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// A withdrawn request leaves no process waiting: a process that it deferred gets its answer, and
/// answers to the withdrawn request never count for a later one.
#[test]
fn a_withdrawn_request_blocks_no_other() {
    let mut net = mutex(4, 1, 0, Defects::NONE);
    for node in [0, 1, 2] {
        net.acquire(node);
        net.deliver_all();
    }
    assert_eq!(net.nodes[1].observe().owing, [NodeId(2)]);
    net.input(1, Input::Withdraw).unwrap();
    net.deliver_all();
    assert_eq!(net.nodes[1].observe(), Observation::default(), "idle, and owes nobody");
    net.acquire(1); // Anew, behind p2.
    net.deliver_all();
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [2]);
    net.release(2);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// Law 6: an idle process is a few words, and has nothing behind pointers unless a process did not
/// answer.
#[test]
fn idle_is_small() {
    assert!(size_of::<TimerFree>() <= 96, "{} bytes", size_of::<TimerFree>());
    assert!(size_of::<TimerFreeMessage>() <= 24, "{} bytes", size_of::<TimerFreeMessage>());
    let mut net = mutex(6, 3, 2, Defects::NONE);
    for node in 0..6 {
        net.acquire(node);
        net.deliver_all();
    }
    while let Some(&node) = net.inside().first() {
        net.release(node);
        net.deliver_all();
    }
    for node in &net.nodes {
        assert!(node.request.is_none() && node.round.is_none(), "{node:?}");
        assert!(node.crashed.is_empty() && node.not_rec_from.is_empty(), "{node:?}");
    }
    net.crash(5);
    pass(&mut net, 0);
    assert!(net.nodes[0].round.is_some(), "p5 may still answer");
    net.notify_crashed([0], 5);
    assert!(net.nodes[0].round.is_none());
}

/// T5: with f >= k, dead processes can hold every slot, and a request waits forever.
#[test]
#[should_panic(expected = "f < k")]
fn t5_as_many_crashes_as_units_are_not_tolerated() {
    mutex(4, 2, 2, Defects::NONE);
}

/// Laws 4 and 5: a process that is idle, waits or holds refuses an impossible command or a
/// malformed message with a reason, and does not change its state.
#[test]
fn refusals_change_nothing() {
    let mut net = mutex(4, 2, 1, Defects::NONE);
    let unknown = |node| Refusal::UnknownNode(NodeId(node));
    let unsupported = |what| Refusal::Unsupported { protocol: "timer-free", what };
    for phase in [Phase::Idle, Phase::Waiting, Phase::Holding] {
        let here = net.nodes[1].observe();
        assert_eq!(here.phase, phase);
        let clock = here.stamp.map_or(1, |stamp| stamp.clock);
        let grant = GrantId(clock);
        let mut expected: Vec<(InputOf<TimerFree>, Refusal)> = vec![
            (Input::Acquire { weight: 0 }, Refusal::Weight { weight: 0, most: 1 }),
            (Input::Acquire { weight: 2 }, Refusal::Weight { weight: 2, most: 1 }),
            (Input::Release { grant: GrantId(9) }, Refusal::NoSuchRequest),
            (Input::Resize(2), unsupported("a change of k")),
            (Input::Lease(false), unsupported("leases")),
            (
                Input::Joined {
                    node: NodeId(2),
                    incarnation: Incarnation(1),
                    view: kgate_core::ViewId(1),
                },
                unsupported("processes that come back: a crash is permanent"),
            ),
            (Input::Crashed { node: NodeId(4), incarnation: Incarnation(0) }, unknown(4)),
            (Input::Crashed { node: NodeId(1), incarnation: Incarnation(0) }, unknown(1)),
        ];
        if phase != Phase::Waiting {
            expected.push((Input::Withdraw, Refusal::NoSuchRequest));
        }
        if phase != Phase::Holding {
            expected.push((Input::Release { grant }, Refusal::NoSuchRequest));
        }
        if phase != Phase::Idle {
            expected.push((Input::Acquire { weight: 1 }, Refusal::Busy));
        }
        for (input, refusal) in expected {
            assert_eq!(net.refusal(1, input.clone()), refusal, "{input:?} while {phase:?}");
        }
        refuses_malformed_messages(&net, clock);
        match phase {
            Phase::Idle => net.acquire(1),
            Phase::Waiting | Phase::Holding => net.deliver_all(),
        }
    }
}

/// Messages to p1 of four that no correct process sends; `mine` is the clock of its last request,
/// if it has any.
fn refuses_malformed_messages(net: &Mutex, mine: u64) {
    use TimerFreeMessage::{Query, Reply, Request};
    let reply = |clock, not_received: &[u32]| Reply {
        clock,
        permission: true,
        not_received: ids(not_received),
    };
    let refusal = |from, message| net.refusal(1, Input::Deliver { from: NodeId(from), message });
    for from in [1, 4, u32::MAX] {
        for message in [
            Request { clock: 1, crashed: ids(&[]) },
            Query { clock: 1, crashed: ids(&[]) },
            reply(mine, &[]),
        ] {
            assert_eq!(refusal(from, message), Refusal::UnknownNode(NodeId(from)));
        }
    }
    let far = net.nodes[1].clock + FARTHEST_JUMP + 1;
    // Unknown nodes, the sender, the receiver; and clocks so high that the receiver's could not
    // grow.
    for (clock, crashed) in [(1, &[2, 4][..]), (1, &[0]), (1, &[1, 3]), (far, &[]), (u64::MAX, &[])]
    {
        for message in
            [Request { clock, crashed: ids(crashed) }, Query { clock, crashed: ids(crashed) }]
        {
            let refused = refusal(0, message.clone());
            assert!(
                matches!(refused, Refusal::Malformed(_) | Refusal::UnknownNode(NodeId(4))),
                "{message:?}: {refused}"
            );
        }
    }
    // Unknown nodes, the sender, more than f nodes; and a round that never began.
    for message in [reply(mine, &[4]), reply(mine, &[0]), reply(mine, &[2, 3]), reply(far, &[])] {
        let refused = refusal(0, message.clone());
        assert!(
            matches!(refused, Refusal::Malformed(_) | Refusal::UnknownNode(NodeId(4))),
            "{message:?}: {refused}"
        );
    }
}
