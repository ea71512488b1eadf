//! Each checker of a run has a planted bug that it must catch: tiny protocols with one defect each.

use kgate_core::{
    GrantId, Incarnation, Input, InputOf, Never, NodeId, Notice, Observation, Outbox, Protocol,
    Refusal, Setup, Span, Time, TransientFaults,
};

use super::{Bucket, Heap, RunError, run};
use crate::{
    Claims, Config, ConfigError, Crash, Detection, Detector, Latency, Load, Report, Think,
};

/// The behaviour of a [`Planted`] protocol when its client asks.
const GRANT: u8 = 0;
const NEVER_GRANT: u8 = 1;
const CHATTER: u8 = 2;
const REFUSE: u8 = 3;

/// A protocol that grants every request at once, or has the bug of its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Planted<const BUG: u8>;

impl<const BUG: u8> Protocol for Planted<BUG> {
    const NAME: &'static str = "planted";
    type Message = Never;
    type Timer = u8;
    type Durable = Never;

    fn start(_setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        Self
    }

    fn handle(
        &mut self,
        now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if matches!(input, Input::Release { .. } | Input::Crashed { .. }) {
            return Ok(());
        }
        match BUG {
            GRANT => {
                out.notify(Notice::Granted { grant: GrantId(now.0), slots: None, fence: None })
            }
            CHATTER => out.arm(0, Span::UNIT),
            REFUSE => return Err(Refusal::Busy),
            _ => {}
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        Observation::default()
    }
}

impl<const BUG: u8> TransientFaults for Planted<BUG> {}

/// A detector that suspects p0 after a while, or no process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Accuser<const WRONGLY: bool> {
    me: NodeId,
}

impl<const WRONGLY: bool> Protocol for Accuser<WRONGLY> {
    const NAME: &'static str = "accuser";
    type Message = Never;
    type Timer = u8;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, out: &mut Outbox<Self>) -> Self {
        out.arm(0, Span::UNIT);
        Self { me: setup.me }
    }

    fn handle(
        &mut self,
        _now: Time,
        _input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if WRONGLY && self.me == NodeId(1) {
            out.notify(Notice::Suspected { node: NodeId(0), incarnation: Incarnation::default() });
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        Observation::default()
    }
}

impl<const WRONGLY: bool> TransientFaults for Accuser<WRONGLY> {}

/// Clients of three of four processes ask once and hold for long.
fn report<M: TransientFaults, D: Protocol>(k: u32) -> Report {
    report_of::<M, D>(config(k))
}

fn config(k: u32) -> Config {
    let mut config = Config::new(4, k);
    config.cost.send = Span::ZERO;
    config.cost.receive = Span::ZERO;
    config.cost.latency = Latency::Constant(Span(1));
    config.load = Load {
        requesters: 3,
        hold: Span::UNIT.times(5),
        think: Think::Constant(Span::UNIT),
        entries: Some(1),
        ..config.load
    };
    config.detection = Detection { interval: Span::UNIT, timeout: Span::UNIT, oracle: None };
    config.claims = Claims { tolerates: 3, detector: Some(Detector::Sparse), ..Claims::default() };
    config.duration = Span::UNIT.times(10);
    config
}

fn report_of<M: TransientFaults, D: Protocol>(config: Config) -> Report {
    let report = run::<M, D, Bucket>("planted", &config, None).expect("a run");
    assert_eq!(report.hash, run::<M, D, Heap>("planted", &config, None).expect("a run").hash);
    report
}

fn properties(report: &Report) -> Vec<&str> {
    report.violations.iter().map(|violation| violation.property).collect()
}

/// Granting every request is right for k = 3 and one too many for k = 2.
#[test]
fn a_grant_beyond_k_is_caught() {
    assert_eq!(properties(&report::<Planted<GRANT>, Accuser<false>>(3)), [""; 0]);
    assert_eq!(
        properties(&report::<Planted<GRANT>, Accuser<false>>(2)),
        ["at most k slots in use"]
    );
}

/// A violation during the warm-up counts; only the metrics begin later.
#[test]
fn the_warm_up_is_checked() {
    let warm =
        |k| report_of::<Planted<GRANT>, Accuser<false>>(Config { warmup: Span::UNIT, ..config(k) });
    assert_eq!(properties(&warm(3)), [""; 0]);
    assert_eq!(properties(&warm(2)), ["at most k slots in use"]);
    assert_eq!((warm(3).grants, warm(3).max_in_use), (0, 3));
    assert_eq!(warm(3).hash, report::<Planted<GRANT>, Accuser<false>>(3).hash);
}

/// A run whose warm-up takes all its time is refused.
#[test]
fn a_warm_up_of_the_whole_run_is_refused() {
    let config = Config { warmup: Span::UNIT.times(10), ..config(3) };
    let refused = run::<Planted<GRANT>, Accuser<false>, Bucket>("planted", &config, None);
    assert!(matches!(refused, Err(RunError::Config(ConfigError::WarmupTooLong { .. }))));
}

/// Only the processes named in `only` ask.
#[test]
fn only_named_processes_ask() {
    let config = Config { only: vec![NodeId(2)], ..config(1) };
    assert_eq!(report_of::<Planted<GRANT>, Accuser<false>>(config).requests, 1);
}

/// No request is ever granted and nothing is in flight: a deadlock.
#[test]
fn a_deadlock_is_caught() {
    let report = report::<Planted<NEVER_GRANT>, Accuser<false>>(1);
    assert_eq!(properties(&report), ["no deadlock", "every request of a live process is granted"]);
    assert_eq!((report.unanswered, report.violations[1].nodes.len()), (3, 3));
}

/// No request is ever granted although events continue: a livelock, reported under its own name.
#[test]
fn a_livelock_is_caught() {
    assert_eq!(
        properties(&report::<Planted<CHATTER>, Accuser<false>>(1)),
        ["a grant within the time limit"]
    );
}

/// A detector that suspects a live process is caught.
#[test]
fn a_wrong_suspicion_is_caught() {
    assert_eq!(
        properties(&report::<Planted<GRANT>, Accuser<true>>(3)),
        ["no live process is suspected"]
    );
}

/// A crash that the detector never finds is reported when the bound is over, here 5 rounds of 4
/// time units, and not before.
#[test]
fn an_undetected_crash_is_caught() {
    let crashed = |duration| {
        let mut config = config(3);
        config.crashes = vec![Crash { node: NodeId(3), at: Span::UNIT, back: None }];
        config.duration = Span::UNIT.times(duration);
        report_of::<Planted<GRANT>, Accuser<false>>(config)
    };
    assert_eq!(properties(&crashed(21)), [""; 0]);
    assert_eq!(properties(&crashed(22)), ["every crash is known within the bound"]);
}

/// A protocol that refuses a valid input is caught.
#[test]
fn a_refusal_is_caught() {
    assert_eq!(properties(&report::<Planted<REFUSE>, Accuser<false>>(3))[0], "no input is refused");
}
