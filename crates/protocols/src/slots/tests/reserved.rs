//! Slots that the agreed log holds (`docs/internals/slots.md`, LEASES section 8).

extern crate std;

use alloc::vec::Vec;

use kgate_core::{MembershipSource, Refusal};

use super::harness::{Config, Harness, Holds, SOON, Step, Suspensions};
use super::random::{drawn, play, seeds, told};
use super::*;
use crate::slots::Lanes;
use crate::slots::defects::{SP3, SP4};

fn reserve<P: Protocol>(net: &mut Net<P>, at: impl IntoIterator<Item = u32>, slots: &[u32]) {
    for at in at {
        net.input(at, Input::Reserved(slots.into())).unwrap();
    }
}

/// The log holds the last grant of `at`, and `at` applies the entry first.
fn hand_over(net: &mut Net<Slots>, at: u32) -> Fence {
    let (grant, slots, fence) = grants(net, at).pop().expect("something was granted");
    reserve(net, [at], &slots);
    release(net, at, grant);
    fence
}

/// From the moment at which its grant is released, a process that has not applied the entry learns
/// of the slot from the deciding process; when the log frees it, the next requester has it under a
/// greater fence.
#[test]
fn the_deciding_process_reports_the_slot() {
    for options in [flat(), tree(), plain()] {
        let mut net = net(3, 1, options);
        enter(&mut net, 0, 1, &[0]);
        let fence = hand_over(&mut net, 0);
        assert!(net.nodes[0].observe().slots.is_empty(), "it is no grant any more");
        acquire(&mut net, 1, 1);
        net.deliver_all();
        assert!(grants(&net, 1).is_empty(), "{options:?}");
        reserve(&mut net, [1, 2], &[0]);
        net.deliver_all();
        reserve(&mut net, [1, 2], &[]);
        net.deliver_all();
        assert!(grants(&net, 1).is_empty(), "p0 has not heard that it is free");
        reserve(&mut net, [0], &[]);
        net.deliver_all();
        assert_eq!(last(&net, 1).0, [0]);
        assert!(last(&net, 1).1 > fence);
    }
}

/// The hand-over to the log sends no message: to a waiting process the slot is held before and
/// after.
#[test]
fn the_hand_over_costs_nothing() {
    let mut net = net(3, 1, flat());
    enter(&mut net, 0, 1, &[0]);
    acquire(&mut net, 1, 1);
    net.deliver_all();
    net.sent.clear();
    hand_over(&mut net, 0);
    assert!(net.sent.is_empty());
}

/// The deciding process is evicted: a process that has applied that has applied the entry before,
/// and does not take the slot.
#[test]
fn a_permit_outlives_the_process_that_decided_it() {
    for options in [flat(), tree()] {
        let mut net = net(3, 2, options);
        enter(&mut net, 0, 1, &[0]);
        hand_over(&mut net, 0);
        net.crash(0);
        reserve(&mut net, [1], &[0]);
        net.notify_gone([1], 0, 0);
        enter(&mut net, 1, 1, &[1]);
        acquire(&mut net, 1, 1);
        net.deliver_all();
        assert_eq!(grants(&net, 1).len(), 1, "slot 0 is held, and p2 has heard nothing");
        reserve(&mut net, [1], &[]);
        net.deliver_all();
        assert_eq!(last(&net, 1).0, [0]);
    }
}

/// A reserved slot is neither handed over within its process nor cached there, and the next client
/// waits.
#[test]
fn it_is_not_used_again_where_it_was_decided() {
    let mut net = net(2, 1, flat());
    enter(&mut net, 0, 1, &[0]);
    acquire(&mut net, 0, 1);
    net.deliver_all();
    hand_over(&mut net, 0);
    net.deliver_all();
    assert_eq!(grants(&net, 0).len(), 1);
    reserve(&mut net, 0..2, &[]);
    net.deliver_all();
    assert_eq!(grants(&net, 0).len(), 2);
    assert!(grants(&net, 0)[1].2 > grants(&net, 0)[0].2);
}

