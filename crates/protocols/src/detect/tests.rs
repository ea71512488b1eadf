//! The detectors in virtual time: perfect where the system is synchronous, as quick and as cheap as published.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use kgate_core::{
    GrantId, Incarnation, Input, InputOf, Notice, Printed, Protocol, Refusal, Setup, Span, Time,
};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::harness::{INTERVAL, Net, TIMEOUT};
use crate::topology::dimension;

fn detectors<D: Protocol>(nodes: u32) -> Net<D> {
    Net::new(nodes, 1, Printed::NONE)
}

/// Every message takes less than half a timeout, so that a test and its answer take less than one.
const DELAY: Span = Span(TIMEOUT.0 / 2);

/// A random run: who crashes when, how long messages take, and when in an interval each process starts its rounds.
#[derive(Clone, Debug)]
struct Run {
    nodes: u32,
    crashes: Vec<(Time, u32)>,
    seed: u64,
    /// Zero: all rounds start together.
    phases: Span,
}

fn runs() -> impl Strategy<Value = Run> {
    let crash = (0..10 * INTERVAL.0, any::<Index>());
    let phases = prop_oneof![Just(Span(1)), Just(INTERVAL)];
    (2u32..=33, prop::collection::vec(crash, 0..33), any::<u64>(), phases).prop_map(
        |(nodes, crashes, seed, phases)| {
            let mut crashes: Vec<(Time, u32)> =
                crashes.iter().map(|(at, node)| (Time(*at), node.index(nodes as usize) as u32)).collect();
            crashes.sort();
            let mut doomed: Vec<u32> = Vec::new();
            crashes.retain(|(_, node)| {
                let first = !doomed.contains(node) && doomed.len() + 1 < nodes as usize;
                doomed.extend(first.then_some(*node));
                first
            });
            Run { nodes, crashes, seed, phases }
        },
    )
}

impl Run {
    /// Strong accuracy: whoever is suspected has crashed before. Completeness: everybody who lives to the end suspects
    /// every crashed process within `latency` of its crash.
    fn check<D: Protocol>(&self, latency: Span) -> Result<(), TestCaseError> {
        let mut net = detectors::<D>(self.nodes);
        let mut dice = self.seed;
        let mut draw = move |bound: Span| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Span((dice >> 33) % bound.0)
        };
        net.timers.values_mut().for_each(|due| due.0 += draw(self.phases));
        net.delay = Box::new(move || draw(DELAY));
        for &(time, node) in &self.crashes {
            net.run_until(time);
            net.crash(node);
        }
        net.run_until(net.now + latency);

        let crashed_at = |node: NodeId| self.crashes.iter().find(|crash| crash.1 == node.0).map(|crash| crash.0);
        for (time, at, notice) in &net.told {
            let Notice::Suspected(of, life) = notice else { panic!("a detector tells {notice:?}") };
            prop_assert!(crashed_at(*of).is_some_and(|crash| crash < *time), "{at} suspects {of} at {time}");
            prop_assert_eq!(*life, Incarnation(0));
        }
        for &(crash, of) in &self.crashes {
            for at in net.living() {
                let told = |entry: &&(Time, NodeId, Notice)| {
                    entry.1.0 == at && entry.2 == Notice::Suspected(NodeId(of), Incarnation(0))
                };
                let times: Vec<Time> = net.told.iter().filter(told).map(|entry| entry.0).collect();
                prop_assert_eq!(times.len(), 1, "p{} suspects p{} once, which crashed at {}", at, of, crash);
                prop_assert!(times[0] <= crash + latency, "p{at} hears of p{of} ({crash}) at {}", times[0]);
            }
        }
        Ok(())
    }

    /// `log2(n)^2` rounds, after the one in which the crash falls, and the last one's answers.
    fn diagnosis_latency(&self) -> Span {
        let log = u64::from(dimension(self.nodes));
        INTERVAL.times(log * log + 1) + INTERVAL
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// vcube-2018 section 4: everybody learns of an event within log2(n)^2 rounds; nobody alive is suspected.
    #[test]
    fn vcube_is_perfect(run in runs()) {
        run.check::<VCube>(run.diagnosis_latency())?;
    }

    /// robust-2012 section 3.1: everybody learns of a crash within log(n)^2 rounds; nobody alive is suspected.
    #[test]
    fn hi_adsd_is_perfect(run in runs()) {
        run.check::<HiAdsd>(run.diagnosis_latency())?;
    }

    /// Heartbeats: everybody notices a crash within two intervals, a timeout and the delay of the last heartbeat; nobody
    /// alive is suspected.
    #[test]
    fn heartbeats_are_perfect(run in runs()) {
        run.check::<Heartbeat>(INTERVAL.times(2) + TIMEOUT + DELAY)?;
    }
}
