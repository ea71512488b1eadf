//! `raymond`, every process requests: 2n(n-1) messages per round of entries, in whatever order they
//! arrive.

use kgate_core::Span;
use kgate_protocols::broadcast::Direct;
use kgate_protocols::detect::NoDetector;
use kgate_protocols::permission::Permission;
use kgate_sim::{Bucket, Config, Cost, Heap, Latency, run};

use crate::Rates;
use crate::rival::{self, Rival};

const NODES: u32 = 1024;
const PERMITS: u32 = 3;

/// A run in which sending and receiving take no time, as in `dscale`, which has no send queue.
pub(crate) fn config(nodes: u32, requesters: u32, latency: Latency) -> Config {
    let mut config = Config::new(nodes, PERMITS);
    config.cost = Cost { send: Span::ZERO, latency, receive: Span::ZERO, ..config.cost };
    config.load.requesters = requesters;
    config.load.entries = Some(1);
    config.claims.tolerates = PERMITS - 1;
    config.duration = Span::UNIT.times(100_000);
    config
}

/// The load of both sides: every process enters `entries` times, and 2n(n-1) messages are delivered
/// for each. With k = 1 a process requests again only after all others have answered, so that no
/// two answers are merged into one.
struct Case {
    title: &'static str,
    k: u32,
    entries: u32,
}

const CASES: [Case; 2] = [
    Case { title: "everybody asks once", k: PERMITS, entries: 1 },
    Case { title: "everybody asks four times, one after the other", k: 1, entries: 4 },
];

/// One run in this process; prints what it delivered and how long that took.
pub(crate) fn child(engine: &str, latency: &str, k: &str, entries: &str) {
    let latency: Latency = latency.parse().expect("a latency");
    let mut config = config(NODES, NODES, latency);
    config.k = k.parse().expect("a number");
    config.tolerate = config.k - 1;
    config.claims.tolerates = config.k - 1;
    config.load.entries = Some(entries.parse().expect("a number"));
    let report = match engine {
        "bucket" => run::<Permission<Direct>, NoDetector, Bucket>("raymond", &config, None),
        "heap" => run::<Permission<Direct>, NoDetector, Heap>("raymond", &config, None),
        other => panic!("no engine is called {other}"),
    };
    let report = report.expect("a run");
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    println!("{} {}", report.delivered, report.wall_seconds);
}

impl Case {
    fn once(&self, engine: &str, latency: &str, rates: &mut Rates) {
        let (k, entries) = (self.k.to_string(), self.entries.to_string());
        let text = crate::child(&["raymond", engine, latency, &k, &entries]);
        let (delivered, seconds) = text.trim().split_once(' ').expect("two numbers");
        self.add(delivered.parse().expect("a count"), seconds.parse().expect("a time"), rates);
    }

    fn add(&self, delivered: u64, seconds: f64, rates: &mut Rates) {
        let expected = 2 * u64::from(NODES) * u64::from(NODES - 1) * u64::from(self.entries);
        assert_eq!(delivered, expected, "everybody asks everybody, and everybody answers");
        rates.add(delivered, seconds);
    }

    fn compare(&self, rival: Option<&Rival>, latency: &str, rounds: usize) {
        println!("raymond, n = {NODES}, k = {}, {}, latency {latency}", self.k, self.title);
        let (mut bucket, mut heap, mut dscale) = (Rates::new(), Rates::new(), Rates::new());
        for _ in 0..rounds {
            self.once("bucket", latency, &mut bucket);
            self.once("heap", latency, &mut heap);
            if let Some(rival) = rival {
                let (delivered, seconds) = rival.run(NODES, self.k, self.entries, latency);
                self.add(delivered, seconds, &mut dscale);
            }
        }
        heap.print("kgate, heap engine", None);
        if rival.is_some() {
            dscale.print("dscale 0.7.2", None);
            bucket.print("kgate, bucket engine", Some(("dscale", &dscale)));
        } else {
            bucket.print("kgate, bucket engine", Some(("heap", &heap)));
        }
        println!();
    }
}

pub(crate) fn compare(rounds: usize) {
    let rival = rival::build();
    for case in &CASES {
        for latency in ["constant=1", "uniform=0.5..1.5"] {
            case.compare(rival.as_ref(), latency, rounds);
        }
    }
}