/// An entry applied so late that the slot is long free and granted here does not change its holder,
/// which alone releases it.
#[test]
fn late_news_take_nothing_from_a_holder() {
    let mut net = net(2, 1, flat());
    enter(&mut net, 0, 1, &[0]);
    hand_over(&mut net, 0);
    acquire(&mut net, 1, 1);
    net.deliver_all();
    reserve(&mut net, [0], &[]);
    net.deliver_all();
    let (grant, slots, fence) =
        grants(&net, 1).pop().expect("p1 has heard nothing of the log, but that p0 has nothing");
    assert_eq!(slots, [0]);
    reserve(&mut net, [1], &[0]);
    assert_eq!(net.nodes[1].observe().slots, [(0, fence)]);
    reserve(&mut net, [1], &[]);
    acquire(&mut net, 0, 1);
    net.deliver_all();
    assert_eq!(grants(&net, 0).len(), 1, "p1 has it still");
    release(&mut net, 1, grant);
    net.deliver_all();
    assert!(last(&net, 0).1 > fence);
}

/// A cached slot that a late entry reserves is given up: no process grants a slot that it knows to
/// be held.
#[test]
fn a_cached_slot_that_becomes_reserved_is_dropped() {
    let mut net = net(2, 2, flat());
    enter(&mut net, 0, 1, &[0]);
    net.release(0);
    assert_eq!(net.nodes[0].observe().slots.len(), 1, "kept");
    reserve(&mut net, [0], &[0]);
    assert!(net.nodes[0].observe().slots.is_empty());
    enter(&mut net, 0, 1, &[1]);
}

/// Weights: a request for more than is left waits in its place until the log frees enough. k below
/// a reserved slot frees nothing and breaks nothing.
#[test]
fn weights_and_another_k() {
    let mut net = net(3, 3, flat());
    enter(&mut net, 0, 2, &[0, 1]);
    hand_over(&mut net, 0);
    reserve(&mut net, [1, 2], &[0, 1]);
    acquire(&mut net, 1, 2);
    net.deliver_all();
    acquire(&mut net, 2, 1);
    net.deliver_all();
    assert!(net.inside().is_empty(), "p1 wants two, and p2 comes behind");
    for k in [1, 3] {
        (0..3).for_each(|at| net.input(at, Input::Resize(k)).unwrap());
        net.deliver_all();
    }
    assert_eq!(last(&net, 2).0, [2], "p1 wanted more than there was for a while");
    acquire(&mut net, 1, 2);
    reserve(&mut net, 0..3, &[]);
    net.deliver_all();
    assert_eq!(last(&net, 1).0, [0, 1]);
}

/// A decision after which nothing is left is not announced even if the log holds the rest; it is
/// announced when the log frees it.
#[test]
fn quiet_until_it_is_free() {
    let mut net = net(2, 2, SlotOptions { defer: false, ..flat() });
    reserve(&mut net, 0..2, &[0]);
    acquire(&mut net, 0, 1);
    acquire(&mut net, 1, 1);
    net.deliver_all();
    assert_eq!((net.inside(), net.sent("update").len()), ([0].to_vec(), 0));
    reserve(&mut net, 0..2, &[]);
    net.deliver_all();
    assert_eq!(last(&net, 1).0, [0]);
}

/// A returning process has applied the log before it becomes a member: it reports the held slots,
/// although its earlier incarnation decided them.
#[test]
fn a_new_incarnation_reports_it_too() {
    let mut net = net(3, 1, tree());
    enter(&mut net, 2, 1, &[0]);
    hand_over(&mut net, 2);
    net.crash(2);
    net.return_in(2, 1);
    // p0 has applied nothing; its request reaches the new incarnation through p1's view of the
    // members or its own.
    for at in [1, 2] {
        reserve(&mut net, [at], &[0]);
        net.notify_gone([at], 2, 0);
        net.notify_joined([at], 2, 1);
    }
    acquire(&mut net, 0, 1);
    net.deliver_all();
    assert!(net.inside().is_empty());
    reserve(&mut net, [0], &[0]);
    net.notify_gone([0], 2, 0);
    net.notify_joined([0], 2, 1);
    net.deliver_all();
    assert!(net.inside().is_empty());
    reserve(&mut net, 0..3, &[]);
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
}

