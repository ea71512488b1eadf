//! The checkers of a run. They read the records of clients, probes and the driver, all by one
//! clock, and ask no node.
//!
//! - *Belief*: a client believes to hold a permit from `granted` until the first of `out`, `lost`,
//!   its own deadline, its death. At no instant are there more than k believers of a gate, nor two
//!   of a slot, and the fences of a slot grow. `kgate_spec::history` checks this, as in all other
//!   runs.
//! - *Deadline*: the child of `kgate run` holds as long as it runs, whatever it believes: no
//!   heartbeat of it is later than its deadline.
//! - *Lock*: the kernel's lock of a slot was free for each new holder.
//! - *Resource*: the guarded resource refuses no client that may still believe.
//! - *Minority*: a node without a quorum grants nothing after its lease.
//! - *Codes*: `kgate run` reports a command that it ended itself as a loss, not with the command's
//!   own exit status.
//! - *Answers*: every request ends within a bound after the last fault, and then every node grants
//!   a permit.
//!
//! The only exception is a tree of processes that was frozen as a whole: no process of it can end
//! another. What it does after it thaws is only the resource's concern (fences).

mod answers;
mod holds;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};
use kgate_spec::history;

use crate::record::{Record, What};
use holds::{Hold, Holds};

/// The parameters of a run that the checkers need.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// Number of nodes.
    pub(crate) nodes: u32,
    /// The gates and their k.
    pub(crate) gates: BTreeMap<String, u32>,
    /// How long a node may grant after it was cut off: its lease, if it has one.
    pub(crate) minority_ns: Option<u64>,
    /// Maximum time for an answer after all faults are over.
    pub(crate) answer_ns: u64,
}

/// A violation that a checker found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Violation {
    pub(crate) checker: &'static str,
    pub(crate) t: u64,
    pub(crate) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.text)
    }
}

/// At most k believers, one per slot, growing fences.
pub(crate) const BELIEF: &str = "belief";
/// No child is alive after its deadline.
pub(crate) const DEADLINE: &str = "deadline";
/// The lock of a slot is free for each new holder.
pub(crate) const LOCK: &str = "lock";
/// The resource refuses no client that may believe.
pub(crate) const RESOURCE: &str = "resource";
/// A minority grants nothing.
pub(crate) const MINORITY: &str = "minority";
/// Every request ends in time.
pub(crate) const ANSWERS: &str = "answers";
/// `kgate run` reports why its command ended.
pub(crate) const CODES: &str = "codes";
/// The status of a command that died of SIGTERM; wrong for a command that `kgate run` ended.
const TERMINATED: &str = "exit status: 143";
/// Nodes do not end by themselves.
pub(crate) const NODES: &str = "nodes";

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) requests: u64,
    pub(crate) grants: u64,
    /// Permits that their holders lost.
    pub(crate) losses: u64,
    /// Accesses with an old fence that the resource rightly refused.
    pub(crate) refused: u64,
    /// The longest wait for an answer after the last fault.
    pub(crate) longest_ns: u64,
    /// How requests ended, and how often.
    pub(crate) answers: BTreeMap<String, u64>,
    /// The most believers of a gate at once, by gate.
    pub(crate) most: BTreeMap<String, usize>,
    /// The longest time for which a processor of this machine stalled.
    pub(crate) stalled_ms: u64,
    pub(crate) violations: Vec<Violation>,
}

/// Checks the records of a run, which are ordered by time.
pub(crate) fn check(terms: &Terms, records: &[Record]) -> Result<Verdict> {
    let holds = Holds::of(records);
    let mut verdict = Verdict { grants: holds.all.len() as u64, ..Verdict::default() };
    for gate in terms.gates.keys() {
        belief(terms, gate, &holds, &mut verdict)?;
    }
    let unknown = holds.all.iter().find(|hold| !terms.gates.contains_key(&hold.gate));
    anyhow::ensure!(unknown.is_none(), "a record names a gate that the run does not have");
    verdict.violations.extend(holds.late.iter().map(|late| Violation {
        checker: DEADLINE,
        t: late.t,
        text: format!("{} was alive {} after its deadline", late.who, ms(late.t - late.until)),
    }));
    locks(records, &holds, &mut verdict);
    let stalls = records.iter().filter_map(|record| {
        if let What::Stalled { ms, .. } = record.what { Some(ms) } else { None }
    });
    verdict.stalled_ms = stalls.max().unwrap_or(0);
    resource(records, &mut verdict);
    minority(terms, records, &holds, &mut verdict);
    answers::check(terms, records, &holds, &mut verdict);
    verdict.losses = records.iter().filter(|record| is_loss(&record.what)).count() as u64;
    for record in records {
        if let What::Answered { how } = &record.what {
            *verdict.answers.entry(how.clone()).or_default() += 1;
            if how == TERMINATED {
                let text = format!(
                    "{}: 143 (died of SIGTERM), but only kgate sends SIGTERM: 121 is right",
                    record.who
                );
                verdict.violations.push(Violation { checker: CODES, t: record.t, text });
            }
        }
        let What::Ended { text } = &record.what else { continue };
        let text = format!("a node ended by itself: {text}");
        verdict.violations.push(Violation { checker: NODES, t: record.t, text });
    }
    verdict.violations.sort_by_key(|violation| violation.t);
    Ok(verdict)
}

