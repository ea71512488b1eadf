//! `raymond`, everybody asks once: 2n(n-1) messages, whatever the order in which they come.

use kgate_core::{Printed, Span};
use kgate_protocols::detect::NoDetector;
use kgate_protocols::permission::Permission;
use kgate_protocols::spread::Direct;
use kgate_sim::{Bucket, Config, Cost, Detection, Engine, Heap, Latency, Load, ReceiveCost, SendCost, run};

use crate::{Rates, rival};

const NODES: u32 = 1024;
const PERMITS: u32 = 3;

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
        duration: Span::UNIT.times(100_000),
    }
}

fn once<Q: Engine>(config: &Config, rates: &mut Rates) {
    let report = run::<Permission<Direct>, NoDetector, Q>("raymond", config, None).expect("a run");
    let expected = 2 * u64::from(NODES) * u64::from(NODES - 1);
    assert_eq!(report.delivered, expected, "everybody asks everybody, and everybody answers");
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    rates.add(report.delivered, report.wall_seconds);
}

pub(crate) fn compare(rounds: usize) {
    let rival = rival::build();
    let latencies = [
        ("constant=1", Latency::Constant(Span::UNIT)),
        ("uniform=0.5..1.5", Latency::Uniform(Span(500_000_000), Span(1_500_000_000))),
    ];
    for (name, latency) in latencies {
        println!("raymond, n = {NODES}, k = {PERMITS}, everybody asks once, latency {name}");
        let config = config(NODES, NODES, latency);
        let (mut bucket, mut heap, mut dscale) = (Rates::new(), Rates::new(), Rates::new());
        for _ in 0..rounds {
            once::<Bucket>(&config, &mut bucket);
            once::<Heap>(&config, &mut heap);
            if let Some(rival) = &rival {
                let (delivered, seconds) = rival.run(NODES, PERMITS, name);
                assert_eq!(delivered, 2 * u64::from(NODES) * u64::from(NODES - 1), "dscale's own count");
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
