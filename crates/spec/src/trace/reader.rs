//! Reads a trace line by line, for views and diagrams.

use std::io::{self, BufRead, Write};

use kgate_core::{NodeId, Time};
use serde::Deserialize;

pub use super::Event;
use crate::history::header;
pub use crate::history::{Run, TraceError};

/// One event of a run, with its time and process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Record {
    /// The time of the event.
    pub t: Time,
    /// The process at which it happened.
    pub node: NodeId,
    /// What happened.
    #[serde(flatten)]
    pub event: Event<'static>,
}

impl Record {
    /// The receivers of a sent message in a run of `nodes` processes; empty for other events.
    pub fn receivers(&self, nodes: u32) -> Vec<NodeId> {
        let Event::Send { to, to_many, copies, .. } = &self.event else { return Vec::new() };
        match to {
            Some(to) => vec![*to],
            None if to_many.is_empty() && copies.checked_add(1) == Some(nodes) => {
                (0..nodes).map(NodeId).filter(|&other| other != self.node).collect()
            }
            None => to_many.to_vec(),
        }
    }

    /// All processes that the record names.
    fn named(&self) -> impl Iterator<Item = NodeId> {
        let (one, many): (Option<NodeId>, &[NodeId]) = match &self.event {
            Event::Send { to, to_many, .. } => (*to, to_many),
            Event::Deliver { from, .. } | Event::Lost { from, .. } => (Some(*from), &[]),
            Event::Duplicated { to, .. } => (Some(*to), &[]),
            Event::Suspected { whom } | Event::Joined { whom } => (Some(*whom), &[]),
            Event::Acquire { .. }
            | Event::Requested
            | Event::Granted { .. }
            | Event::Release { .. }
            | Event::Withdraw
            | Event::TooLarge { .. }
            | Event::Resize { .. }
            | Event::Crash
            | Event::Restart { .. }
            | Event::Fault
            | Event::Recovered
            | Event::Pause
            | Event::Resume
            | Event::Moved { .. }
            | Event::Enabled { .. }
            | Event::Violated { .. }
            | Event::Other => (None, &[]),
        };
        [self.node].into_iter().chain(one).chain(many.iter().copied())
    }
}

/// Parses the lines of a trace one by one, and keeps none of them.
#[derive(Debug)]
pub struct Lines {
    run: Run,
    /// The number of the last line.
    number: u64,
    last: Time,
}

impl Lines {
    /// Parses the first line, the header.
    pub fn new(first: &str) -> Result<Self, TraceError> {
        Ok(Self { run: header(first)?, number: 1, last: Time::ZERO })
    }

    /// The run that the header describes.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The next line.
    pub fn next(&mut self, line: &str) -> Result<Record, TraceError> {
        self.number += 1;
        let record: Record =
            serde_json::from_str(line).map_err(|error| TraceError::Line(self.number, error))?;
        if let Some(unknown) = record.named().find(|node| node.0 >= self.run.n) {
            return Err(TraceError::UnknownNode(self.number, unknown, self.run.n));
        }
        if record.t < self.last {
            return Err(TraceError::Backwards(self.number));
        }
        self.last = record.t;
        Ok(record)
    }
}

/// Iterates over the events of a trace.
pub struct Reader<R> {
    text: io::Lines<R>,
    lines: Lines,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    pub fn new(text: R) -> Result<Self, TraceError> {
        let mut text = text.lines();
        let lines = Lines::new(&text.next().transpose()?.unwrap_or_default())?;
        Ok(Self { text, lines })
    }

    /// The run that the header describes.
    pub fn run(&self) -> &Run {
        self.lines.run()
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.text.next()?;
        Some(line.map_err(TraceError::Io).and_then(|line| self.lines.next(&line)))
    }
}

/// A writer that parses a trace while it is written, and calls a function for each record. It keeps
/// only the incomplete line.
pub struct RecordSink<F> {
    line: Vec<u8>,
    lines: Option<Lines>,
    on_record: F,
}