/// Checks the believers of a gate as a trace, by `kgate_spec::history`.
fn belief(terms: &Terms, gate: &str, holds: &Holds, verdict: &mut Verdict) -> Result<()> {
    let k = terms.gates[gate];
    let of_gate: Vec<(usize, &Hold)> =
        holds.all.iter().enumerate().filter(|(_, hold)| hold.gate == gate).collect();
    let mut lines: Vec<(u64, u8, String)> = Vec::new();
    for (number, hold) in &of_gate {
        let Hold { node, slots, fence, from, end, .. } = hold;
        let head = |t: &u64| format!("{{\"t\":{t},\"node\":{node},\"event\":");
        lines.push((*from, 1, format!("{}\"acquire\",\"weight\":{}}}", head(from), slots.len())));
        let granted =
            format!("\"granted\",\"slots\":{slots:?},\"fence\":\"0x{fence}\",\"grant\":{number}}}");
        lines.push((*from, 1, head(from) + &granted));
        // A release at an instant makes room for a grant at the same instant.
        lines.push((*end, 0, format!("{}\"release\",\"grant\":{number}}}", head(end))));
    }
    lines.sort_by_key(|(t, order, _)| (*t, *order));
    let mut text = format!(
        "{{\"run\":{{\"n\":{},\"k\":{k},\"protocol\":\"chaos\"}},\"trace\":1}}\n",
        terms.nodes
    );
    for (_, _, line) in &lines {
        text += line;
        text.push('\n');
    }
    let found = history::check(text.as_bytes()).context("the believers make no trace")?;
    verdict.most.insert(gate.to_owned(), found.max_in_use);
    verdict.violations.extend(found.violations.into_iter().map(|violation| {
        let t = violation.at_ns.0;
        let inside = of_gate.iter().filter(|(_, hold)| hold.from <= t && t < hold.end);
        let who: Vec<&str> = inside.map(|(_, hold)| hold.who.as_str()).collect();
        let text = format!(
            "gate {gate}, {}: {}; inside: {}",
            violation.property,
            violation.text,
            who.join(", ")
        );
        Violation { checker: BELIEF, t, text }
    }));
    Ok(())
}

fn locks(records: &[Record], holds: &Holds, verdict: &mut Verdict) {
    for record in records {
        let What::LockTaken { slot, owner } = &record.what else { continue };
        if holds.frozen_and_late(*owner, record.t) {
            continue;
        }
        let text = format!("{} found slot {slot} locked by process {owner}", record.who);
        verdict.violations.push(Violation { checker: LOCK, t: record.t, text });
    }
}

fn resource(records: &[Record], verdict: &mut Verdict) {
    for record in records {
        let What::Stale { slot, greatest, until } = &record.what else { continue };
        if *until <= record.t {
            verdict.refused += 1;
            continue;
        }
        let left = ms(until - record.t);
        let text = format!(
            "{} was refused at slot {slot} for {greatest}, {left} before its deadline",
            record.who
        );
        verdict.violations.push(Violation { checker: RESOURCE, t: record.t, text });
    }
}

fn minority(terms: &Terms, records: &[Record], holds: &Holds, verdict: &mut Verdict) {
    let Some(allowed) = terms.minority_ns else { return };
    // For each change: the nodes that are cut off, each with the time of its cut.
    let mut since: Vec<(u64, BTreeMap<u32, u64>)> = vec![(0, BTreeMap::new())];
    for record in records {
        let What::Minority { nodes } = &record.what else { continue };
        let before = &since[since.len() - 1].1;
        let now = nodes
            .iter()
            .map(|node| (*node, before.get(node).copied().unwrap_or(record.t)))
            .collect();
        since.push((record.t, now));
    }
    for hold in &holds.all {
        let at = since.partition_point(|(t, _)| *t <= hold.from) - 1;
        let Some(cut) = since[at].1.get(&hold.node) else { continue };
        if hold.from > cut + allowed {
            let after = ms(hold.from - cut);
            let text = format!(
                "{} was granted at node {}, which was cut off for {after}",
                hold.who, hold.node
            );
            verdict.violations.push(Violation { checker: MINORITY, t: hold.from, text });
        }
    }
}

/// Exit status 121 of `kgate run` means that the permit was lost.
fn is_loss(what: &What) -> bool {
    matches!(what, What::Lost { .. })
        || matches!(what, What::Answered { how } if how == "exit status: 121")
}

/// Milliseconds with one decimal.
pub(crate) fn ms(ns: u64) -> String {
    format!("{}.{} ms", ns / 1_000_000, ns / 100_000 % 10)
}
