//! Pauses, partitions, loss and duplicates, with a tiny protocol whose every message can be
//! followed: p0 asks p1, p1 answers, p0 enters.

use kgate_core::{
    GrantId, Input, InputOf, NodeId, Notice, Observation, Outbox, Protocol, Refusal, Setup, Span,
    Time, TransientFaults,
};
use kgate_spec::EveryoneServed;
use serde::{Deserialize, Serialize};

use super::tests::Accuser;
use super::{Bucket, Heap, RunError, run};
use crate::{Chance, Claims, Config, ConfigError, Crash, Detector, Down, Latency, Report, Think};

/// p1 echoes every message; p0 sends a message per request and enters with the first answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Echo {
    me: NodeId,
    pending_requests: u64,
    waits: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum EchoMessage {
    Request(u64),
}

kgate_core::kinds!(EchoMessage { Request => "request" });

impl Protocol for Echo {
    const NAME: &'static str = "echo";
    type Message = EchoMessage;
    type Timer = u8;
    type Durable = u64;

    fn start(setup: &Setup, restored: Option<u64>, _out: &mut Outbox<Self>) -> Self {
        Self { me: setup.me, pending_requests: restored.unwrap_or(0), waits: false }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        match input {
            Input::Acquire { .. } => {
                self.pending_requests += 1;
                self.waits = true;
                out.send(NodeId(1), EchoMessage::Request(self.pending_requests));
            }
            Input::Deliver { from, message } if self.me == NodeId(1) => out.send(from, message),
            Input::Deliver { message: EchoMessage::Request(request), .. } => {
                if self.waits && request == self.pending_requests {
                    self.waits = false;
                    out.notify(Notice::Granted {
                        grant: GrantId(request),
                        slots: None,
                        fence: None,
                    });
                }
            }
            Input::Release { .. } => {}
            Input::Withdraw
            | Input::Resize(_)
            | Input::Reserved(_)
            | Input::Applied(_)
            | Input::Lapse { .. }
            | Input::Adopt(_)
            | Input::Confirm { .. }
            | Input::Lease(_)
            | Input::Expire(_)
            | Input::Crashed { .. }
            | Input::Joined { .. } => unreachable!("nobody does that here"),
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        Observation::default()
    }
}

impl TransientFaults for Echo {}

/// p0 of three asks at 0 and, if it may, one time unit after each release; a message takes 1, a
/// grant is held for 2.
fn config(entries: u32) -> Config {
    let mut config = Config::new(3, 1);
    config.cost.send = Span::ZERO;
    config.cost.receive = Span::ZERO;
    config.cost.latency = Latency::Constant(Span::UNIT);
    config.load.hold = Span::UNIT.times(2);
    config.load.think = Think::Constant(Span::UNIT);
    config.load.entries = Some(entries);
    config.claims =
        Claims { tolerates_delay: true, tolerates_duplicates: true, ..Claims::default() };
    config.duration = Span::UNIT.times(20);
    config
}

fn report(config: &Config) -> Report {
    let report = run::<Echo, Accuser<false>, Bucket>("echo", config, None).expect("a run");
    assert_eq!(
        report.hash,
        run::<Echo, Accuser<false>, Heap>("echo", config, None).expect("a run").hash
    );
    report
}

fn paused(entries: u32, pauses: &[&str]) -> Report {
    let mut config = config(entries);
    config.disturbance.pauses = pauses.iter().map(|text| text.parse().expect("a pause")).collect();
    report(&config)
}

fn cut(text: &str) -> Report {
    let mut config = config(1);
    config.disturbance.partitions = vec![text.parse().expect("a partition")];
    report(&config)
}

/// Without disturbances, an answer takes 2.
#[test]
fn undisturbed() {
    let report = report(&config(3));
    assert_eq!((report.grants, report.obtaining.max, report.violations.len()), (3, Some(2.0), 0));
    assert_eq!(
        (report.pauses, report.partitions, report.lost, report.duplicated, report.delayed),
        (0, 0, 0, 0, 0)
    );
}

/// A message to a paused process is delivered when it resumes: p1, paused from 0.5 to 5, answers at
/// 5.
#[test]
fn a_paused_process_answers_later() {
    let report = paused(1, &["1@0.5..5"]);
    assert_eq!((report.pauses, report.obtaining.max), (1, Some(6.0)));
    assert_eq!(
        paused(1, &["2@0.5..5"]).obtaining.max,
        Some(2.0),
        "a process that is not asked may pause"
    );
    assert_eq!(
        paused(1, &["1@0.5..3", "1@3..5"]).obtaining.max,
        Some(4.0),
        "it resumes between two pauses"
    );
}

/// The client of a paused process does nothing either: inside from 2 on, it releases at 9 instead
/// of 4 and asks again at 10.
#[test]
fn a_paused_client_stays_inside() {
    let report = paused(2, &["0@3..9"]);
    assert_eq!((report.requests, report.grants, report.violations.len()), (2, 2, 0));
    // 2 .. 9 and 12 .. 14 of 20.
    assert!((report.slots_in_use.mean - 9.0 / 20.0).abs() < 1e-9, "{}", report.slots_in_use.mean);
}

/// A process that crashes while paused crashes: the pause is over, and the deferred messages find
/// it crashed.
#[test]
fn a_crash_ends_a_pause() {
    let mut config = config(1);
    config.disturbance.pauses = vec!["1@0.5..5".parse().expect("a pause")];
    config.crashes = vec![Crash { node: NodeId(1), at: Span::UNIT.times(3), back: None }];
    let report = report(&config);
    assert_eq!((report.pauses, report.crashes, report.grants, report.unanswered), (1, 1, 0, 1));
}

/// A process that restarts is not paused: down from 3 to 4, p1 receives the kept request at 4.
#[test]
fn a_restarted_process_is_not_paused() {
    let mut config = config(1);
    config.claims.recovers = true;
    config.down = Down::Kept;
    config.disturbance.pauses = vec!["1@0.5..9".parse().expect("a pause")];
    config.crashes =
        vec![Crash { node: NodeId(1), at: Span::UNIT.times(3), back: Some(Span::UNIT.times(4)) }];
    assert_eq!(report(&config).obtaining.max, Some(5.0));
}

/// A message across a cut arrives when it heals: the request, the answer, or both, depending on the
/// direction.
#[test]
fn a_partition_delays_the_messages_across_it() {
    for (text, obtained, delayed) in [
        ("0@0..5", 6.0, 1),   // The request waits until 5.
        ("1@0..5", 6.0, 1),   // The same from the other side.
        ("0>@0..5", 6.0, 1),  // What p0 sends.
        (">1@0..5", 6.0, 1),  // What is sent to p1.
        (">0@0..5", 5.0, 1),  // The answer alone waits.
        ("0+1@0..5", 2.0, 0), // Both are on the same side.
        ("2@0..5", 2.0, 0),   // It is not asked.
        ("0@1.5..5", 5.0, 1), // The cut begins between request and answer.
        ("0@3..5", 2.0, 0),   // Too late.
        ("0@0..1", 2.0, 0),   // It has healed when the request arrives.
    ] {
        let report = cut(text);
        assert_eq!((report.obtaining.max, report.delayed), (Some(obtained), delayed), "{text}");
        assert_eq!((report.partitions, report.violations.len()), (1, 0));
    }
}

/// Every disturbance ends with the measured time: a delayed request is then still granted, but not
/// measured.
#[test]
fn disturbances_end_with_the_measured_time() {
    for report in [cut("0@0..99"), paused(1, &["1@0.5..99"])] {
        assert_eq!(
            (report.requests, report.grants, report.unanswered, report.violations.len()),
            (1, 0, 0, 0)
        );
    }
}

/// For a protocol that tolerates loss, a cut drops messages. This protocol only claims to tolerate
/// it, and is caught.
#[test]
fn a_cut_drops_messages_where_loss_is_tolerated() {
    let mut config = config(1);
    config.claims.tolerates_loss = true;
    config.disturbance.partitions = vec!["0@0..5".parse().expect("a partition")];
    let lost = report(&config);
    let starved =
        |report: &Report| report.violations.iter().any(|v| v.property == EveryoneServed::NAME);
    assert!((lost.lost, lost.delayed) == (1, 0) && starved(&lost), "{lost:?}");
    config.disturbance.partitions.clear();
    config.disturbance.loss = Chance(1_000_000);
    let lost = report(&config);
    assert!((lost.lost, lost.grants) == (1, 0) && starved(&lost), "{lost:?}");
}

/// Duplicated messages arrive twice: 2 requests, each answered twice.
#[test]
fn duplicates_arrive_twice() {
    let mut config = config(1);
    config.disturbance.duplicates = Chance(1_000_000);
    let report = report(&config);
    assert_eq!(
        (report.delivered, report.duplicated, report.grants, report.violations.len()),
        (6, 3, 1, 0)
    );
}

/// Only tolerated disturbances that make sense are accepted.
#[test]
fn intolerable_disturbances_are_refused() {
    type Change = fn(&mut Config);
    let refused = |change: Change| {
        let mut config = config(1);
        config.disturbance.pauses = vec!["1@2..5".parse().expect("a pause")];
        change(&mut config);
        match run::<Echo, Accuser<false>, Bucket>("echo", &config, None) {
            Err(RunError::Config(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let invalid = |node, from, until, duration| ConfigError::InvalidDisturbance {
        node: NodeId(node),
        from: Span::UNIT.times(from),
        until: Span::UNIT.times(until),
        nodes: 3,
        duration: Span::UNIT.times(duration),
    };
    let cases: [(Change, ConfigError); 9] = [
        (|config| config.claims.tolerates_delay = false, ConfigError::DelayUnsupported),
        (
            |config| config.claims.detector = Some(Detector::Sparse),
            ConfigError::DetectorWouldSuspect,
        ),
        (|config| config.disturbance.loss = Chance(1), ConfigError::LossUnsupported),
        (
            |config| {
                config.claims.tolerates_duplicates = false;
                config.disturbance.duplicates = Chance(1);
            },
            ConfigError::DuplicatesUnsupported,
        ),
        (|config| config.disturbance.pauses[0].node = NodeId(3), invalid(3, 2, 5, 20)),
        (|config| config.disturbance.pauses[0].until = Span::UNIT, invalid(1, 2, 1, 20)),
        (|config| config.duration = Span::UNIT.times(2), invalid(1, 2, 5, 2)),
        (
            |config| config.disturbance.pauses.push(config.disturbance.pauses[0]),
            ConfigError::OverlappingPauses { node: NodeId(1) },
        ),
        (
            |config| {
                config.disturbance.partitions = vec!["0+1+2@0..5".parse().expect("a partition")]
            },
            ConfigError::EmptyPartitionSide { nodes: 3 },
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(refused(change), expected);
    }
}
