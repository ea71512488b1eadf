//! Pass (H20): hand-over in one delay, what it costs, and what stops it.

use alloc::boxed::Box;

use kgate_core::{Defects, Input, SlotOptions, Span, Time};

use super::fixture::Fixture;
use crate::home::defects::{H20_PROOF, H20_TOP};

fn options(pass: bool) -> SlotOptions {
    SlotOptions { keep: false, pass, ..SlotOptions::default() }
}

fn passing(nodes: u32, slots: SlotOptions) -> Fixture {
    Fixture::with(nodes, 1, slots, Defects::NONE)
}

/// From the release to the entry of the next client, in delays of one unit; the messages are all
/// that were sent meanwhile and by then.
fn hand_over(slots: SlotOptions) -> (u64, usize) {
    let mut all = passing(4, slots);
    let (_, [one, two]) = all.home_and_others();
    let held = all.enter(one, 1);
    all.acquire(two, 1);
    all.net.deliver_all();
    let before = all.messages();
    all.net.delay = Box::new(|| Span::UNIT);
    all.release(one, &held);
    let start = all.net.now;
    while all.granted(two).is_empty() {
        let end = all.net.now + Span::UNIT;
        all.deliver_until(end);
    }
    let delays = (all.net.now.0 - start.0) / Span::UNIT.0;
    all.deliver_until(Time(start.0 + 10 * Span::UNIT.0));
    (delays, all.messages() - before)
}

/// The hand-over takes one delay instead of two, and one message more.
#[test]
fn one_delay_from_holder_to_holder() {
    assert_eq!(hand_over(options(false)), (2, 2));
    assert_eq!(hand_over(options(true)), (1, 3));
}

/// A slot that is cached elsewhere comes in three delays instead of four, for one message more.
#[test]
fn three_delays_from_a_cache() {
    let from_cache = |pass| {
        let mut all = passing(4, SlotOptions { pass, ..SlotOptions::default() });
        let (_, [one, two]) = all.home_and_others();
        for _ in 0..2 {
            let held = all.enter(one, 1);
            all.release(one, &held);
            all.net.deliver_all();
        }
        let before = all.messages();
        all.net.delay = Box::new(|| Span::UNIT);
        all.acquire(two, 1);
        let mut delays = 0;
        while all.granted(two).is_empty() {
            delays += 1;
            all.deliver_until(Time(delays * Span::UNIT.0));
        }
        all.deliver_until(Time(10 * Span::UNIT.0));
        (delays, all.messages() - before)
    };
    assert_eq!((from_cache(false), from_cache(true)), ((4, 4), (3, 5)));
}

/// Without contention nothing is promised, and an entry costs what it costs without passes.
#[test]
fn alone_it_costs_nothing() {
    for pass in [false, true] {
        let mut all = passing(3, options(pass));
        let (_, [one, two]) = all.home_and_others();
        for node in [one, two, one] {
            let held = all.enter(node, 1);
            all.release(node, &held);
            all.net.deliver_all();
        }
        assert_eq!(all.messages(), 9);
    }
}

/// If k grows, the one that was promised the slot after its holder gets the new one at once.
#[test]
fn a_promise_ends_when_k_grows() {
    let mut all = passing(4, options(true));
    let (_, [one, two, three]) = all.home_and_others();
    let held = all.enter(one, 1);
    for node in [two, three] {
        all.acquire(node, 1);
        all.net.deliver_all();
    }
    all.append(|log| log.k = 2);
    all.apply_everywhere();
    all.net.deliver_all();
    assert_eq!(all.granted(two).pop().unwrap().slots, [1]);
    assert!(all.granted(three).is_empty());
    all.release(one, &held);
    all.net.deliver_all();
    assert_eq!(all.granted(three).pop().unwrap().slots, [0]);
}

/// A report that lists the promised grant proves that it was passed on: the home need not wait for
/// the former holder, which has crashed before its own report left.
#[test]
fn a_pass_is_proved_by_its_receiver() {
    let served = |defects| {
        let mut all = Fixture::with(4, 1, options(true), defects);
        let (home, [one, two, three]) = all.home_and_others();
        let held = all.enter(one, 1);
        all.acquire(two, 1);
        all.net.deliver_all();
        all.release(one, &held);
        all.net.lose(one, home);
        all.net.crash(one);
        all.net.deliver_all();
        let passed = all.granted(two).pop().expect("passed on");
        all.net.input(two, Input::Acquire { weight: 1 }).unwrap(); // Reports what it holds.
        all.net.deliver_all();
        all.net.input(two, Input::Withdraw).unwrap();
        all.release(two, &passed);
        all.net.deliver_all();
        all.acquire(three, 1);
        all.net.deliver_all();
        !all.granted(three).is_empty()
    };
    assert!(served(Defects::NONE));
    assert!(!served(H20_PROOF));
}

/// H6: a promised grant that was refused out of an assignment is not taken out of the pass, which
/// comes later: the slot is another's by then.
#[test]
fn a_late_pass_is_not_taken() {
    let inside = |defects| {
        let mut all = Fixture::with(4, 1, options(true), defects);
        let (home, [one, two, three]) = all.home_and_others();
        let held = all.enter(one, 1);
        for node in [two, three] {
            all.acquire(node, 1);
            all.net.deliver_all();
        }
        all.net.input(two, Input::Lease(false)).unwrap();
        all.net.deliver_all();
        all.release(one, &held);
        for (from, to) in [(one, home), (home, two), (two, home), (home, three)] {
            all.net.deliver(from, to);
        }
        all.net.input(two, Input::Lease(true)).unwrap();
        all.net.deliver(one, two);
        all.net.inside().len()
    };
    assert_eq!(inside(Defects::NONE), 1);
    assert_eq!(inside(H20_TOP), 2);
}
