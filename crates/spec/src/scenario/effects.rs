//! The effects of a step, from the trace: the indented lines below it.
//!
//! The effects do not repeat the step itself: below `p0 requests` there is no line for the request.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kgate_core::NodeId;

use super::Act;
use crate::schedule::{Fate, Step};
use crate::trace::reader::{Event, Record};

/// The effects of one step: `records` are the lines of the trace at its time, in a run of `nodes`
/// processes.
pub fn effects(act: Option<&Act>, record: &[Record], nodes: u32) -> Vec<String> {
    record.iter().filter_map(|record| line(act, record, nodes)).collect()
}

/// The effects after the last step: only grants, releases, notifications and violations.
pub fn final_effects(record: &[Record]) -> Vec<String> {
    let worth_telling = |record: &&Record| match record.event {
        Event::Granted { .. }
        | Event::Release { .. }
        | Event::TooLarge { .. }
        | Event::Suspected { .. }
        | Event::Joined { .. }
        | Event::Resize { .. }
        | Event::Recovered
        | Event::Violated { .. } => true,
        Event::Acquire { .. }
        | Event::Requested
        | Event::Withdraw
        | Event::Send { .. }
        | Event::Deliver { .. }
        | Event::Lost { .. }
        | Event::Duplicated { .. }
        | Event::Crash
        | Event::Restart { .. }
        | Event::Fault
        | Event::Pause
        | Event::Resume
        | Event::Moved { .. }
        | Event::Enabled { .. }
        | Event::Other => false,
    };
    record.iter().filter(worth_telling).filter_map(|record| line(None, record, 0)).collect()
}

fn line(act: Option<&Act>, record: &Record, nodes: u32) -> Option<String> {
    let node = record.node;
    let step = match act {
        Some(Act::Step(step)) => Some(step),
        Some(Act::Move(_)) | None => None,
    };
    Some(match &record.event {
        Event::Granted { slots, fence, .. } => {
            let slots = list(slots, "slot", "slots");
            let fence = fence.as_ref().map(|fence| format!(", fence {fence}")).unwrap_or_default();
            format!("{node} acquires{slots}{fence}")
        }
        Event::Send { kind, message, .. } => {
            let to: Vec<String> = record.receivers(nodes).iter().map(NodeId::to_string).collect();
            format!("{node} sends {kind} to {}: {message}", to.join(" "))
        }
        Event::Release { .. } if step.is_none() => format!("{node} releases"),
        Event::TooLarge { weight, most } => {
            format!("{node} is rejected: weight {weight}, k is {most}")
        }
        Event::Resize { k } if step.is_none() => format!("{node} learns that k is {k}"),
        Event::Joined { whom } if step.is_none() => format!("{node} learns that {whom} recovered"),
        Event::Suspected { .. } if matches!(step, Some(Step::NotifyCrash { .. })) => return None,
        Event::Suspected { whom } => format!("{node} suspects {whom}"),
        Event::Lost { .. } if matches!(step, Some(Step::Message { fate: Fate::Lost, .. })) => {
            return None;
        }
        Event::Lost { kind, from, .. } => format!("{kind} from {from} is lost: {node} is down"),
        Event::Fault => format!("transient fault at {node}"),
        Event::Recovered => "the run has recovered".to_owned(),
        Event::Moved { action, state } => format!("{node} {action}: {state}"),
        Event::Violated { property, text, .. } => format!("VIOLATED {property}: {text}"),
        Event::Acquire { .. }
        | Event::Requested
        | Event::Release { .. }
        | Event::Resize { .. }
        | Event::Joined { .. }
        | Event::Withdraw
        | Event::Deliver { .. }
        | Event::Duplicated { .. }
        | Event::Crash
        | Event::Restart { .. }
        | Event::Pause
        | Event::Resume
        | Event::Enabled { .. }
        | Event::Other => return None,
    })
}

fn list(slots: &[u32], one: &str, many: &str) -> String {
    let numbers: Vec<String> = slots.iter().map(u32::to_string).collect();
    match slots.len() {
        0 => String::new(),
        1 => format!(" {one} {}", numbers[0]),
        _ => format!(" {many} {}", numbers.join(" ")),
    }
}

/// In the state model: the enabled actions of each process, updated from step to step.
#[derive(Clone, Debug, Default)]
pub struct Next(BTreeMap<NodeId, (Vec<Cow<'static, str>>, bool)>);

impl Next {
    /// Takes the records of a step, and describes the actions enabled after it.
    pub fn see(&mut self, record: &[Record]) -> String {
        for record in record {
            if let Event::Enabled { actions, inside } = &record.event {
                self.0.insert(record.node, (actions.clone(), *inside));
            }
        }
        let can = self.0.iter().filter(|(_, (actions, _))| !actions.is_empty());
        let words: Vec<String> = can
            .map(|(node, (actions, inside))| {
                format!(
                    "{node} {}{}",
                    actions.join(" or "),
                    if *inside { " (privileged)" } else { "" }
                )
            })
            .collect();
        if words.is_empty() {
            "enabled: none".into()
        } else {
            format!("enabled: {}", words.join(", "))
        }
    }
}
