//! A trace read back, line by line, for whoever wants to tell or draw what happened.

use std::io::BufRead;

use kgate_core::{NodeId, Time};
use serde::Deserialize;

use crate::history::header;
pub use crate::history::{NotATrace, Run};

/// One event of a run, with its time and place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Told {
    /// When.
    pub t: Time,
    /// At which process.
    pub node: NodeId,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened; [`trace::Event`](crate::trace::Event) says what each means.
#[allow(missing_docs)] // The fields are those of `trace::Event`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    Acquire {
        #[serde(default = "one")]
        weight: u32,
    },
    Asked,
    Granted {
        #[serde(default)]
        slots: Vec<u32>,
        #[serde(default)]
        fence: Option<String>,
        #[serde(default)]
        grant: Option<u64>,
    },
    Release {
        #[serde(default)]
        grant: Option<u64>,
    },
    Withdraw,
    TooLarge {
        weight: u32,
        most: u32,
    },
    Resize {
        k: u32,
    },
    Send {
        kind: String,
        to: Option<NodeId>,
        #[serde(default)]
        to_many: Vec<NodeId>,
        copies: u32,
        message: String,
    },
    Deliver {
        kind: String,
        from: NodeId,
        message: String,
    },
    Lost {
        kind: String,
        from: NodeId,
        message: String,
    },
    Doubled {
        kind: String,
        to: NodeId,
        message: String,
    },
    Crash,
    Restart {
        #[serde(default)]
        life: Option<u32>,
    },
    Fault,
    Recovered,
    Suspected {
        whom: NodeId,
    },
    Joined {
        whom: NodeId,
    },
    Moved {
        action: String,
        state: String,
    },
    Can {
        actions: Vec<String>,
        inside: bool,
    },
    Violated {
        property: String,
        nodes: Vec<NodeId>,
        text: String,
    },
    /// A kind that this kgate does not know.
    #[serde(other)]
    Other,
}

/// A client asks for one unit unless it says otherwise.
pub(crate) fn one() -> u32 {
    1
}

impl Told {
    /// To whom a message was sent from here, in a run of `nodes` processes; nobody if this is no send.
    pub fn receivers(&self, nodes: u32) -> Vec<NodeId> {
        let What::Send { to, to_many, copies, .. } = &self.what else { return Vec::new() };
        match to {
            Some(to) => vec![*to],
            None if to_many.is_empty() && copies + 1 == nodes => {
                (0..nodes).map(NodeId).filter(|&other| other != self.node).collect()
            }
            None => to_many.clone(),
        }
    }
}

/// Reads a whole trace: what was run, and all that happened.
pub fn read(text: impl BufRead) -> Result<(Run, Vec<Told>), NotATrace> {
    let mut lines = text.lines();
    let run = header(&lines.next().transpose()?.unwrap_or_default())?;
    let mut all: Vec<Told> = Vec::new();
    for (number, line) in (2..).zip(lines) {
        let told: Told = serde_json::from_str(&line?).map_err(|error| NotATrace::Line(number, error))?;
        if told.node.0 >= run.n {
            return Err(NotATrace::Nobody(number, told.node, run.n));
        }
        if all.last().is_some_and(|last| told.t < last.t) {
            return Err(NotATrace::Backwards(number));
        }
        all.push(told);
    }
    Ok((run, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, Writer};

    /// Every kind of event that is written is read back as the same; whom a send goes to is known in all three forms.
    #[test]
    fn what_is_written_is_read() {
        let (message, kind, from, to) = ("Reply", "reply", NodeId(1), NodeId(2));
        let events = [
            Event::Acquire { weight: 1 },
            Event::Acquire { weight: 2 },
            Event::Asked,
            Event::Granted { slots: &[3], fence: Some("0x1".into()), stamp: None, grant: Some(4) },
            Event::Release { grant: None },
            Event::Withdraw,
            Event::TooLarge { weight: 3, most: 2 },
            Event::Resize { k: 2 },
            Event::Send { kind, to: Some(to), to_many: &[], copies: 1, message },
            Event::Send { kind, to: None, to_many: &[NodeId(3), NodeId(1)], copies: 2, message },
            Event::Send { kind, to: None, to_many: &[], copies: 3, message },
            Event::Deliver { kind, from, message },
            Event::Lost { kind, from, message },
            Event::Doubled { kind, to, message },
            Event::Crash,
            Event::Restart { life: Some(1) },
            Event::Fault,
            Event::Recovered,
            Event::Suspected { whom: to },
            Event::Joined { whom: to },
            Event::Moved { action: "a1", state: "T=C" },
            Event::Can { actions: &["a1"], inside: true },
            Event::Violated { property: "p", nodes: &[to], text: "t" },
        ];
        let mut bytes = Vec::new();
        let mut writer =
            Writer::new(Box::new(&mut bytes), &serde_json::json!({ "n": 4, "k": 1, "protocol": "x" }));
        events.iter().for_each(|event| writer.write(Time(7), NodeId(0), event));
        writer.finish().unwrap();
        let (run, told) = read(&bytes[..]).expect("a trace");
        assert_eq!((run.n, run.k, run.protocol.as_str(), told.len()), (4, 1, "x", events.len()));
        assert!(told.iter().all(|told| told.what != What::Other));
        let receivers: Vec<Vec<NodeId>> =
            told.iter().map(|told| told.receivers(4)).filter(|list| !list.is_empty()).collect();
        let ids = |list: &[u32]| list.iter().copied().map(NodeId).collect::<Vec<_>>();
        assert_eq!(receivers, [ids(&[2]), ids(&[3, 1]), ids(&[1, 2, 3])]);
    }
}
