//! Several lanes: every waiting client finds a lane with a free slot, and no lane forgets its
//! timers.

use kgate_core::{NodeId, Phase, Span};

use super::*;
use crate::slots::{Lanes, LanesTimer, SlotsTimer};

fn lanes(nodes: u32, k: u32, options: SlotOptions) -> Net<Lanes> {
    let mut known = setup(nodes, k, Defects::NONE);
    known.slots = options;
    Net::with(known)
}

/// All grants of one process so far, with the slots of each.
fn granted(net: &Net<Lanes>, of: u32) -> Vec<(GrantId, Vec<u32>)> {
    grants(net, of).into_iter().map(|(grant, slots, _)| (grant, slots)).collect()
}

fn is_armed(net: &Net<Lanes>, at: u32, timer: LanesTimer) -> bool {
    net.timers.contains_key(&(NodeId(at), timer))
}

/// "A free lane never starves a full one for good": a client that arrives when all earlier ones
/// have entered all lanes enters one more lane after a while too.
#[test]
fn a_later_client_enters_more_lanes_too() {
    let mut net = lanes(2, 2, SlotOptions { lanes: 2, ..plain() });
    for _ in 0..2 {
        net.acquire(1);
        net.deliver_all();
    }
    net.acquire(0);
    net.deliver_all();
    for _ in 0..2 {
        net.expire(0, LanesTimer::Widen);
        net.deliver_all();
    }
    net.acquire(0);
    net.deliver_all();
    let theirs = granted(&net, 1);
    assert_eq!(theirs.len(), 2);
    // The first client has asked in both lanes, and the second one in this one.
    let stands = net.nodes[0].lanes_of_last();
    let free = theirs
        .iter()
        .find(|(_, slots)| slots[0] % 2 != u32::from(stands[0]))
        .expect("one in each lane");
    net.input(1, Input::Release { grant: free.0 }).unwrap();
    net.deliver_all();
    let [(grant, _)] = granted(&net, 0).try_into().expect("the first client");
    net.input(0, Input::Release { grant }).unwrap();
    net.deliver_all();
    for _ in 0..2 {
        net.expire(0, LanesTimer::Widen);
        net.deliver_all();
    }
    assert_eq!(granted(&net, 0).len(), 2, "a slot is free in the other lane");
}

/// Any order of clients that request, release and withdraw, of changes of k and of timeouts: while
/// a request is out in a lane, that lane's timer runs; while a client has not entered all lanes,
/// the timer of the waiting clients does; and in the end every client is served.
#[test]
fn timeouts_run_while_a_request_waits() {
    for seed in 0..2000u64 {
        let mut rng = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |sides: u64| {
            rng ^= rng << 13;
            rng ^= rng >> 7;
            rng ^= rng << 17;
            (rng >> 20) % sides
        };
        let options = SlotOptions {
            lanes: 3,
            batch: 3,
            ask_again: Some(Span::UNIT),
            keep: draw(2) == 0,
            cohort: u16::try_from(draw(3)).unwrap(),
            ..flat()
        };
        let mut net = lanes(2, 9, options);
        for _ in 0..80 {
            let at = u32::try_from(draw(2)).unwrap();
            match draw(12) {
                0..=3 => {
                    let weight = 1 + u32::try_from(draw(2)).unwrap();
                    net.input(at, Input::Acquire { weight }).unwrap();
                }
                4 | 5 => {
                    if let Some(grant) = net.nodes[at as usize].observe().grant {
                        net.input(at, Input::Release { grant }).unwrap();
                    }
                }
                6 => drop(net.input(at, Input::Withdraw)),
                7 => {
                    let k = [6, 7, 9][usize::try_from(draw(3)).unwrap()];
                    (0..2).for_each(|at| net.input(at, Input::Resize(k)).unwrap());
                }
                8 | 9 if is_armed(&net, at, LanesTimer::Widen) => net.expire(at, LanesTimer::Widen),
                _ => net.deliver_all(),
            }
            for at in 0..2 {
                net.nodes[at as usize].check(|timer| is_armed(&net, at, timer));
            }
        }
        for _ in 0..400 {
            net.deliver_all();
            for at in 0..2 {
                while let Some(grant) = net.nodes[at as usize].observe().grant {
                    net.input(at, Input::Release { grant }).unwrap();
                }
                if is_armed(&net, at, LanesTimer::Widen) {
                    net.expire(at, LanesTimer::Widen);
                }
            }
        }
        for at in 0..2 {
            assert_eq!(net.nodes[at as usize].observe().phase, Phase::Idle, "seed {seed}, p{at}");
        }
    }
}

/// Grant ids do not wrap: a process that has granted 2^34 times still finds its grants.
#[test]
fn names_of_grants_last() {
    for lanes_of in [1, 3, 64] {
        let mut net = lanes(1, 64, SlotOptions { lanes: lanes_of, ..plain() });
        net.nodes[0].lanes.iter_mut().for_each(|lane| lane.granted = (1 << 34) - 1);
        (0..64).for_each(|_| net.acquire(0));
        for (grant, _) in granted(&net, 0) {
            net.input(0, Input::Release { grant }).unwrap();
        }
        assert!(net.nodes[0].observe().slots.is_empty());
    }
}

impl Lanes {
    /// The lanes that the last client has entered.
    fn lanes_of_last(&self) -> Vec<u8> {
        let several = self.several.as_ref().expect("several lanes");
        several.waiters.back().expect("somebody waits").1.lanes.to_vec()
    }

    /// Every timer that is needed runs, and every lane's queue here equals the lane's own.
    fn check(&self, is_armed: impl Fn(LanesTimer) -> bool) {
        let several = self.several.as_ref().expect("several lanes");
        for (number, (lane, queue)) in (0..).zip(self.lanes.iter().zip(&several.queues)) {
            assert_eq!(lane.waiting(), queue.len());
            let runs = is_armed(LanesTimer::Of(number, SlotsTimer::AskAgain));
            assert_eq!(lane.pending.is_some(), runs, "of lane {number}");
        }
        let has_not_asked_everywhere =
            several.waiters.iter().any(|(_, waiter)| waiter.lanes.len() < self.lanes.len());
        assert!(
            !has_not_asked_everywhere || is_armed(LanesTimer::Widen),
            "somebody stands in one lane for ever"
        );
    }
}
