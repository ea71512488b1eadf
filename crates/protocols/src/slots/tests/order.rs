//! The order of decisions, the choice of slots, and several clients of one process.

use super::*;

/// P3: a request with a great weight is not overtaken by smaller ones behind it, though they would
/// fit.
#[test]
fn a_wide_request_is_not_overtaken() {
    for options in [flat(), tree(), plain()] {
        let mut net = net(4, 3, options);
        enter(&mut net, 0, 1, &[0]);
        acquire(&mut net, 1, 3);
        net.deliver_all();
        acquire(&mut net, 2, 1);
        net.deliver_all();
        assert_eq!(net.inside(), [0], "two slots are free, but p1 is first");
        net.release(0);
        net.deliver_all();
        assert_eq!(net.inside(), [1]);
        assert_eq!(last(&net, 1).0, [0, 1, 2]);
        net.release(1);
        net.deliver_all();
        assert_eq!(last(&net, 2).0, [0]);
        nothing_is_left(&net);
    }
}

/// Lemma 2: all request at once, each before it has received another request; they are decided in
/// the order of their stamps, which is that of their ids.
#[test]
fn at_once_in_the_order_of_stamps() {
    for options in [flat(), tree(), plain()] {
        let mut net = net(5, 1, options);
        (0..5).rev().for_each(|node| net.acquire(node));
        for first in 0..5 {
            net.deliver_all();
            assert_eq!(net.inside(), [first]);
            net.release(first);
        }
        net.deliver_all();
        nothing_is_left(&net);
    }
}

/// Section 3, `decide?`: a grant takes the lowest free slots, whichever process held them before.
#[test]
fn the_lowest_free_slots() {
    let mut net = net(4, 4, plain());
    enter(&mut net, 0, 1, &[0]);
    enter(&mut net, 1, 2, &[1, 2]);
    enter(&mut net, 2, 1, &[3]);
    net.release(0);
    net.release(1);
    net.deliver_all();
    enter(&mut net, 3, 2, &[0, 1]);
    enter(&mut net, 0, 1, &[2]);
}

/// A process may have several grants at once; each has slots of its own, and ends by itself.
#[test]
fn several_grants_at_one_process() {
    let mut net = net(3, 3, plain());
    enter(&mut net, 0, 1, &[0]);
    enter(&mut net, 0, 2, &[1, 2]);
    let [(first, ..), (second, ..)] = grants(&net, 0).try_into().expect("two");
    assert!(first < second);
    acquire(&mut net, 1, 1);
    net.deliver_all();
    assert_eq!(net.nodes[0].observe().slots.len(), 3);
    release(&mut net, 0, second);
    net.deliver_all();
    assert_eq!(last(&net, 1).0, [1], "p0 still has slot 0");
    assert_eq!(
        net.refusal(0, Input::Release { grant: second }),
        kgate_core::Refusal::NoSuchRequest
    );
    release(&mut net, 0, first);
    net.release(1);
    net.deliver_all();
    nothing_is_left(&net);
}

/// `SlotOptions::batch`: clients that wait behind the request that is out are requested for
/// together, and granted part by part: one stamp, a fence for each, in order.
#[test]
fn a_batch_is_granted_part_by_part() {
    let mut net = net(3, 4, SlotOptions { batch: 4, ..plain() });
    enter(&mut net, 1, 1, &[0]);
    enter(&mut net, 1, 2, &[1, 2]);
    let [(first, ..), (second, ..)] = grants(&net, 1).try_into().expect("two");
    net.sent.clear();
    for weight in [1, 1, 2, 1] {
        acquire(&mut net, 0, weight);
    }
    net.deliver_all();
    assert_eq!(net.sent("request").len(), 4, "the first, and then three of them by one");
    assert_eq!(grants(&net, 0).len(), 1, "slot 3");
    release(&mut net, 1, first);
    net.deliver_all();
    assert_eq!(grants(&net, 0).len(), 2);
    release(&mut net, 1, second);
    net.deliver_all();
    let [_, a, b] = grants(&net, 0).try_into().expect("three");
    assert_eq!((a.1.as_slice(), b.1.as_slice()), (&[0][..], &[1, 2][..]));
    assert!(a.2.stamp() == b.2.stamp() && a.2 < b.2);
    assert_eq!((a.2.count(), b.2.count()), (0, 1));
    release(&mut net, 0, a.0);
    let (slots, fence) = last(&net, 0);
    assert_eq!((slots.as_slice(), fence.stamp(), fence.count()), (&[0][..], a.2.stamp(), 2));
}

/// Section 6, cohort: while others wait, a slot passes from client to client of its process B
/// times, and then to the first other request.
#[test]
fn a_cohort_is_bounded_while_others_wait() {
    for cohort in 0..4u16 {
        for options in [flat(), tree()] {
            let mut net = net(3, 1, SlotOptions { cohort, ..options });
            enter(&mut net, 0, 1, &[0]);
            acquire(&mut net, 1, 1);
            net.deliver_all();
            for _ in 0..6 {
                acquire(&mut net, 0, 1);
            }
            net.deliver_all();
            let stamp = last(&net, 0).1.stamp();
            for passed in 1..=cohort {
                net.release(0);
                net.deliver_all();
                let (_, fence) = last(&net, 0);
                assert_eq!((fence.stamp(), fence.count()), (stamp, passed));
            }
            let before = grants(&net, 0).len();
            let grant = grants(&net, 0).pop().expect("it holds").0;
            release(&mut net, 0, grant);
            net.deliver_all();
            assert_eq!(
                (grants(&net, 0).len(), net.inside()),
                (before, [1].to_vec()),
                "B = {cohort}"
            );
        }
    }
}