/// Each lane learns of its own slots, and a new client is placed where a slot is left.
#[test]
fn lanes_share_the_reserved_slots() {
    let mut known = setup(2, 4, Defects::NONE);
    known.slots = SlotOptions { lanes: 2, ..flat() };
    let mut net = Net::<Lanes>::with(known);
    assert_eq!(
        net.refusal(0, Input::Reserved([1, 1].into())),
        Refusal::Malformed("slots out of order")
    );
    reserve(&mut net, 0..2, &[0, 2, 3]);
    for _ in 0..2 {
        net.acquire(0);
        net.deliver_all();
    }
    assert_eq!(grants(&net, 0).iter().map(|(_, slots, _)| slots[0]).collect::<Vec<_>>(), [1]);
    reserve(&mut net, 0..2, &[0, 2]);
    net.deliver_all();
    assert_eq!(grants(&net, 0).iter().map(|(_, slots, _)| slots[0]).collect::<Vec<_>>(), [1, 3]);
}

/// A list that is not a set is refused, and so is any without a log.
#[test]
fn malformed_reservations_are_refused() {
    assert_eq!(
        net(2, 1, flat()).refusal(0, Input::Reserved([1, 0].into())),
        Refusal::Malformed("slots out of order")
    );
    let join = SlotOptions { membership: MembershipSource::Join, ..flat() };
    assert!(matches!(
        net(2, 1, join).refusal(0, Input::Reserved([0].into())),
        Refusal::Unsupported { .. }
    ));
}

/// R1: a process that stops and resumes still reports the slot.
#[test]
fn it_is_put_away_too() {
    let mut net = net(2, 1, SlotOptions { ask_again: Some(SOON), ..flat() });
    enter(&mut net, 0, 1, &[0]);
    hand_over(&mut net, 0);
    assert!(net.suspend(0, |_| {}));
    net.resume(0);
    acquire(&mut net, 1, 1);
    net.deliver_all();
    assert!(net.inside().is_empty());
}

/// A run in which the log holds slots, besides all other faults; in one of three, processes are
/// suspended as well.
fn holding(seed: u64, holds: Holds, defects: Defects) -> (Config, Vec<Step>) {
    let (mut config, mut steps) = drawn(seed, MembershipSource::Log, defects);
    // Many messages must arrive before there is anything to hold.
    (config.holds, config.haste) = (holds, 50 + config.haste / 4);
    steps.extend(steps.clone().into_iter().rev());
    if seed.is_multiple_of(3) {
        (config.suspends, config.options.ask_again) = (Suspensions::Whole, Some(SOON));
    }
    (config, steps)
}

/// Under all faults: a slot that the log holds is granted to no process until the log has freed it,
/// fences grow, and every waiting request is served.
#[test]
fn whatever_happens_with_a_log_that_holds() {
    let (mut granted, mut held, all) = (0, 0, seeds());
    let count = all.end - all.start;
    for seed in all {
        let (config, steps) = holding(seed, Holds::Whole, Defects::NONE);
        let mut harness = Harness::new(config);
        match play(&mut harness, &steps) {
            Ok(grants) => granted += u64::from(grants),
            Err(_) => panic!("{}", told(seed, config, steps)),
        }
        held += harness.ever_held();
    }
    std::println!("{granted} grants, {held} held by the log");
    assert!(
        granted > count * 6 && held > count,
        "only {granted} grants, {held} held: that tests nothing"
    );
}

/// Planted bugs: each breaks a guarantee for slots that the log holds.
#[test]
fn bad_holding_is_found() {
    let checked = |holds, defects, seed| {
        let (config, steps) = holding(seed, holds, defects);
        play(&mut Harness::new(config), &steps)
    };
    for (name, holds, defects) in [
        ("not reported", Holds::Whole, SP3),
        ("free to the process that decides", Holds::Whole, SP4),
        ("given up before it is reserved", Holds::TooLate, Defects::NONE),
        ("held for who is gone", Holds::OfTheGone, Defects::NONE),
        ("members first", Holds::MembersFirst, Defects::NONE),
    ] {
        let fails = |seed| {
            checked(holds, defects, seed).is_err_and(|wrong| wrong.contains("the log holds it"))
        };
        let seed = (0..3000)
            .find(|&seed| fails(seed))
            .unwrap_or_else(|| panic!("{name}: no seed shows it"));
        std::println!("{name}: seed {seed}");
        assert_eq!(
            checked(Holds::Whole, Defects::NONE, seed).err(),
            None,
            "{name}: seed {seed} fails without it, too"
        );
    }
}
