//! `raymond`, everybody asks once: 2n(n-1) messages, whatever the order in which they come.

use kgate_core::{Printed, Span};
use kgate_protocols::detect::NoDetector;
use kgate_protocols::permission::Permission;
use kgate_protocols::spread::Direct;
use kgate_sim::{Bucket, Config, Cost, Detection, Heap, Latency, Load, ReceiveCost, SendCost, run};

use crate::{Rates, rival};

const NODES: u32 = 1024;
const PERMITS: u32 = 3;
/// REQUEST and REPLY between each two.
const EXPECTED: u64 = 2 * NODES as u64 * (NODES as u64 - 1);

/// A run in which sending and receiving take no time, as in `dscale`, which has no send queue.
pub(crate) fn config(nodes: u32, requesters: u32, latency: Latency) -> Config {
    Config {
        nodes,
        permits: PERMITS,
        seed: 1,
        printed: Printed::NONE,
        cost: Cost {
            send: Span::ZERO,
            latency,
            receive: Span::ZERO,
            send_cost: SendCost::Queue,
            receive_cost: ReceiveCost::Parallel,
            fifo: false,
        },
        load: Load {
            requesters,
            first_request: Span::ZERO,
            hold: Span(200_000),
            think: Span(100_000_000),
            entries: Some(1),
        },
        detection: Detection { interval: Span::UNIT, timeout: Span::UNIT, oracle: None },
        crashes: Vec::new(),
        random_crashes: 0,
        bears: PERMITS - 1,
        detector: None,
        duration: Span::UNIT.times(100_000),
    }
}

/// One run in this process; prints what it delivered and how long that took.
pub(crate) fn child(engine: &str, latency: &str) {
    let latency: Latency = latency.parse().expect("a latency");
    let config = config(NODES, NODES, latency);
    let report = match engine {
        "bucket" => run::<Permission<Direct>, NoDetector, Bucket>("raymond", &config, None),
        "heap" => run::<Permission<Direct>, NoDetector, Heap>("raymond", &config, None),
        other => panic!("no engine is called {other}"),
    };
    let report = report.expect("a run");
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    println!("{} {}", report.delivered, report.wall_seconds);
}

fn once(engine: &str, latency: &str, rates: &mut Rates) {
    let text = crate::child(&["raymond", engine, latency]);
    let (delivered, seconds) = text.trim().split_once(' ').expect("two numbers");
    let delivered = delivered.parse().expect("a count");
    assert_eq!(delivered, EXPECTED, "everybody asks everybody, and everybody answers");
    rates.add(delivered, seconds.parse().expect("a time"));
}

pub(crate) fn compare(rounds: usize) {
    let rival = rival::build();
    for name in ["constant=1", "uniform=0.5..1.5"] {
        println!("raymond, n = {NODES}, k = {PERMITS}, everybody asks once, latency {name}");
        let (mut bucket, mut heap, mut dscale) = (Rates::new(), Rates::new(), Rates::new());
        for _ in 0..rounds {
            once("bucket", name, &mut bucket);
            once("heap", name, &mut heap);
            if let Some(rival) = &rival {
                let (delivered, seconds) = rival.run(NODES, PERMITS, name);
                assert_eq!(delivered, EXPECTED, "dscale's own count");
                dscale.add(delivered, seconds);
            }
        }
        heap.print("kgate, heap engine", None);
        if rival.is_some() {
            dscale.print("dscale 0.7.2", None);
        }
        let beside = rival.is_some().then(|| ("dscale", dscale.median()));
        bucket.print("kgate, bucket engine", beside.or_else(|| Some(("heap", heap.median()))));
        println!();
    }
}
