//! The detectors in virtual time: perfect where the system is synchronous, as quick and as cheap as
//! published.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kgate_core::{
    Defects, GrantId, Incarnation, Input, InputOf, Notice, Protocol, Span, Time, ViewId,
};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::harness::{INTERVAL, Net, TIMEOUT};
use crate::topology::dimension;

/// Every message takes less than half a timeout, so that a test and its answer take less than one.
const DELAY: Span = Span(TIMEOUT.0 / 2);

/// A random run: the crashes and their times, the delays of messages, and the phase at which each
/// process starts its rounds.
#[derive(Clone, Debug)]
struct Run {
    nodes: u32,
    /// In the order of time; at least one process never crashes.
    crashes: Vec<(Time, u32)>,
    seed: u64,
    /// Rounds start less than this apart.
    phases: Span,
}

fn runs(nodes: impl Strategy<Value = u32>) -> impl Strategy<Value = Run> {
    let crashes = prop::collection::vec((0..10 * INTERVAL.0, any::<Index>()), 0..60);
    // Over ten intervals, in one, all at once.
    let hurry = prop_oneof![Just(1), Just(10), Just(u64::MAX)];
    let phases = prop_oneof![Just(Span(1)), Just(INTERVAL)];
    (nodes, crashes, hurry, any::<u64>(), phases).prop_map(
        |(nodes, crashes, hurry, seed, phases)| {
            let mut left: Vec<u32> = (0..nodes).collect();
            let mut doomed = Vec::new();
            for (time, index) in crashes {
                if left.len() > 1 {
                    doomed.push((Time(time / hurry), left.remove(index.index(left.len()))));
                }
            }
            doomed.sort();
            Run { nodes, crashes: doomed, seed, phases }
        },
    )
}

impl Run {
    /// Processes with these phases and delays, before anything has happened.
    fn start<D: Protocol>(&self) -> Net<D> {
        let mut net = Net::new(self.nodes, 1, Defects::NONE);
        let mut rng = self.seed;
        let mut draw = move |bound: Span| {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Span((rng >> 33) % bound.0)
        };
        net.timers.values_mut().for_each(|due| due.0 += draw(self.phases));
        net.delay = Box::new(move || draw(DELAY));
        net
    }

    /// Accuracy: a suspected process has crashed before. Completeness: each process that stays
    /// alive to the end suspects every crashed process once, within `latency` of its crash.
    fn check<D: Protocol>(&self, latency: Span) -> Result<(), TestCaseError> {
        let mut net = self.start::<D>();
        for &(time, node) in &self.crashes {
            net.run_until(time);
            net.crash(node);
        }
        net.run_until(net.now + latency);
        for (time, at, notice) in &net.notices {
            let has_crashed = |&(crash, of): &(Time, u32)| {
                crash <= *time
                    && *notice
                        == Notice::Suspected { node: NodeId(of), incarnation: Incarnation(0) }
            };
            prop_assert!(self.crashes.iter().any(has_crashed), "{at} at {time}: {notice:?}");
        }
        for &(crash, of) in &self.crashes {
            for at in net.live() {
                let changes = (
                    NodeId(at),
                    Notice::Suspected { node: NodeId(of), incarnation: Incarnation(0) },
                );
                let told = net
                    .notices
                    .iter()
                    .filter(|(_, at, notice)| (*at, notice) == (changes.0, &changes.1));
                let times: Vec<Time> = told.map(|entry| entry.0).collect();
                let in_time = times.len() == 1 && times[0] <= crash + latency;
                prop_assert!(in_time, "p{of} crashed at {crash}, p{at} heard of it at {times:?}");
            }
        }
        Ok(())
    }

