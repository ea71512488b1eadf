//! A trace read back, line by line, for whoever wants to tell or draw what happened.

use std::io::{self, BufRead, Write};

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
        incarnation: Option<u32>,
    },
    Fault,
    Recovered,
    Pause,
    Resume,
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
    /// To whom a message was sent from here, in a run of `nodes` processes; nobody if this is no
    /// send.
    pub fn receivers(&self, nodes: u32) -> Vec<NodeId> {
        let What::Send { to, to_many, copies, .. } = &self.what else { return Vec::new() };
        match to {
            Some(to) => vec![*to],
            None if to_many.is_empty() && copies.checked_add(1) == Some(nodes) => {
                (0..nodes).map(NodeId).filter(|&other| other != self.node).collect()
            }
            None => to_many.clone(),
        }
    }

    /// Everybody whom this speaks of.
    fn named(&self) -> impl Iterator<Item = NodeId> {
        let (one, many): (Option<NodeId>, &[NodeId]) = match &self.what {
            What::Send { to, to_many, .. } => (*to, to_many),
            What::Deliver { from, .. } | What::Lost { from, .. } => (Some(*from), &[]),
            What::Doubled { to, .. } => (Some(*to), &[]),
            What::Suspected { whom } | What::Joined { whom } => (Some(*whom), &[]),
            What::Acquire { .. }
            | What::Asked
            | What::Granted { .. }
            | What::Release { .. }
            | What::Withdraw
            | What::TooLarge { .. }
            | What::Resize { .. }
            | What::Crash
            | What::Restart { .. }
            | What::Fault
            | What::Recovered
            | What::Pause
            | What::Resume
            | What::Moved { .. }
            | What::Can { .. }
            | What::Violated { .. }
            | What::Other => (None, &[]),
        };
        [self.node].into_iter().chain(one).chain(many.iter().copied())
    }
}

/// Reads the lines of a trace as they come, and keeps none of them.
#[derive(Debug)]
pub struct Lines {
    run: Run,
    /// Of the line that was read last.
    number: u64,
    last: Time,
}

impl Lines {
    /// Begins with the first line, the header.
    pub fn new(first: &str) -> Result<Self, NotATrace> {
        Ok(Self { run: header(first)?, number: 1, last: Time::ZERO })
    }

    /// What was run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The next line.
    pub fn next(&mut self, line: &str) -> Result<Told, NotATrace> {
        self.number += 1;
        let told: Told =
            serde_json::from_str(line).map_err(|error| NotATrace::Line(self.number, error))?;
        if let Some(nobody) = told.named().find(|node| node.0 >= self.run.n) {
            return Err(NotATrace::Nobody(self.number, nobody, self.run.n));
        }
        if told.t < self.last {
            return Err(NotATrace::Backwards(self.number));
        }
        self.last = told.t;
        Ok(told)
    }
}

/// The events of a trace, one after the other.
pub struct Reader<R> {
    text: io::Lines<R>,
    lines: Lines,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    pub fn new(text: R) -> Result<Self, NotATrace> {
        let mut text = text.lines();
        let lines = Lines::new(&text.next().transpose()?.unwrap_or_default())?;
        Ok(Self { text, lines })
    }

    /// What was run.
    pub fn run(&self) -> &Run {
        self.lines.run()
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Told, NotATrace>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.text.next()?;
        Some(line.map_err(NotATrace::Io).and_then(|line| self.lines.next(&line)))
    }
}

/// Hears a run that is being written down: bytes in, events out. Nothing is kept but the line that
/// is not whole yet.
pub struct Ear<F> {
    line: Vec<u8>,
    lines: Option<Lines>,
    hear: F,
}

impl<F: FnMut(&Run, &Told) -> io::Result<()>> Ear<F> {
    /// One that tells `hear` of every event.
    pub fn new(hear: F) -> Self {
        Self { line: Vec::new(), lines: None, hear }
    }

    fn whole(&mut self) -> io::Result<()> {
        let line = std::str::from_utf8(&self.line).map_err(io::Error::other)?;
        match &mut self.lines {
            None => self.lines = Some(Lines::new(line).map_err(io::Error::other)?),
            Some(lines) => {
                let told = lines.next(line).map_err(io::Error::other)?;
                (self.hear)(lines.run(), &told)?;
            }
        }
        self.line.clear();
        Ok(())
    }
}

impl<F: FnMut(&Run, &Told) -> io::Result<()>> Write for Ear<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.split_last() {
                Some((b'\n', rest)) => {
                    self.line.extend_from_slice(rest);
                    self.whole()?;
                }
                _ => self.line.extend_from_slice(part),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a whole trace: what was run, and all that happened.
pub fn read(text: impl BufRead) -> Result<(Run, Vec<Told>), NotATrace> {
    let reader = Reader::new(text)?;
    let run = reader.run().clone();
    Ok((run, reader.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, Writer};

    /// Every kind of event that is written is read back as the same; whom a send goes to is known
    /// in all three forms.
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
            Event::Restart { incarnation: Some(1) },
            Event::Fault,
            Event::Recovered,
            Event::Pause,
            Event::Resume,
            Event::Suspected { whom: to },
            Event::Joined { whom: to },
            Event::Moved { action: "a1", state: "T=C" },
            Event::Can { actions: &["a1"], inside: true },
            Event::Violated { property: "p", nodes: &[to], text: "t" },
        ];
        let mut bytes = Vec::new();
        let mut writer = Writer::new(
            Box::new(&mut bytes),
            &serde_json::json!({ "n": 4, "k": 1, "protocol": "x" }),
        );
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
