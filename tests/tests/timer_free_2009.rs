//! timer-free-2009, section 5: ten clusters of ten processes, k = 10, alpha = 2 s. Facts:
//! `experiments/timer-free-2009.toml`.

use kgate_core::{NodeId, Span};
use kgate_sim::{Crash, Load, Report, Think};
use kgate_tests::{Case, claims_of, t};

/// The paper's setting, with its ratio of pause to stay. A time unit is a second.
fn setting(protocol: &str, rho: u64) -> Case {
    let mut case = Case::vcube_2018(protocol, 100);
    let config = &mut case.config;
    config.k = 10;
    config.tolerate = 9;
    config.claims = claims_of(case.entry, 100, 10);
    config.cost.send = Span::ZERO;
    config.cost.receive = Span::ZERO;
    config.cost.latency =
        "grid=10x10,intra=0.010..0.030,inter=0.180..0.220".parse().expect("a latency");
    let mean = t("2").times(rho);
    config.load = Load {
        requesters: 100,
        hold: t("2"),
        think: Think::Gaussian { mean, deviation: Span(mean.0 / 4) },
        ..config.load
    };
    config.duration = t("600");
    case
}

fn run(case: &Case) -> Report {
    let report = case.run();
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert_eq!(report.false_suspicions, 0);
    report
}

/// Figures 1 to 3: the bandwidth is flat up to about rho = 9 and falls then; the queue is about
/// empty beyond; obtaining takes one round trip between clusters in the end; and both algorithms
/// take the same time.
#[test]
fn without_faults() {
    let sweep = |protocol: &str| [1, 5, 9, 18, 36].map(|rho| run(&setting(protocol, rho)));
    let (ours, raymond) = (sweep("timer-free"), sweep("raymond"));
    for reports in [&ours, &raymond] {
        let bandwidth = reports.each_ref().map(|report| report.cs_bandwidth);
        assert!((bandwidth[0] - bandwidth[1]).abs() < 0.03 * bandwidth[0], "{bandwidth:?}");
        assert!(
            bandwidth[2] > 0.9 * bandwidth[0] && bandwidth[3] < 0.65 * bandwidth[0],
            "{bandwidth:?}"
        );
        assert!(bandwidth[4] < 0.6 * bandwidth[3], "{bandwidth:?}");
        let obtaining = reports.each_ref().map(|report| report.obtaining.p50.expect("grants"));
        assert!(obtaining.is_sorted_by(|a, b| a >= b), "{obtaining:?}");
        assert!(
            (0.36..0.44).contains(&obtaining[3]) && (0.36..0.44).contains(&obtaining[4]),
            "{obtaining:?}"
        );
        let queue = reports.each_ref().map(|report| report.waiting_queue.mean);
        assert!(queue[0] > 60.0 && queue[3] < 3.0, "{queue:?}");
    }
    for (ours, raymond) in ours.iter().zip(&raymond) {
        let apart = |a: f64, b: f64| (a - b).abs() / b;
        assert!(apart(ours.cs_bandwidth, raymond.cs_bandwidth) < 0.03);
        let (ours, raymond) = (ours.obtaining.mean.unwrap(), raymond.obtaining.mean.unwrap());
        assert!(apart(ours, raymond) < 0.05, "{ours} {raymond}");
    }
}

/// Nine crashes from 60 s on, 6 s apart: Raymond's units in use fall by one each, to 1; Algorithm 1
/// has nine again at 200 s.
#[test]
fn with_nine_crashes() {
    let crashed = |protocol: &str| {
        let mut case = setting(protocol, 5);
        let crash = |i: u32| Crash {
            node: NodeId(10 * i + 5),
            at: t("60") + t("6").times(u64::from(i)),
            back: None,
        };
        case.config.crashes = (0..9).map(crash).collect();
        case.config.duration = t("300");
        run(&case)
    };
    let at = |report: &Report, second: usize| report.slots_in_use.series[second / 3];
    let (ours, raymond) = (crashed("timer-free"), crashed("raymond"));
    assert!(at(&raymond, 57) > 8.5 && at(&ours, 57) > 8.5);
    assert!(at(&raymond, 200) < 1.05 && at(&raymond, 290) < 1.05, "{:?}", raymond.slots_in_use);
    assert!(at(&ours, 200) >= 8.5 && at(&ours, 290) >= 8.5, "{:?}", ours.slots_in_use);
    assert!(ours.detection.max.is_some() && ours.undetected == 0, "{:?}", ours.detection);
}

/// The paper's placeholders X and Y: messages an entry. Raymond's are 2(n-1) within 1 %; ours add
/// the refusals that are taken back.
#[test]
fn messages_an_entry() {
    let per_entry = |protocol: &str, rho: u64| {
        let mut case = setting(protocol, rho);
        case.config.load.entries = Some(10);
        case.config.duration = t("4000");
        let report = run(&case);
        assert_eq!(report.grants, 1000);
        report.messages_per_grant.expect("grants")
    };
    for rho in [1, 5, 18] {
        let (raymond, ours) = (per_entry("raymond", rho), per_entry("timer-free", rho));
        println!(
            "rho {rho}: X = {raymond:.1}, Y = {ours:.1}, Z = {:.1} %",
            100.0 * (ours / raymond - 1.0)
        );
        assert!((raymond - 198.0).abs() < 1.98, "{raymond}");
        assert!((198.0..297.0).contains(&ours), "{ours}");
    }
}
