//! The total memory per process.

use kgate_core::Span;
use kgate_protocols::broadcast::Tree;
use kgate_protocols::detect::NoDetector;
use kgate_protocols::permission::Permission;
use kgate_sim::{Bucket, Detector, Latency, run};

use crate::raymond::config;

const NODES: u32 = 1 << 20;

/// Starts a fresh process, so that nothing else has used its memory.
pub(crate) fn measure() {
    println!(
        "memory, n = 2^20, one request down the tree of vcube, all told (peak of the whole process)"
    );
    print!("{}", crate::child(&["memory"]));
}

/// One request, broadcast to a million processes and answered by all.
pub(crate) fn child() {
    let mut config = config(NODES, 1, Latency::Constant(Span::UNIT));
    config.claims.detector = Some(Detector::Sparse);
    config.detection.oracle = Some(Span::UNIT);
    let report =
        run::<Permission<Tree>, NoDetector, Bucket>("vcube", &config, None).expect("a run");
    assert_eq!((report.grants, report.delivered), (1, 3 * u64::from(NODES - 1)));
    match report.peak_memory_bytes {
        Some(bytes) => println!(
            "  {} bytes a process ({} MiB), {:.1} M events/s",
            bytes / u64::from(NODES),
            bytes >> 20,
            report.events_per_second / 1e6
        ),
        None => println!("  this system does not tell"),
    }
}
