//! The output for the user.

use std::path::Path;

use anyhow::Result;

use crate::oracle::{Verdict, ms};
use crate::record::{self, Record, What};
use crate::schedule::Plan;

/// Prints the plan before the run.
pub(crate) fn announce(seed: u64, plan: &Plan) {
    let kinds: Vec<&str> = plan.kinds.iter().map(|kind| kind.name()).collect();
    let gates: Vec<String> = plan.gates.iter().map(|(name, k)| format!("{name} k={k}")).collect();
    println!(
        "seed {seed}: {} nodes, {} voters, {}; {} faults of {}",
        plan.nodes,
        plan.voters,
        gates.join(", "),
        plan.faults.len(),
        kinds.join(", ")
    );
}

/// Prints the result of a run.
pub(crate) fn print_verdict(verdict: &Verdict) {
    for (how, count) in &verdict.answers {
        println!("  {count:>6} x {how}");
    }
    let most: Vec<String> =
        verdict.most.iter().map(|(gate, most)| format!("{gate} {most}")).collect();
    println!(
        "  {} requests, {} grants, {} lost, {} old fences refused, maximum held: {}, \
         longest wait after healing {}, longest stall of a processor {} ms: {}",
        verdict.requests,
        verdict.grants,
        verdict.losses,
        verdict.refused,
        most.join(", "),
        ms(verdict.longest_ns),
        verdict.stalled_ms,
        if verdict.violations.is_empty() {
            "ok".into()
        } else {
            format!("{} VIOLATIONS", verdict.violations.len())
        }
    );
}

/// Number of violations that are printed with records.
const SHOWN: usize = 3;
/// The records within this time around a violation are printed, up to `RECORDS`.
const AROUND_NS: u64 = 1_000_000_000;
const RECORDS: usize = 60;

/// Prints the violations, the records around them, and the command that repeats the run.
pub(crate) fn print_violations(run: &Path, verdict: &Verdict, replay: &str) -> Result<()> {
    let records = record::read_all(run)?;
    let start = records.first().map_or(0, |record| record.t);
    for violation in verdict.violations.iter().take(SHOWN) {
        println!(
            "\nVIOLATION at {} of the run: {violation}",
            ms(violation.t.saturating_sub(start))
        );
        // Heartbeats would hide the other records.
        let near: Vec<&Record> = records
            .iter()
            .filter(|record| {
                record.t.abs_diff(violation.t) < AROUND_NS
                    && !matches!(record.what, What::Inside { .. })
            })
            .collect();
        let first =
            near.partition_point(|record| record.t <= violation.t).saturating_sub(RECORDS * 2 / 3);
        for record in near.iter().skip(first).take(RECORDS) {
            let what = serde_json::to_string(&record.what)?;
            println!("  {:>12}  {:<16} {what}", ms(record.t - start), record.who);
        }
    }
    for violation in verdict.violations.iter().skip(SHOWN).take(10) {
        println!("also at {}: {violation}", ms(violation.t.saturating_sub(start)));
    }
    println!("\nREPRODUCE WITH: {replay}");
    Ok(())
}
