//! What a trace says, in the words that stand below a step.
//!
//! What the step itself says is not said again: below `p0 asks` nobody reads that p0 asks.

use std::collections::BTreeMap;

use kgate_core::NodeId;

use super::Act;
use crate::schedule::{Fate, Step};
use crate::told::{Told, What};

/// What followed from one step: `told` are the lines of the trace at its time, in a run of `nodes`
/// processes.
pub fn tell(act: Option<&Act>, told: &[Told], nodes: u32) -> Vec<String> {
    told.iter().filter_map(|told| line(act, told, nodes)).collect()
}

/// What followed after the last step: only who goes in and out, who learns of what, and complaints.
pub fn after(told: &[Told]) -> Vec<String> {
    let worth_telling = |told: &&Told| match told.what {
        What::Granted { .. }
        | What::Release { .. }
        | What::TooLarge { .. }
        | What::Suspected { .. }
        | What::Joined { .. }
        | What::Resize { .. }
        | What::Recovered
        | What::Violated { .. } => true,
        What::Acquire { .. }
        | What::Asked
        | What::Withdraw
        | What::Send { .. }
        | What::Deliver { .. }
        | What::Lost { .. }
        | What::Doubled { .. }
        | What::Crash
        | What::Restart { .. }
        | What::Fault
        | What::Pause
        | What::Resume
        | What::Moved { .. }
        | What::Can { .. }
        | What::Other => false,
    };
    told.iter().filter(worth_telling).filter_map(|told| line(None, told, 0)).collect()
}

fn line(act: Option<&Act>, told: &Told, nodes: u32) -> Option<String> {
    let node = told.node;
    let step = match act {
        Some(Act::Step(step)) => Some(step),
        Some(Act::Move(_)) | None => None,
    };
    Some(match &told.what {
        What::Granted { slots, fence, .. } => {
            let slots = list(slots, "slot", "slots");
            let fence = fence.as_ref().map(|fence| format!(", fence {fence}")).unwrap_or_default();
            format!("{node} enters{slots}{fence}")
        }
        What::Send { kind, message, .. } => {
            let to: Vec<String> = told.receivers(nodes).iter().map(NodeId::to_string).collect();
            format!("{node} sends {kind} to {}: {message}", to.join(" "))
        }
        What::Release { .. } if step.is_none() => format!("{node} comes out"),
        What::TooLarge { weight, most } => {
            format!("{node} is refused: {weight} wanted, k is {most}")
        }
        What::Resize { k } if step.is_none() => format!("{node} sets k to {k}"),
        What::Joined { whom } if step.is_none() => format!("{node} learns that {whom} is back"),
        What::Suspected { .. } if matches!(step, Some(Step::Tell { .. })) => return None,
        What::Suspected { whom } => format!("{node} suspects {whom}"),
        What::Lost { .. } if matches!(step, Some(Step::Message { fate: Fate::Lost, .. })) => {
            return None;
        }
        What::Lost { kind, from, .. } => format!("{kind} from {from} is lost: {node} is down"),
        What::Fault => format!("a fault strikes {node}"),
        What::Recovered => "the run has recovered".to_owned(),
        What::Moved { action, state } => format!("{node} {action}: {state}"),
        What::Violated { property, text, .. } => format!("VIOLATED {property}: {text}"),
        What::Acquire { .. }
        | What::Asked
        | What::Release { .. }
        | What::Resize { .. }
        | What::Joined { .. }
        | What::Withdraw
        | What::Deliver { .. }
        | What::Doubled { .. }
        | What::Crash
        | What::Restart { .. }
        | What::Pause
        | What::Resume
        | What::Can { .. }
        | What::Other => return None,
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
    pub fn see(&mut self, told: &[Told]) -> String {
        for told in told {
            if let What::Can { actions, inside } = &told.what {
                self.0.insert(told.node, (actions.clone(), *inside));
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
