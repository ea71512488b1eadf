//! Event a trace says, in the words that stand below a step.
//!
//! Event the step itself says is not said again: below `p0 asks` nobody reads that p0 asks.

use std::collections::BTreeMap;

use kgate_core::NodeId;

use super::Act;
use crate::schedule::{Fate, Step};
use crate::trace::reader::{Event, Record};

/// Event followed from one step: `told` are the lines of the trace at its time, in a run of `nodes`
/// processes.
pub fn effects(act: Option<&Act>, record: &[Record], nodes: u32) -> Vec<String> {
    record.iter().filter_map(|record| line(act, record, nodes)).collect()
}

/// Event followed after the last step: only who goes in and out, who learns of what, and complaints.
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
        | Event::Asked
        | Event::Withdraw
        | Event::Send { .. }
        | Event::Deliver { .. }
        | Event::Lost { .. }
        | Event::Doubled { .. }
        | Event::Crash
        | Event::Restart { .. }
        | Event::Fault
        | Event::Pause
        | Event::Resume
        | Event::Moved { .. }
        | Event::Can { .. }
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
            format!("{node} enters{slots}{fence}")
        }
        Event::Send { kind, message, .. } => {
            let to: Vec<String> = record.receivers(nodes).iter().map(NodeId::to_string).collect();
            format!("{node} sends {kind} to {}: {message}", to.join(" "))
        }
        Event::Release { .. } if step.is_none() => format!("{node} comes out"),
        Event::TooLarge { weight, most } => {
            format!("{node} is refused: {weight} wanted, k is {most}")
        }
        Event::Resize { k } if step.is_none() => format!("{node} sets k to {k}"),
        Event::Joined { whom } if step.is_none() => format!("{node} learns that {whom} is back"),
        Event::Suspected { .. } if matches!(step, Some(Step::Tell { .. })) => return None,
        Event::Suspected { whom } => format!("{node} suspects {whom}"),
        Event::Lost { .. } if matches!(step, Some(Step::Message { fate: Fate::Lost, .. })) => {
            return None;
        }
        Event::Lost { kind, from, .. } => format!("{kind} from {from} is lost: {node} is down"),
        Event::Fault => format!("a fault strikes {node}"),
        Event::Recovered => "the run has recovered".to_owned(),
        Event::Moved { action, state } => format!("{node} {action}: {state}"),
        Event::Violated { property, text, .. } => format!("VIOLATED {property}: {text}"),
        Event::Acquire { .. }
        | Event::Asked
        | Event::Release { .. }
        | Event::Resize { .. }
        | Event::Joined { .. }
        | Event::Withdraw
        | Event::Deliver { .. }
        | Event::Doubled { .. }
        | Event::Crash
        | Event::Restart { .. }
        | Event::Pause
        | Event::Resume
        | Event::Can { .. }
        | Event::Other => return None,
    })
}

fn list(slots: &[u32], one: &str, many: &str) -> String {
    let numbers: Vec<String> = slots.iter().map(u32::to_string).collect();
    match slots.len() {
        0 => String::new(),
        1 => format!(" with {one} {}", numbers[0]),
        _ => format!(" with {many} {}", numbers.join(" ")),
    }
}

/// In the state model: who can do what next, kept from line to line.
#[derive(Clone, Debug, Default)]
pub struct Next(BTreeMap<NodeId, (Vec<String>, bool)>);

impl Next {
    /// Takes in the lines of a step; what can be done after it.
    pub fn see(&mut self, record: &[Record]) -> String {
        for record in record {
            if let Event::Can { actions, inside } = &record.event {
                self.0.insert(record.node, (actions.clone(), *inside));
            }
        }
        let can = self.0.iter().filter(|(_, (actions, _))| !actions.is_empty());
        let words: Vec<String> = can
            .map(|(node, (actions, inside))| {
                format!("{node} {}{}", actions.join(" or "), if *inside { " (inside)" } else { "" })
            })
            .collect();
        if words.is_empty() {
            "next: nobody can move".into()
        } else {
            format!("next: {}", words.join(", "))
        }
    }
}
