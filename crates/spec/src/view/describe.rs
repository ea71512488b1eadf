//! Describes an event in a few words, without its time and process.

use kgate_core::NodeId;

use crate::trace::reader::{Event, Record};

/// The description of an event, in a run of `nodes` processes.
pub(super) fn describe(record: &Record, nodes: u32) -> String {
    match &record.event {
        Event::Acquire { weight: 1 } => "requests".into(),
        Event::Acquire { weight } => format!("requests {weight} slots"),
        Event::Requested => "broadcasts its request".into(),
        Event::Granted { slots, fence, grant, .. } => {
            let slots = match &slots[..] {
                [] => String::new(),
                [one] => format!(" slot {one}"),
                several => format!(" slots {}", list(several)),
            };
            let fence = fence.as_ref().map(|fence| format!(", fence {fence}")).unwrap_or_default();
            format!("acquires{slots}{fence}{}", named(*grant))
        }
        Event::Release { grant } => format!("releases{}", named(*grant)),
        Event::Withdraw => "withdraws".into(),
        Event::TooLarge { weight, most } => format!("is rejected: weight {weight}, k is {most}"),
        Event::Resize { k } => format!("learns that k is {k}"),
        Event::Send { kind, message, .. } => {
            let to = record.receivers(nodes);
            let whom = if to.len() > 3 && to.len() + 1 == nodes as usize {
                "all".into()
            } else {
                list(&to)
            };
            format!("-> {whom}  {}", said(kind, message))
        }
        Event::Deliver { kind, from, message } => format!("<- {from}  {}", said(kind, message)),
        Event::Lost { kind, from, message } => {
            format!("x- {from}  {} is lost", said(kind, message))
        }
        Event::Duplicated { kind, to, message } => {
            format!("-> {to}  {} is duplicated", said(kind, message))
        }
        Event::Crash => "CRASHES".into(),
        Event::Restart { incarnation: None } => "recovers".into(),
        Event::Restart { incarnation: Some(incarnation) } => {
            format!("recovers with empty memory, incarnation {incarnation}")
        }
        Event::Fault => "transient fault: arbitrary memory".into(),
        Event::Recovered => "the run has recovered".into(),
        Event::Pause => "pauses".into(),
        Event::Resume => "continues".into(),
        Event::Suspected { whom } => format!("suspects {whom}"),
        Event::Joined { whom } => format!("learns that {whom} recovered"),
        Event::Moved { action, state } => format!("moves by {action}: {state}"),
        Event::Enabled { actions, inside } => {
            let enabled = if actions.is_empty() { "none".into() } else { actions.join(" or ") };
            format!("enabled: {enabled}{}", if *inside { " (privileged)" } else { "" })
        }
        Event::Violated { property, text, .. } => format!("VIOLATED {property}: {text}"),
        Event::Other => "an event that this version of kgate does not know".into(),
    }
    // One event is one line, whatever the text of a message contains.
    .replace(char::is_control, " ")
}

/// The kind, and the text unless it only repeats the kind.
fn said(kind: &str, message: &str) -> String {
    if message.is_empty() || message.eq_ignore_ascii_case(&kind.replace(['_', '-'], "")) {
        kind.to_owned()
    } else {
        format!("{kind}: {message}")
    }
}

fn named(grant: Option<u64>) -> String {
    grant.map(|grant| format!(", grant {grant}")).unwrap_or_default()
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
}

/// The width of the longest name of `nodes` processes.
pub(super) fn name_width(nodes: u32) -> usize {
    NodeId(nodes.saturating_sub(1)).to_string().len()
}
