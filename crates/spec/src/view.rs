//! A trace in other clothes: as [`text`] for people, as a log for ShiViz, as a trace for Perfetto;
//! [`diagram`](crate::diagram) draws it.
//!
//! Each reads the events one after the other and writes as it goes, so that a trace may be longer
//! than memory. Event lies before the [`Window`] is still listened to, because of who waits and
//! which messages are under way when it opens; where it closes, reading ends.
//!
//! - `channels.rs`: which arrival belongs to which send; `bars.rs`: who waits and who is inside,
//!   from when until when;
//! - `words.rs`: an event in a few words.

pub(crate) mod bars;
pub(crate) mod channels;
mod describe;
mod perfetto;
mod shiviz;
mod text;

use std::io::{self, BufRead};
use std::str::FromStr;

use kgate_core::{NodeId, Span, Time};

use crate::trace::reader::{Reader, Record, TraceError};

pub use perfetto::perfetto;
pub use shiviz::shiviz;
pub use text::text;

/// Which part of a run is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// When.
    pub window: Window,
    /// Whom.
    pub shown: Shown,
}

impl View {
    /// Whether an event is in it.
    pub fn has(&self, record: &Record) -> bool {
        self.window.has(record.t) && self.shown.has(record.node)
    }
}

/// A part of the time, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its first moment.
    pub from: Time,
    /// Its last moment.
    pub until: Time,
}

impl Window {
    /// Whether a moment is in it.
    pub fn has(&self, time: Time) -> bool {
        (self.from..=self.until).contains(&time)
    }
}

/// All the time.
impl Default for Window {
    fn default() -> Self {
        Self { from: Time::ZERO, until: Time::NEVER }
    }
}

impl FromStr for Window {
    type Err = String;

    /// `10..20`, in time units; either end may be left out.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("not a window: write two times such as 10..20, or 10.. or ..20, not '{text}'")
        };
        let (from, until) = text.split_once("..").ok_or_else(wrong)?;
        let time = |text: &str, open: Time| match text {
            "" => Ok(open),
            text => text.parse::<Span>().map(|span| Time::ZERO + span).map_err(|_| wrong()),
        };
        let window = Self { from: time(from, Time::ZERO)?, until: time(until, Time::NEVER)? };
        if window.from < window.until {
            Ok(window)
        } else {
            Err(format!(
                "an empty window: write the earlier time first, as in 10..20, not '{text}'"
            ))
        }
    }
}

/// Some of the processes; of none named, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown(Vec<(NodeId, NodeId)>);

impl Shown {
    /// Whether it is all of them, however many there are.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a process is one of them.
    pub fn has(&self, node: NodeId) -> bool {
        self.is_all() || self.0.iter().any(|(first, last)| (*first..=*last).contains(&node))
    }

    /// Those of them that there are in a run of `nodes` processes.
    pub fn of(&self, nodes: u32) -> impl Iterator<Item = NodeId> {
        (0..nodes).map(NodeId).filter(|node| self.has(*node))
    }
}

impl FromStr for Shown {
    type Err = String;

    /// `0..7`, both included, or `0,3,9`, or both: `0..2,9`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("not processes: write 0..7, or 0,3,9, not '{text}'");
        let node = |text: &str| {
            text.strip_prefix('p').unwrap_or(text).parse().map(NodeId).map_err(|_| wrong())
        };
        let range = |part: &str| {
            let (first, last) = part.split_once("..").unwrap_or((part, part));
            let range = (node(first)?, node(last)?);
            if range.0 <= range.1 { Ok(range) } else { Err(wrong()) }
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Self)
    }
}

/// Why a view is not whole.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// Event is to be looked at is no trace.
    #[error(transparent)]
    TraceError(#[from] TraceError),
    /// The view cannot be written.
    #[error("it cannot be written")]
    Io(#[from] io::Error),
    /// Nobody of those who are asked for is there.
    #[error("there are n = {0} processes, and none of them is asked for: name some of 0..{last}", last = .0.saturating_sub(1))]
    Nobody(u32),
}

/// Reads up to the end of the window, and hands every event on with whether it is in view.
fn each<R: BufRead>(
    reader: &mut Reader<R>,
    view: &View,
    mut see: impl FnMut(&Record, bool) -> io::Result<()>,
) -> Result<(), ViewError> {
    let nodes = reader.run().n;
    if view.shown.of(nodes).next().is_none() {
        return Err(ViewError::Nobody(nodes));
    }
    for record in reader {
        let record = record?;
        if record.t > view.window.until {
            break;
        }
        see(&record, view.has(&record))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