impl<F: FnMut(&Run, &Record) -> io::Result<()>> RecordSink<F> {
    /// A sink that calls `on_record` for every event.
    pub fn new(on_record: F) -> Self {
        Self { line: Vec::new(), lines: None, on_record }
    }

    fn end_of_line(&mut self) -> io::Result<()> {
        let line = std::str::from_utf8(&self.line).map_err(io::Error::other)?;
        match &mut self.lines {
            None => self.lines = Some(Lines::new(line).map_err(io::Error::other)?),
            Some(lines) => {
                let record = lines.next(line).map_err(io::Error::other)?;
                (self.on_record)(lines.run(), &record)?;
            }
        }
        self.line.clear();
        Ok(())
    }
}

impl<F: FnMut(&Run, &Record) -> io::Result<()>> Write for RecordSink<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.split_last() {
                Some((b'\n', rest)) => {
                    self.line.extend_from_slice(rest);
                    self.end_of_line()?;
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

/// Reads a whole trace: the run of its header, and all records.
pub fn read(text: impl BufRead) -> Result<(Run, Vec<Record>), TraceError> {
    let reader = Reader::new(text)?;
    let run = reader.run().clone();
    Ok((run, reader.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Writer;

    /// Every event kind is read back as it was written; the receivers of a send are known in all
    /// three forms.
    #[test]
    fn events_are_read_as_they_are_written() {
        let (from, to) = (NodeId(1), NodeId(2));
        let text = || ("reply".into(), "Reply".into());
        let send = |to, to_many: &[NodeId], copies| {
            let (kind, message) = text();
            Event::Send { kind, to, to_many: to_many.to_vec().into(), copies, message }
        };
        let (kind, message) = text();
        let deliver = Event::Deliver { kind, from, message };
        let (kind, message) = text();
        let lost = Event::Lost { kind, from, message };
        let (kind, message) = text();
        let duplicated = Event::Duplicated { kind, to, message };
        let events = [
            Event::Acquire { weight: 1 },
            Event::Acquire { weight: 2 },
            Event::Requested,
            Event::Granted {
                slots: vec![3].into(),
                fence: Some("0x1".into()),
                stamp: Some(5),
                grant: Some(4),
            },
            Event::Release { grant: None },
            Event::Withdraw,
            Event::TooLarge { weight: 3, most: 2 },
            Event::Resize { k: 2 },
            send(Some(to), &[], 1),
            send(None, &[NodeId(3), NodeId(1)], 2),
            send(None, &[], 3),
            deliver,
            lost,
            duplicated,
            Event::Crash,
            Event::Restart { incarnation: Some(1) },
            Event::Fault,
            Event::Recovered,
            Event::Pause,
            Event::Resume,
            Event::Suspected { whom: to },
            Event::Joined { whom: to },
            Event::Moved { action: "a1".into(), state: "T=C".into() },
            Event::Enabled { actions: vec!["a1".into()], inside: true },
            Event::Violated { property: "p".into(), nodes: vec![to].into(), text: "t".into() },
        ];
        let mut bytes = Vec::new();
        let mut writer = Writer::new(
            Box::new(&mut bytes),
            &serde_json::json!({ "n": 4, "k": 1, "protocol": "x" }),
        );
        events.iter().for_each(|event| writer.write(Time(7), NodeId(0), event));
        writer.finish().unwrap();
        let (run, record) = read(&bytes[..]).expect("a trace");
        assert_eq!((run.n, run.k, run.protocol.as_str(), record.len()), (4, 1, "x", events.len()));
        assert!(record.iter().map(|record| &record.event).eq(&events));
        let receivers: Vec<Vec<NodeId>> = record
            .iter()
            .map(|record| record.receivers(4))
            .filter(|list| !list.is_empty())
            .collect();
        let ids = |list: &[u32]| list.iter().copied().map(NodeId).collect::<Vec<_>>();
        assert_eq!(receivers, [ids(&[2]), ids(&[3, 1]), ids(&[1, 2, 3])]);
    }
}
