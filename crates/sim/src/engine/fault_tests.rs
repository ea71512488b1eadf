//! Crashes with recovery and transient faults, with tiny protocols that tolerate them or have a
//! planted bug.

use std::sync::Arc;

use kgate_core::{
    Fence, GrantId, Graph, Input, InputOf, Never, NodeId, Notice, Observation, Outbox, Phase,
    Protocol, Refusal, Setup, Span, Time, TransientFaults,
};

use super::tests::Accuser;
use super::{Bucket, RunError, run};
use crate::{Claims, Config, ConfigError, Crash, Down, Latency, Report, Think, Transient};

/// Grants every request after a time unit and stores it; with the planted bug, forgets it in a
/// crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slow<const FORGETS: bool> {
    phase: Phase,
    grants: u64,
    struck: u8,
}

impl<const FORGETS: bool> Protocol for Slow<FORGETS> {
    const NAME: &'static str = "slow";
    type Message = Never;
    type Timer = u8;
    type Durable = (bool, u64);

    fn start(_setup: &Setup, restored: Option<(bool, u64)>, out: &mut Outbox<Self>) -> Self {
        let (request, grants) = restored.unwrap_or_default();
        if request && !FORGETS {
            out.arm(0, Span::UNIT);
        }
        let phase = if request && !FORGETS { Phase::Waiting } else { Phase::Idle };
        Self { phase, grants, struck: 0 }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        match input {
            Input::Acquire { .. } => {
                self.phase = Phase::Waiting;
                out.persist((true, self.grants));
                out.arm(0, Span::UNIT);
            }
            Input::Expire(_) => {
                self.phase = Phase::Holding;
                self.grants += 1;
                out.persist((false, self.grants));
                let fence = Some(Fence(self.grants.into()));
                out.notify(Notice::Granted {
                    grant: GrantId(self.grants),
                    slots: Some([0].into()),
                    fence,
                });
            }
            Input::Release { .. } => self.phase = Phase::Idle,
            Input::Withdraw
            | Input::Resize(_)
            | Input::Reserved(_)
            | Input::Applied(_)
            | Input::Lapse { .. }
            | Input::Adopt(_)
            | Input::Confirm { .. }
            | Input::Lease(_)
            | Input::Deliver { .. }
            | Input::Crashed { .. }
            | Input::Joined { .. } => unreachable!("nobody does that here"),
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        Observation { phase: self.phase, ..Observation::default() }
    }
}

impl<const FORGETS: bool> TransientFaults for Slow<FORGETS> {
    fn scramble(&mut self, below: &mut dyn FnMut(u64) -> u64) -> bool {
        self.struck = 1 + u8::try_from(below(2)).expect("small");
        true
    }