/// Section 6, cohort: a hand-over leaves the request of its process as it is, for the next client,
/// and costs no message.
#[test]
fn a_cohort_keeps_its_request() {
    for options in [flat(), tree()] {
        let mut net = net(4, 1, SlotOptions { cohort: 4, ..options });
        enter(&mut net, 0, 1, &[0]);
        acquire(&mut net, 1, 1);
        net.deliver_all();
        (0..6).for_each(|_| acquire(&mut net, 0, 1));
        net.deliver_all();
        net.sent.clear();
        for _ in 0..4 {
            release_last(&mut net, 0);
        }
        assert_eq!(net.sent.len(), 0);
        release_last(&mut net, 0);
        assert_eq!(
            (grants(&net, 0).len(), grants(&net, 1).len()),
            (5, 1),
            "who was first is first"
        );
    }
}

/// Section 6, cohort: a request that is later than a process's, but before clients that arrived
/// there meanwhile, is overtaken by at most B of them.
#[test]
fn a_cohort_does_not_let_newcomers_use_an_old_request_before_others() {
    let mut net = net(3, 1, SlotOptions { cohort: 2, ..flat() });
    enter(&mut net, 0, 1, &[0]);
    (0..9).for_each(|_| acquire(&mut net, 0, 1));
    net.deliver_all();
    acquire(&mut net, 1, 1);
    net.deliver_all();
    for _ in 0..3 {
        assert_eq!(grants(&net, 1).len(), 0);
        release_last(&mut net, 0);
    }
    assert_eq!((grants(&net, 0).len(), grants(&net, 1).len()), (3, 1));
}

/// The latest grant of a process is released, and every other process learns of it.
fn release_last(net: &mut Net<Slots>, node: u32) {
    let grant = grants(net, node).pop().expect("it holds").0;
    release(net, node, grant);
    net.deliver_all();
}

/// Section 6, cohort: while no other process waits, a slot passes from client to client of its
/// process any number of times.
#[test]
fn a_cohort_is_unbounded_without_other_waiters() {
    let mut net = net(3, 1, SlotOptions { cohort: 1, ..flat() });
    enter(&mut net, 0, 1, &[0]);
    (0..9).for_each(|_| acquire(&mut net, 0, 1));
    net.deliver_all();
    for count in 1..=9 {
        let grant = grants(&net, 0).pop().expect("it holds").0;
        release(&mut net, 0, grant);
        net.deliver_all();
        assert_eq!(last(&net, 0).1.count(), count);
    }
    nothing_is_left(&net);
}

/// A slot that goes to a client of the request that is out may leave one behind with a smaller
/// weight that fits: it is checked again.
#[test]
fn a_hand_over_looks_at_the_rest_of_the_batch() {
    let mut net = net(2, 3, SlotOptions { batch: 3, ..flat() });
    enter(&mut net, 0, 2, &[0, 1]);
    acquire(&mut net, 0, 2);
    acquire(&mut net, 0, 1);
    net.deliver_all();
    assert_eq!(grants(&net, 0).len(), 1, "two do not fit, and one waits behind");
    // The request that is out is for the first client alone; it ends, and the other is requested
    // for.
    let grant = grants(&net, 0)[0].0;
    release(&mut net, 0, grant);
    net.deliver_all();
    assert_eq!(grants(&net, 0)[1].1, [0, 1]);
    assert_eq!(grants(&net, 0)[2].1, [2]);

    let mut net = super::net(2, 3, SlotOptions { batch: 3, ..flat() });
    net.notify_gone([0], 0, 0);
    acquire(&mut net, 0, 2);
    acquire(&mut net, 0, 2);
    acquire(&mut net, 0, 1);
    net.notify_joined([0, 1], 0, 1);
    net.deliver_all();
    let grant = grants(&net, 0)[0].0;
    release(&mut net, 0, grant);
    assert_eq!(grants(&net, 0).len(), 3, "both, at once: they are of one request");
    net.deliver_all();
    nothing_is_left(&net);
}

/// Without a lease nothing is granted, handed over or re-used; with one, all that has become
/// possible is done.
#[test]
fn nothing_is_granted_without_a_lease() {
    for options in [flat(), tree()] {
        let mut net = net(3, 1, options);
        net.input(0, Input::Lease(false)).unwrap();
        acquire(&mut net, 0, 1);
        net.deliver_all();
        assert!(grants(&net, 0).is_empty());
        net.input(0, Input::Lease(true)).unwrap();
        assert_eq!(net.inside(), [0]);
        acquire(&mut net, 0, 1);
        net.deliver_all();
        net.input(0, Input::Lease(false)).unwrap();
        let grant = grants(&net, 0)[0].0;
        release(&mut net, 0, grant);
        assert_eq!(grants(&net, 0).len(), 1);
        net.input(0, Input::Lease(true)).unwrap();
        net.deliver_all();
        assert_eq!(grants(&net, 0).len(), 2);
        net.release(0);
        net.input(0, Input::Lease(false)).unwrap();
        acquire(&mut net, 0, 1);
        assert_eq!(grants(&net, 0).len(), 2, "a kept slot is not taken up");
        net.deliver_all();
        net.input(0, Input::Lease(true)).unwrap();
        assert_eq!(grants(&net, 0).len(), 3);
    }
}