    /// `log2(n)^2` intervals, besides the one in which the crash falls.
    fn diagnosis_latency(&self) -> Span {
        let log = u64::from(dimension(self.nodes));
        INTERVAL.times(log * log + 1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// vcube-2018 section 4: every live process learns of an event within log2(n)^2 rounds; no live
    /// process is suspected.
    #[test]
    fn vcube_is_perfect(run in runs(2u32..=33)) {
        run.check::<VCube>(run.diagnosis_latency())?;
    }

    /// robust-2012 section 3.1: every live process learns of a crash within log2(n)^2 rounds; no
    /// live process is suspected.
    #[test]
    fn hi_adsd_is_perfect(run in runs(2u32..=33)) {
        run.check::<HiAdsd>(run.diagnosis_latency())?;
    }

    /// Heartbeats: every live process notices a crash within two intervals and a timeout, counted
    /// from the arrival of the last heartbeat, which may be one delay after the crash; no live
    /// process is suspected.
    #[test]
    fn heartbeats_are_perfect(run in runs(2u32..=33)) {
        run.check::<Heartbeat>(INTERVAL.times(2) + TIMEOUT + DELAY)?;
    }

    /// vcube-2018 section 4: at most n log2 n tests per round, whichever processes have crashed and
    /// whichever know of it; exactly n log2 n while no process has crashed.
    #[test]
    fn vcube_tests_n_log_n_times_a_round(mut run in runs((1u32..=5).prop_map(|log| 1 << log))) {
        run.phases = Span(1);
        let mut net = run.start::<VCube>();
        let most = (run.nodes * dimension(run.nodes)) as usize;
        let mut crashes = run.crashes.iter().peekable();
        for round in 1..40 {
            net.sent.clear();
            let end = Time(INTERVAL.0 * round - 1);
            while let Some(&(time, node)) = crashes.next_if(|crash| crash.0 <= end) {
                net.run_until(time);
                net.crash(node);
            }
            net.run_until(end);
            let tests = net.sent("test").len();
            prop_assert!(tests <= most, "{tests} tests in round {round}");
            prop_assert!(tests == most || net.live().len() < run.nodes as usize);
        }
    }
}

/// robust-2012 section 5: n = 16, rounds at 0, 1, .., 100, p15 .. p1 crash at 5, 10, .., 75: 5100
/// tests and 2348 answers are published (latency 0.01 and timeout 0.04 there; here, as much shorter
/// as the harness's timeout is).
#[test]
fn hi_adsd_sends_the_published_totals() {
    let mut net: Net<HiAdsd> = Net::new(16, 1, Defects::NONE);
    net.delay = Box::new(|| Span(TIMEOUT.0 / 4));
    for m in 1..=15u32 {
        net.run_until(Time(INTERVAL.0 * 5 * u64::from(m)));
        net.crash(16 - m);
    }
    net.run_until(Time(INTERVAL.0 * 101 - 1));
    assert_eq!((net.sent("test").len(), net.sent("test_reply").len()), (5100, 2348));
}

/// Laws 4 and 5: a malformed message is refused and changes nothing, in the middle of a round too;
/// the same holds for inputs that a detector does not take.
#[test]
fn refusals_change_nothing() {
    fn check<D: Protocol>(net: &Net<D>, honest: &D::Message, malformed: &[D::Message]) {
        for from in [0, 4, u32::MAX].map(NodeId) {
            let stray = Input::Deliver { from, message: honest.clone() };
            assert_eq!(net.refusal(0, stray), Refusal::UnknownNode(from));
        }
        for message in malformed {
            let malformed = Input::Deliver { from: NodeId(1), message: message.clone() };
            let named = "a test reply names a process that does not exist";
            assert_eq!(net.refusal(0, malformed), Refusal::Malformed(named));
        }
        refuses_clients(net);
    }
    let net = in_a_round::<VCube>();
    let reply = |changes: &[(u32, u32)]| {
        let changes = changes.iter().map(|&(node, timestamp)| (NodeId(node), timestamp)).collect();
        VCubeMessage::TestReply { round: 1, known: 1, changes: Some(changes) }
    };
    check(&net, &reply(&[(3, 1)]), &[reply(&[(4, 1)]), reply(&[(3, 1), (u32::MAX, 1)])]);

    let net = in_a_round::<HiAdsd>();
    let reply = |crashed: &[u32]| {
        let crashed = crashed.iter().map(|&node| NodeId(node)).collect();
        HiAdsdMessage::TestReply { number: 1, crashed: Some(crashed) }
    };
    check(&net, &reply(&[3]), &[reply(&[4]), reply(&[3, u32::MAX])]);

    check(&in_a_round::<Heartbeat>(), &Beat, &[]);
    refuses_clients(&in_a_round::<NoDetector>());
}

/// An answer counts once, only from the process that was tested, and only for the pending test.
/// What it says about the tester itself is ignored.
#[test]
fn only_awaited_answers_count() {
    let (one, two, three) = (NodeId(1), NodeId(2), NodeId(3));
    let reply = |round, about| {
        let changes = Some([(NodeId(about), 1)].into());
        VCubeMessage::TestReply { round, known: 1, changes }
    };
    let mut net = in_a_round::<VCube>(); // p0 has asked p1 and p2.
    let before = net.nodes[0].clone();
    for (from, round) in [(one, 0), (one, 2), (three, 1)] {
        net.input(0, Input::Deliver { from, message: reply(round, 3) }).unwrap();
        assert_eq!(net.nodes[0], before, "round {round} from {from}");
    }
    net.input(0, Input::Deliver { from: one, message: reply(1, 0) }).unwrap();
    assert_eq!(net.notices, [], "p0 does not suspect itself");
    net.input(0, Input::Deliver { from: two, message: reply(1, 3) }).unwrap();
    assert_eq!(
        net.notices,
        [(Time::ZERO, NodeId(0), Notice::Suspected { node: three, incarnation: Incarnation(0) })]
    );

    let reply = |number, about| {
        let crashed = Some([NodeId(about)].into());
        HiAdsdMessage::TestReply { number, crashed }
    };
    let mut net = in_a_round::<HiAdsd>(); // p0 has asked p1, and next asks p2.
    let before = net.nodes[0].clone();
    for (from, number) in [(one, 0), (one, 2), (two, 1)] {
        net.input(0, Input::Deliver { from, message: reply(number, 3) }).unwrap();
        assert_eq!(net.nodes[0], before, "test {number} from {from}");
    }
    net.input(0, Input::Deliver { from: one, message: reply(1, 0) }).unwrap();
    assert_eq!(net.notices, [], "p0 does not suspect itself");
    net.input(0, Input::Deliver { from: two, message: reply(2, 3) }).unwrap();
    assert_eq!(
        net.notices,
        [(Time::ZERO, NodeId(0), Notice::Suspected { node: three, incarnation: Incarnation(0) })]
    );
}

/// Four processes that have begun their first round, and wait.
fn in_a_round<D: Protocol>() -> Net<D> {
    let mut net = Net::new(4, 1, Defects::NONE);
    net.delay = Box::new(|| DELAY);
    net.run_until(Time::ZERO);
    net
}

fn refuses_clients<D: Protocol>(net: &Net<D>) {
    let inputs: [InputOf<D>; 7] = [
        Input::Acquire { weight: 1 },
        Input::Withdraw,
        Input::Release { grant: GrantId(1) },
        Input::Resize(2),
        Input::Lease(true),
        Input::Crashed { node: NodeId(1), incarnation: Incarnation(0) },
        Input::Joined { node: NodeId(1), incarnation: Incarnation(1), view: ViewId(1) },
    ];
    for input in inputs {
        let unsupported =
            Refusal::Unsupported { protocol: D::NAME, what: "clients: it is a detector" };
        assert_eq!(net.refusal(0, input), unsupported);
    }
}
