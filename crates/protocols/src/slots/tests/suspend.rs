//! R1: a process that stops cleanly and resumes has only paused, whatever was lost meanwhile.

extern crate std;

use alloc::vec::Vec;

use kgate_core::{Defects, Input, MembershipSource, Notice, Phase, Protocol, SlotOptions, Suspend};

use super::harness::{Config, Harness, SOON, Step, Suspensions};
use super::random::{drawn, play, seeds, told};
use super::{acquire, flat, grants, net, nothing_is_left, release};
use crate::harness::{Net, setup};
use crate::slots::{Lanes, LanesTimer, Slots, SlotsTimer};

fn lossy() -> SlotOptions {
    SlotOptions { ask_again: Some(SOON), ..flat() }
}

fn lease(net: &mut Net<Slots>, at: u32) {
    net.input(at, Input::Lease(true)).unwrap();
}

/// Its clients keep their grants: under the same ids and fences, and no other process gets the
/// slots.
#[test]
fn grants_are_there_again() {
    let mut net = net(3, 1, lossy());
    super::enter(&mut net, 0, 1, &[0]);
    let (grant, _, fence) = grants(&net, 0).pop().unwrap();
    assert!(net.suspend(0, |_| {}));
    acquire(&mut net, 1, 1);
    net.deliver_all();
    net.resume(0);
    assert_eq!(net.nodes[0].observe().slots, [(0, fence)]);
    net.expire(1, SlotsTimer::AskAgain);
    net.deliver_all();
    assert!(grants(&net, 1).is_empty(), "it is taken");
    // A release needs no lease.
    release(&mut net, 0, grant);
    net.deliver_all();
    assert_eq!(grants(&net, 1).len(), 1);
    assert!(grants(&net, 1)[0].2 > fence);
}

/// A request that was out keeps its place: later ones still wait for it, and it is sent again.
#[test]
fn a_request_keeps_its_place() {
    let mut net = net(3, 1, lossy());
    super::enter(&mut net, 2, 1, &[0]);
    acquire(&mut net, 0, 1);
    net.deliver_all();
    let stamp = net.nodes[0].observe().stamp;
    assert!(net.suspend(0, |_| {}));
    acquire(&mut net, 1, 1);
    net.deliver_all();
    let held = grants(&net, 2)[0].0;
    release(&mut net, 2, held);
    net.deliver_all();
    assert!(grants(&net, 1).is_empty(), "p0 is ahead, suspended or not");
    net.resume(0);
    assert_eq!(net.nodes[0].observe().stamp, stamp);
    net.deliver_all();
    assert!(grants(&net, 0).is_empty(), "it has no lease yet");
    lease(&mut net, 0);
    assert_eq!(grants(&net, 0).len(), 1);
    net.deliver_all();
    let held = grants(&net, 0)[0].0;
    release(&mut net, 0, held);
    net.expire(1, SlotsTimer::AskAgain);
    net.deliver_all();
    assert_eq!(grants(&net, 1).len(), 1);
}

/// Without a lease nothing is granted, not even a slot cached here.
#[test]
fn it_has_no_lease_at_first() {
    let mut net = net(2, 1, lossy());
    super::enter(&mut net, 0, 1, &[0]);
    let held = grants(&net, 0)[0].0;
    release(&mut net, 0, held);
    assert!(net.suspend(0, |_| {}));
    net.resume(0);
    acquire(&mut net, 0, 1);
    net.deliver_all();
    assert_eq!(grants(&net, 0).len(), 1, "only the first");
    lease(&mut net, 0);
    net.deliver_all();
    let granted = grants(&net, 0);
    assert!(granted.len() == 2 && granted[1].2 > granted[0].2 && granted[1].0 != granted[0].0);
}

/// Evicted meanwhile: it loses its grants, as any evicted process does.
#[test]
fn one_that_was_evicted_loses_its_grants() {
    let mut net = net(2, 1, lossy());
    super::enter(&mut net, 0, 1, &[0]);
    let (grant, ..) = grants(&net, 0)[0];
    assert!(net.suspend(0, |_| {}));
    net.notify_gone([1], 0, 0);
    net.resume(0);
    net.notify_gone([0], 0, 0);
    assert!(
        net.notices
            .iter()
            .any(|(_, node, notice)| node.0 == 0 && *notice == Notice::Lost { grant })
    );
    super::enter(&mut net, 1, 1, &[0]);
    nothing_is_left(&net);
}

