//! The mutex under any order of messages. With f = 0 no round declares a process crashed, so the
//! responsiveness property is not needed, and everything else must hold on every schedule.

use alloc::vec::Vec;

use super::*;

/// A small generator of our own (Knuth's MMIX constants), so that a seed is a schedule.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    /// Below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a length")
    }
}

/// What can happen next.
#[derive(Clone, Copy)]
enum Step {
    Arrive(usize),
    Acquire(u32),
    Release(u32),
    Withdraw(u32),
    Refresh(u32),
    Crash(u32),
    /// This one hears that that one has crashed.
    Hear(u32, u32),
}

/// Lemmas 2 and 3: never more than k are inside, and every request of a process that is alive is
/// granted at last (or withdrawn), however messages overtake each other, and whichever k-1
/// processes crash, some in the middle of a send.
#[test]
fn at_most_k_inside_and_no_process_waits_for_ever() {
    for seed in 0..1500 {
        let mut rng = Rng(seed);
        let n = 2 + u32::try_from(rng.below(6)).unwrap();
        let k = 1 + u32::try_from(rng.below(3)).unwrap();
        let refresh = (rng.below(2) == 0).then_some(Span::UNIT);
        let mut net: Mutex =
            Net::with(Setup { refresh, tolerate: 0, ..setup(n, k, Defects::NONE) });
        let (mut wanted, mut crashes, mut unheard) =
            (12, rng.below(u64::from(k.min(n))), Vec::new());
        let mut unrest = 300;
        loop {
            let mut steps: Vec<Step> = (0..net.flights.len()).map(Step::Arrive).collect();
            let calm = unrest == 0;
            unrest = u32::saturating_sub(unrest, 1);
            for node in net.live() {
                match net.nodes[node as usize].observe().phase {
                    Phase::Idle if wanted > 0 => steps.push(Step::Acquire(node)),
                    Phase::Idle => {}
                    Phase::Waiting if !calm && rng.below(8) == 0 => {
                        steps.push(Step::Withdraw(node))
                    }
                    Phase::Waiting => {}
                    Phase::Holding => steps.push(Step::Release(node)),
                }
                if !calm && refresh.is_some() && rng.below(8) == 0 {
                    steps.push(Step::Refresh(node));
                }
                if !calm && crashes > 0 && rng.below(16) == 0 {
                    steps.push(Step::Crash(node));
                }
            }
            steps.extend(unheard.iter().map(|&(at, of)| Step::Hear(at, of)));
            if steps.is_empty() {
                break;
            }
            match steps[rng.index(steps.len())] {
                Step::Arrive(place) => net.deliver_nth(place),
                Step::Acquire(node) => {
                    wanted -= 1;
                    net.acquire(node);
                }
                Step::Release(node) => net.release(node),
                Step::Withdraw(node) => net.input(node, Input::Withdraw).unwrap(),
                Step::Refresh(node) => {
                    net.input(node, Input::Expire(TimerFreeTimer::Refresh)).unwrap()
                }
                Step::Crash(node) => {
                    crashes -= 1;
                    net.crash(node);
                    unheard.retain(|&(at, _)| at != node);
                    // Some never hear of it from the driver: k-1 crashes are borne even so.
                    unheard.extend(
                        net.live().into_iter().map(|at| (at, node)).filter(|_| rng.below(2) == 0),
                    );
                    // What it sent last may never have left.
                    net.keep_sent(node, |sent| rng.index(sent + 1));
                }
                Step::Hear(at, of) => {
                    unheard.retain(|&news| news != (at, of));
                    net.notify_crashed([at], of);
                }
            }
            assert!(net.inside().len() <= k as usize, "seed {seed}: {:?} are inside", net.inside());
        }
        for node in net.live() {
            assert_eq!(
                net.nodes[node as usize].observe().phase,
                Phase::Idle,
                "seed {seed}: p{node} waits for ever"
            );
        }
    }
}
