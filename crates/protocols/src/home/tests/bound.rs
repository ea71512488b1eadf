//! P4 with a number: how long a request may wait.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;

use kgate_core::{Defects, GrantId, Input, SlotOptions, Span, Time};
use kgate_testkit::Rng;

use super::fixture::Fixture;
use crate::home::defects::H10;

const NODES: u32 = 3;
/// The clients of each process, each of which requests again some time after its release.
const CLIENTS: usize = 2;
const TICK: u64 = Span::UNIT.0 / 10;
/// A message takes at most so many ticks, and a client holds its slot at most so many.
const DELAY: u64 = 10;
const HOLD: u64 = 25;
const END: u64 = 8000;
/// Ticks between two requests of a client.
const BUSY: u64 = 8;
const IDLE: u64 = 400;

/// The bound of `docs/internals/home.md`, in ticks, for what may be ahead of a request here: one
/// request of each other client.
fn bound(cohort: u64) -> u64 {
    let ahead = u64::from(NODES) * CLIENTS as u64 - 1;
    (ahead + 1) * ((cohort + 1) * HOLD + 2 * DELAY) + 2 * DELAY
}

/// The longest time that any request waits, in ticks. A client that is done requests again after
/// `pause` ticks on average.
fn longest_wait(slots: SlotOptions, defects: Defects, pause: u64, seed: u64) -> u64 {
    let mut all = Fixture::with(NODES, 1, slots, defects);
    let mut rng = Rng::new(seed);
    let mut delays = Rng::new(!seed);
    all.net.delay = Box::new(move || Span(delays.within(1, DELAY) * TICK));
    let mut waiting = vec![VecDeque::new(); NODES as usize];
    let mut inside: VecDeque<(u64, u32, GrantId)> = VecDeque::new();
    let (mut granted, mut longest) = (vec![0; NODES as usize], 0);
    for now in 0..END {
        all.deliver_until(Time(now * TICK));
        for node in 0..NODES {
            let at = node as usize;
            if rng.below(pause) == 0 {
                let used = inside.iter().filter(|(_, holder, _)| *holder == node).count();
                if used + waiting[at].len() < CLIENTS {
                    waiting[at].push_back(now);
                    all.acquire(node, 1);
                }
            }
            for grant in all.granted(node).split_off(granted[at]) {
                granted[at] += 1;
                let since: u64 = waiting[at].pop_front().expect("it has asked");
                longest = longest.max(now - since);
                inside.push_back((now + rng.within(1, HOLD - 1), node, grant.grant));
            }
        }
        if let Some(&(_, node, grant)) = inside.front().filter(|(until, ..)| *until <= now) {
            inside.pop_front();
            all.net.input(node, Input::Release { grant }).unwrap();
        }
    }
    assert!(granted.iter().sum::<usize>() > 20, "{granted:?}: that tests nothing");
    let unserved = waiting.iter().flatten().map(|since| END - since).max();
    longest.max(unserved.unwrap_or_default())
}

/// P4: a request waits at most for its way to the home and back, and for a turn of each request
/// ahead of it. Without recalls (H10) or with larger cohorts than the bound counts it waits longer.
#[test]
fn no_request_waits_longer_than_the_bound() {
    let options = |cohort, pass| SlotOptions { cohort, pass, ..SlotOptions::default() };
    for seed in 0..10 {
        for (cohort, pass) in [(0, false), (2, false), (0, true), (2, true)] {
            let longest = longest_wait(options(cohort, pass), Defects::NONE, BUSY, seed);
            let most = bound(u64::from(cohort));
            assert!(longest <= most, "seed {seed}, cohort {cohort}, pass {pass}: {longest} ticks");
        }
    }
    let exceeded = |cohort, defects, pause| {
        (0..10).any(|seed| longest_wait(options(cohort, false), defects, pause, seed) > bound(0))
    };
    assert!(!exceeded(0, Defects::NONE, IDLE));
    assert!(exceeded(0, H10, IDLE));
    assert!(exceeded(1000, Defects::NONE, BUSY));
}
