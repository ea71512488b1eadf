//! An event in a few words, without its time and process.

use kgate_core::NodeId;

use crate::trace::reader::{Event, Record};

/// Event happened, in a run of `nodes` processes. `kind` is as wide as that.
pub(super) fn describe(record: &Record, nodes: u32) -> String {
    match &record.event {
        Event::Acquire { weight: 1 } => "asks".into(),
        Event::Acquire { weight } => format!("asks for {weight}"),
        Event::Asked => "its request leaves".into(),
        Event::Granted { slots, fence, grant } => {
            let slots = match &slots[..] {
                [] => String::new(),
                [one] => format!(", slot {one}"),
                several => format!(", slots {}", list(several)),
            };
            let fence = fence.as_ref().map(|fence| format!(", fence {fence}")).unwrap_or_default();
            format!("goes in{slots}{fence}{}", named(*grant))
        }
        Event::Release { grant } => format!("comes out{}", named(*grant)),
        Event::Withdraw => "gives up".into(),
        Event::TooLarge { weight, most } => format!("is refused: {weight} wanted, k is {most}"),
        Event::Resize { k } => format!("learns that k is {k}"),
        Event::Send { kind, message, .. } => {
            let to = record.receivers(nodes);
            // To everybody else, if that takes more words than it says.
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
        Event::Doubled { kind, to, message } => {
            format!("-> {to}  {} is doubled", said(kind, message))
        }
        Event::Crash => "CRASHES".into(),
        Event::Restart { incarnation: None } => "is back".into(),
        Event::Restart { incarnation: Some(incarnation) } => {
            format!("is back with nothing, incarnation {incarnation}")
        }
        Event::Fault => "a fault makes its memory anything".into(),
        Event::Recovered => "the run has recovered".into(),
        Event::Pause => "is stopped".into(),
        Event::Resume => "goes on".into(),
        Event::Suspected { whom } => format!("holds {whom} for crashed"),
        Event::Joined { whom } => format!("learns that {whom} is back"),
        Event::Moved { action, state } => format!("moves by {action}: {state}"),
        Event::Can { actions, inside } => {
            let can = if actions.is_empty() { "nothing".into() } else { actions.join(" or ") };
            format!("can do {can}{}", if *inside { ", may be inside" } else { "" })
        }
        Event::Violated { property, text, .. } => format!("VIOLATED {property}: {text}"),
        Event::Other => "something that this kgate does not know".into(),
    }
    // One event is one line, whatever a message says.
    .replace(char::is_control, " ")
}

/// The kind, and the text unless it says no more.
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

/// How wide the names of so many processes are.
pub(super) fn name_width(nodes: u32) -> usize {
    NodeId(nodes.saturating_sub(1)).to_string().len()
}