/// k may have changed meanwhile: the setup at the restart has the present one.
#[test]
fn k_may_have_changed() {
    let known = |k| kgate_core::Setup { slots: lossy(), ..setup(2, k, Defects::NONE) };
    let mut net = Net::<Slots>::with(known(4));
    acquire(&mut net, 0, 4);
    let suspended = net.nodes[0].suspend().unwrap();
    let mut out = kgate_core::Outbox::new();
    let shrunk = Slots::start(&known(2), Some(suspended), &mut out);
    assert_eq!(shrunk.observe().phase, Phase::Idle);
    let mut fails = false;
    while let Some(effect) = out.pop() {
        fails |=
            effect == kgate_core::Effect::Notify(Notice::TooLarge { weight: 4, most: 2 }.into());
    }
    assert!(fails, "who wants four fails");
}

/// Without a log, or on links without repetition, a process cannot be suspended: messages lost
/// meanwhile would be missed.
#[test]
fn not_every_process_can() {
    let join = SlotOptions { membership: MembershipSource::Join, ..lossy() };
    for options in [flat(), join] {
        assert!(!net(2, 1, options).suspend(0, |_| {}));
    }
}

/// Lanes are suspended together with their waiting clients: each is granted once, by the lane that
/// is free first.
#[test]
fn lanes_are_suspended_together() {
    let mut known = setup(2, 4, Defects::NONE);
    known.slots = SlotOptions { lanes: 2, ..lossy() };
    let mut net = Net::<Lanes>::with(known);
    for _ in 0..4 {
        net.acquire(1);
        net.deliver_all();
    }
    (0..3).for_each(|_| net.acquire(0));
    net.deliver_all();
    for _ in 0..2 {
        net.expire(0, LanesTimer::Widen);
        net.deliver_all();
    }
    assert_eq!(grants(&net, 0).len(), 0);
    assert!(net.suspend(0, |_| {}));
    net.resume(0);
    net.input(0, Input::Lease(true)).unwrap();
    net.deliver_all();
    for (grant, ..) in grants(&net, 1) {
        net.input(1, Input::Release { grant }).unwrap();
        net.deliver_all();
    }
    let mut slots: Vec<u32> =
        grants(&net, 0).iter().flat_map(|(_, slots, _)| slots.clone()).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!((slots.len(), grants(&net, 0).len()), (3, 3));
    assert_ne!(net.nodes[0].observe().phase, Phase::Waiting);
}

/// A run in which processes stop cleanly and resume, besides all other faults.
fn suspending(seed: u64, suspends: Suspensions) -> (Config, Vec<Step>) {
    let (mut config, steps) = drawn(seed, MembershipSource::Log, Defects::NONE);
    (config.suspends, config.options.ask_again) = (suspends, Some(SOON));
    (config, steps)
}

/// Suspending and resuming any process at any moment, with its messages lost meanwhile, does not
/// affect safety, and every request is served at the end.
#[test]
fn whatever_happens_with_suspending() {
    let (mut granted, all) = (0, seeds());
    let count = all.end - all.start;
    for seed in all {
        let (config, steps) = suspending(seed, Suspensions::Whole);
        match play(&mut Harness::new(config), &steps) {
            Ok(grants) => granted += u64::from(grants),
            Err(_) => panic!("{}", told(seed, config, steps)),
        }
    }
    assert!(granted > count * 8, "only {granted} grants: that tests nothing");
}

/// Planted bugs: the checker finds a process that has lost its grants or its clock, and one that
/// returns to an earlier stored state, by the guarantees about slots and not by an accident on the
/// way.
#[test]
fn bad_suspending_is_found() {
    let checked = |suspends, seed| {
        let (config, steps) = suspending(seed, suspends);
        play(&mut Harness::new(config), &steps)
    };
    for (suspends, broken) in [
        (Suspensions::WithoutGrants, "has it"),
        (Suspensions::WithoutClock, "overtakes"),
        (Suspensions::WithoutClock, "the fence"),
        (Suspensions::Twice, "has it"),
    ] {
        let fails = |seed| checked(suspends, seed).is_err_and(|wrong| wrong.contains(broken));
        let seed = (0..3000).find(|&seed| fails(seed));
        let seed = seed.unwrap_or_else(|| panic!("{suspends:?}: no seed shows that {broken:?}"));
        std::println!("{suspends:?}, {broken}: seed {seed}");
        assert_eq!(
            checked(Suspensions::Whole, seed).err(),
            None,
            "seed {seed} fails without it, too"
        );
    }
}
