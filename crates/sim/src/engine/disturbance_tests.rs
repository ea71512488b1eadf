//! Pauses, partitions, loss and duplicates, with a tiny protocol whose every message can be
//! followed: p0 asks p1, p1 answers, p0 goes in.

use kgate_core::{
    GrantId, Input, InputOf, NodeId, Notice, Observation, Outbox, Protocol, Refusal, Setup, Span,
    Time, TransientFaults,
};
use kgate_spec::EveryoneServed;
use serde::{Deserialize, Serialize};

use super::tests::Accuser;
use super::{Bucket, Heap, run};
use crate::{Chance, Claims, Config, Crash, Detector, Down, Latency, Report, Think};

/// p1 echoes what it hears; p0 asks with each wish and goes in with the first answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Echo {
    me: NodeId,
    pending_requests: u64,
    waits: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Talk {
    Wish(u64),
}

kgate_core::kinds!(Talk { Wish => "wish" });

impl Protocol for Echo {
    const NAME: &'static str = "echo";
    type Message = Talk;
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
                out.send(NodeId(1), Talk::Wish(self.pending_requests));
            }
            Input::Deliver { from, message } if self.me == NodeId(1) => out.send(from, message),
            Input::Deliver { message: Talk::Wish(request), .. } => {
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

/// p0 of three asks at 0 and, if it may, every time unit after coming out; a message takes 1, a
/// stay 2.
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

/// Undisturbed, an answer takes 2.
#[test]
fn quiet() {
    let report = report(&config(3));
    assert_eq!((report.grants, report.obtaining.max, report.violations.len()), (3, Some(2.0), 0));
    assert_eq!(
        (report.pauses, report.partitions, report.lost, report.duplicated, report.delayed),
        (0, 0, 0, 0, 0)
    );
}

/// What arrives at a stopped process is handed over when it goes on: p1, stopped from 0.5 to 5,
/// answers at 5.
#[test]
fn a_stopped_process_answers_later() {
    let report = paused(1, &["1@0.5..5"]);
    assert_eq!((report.pauses, report.obtaining.max), (1, Some(6.0)));
    assert_eq!(paused(1, &["2@0.5..5"]).obtaining.max, Some(2.0), "who is not asked may sleep");
    assert_eq!(
        paused(1, &["1@0.5..3", "1@3..5"]).obtaining.max,
        Some(4.0),
        "between two pauses it goes on"
    );
}

/// The client of a stopped process does nothing either: inside from 2 on, it comes out at 9 instead
/// of 4 and asks again at 10.
#[test]
fn a_stopped_client_stays_inside() {
    let report = paused(2, &["0@3..9"]);
    assert_eq!((report.requests, report.grants, report.violations.len()), (2, 2, 0));
    // 2 .. 9 and 12 .. 14 of 20.
    assert!((report.slots_in_use.mean - 9.0 / 20.0).abs() < 1e-9, "{}", report.slots_in_use.mean);
}

/// A process that crashes while it is stopped crashes; the pause is over, and what waited for it
/// finds it dead.
#[test]
fn a_crash_ends_a_pause() {
    let mut config = config(1);
    config.disturbance.pauses = vec!["1@0.5..5".parse().expect("a pause")];
    config.crashes = vec![Crash { node: NodeId(1), at: Span::UNIT.times(3), back: None }];
    let report = report(&config);
    assert_eq!((report.pauses, report.crashes, report.grants, report.unanswered), (1, 1, 0, 1));
}

/// One that comes back is not paused: down from 3 to 4, p1 is handed the request that was kept for
/// it at 4.
#[test]
fn who_comes_back_is_not_stopped() {
    let mut config = config(1);
    config.claims.recovers = true;
    config.down = Down::Kept;
    config.disturbance.pauses = vec!["1@0.5..9".parse().expect("a pause")];
    config.crashes =
        vec![Crash { node: NodeId(1), at: Span::UNIT.times(3), back: Some(Span::UNIT.times(4)) }];
    assert_eq!(report(&config).obtaining.max, Some(5.0));
}

/// What would arrive across a cut arrives when it heals: the request, the answer, or both, by the
/// way of the cut.
#[test]
fn a_cut_holds_up_what_crosses_it() {
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

/// Everything is healed when the measured time ends: what was held up until then is still answered,
/// and not measured.
#[test]
fn all_heals_in_the_end() {
    for report in [cut("0@0..99"), paused(1, &["1@0.5..99"])] {
        assert_eq!(
            (report.requests, report.grants, report.unanswered, report.violations.len()),
            (1, 0, 0, 0)
        );
    }
}

/// For a protocol that tolerates loss, a cut swallows messages; this one only says that it does,
/// and is caught.
#[test]
fn a_cut_loses_where_loss_is_borne() {
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

/// Doubled messages arrive twice: 2 requests, each answered twice.
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

/// Only what is borne may befall a run, and it must make sense.
#[test]
fn claims_are_checked() {
    type FaultEvent = fn(&mut Config);
    let refused = |change: FaultEvent| {
        let mut config = config(1);
        config.disturbance.pauses = vec!["1@2..5".parse().expect("a pause")];
        change(&mut config);
        run::<Echo, Accuser<false>, Bucket>("echo", &config, None).expect_err("refused").to_string()
    };
    let says: [(FaultEvent, &str); 9] = [
        (|config| config.claims.tolerates_delay = false, "leave out --pause and --partition"),
        (|config| config.claims.detector = Some(Detector::Sparse), "--detector oracle=T"),
        (|config| config.disturbance.loss = Chance(1), "lose nothing"),
        (
            |config| {
                config.claims.tolerates_duplicates = false;
                config.disturbance.duplicates = Chance(1);
            },
            "each message once",
        ),
        (|config| config.disturbance.pauses[0].node = NodeId(3), "p0 .. p2"),
        (|config| config.disturbance.pauses[0].until = Span::UNIT, "T1 before T2"),
        (|config| config.duration = Span::UNIT.times(2), "before the run's end at 2"),
        (
            |config| config.disturbance.pauses.push(config.disturbance.pauses[0]),
            "while it is stopped",
        ),
        (
            |config| {
                config.disturbance.partitions = vec!["0+1+2@0..5".parse().expect("a partition")]
            },
            "leave some on either side",
        ),
    ];
    for (change, text) in says {
        let error = refused(change);
        assert!(error.contains(text), "{text}: {error}");
    }
}
