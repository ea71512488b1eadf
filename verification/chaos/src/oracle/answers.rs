//! Every request ends, within a bound after the last fault, at every node.

use std::collections::{BTreeMap, BTreeSet};

use super::holds::Holds;
use super::{ANSWERS, Terms, Verdict, Violation, ms};
use crate::record::{Record, What};

pub(super) fn check(terms: &Terms, records: &[Record], holds: &Holds, verdict: &mut Verdict) {
    let mut asked: BTreeMap<&str, (u64, u32)> = BTreeMap::new();
    let mut answered: BTreeMap<&str, u64> = BTreeMap::new();
    let mut killed: BTreeSet<u32> = BTreeSet::new();
    let (mut healed, mut end) = (None, None);
    for record in records {
        let t = record.t;
        if let What::Asked { pid, .. } = record.what {
            asked.insert(&record.who, (t, pid));
        } else if matches!(record.what, What::Answered { .. } | What::Granted { .. }) {
            answered.entry(&record.who).or_insert(t);
        } else if let What::Killed { pid } = record.what {
            killed.insert(pid);
        } else if record.what == What::Healed {
            healed = Some(t);
        } else if record.what == What::End {
            end = Some(t);
        }
    }
    verdict.requests = asked.len() as u64;
    // An interrupted run shows nothing about answers.
    let (Some(healed), Some(end)) = (healed, end) else { return };
    for (who, (t, pid)) in asked {
        let from = t.max(healed);
        let answer = answered.get(who).copied();
        if answer.is_none() && killed.contains(&pid) {
            continue;
        }
        let waited = answer.unwrap_or(end).saturating_sub(from);
        verdict.longest_ns = verdict.longest_ns.max(waited);
        let why = match answer {
            None => {
                format!(
                    "{who} got no answer; its request was {} before the end",
                    ms(end.saturating_sub(t))
                )
            }
            Some(_) if waited > terms.answer_ns => {
                format!("{who} was answered {} after healing", ms(waited))
            }
            Some(_) => continue,
        };
        verdict.violations.push(Violation { checker: ANSWERS, t: end, text: why });
    }
    for node in 0..terms.nodes {
        if !holds.all.iter().any(|hold| hold.node == node && hold.from > healed) {
            let text = format!("node {node} granted nothing after the last fault");
            verdict.violations.push(Violation { checker: ANSWERS, t: end, text });
        }
    }
}
