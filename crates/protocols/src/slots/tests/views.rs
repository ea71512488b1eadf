//! Incarnations and views by the log (`docs/internals/slots.md` section 5).

use alloc::vec;

use kgate_core::{Incarnation, InitialMembers, NodeId, Observation, Outbox, Setup, ViewId};

use super::*;
use crate::slots::defects::S6;

fn shown(net: &Net<Slots>, of: u32) -> Observation {
    net.nodes[of as usize].observe()
}

/// Section 5: a returning process requests once the log has added it, and not before; its client's
/// request waits until then.
#[test]
fn a_returned_process_requests_only_after_its_own_view() {
    for options in [flat(), tree()] {
        let mut net = net(3, 1, options);
        net.crash(1);
        net.return_in(1, 1);
        acquire(&mut net, 1, 1);
        net.notify_gone([1], 1, 0);
        assert!(net.sent.is_empty());
        net.notify_joined([1], 1, 1);
        assert_eq!(net.sent("request").len(), 2);
        net.notify_gone([0, 2], 1, 0);
        net.notify_joined([0, 2], 1, 1);
        net.deliver_all();
        assert_eq!(net.inside(), [1]);
    }
}

/// Section 5: a process also applies the entries about its earlier incarnations. It is a member
/// from its present one on.
#[test]
fn a_former_return_does_not_count() {
    let mut net = net(2, 1, flat());
    net.crash(1);
    net.notify_gone([0], 1, 0);
    net.return_in(1, 1);
    net.notify_joined([0], 1, 1);
    net.crash(1);
    net.notify_gone([0], 1, 1);
    net.return_in(1, 2);
    acquire(&mut net, 1, 1);
    net.notify_gone([1], 1, 0);
    net.notify_joined([1], 1, 1);
    net.notify_gone([1], 1, 1);
    assert!(net.sent.is_empty());
    net.notify_joined([1, 0], 1, 2);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// Section 5: a process that was evicted and added again, and then crashes, returns in the
/// incarnation after that: all its additions in the log count, not its crashes alone. Otherwise it
/// would act under an earlier incarnation, with a clock that starts again.
#[test]
fn a_return_without_a_crash_counts_too() {
    let mut net = net(2, 1, plain());
    net.notify_gone([1, 0], 1, 0);
    net.notify_joined([0, 1], 1, 1);
    for _ in 0..3 {
        enter(&mut net, 0, 1, &[0]);
        net.release(0);
    }
    acquire(&mut net, 0, 1);
    net.deliver(0, 1); // Its answer is under way.
    net.crash(1);
    net.return_in(1, 2);
    acquire(&mut net, 1, 1);
    net.notify_gone([1], 1, 0);
    net.notify_joined([1], 1, 1);
    assert!(
        net.sent("request").iter().all(|(from, _)| *from == 0),
        "not in its earlier incarnation"
    );
    net.deliver_all();
    net.notify_gone([1, 0], 1, 1);
    net.notify_joined([1, 0], 1, 2);
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// Section 2, the filter: a request of a view that is not installed is queued and answered when it
/// is; the clock does not run ahead of the view.
#[test]
fn requests_of_a_higher_view_are_kept() {
    let mut net = net(3, 1, plain());
    net.crash(2);
    net.return_in(2, 1);
    net.notify_gone([1], 2, 0);
    net.notify_joined([1], 2, 1);
    acquire(&mut net, 1, 1);
    net.deliver_all();
    assert!(net.sent("agg").is_empty(), "neither p0 nor p2 has heard of the view");
    acquire(&mut net, 0, 1);
    net.deliver_all();
    net.notify_gone([0, 2], 2, 0);
    net.notify_joined([0], 2, 1);
    assert_eq!(net.sent("agg").iter().filter(|sent| **sent == (0, 1)).count(), 1);
    net.notify_joined([2], 2, 1);
    net.deliver_all();
    assert_eq!(net.inside(), [0], "it asked in the view before");
    assert!(shown(&net, 0).stamp.is_none());
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
    assert!(last(&net, 1).1 > last(&net, 0).1);
}

/// Section 2, the filter: messages of an earlier incarnation do not count.
#[test]
fn messages_of_a_former_incarnation_are_ignored() {
    let mut net = net(3, 1, plain());
    acquire(&mut net, 1, 1); // Its requests are still under way when it is back.
    net.crash(1);
    net.return_in(1, 1);
    net.notify_gone(0..3, 1, 0);
    net.notify_joined(0..3, 1, 1);
    enter(&mut net, 0, 1, &[0]);
    assert!(shown(&net, 0).owing.is_empty());
    assert_eq!(net.sent("agg"), [(1, 0), (2, 0)]);
    assert!(shown(&net, 1).stamp.is_none(), "nobody waits there");
}

/// Section 5, P2: all return at once and no process remembers anything but the log: fences still
/// grow.
#[test]
fn all_processes_return_at_once() {
    for options in [flat(), tree()] {
        let mut net = net(4, 1, options);
        for node in [0, 3, 1] {
            enter(&mut net, node, 1, &[0]);
            net.release(node);
            net.deliver_all();
        }
        enter(&mut net, 2, 1, &[0]);
        let (_, before) = last(&net, 2);
        (0..4).for_each(|node| net.crash(node));
        (0..4).for_each(|node| net.return_in(node, 1));
        (0..4).for_each(|node| acquire(&mut net, node, 1));
        for gone in 0..4 {
            net.notify_gone(0..4, gone, 0);
        }
        for (incarnation, back) in [(1, 2), (2, 0), (3, 3), (4, 1)] {
            net.notify_joined((0..4).rev(), back, incarnation);
            net.deliver_all();
        }
        let mut former = before;
        for _ in 0..4 {
            net.deliver_all();
            let inside = net.inside();
            assert_eq!(inside.len(), 1);
            let (_, fence) = last(&net, inside[0]);
            assert!(fence > former, "{options:?}");
            former = fence;
            net.release(inside[0]);
        }
        net.deliver_all();
        nothing_is_left(&net);
    }
}

/// S6: a request that is out need not ask a new member, since its stamps are greater. With the
/// defect they are not: the request is overtaken.
#[test]
fn s6_as_it_was_and_repaired() {
    for (switches, inside) in [(Defects::NONE, [0].as_slice()), (S6, &[0, 1])] {
        let mut net = defects(3, 1, plain(), switches);
        for _ in 0..3 {
            enter(&mut net, 0, 1, &[0]);
            net.release(0);
        }
        net.deliver_all();
        net.crash(1);
        net.notify_gone([0, 2], 1, 0);
        net.return_in(1, 1);
        acquire(&mut net, 0, 1); // Asks p2 alone.
        net.deliver(0, 2);
        net.notify_gone([1], 1, 0);
        net.notify_joined([0, 1, 2], 1, 1);
        acquire(&mut net, 1, 1);
        net.deliver(1, 0);
        net.deliver(1, 2);
        net.deliver_all();
        assert_eq!(net.inside(), inside);
    }
}

/// Section 5: an exempt process learns of the request as ahead: a process that is added while a
/// request is out waits for it.
#[test]
fn a_new_member_learns_of_requests_ahead() {
    let mut net = net(3, 1, plain());
    net.crash(1);
    net.notify_gone([0, 2], 1, 0);
    net.return_in(1, 1);
    acquire(&mut net, 0, 1);
    net.notify_gone([1], 1, 0);
    net.notify_joined(0..3, 1, 1);
    acquire(&mut net, 1, 1);
    net.deliver(1, 0);
    net.deliver(0, 1);
    assert!(grants(&net, 1).is_empty());
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// Own eviction: the clients inside must stop, each is notified; requests for the waiting ones are
/// sent again once the process is a member again.
#[test]
fn thrown_out() {
    for options in [flat(), tree()] {
        let mut net = net(3, 3, options);
        enter(&mut net, 0, 1, &[0]);
        enter(&mut net, 0, 1, &[1]);
        enter(&mut net, 1, 1, &[2]);
        acquire(&mut net, 0, 2);
        acquire(&mut net, 0, 1);
        net.deliver_all();
        let former = shown(&net, 0).stamp.expect("it waits");
        net.notices.clear();
        net.notify_gone([0], 0, 0);
        let lost = net
            .notices
            .iter()
            .filter(|(_, _, notice)| matches!(notice, Notice::Lost { .. }))
            .count();
        assert_eq!((lost, shown(&net, 0).slots.len(), shown(&net, 0).stamp), (2, 0, None));
        net.sent.clear();
        net.notify_gone([1, 2], 0, 0);
        acquire(&mut net, 2, 2);
        net.deliver_all();
        assert_eq!(last(&net, 2).0, [0, 1], "its slots are free");
        assert!(net.sent.iter().all(|copy| copy.from.0 != 0 && copy.to.0 != 0), "it takes no part");
        net.notify_joined([0, 1, 2], 0, 1);
        net.deliver_all();
        assert!(shown(&net, 0).stamp.expect("asked anew") > former);
        net.release(2);
        net.deliver_all();
        assert_eq!(grants(&net, 0)[0].1, [0, 1]);
        net.release(1);
        net.deliver_all();
        assert_eq!(grants(&net, 0)[1].1, [2]);
    }
}

/// Grant ids are never used twice, whatever the incarnation.
#[test]
fn names_of_grants_are_never_used_twice() {
    let mut net = net(2, 1, flat());
    enter(&mut net, 0, 1, &[0]);
    net.crash(0);
    net.notify_gone([1], 0, 0);
    net.return_in(0, 1);
    net.notify_joined([1, 0], 0, 1);
    enter(&mut net, 0, 1, &[0]);
    let [(first, ..), (second, ..)] = grants(&net, 0).try_into().expect("two");
    assert!(first < second);
}

/// Section 2, the filter: the request of a process that is added beyond all known ids is queued
/// until its view is installed, as any other.
#[test]
fn a_process_that_was_never_there_is_added() {
    for options in [flat(), tree()] {
        let mut net = net(3, 1, options);
        add_a_fourth(&mut net, options);
        net.notify_joined([3, 0], 3, 1);
        acquire(&mut net, 3, 1);
        net.deliver_all();
        net.notify_joined([1, 2], 3, 1);
        net.deliver_all();
        assert_eq!(net.inside(), [3], "{options:?}");
    }
}

/// The same with answers: a process that has installed the view forwards a request to the new
/// process, and its answer does no harm to one that has not.
#[test]
fn answers_of_a_process_that_was_never_there() {
    let mut net = net(3, 1, tree());
    add_a_fourth(&mut net, tree());
    net.notify_joined([3, 2], 3, 1);
    acquire(&mut net, 0, 1);
    net.deliver_all();
    assert!(net.sent("agg").contains(&(3, 2)), "p2 has asked it");
    assert_eq!(net.inside(), [0]);
}

/// p3 begins, beyond the ids that all others know.
fn add_a_fourth(net: &mut Net<Slots>, slots: SlotOptions) {
    let (me, incarnation) = (NodeId(3), Incarnation(1));
    let known = Setup { me, incarnation, slots, ..setup(4, 1, Defects::NONE) };
    net.nodes.push(Slots::start(&known, None, &mut Outbox::new()));
}

/// Section 5: a gate that the log creates begins in the view of its entry, with the members of that
/// view. Another process requests once it is added, and then every process learns of it; fences
/// begin with the view, so that a gate that is created again starts above its past.
#[test]
fn a_gate_made_by_the_log() {
    for slots in [flat(), tree()] {
        let members =
            [(0, 3), (2, 5)].map(|(node, incarnation)| (NodeId(node), Incarnation(incarnation)));
        let initial_members = InitialMembers { view: ViewId(7), members: members.to_vec() };
        let mut net: Net<Slots> = Net::with(Setup {
            slots,
            initial_members: Some(initial_members),
            ..setup(3, 1, Defects::NONE)
        });
        acquire(&mut net, 1, 1);
        assert!(net.sent.is_empty(), "it does not take part");
        acquire(&mut net, 0, 1);
        assert_eq!(net.sent("request"), [(0, 2)]);
        net.deliver_all();
        let (_, first) = last(&net, 0);
        assert_eq!((net.inside(), first.0 >> 96), (vec![0], 7));
        net.notify_joined(0..3, 1, 9);
        net.deliver_all();
        net.release(0);
        net.deliver_all();
        assert_eq!(net.inside(), [1]);
        assert!(last(&net, 1).1 > first, "{slots:?}");
    }
}