    /// With the planted bug, never.
    fn settled(processes: &[Self]) -> bool {
        !FORGETS && processes.iter().all(|process| process.struck < 9)
    }
}

/// p0 of two asks at once, holds for 5 and asks again after 1.
fn config() -> Config {
    let mut config = Config::new(2, 1);
    config.cost.latency = Latency::Constant(Span::UNIT);
    config.load.hold = Span::UNIT.times(5);
    config.load.think = Think::Constant(Span::UNIT);
    config.claims = Claims { recovers: true, heals: true, ..Claims::default() };
    config.duration = Span::UNIT.times(20);
    config
}

fn crash(at: u64, back: u64) -> Config {
    let mut config = config();
    let (at, back) = (Span(Span::UNIT.0 / 2).times(at), Some(Span(Span::UNIT.0 / 2).times(back)));
    config.crashes = vec![Crash { node: NodeId(0), at, back }];
    config
}

fn report<M: TransientFaults>(config: &Config) -> Report {
    run::<M, Accuser<false>, Bucket>("slow", config, None).expect("a run")
}

fn properties(report: &Report) -> Vec<&str> {
    report.violations.iter().map(|violation| violation.property).collect()
}

/// Without faults: granted at 1, 8 and 15, held for 5 each time, of 20.
#[test]
fn a_run_without_faults() {
    let report = report::<Slow<false>>(&config());
    assert_eq!((report.grants, report.recoveries, properties(&report)), (3, 0, vec![]));
    assert!((report.slots_in_use.mean - 0.75).abs() < 1e-9, "{:?}", report.slots_in_use.mean);
    assert!((report.waiting_queue.mean - 0.15).abs() < 1e-9, "{:?}", report.waiting_queue.mean);
}

/// Down from 0.5 to 3 while waiting: the stored request is granted one time unit after the restart.
#[test]
fn a_waiting_client_waits_on() {
    let report = report::<Slow<false>>(&crash(1, 6));
    assert_eq!((report.recoveries, properties(&report)), (1, vec![]));
    assert_eq!(report.obtaining.max, Some(4.0));
}

/// Down from 2 to 3 while inside: the client and its grant are gone, and it asks again a pause
/// after the restart. It is inside 1 .. 2, 5 .. 10, 12 .. 17 and from 19 on.
#[test]
fn a_client_inside_is_gone() {
    let report = report::<Slow<false>>(&crash(4, 6));
    assert_eq!((report.requests, report.grants, properties(&report)), (4, 4, vec![]));
    assert!(
        (report.slots_in_use.mean - 12.0 / 20.0).abs() < 1e-9,
        "{:?}",
        report.slots_in_use.mean
    );
}

/// Down from 6.5 to 10 while thinking: it asks a pause after the restart, at 11, and again at 18.
#[test]
fn a_thinking_client_asks_later() {
    let report = report::<Slow<false>>(&crash(13, 20));
    assert_eq!((report.requests, properties(&report)), (3, vec![]));
}

/// Down at the very end: the process is back for the final checks, and its messages and grants then
/// count.
#[test]
fn a_crash_at_the_very_end() {
    let report = report::<Slow<false>>(&crash(40, 60));
    assert_eq!((report.recoveries, properties(&report)), (1, vec![]));
}

/// The planted bug: a request that is lost with the process is never granted.
#[test]
fn a_forgotten_request_is_caught() {
    let report = report::<Slow<true>>(&crash(1, 6));
    assert_eq!(properties(&report), ["no deadlock", "every request of a live process is granted"]);
}

/// A transient fault suspends the safety checks until the protocol has recovered; one that never
/// recovers is caught.
#[test]
fn a_run_that_never_recovers_is_caught() {
    let mut config = config();
    config.graph = Some(Arc::new(Graph::new(2, &[(NodeId(0), NodeId(1))], NodeId(0)).unwrap()));
    config.transient =
        Transient { start: false, strikes: vec![(NodeId(0), Span::UNIT.times(3))], forged: 0 };
    let healed = report::<Slow<false>>(&config);
    assert_eq!(properties(&healed), [""; 0]);
    assert!(
        healed.stabilized_at.is_some_and(|at| at > 3.0 && at < 20.0),
        "{:?}",
        healed.stabilized_at
    );
    let sick = report::<Slow<true>>(&config);
    assert_eq!(
        (properties(&sick), sick.stabilized_at),
        (vec!["the run recovers from transient faults"], None)
    );
}

/// The planted bug of closure: the protocol claims to have recovered and then grants beyond k.
#[test]
fn a_recovery_that_does_not_last_is_caught() {
    let mut config = config();
    config.graph = Some(Arc::new(Graph::new(2, &[(NodeId(0), NodeId(1))], NodeId(0)).unwrap()));
    config.transient =
        Transient { start: false, strikes: vec![(NodeId(0), Span::UNIT)], forged: 0 };
    config.load.requesters = 2;
    config.load.hold = Span::UNIT.times(2);
    let report = report::<Slow<false>>(&config);
    assert!(report.stabilized_at.is_some());
    assert!(
        properties(&report).contains(&kgate_spec::Convergence::CLOSURE),
        "{:?}",
        properties(&report)
    );
}

/// A fault that the protocol does not claim to tolerate is refused.
#[test]
fn unsupported_faults_are_refused() {
    let refused =
        |config: &Config| match run::<Slow<false>, Accuser<false>, Bucket>("slow", config, None) {
            Err(RunError::Config(error)) => error,
            other => panic!("{other:?}"),
        };
    let mut crashes = crash(1, 6);
    crashes.down = Down::Kept;
    crashes.claims.recovers = false;
    assert_eq!(refused(&crashes), ConfigError::RestartUnsupported);
    let mut struck = config();
    struck.transient.start = true;
    struck.claims.heals = false;
    assert_eq!(refused(&struck), ConfigError::TransientFaultsUnsupported);
    let mut inside = config();
    inside.load.ask_inside = true;
    assert_eq!(refused(&inside), ConfigError::AskInsideUnsupported);
    let mut tolerate = config();
    tolerate.tolerate = 1;
    assert_eq!(refused(&tolerate), ConfigError::TolerateTooLarge { tolerate: 1, k: 1 });
    assert!(matches!(refused(&crash(6, 1)), ConfigError::RestartBeforeCrash { .. }));
    let mut twice = crash(1, 6);
    twice.crashes.push(Crash { node: NodeId(0), at: Span::UNIT, back: None });
    assert_eq!(refused(&twice), ConfigError::OverlappingCrashes { node: NodeId(0) });
}
