//! Converts a trace: to [`text`] for people, to a log for ShiViz, to a trace for Perfetto;
//! [`diagram`](crate::diagram) draws it.
//!
//! Each view reads and writes event by event, so a trace may be larger than memory. Events before
//! the [`Window`] are read too, because they determine which requests are waiting and which
//! messages are in transit when it opens; reading ends where the window closes.
//!
//! - `channels.rs`: matches deliveries with sends; `bars.rs`: the intervals in which processes wait
//!   and hold slots;
//! - `describe.rs`: describes an event in a few words.

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

/// The part of a run that is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The interval of time.
    pub window: Window,
    /// The processes.
    pub shown: Shown,
}

impl View {
    /// Whether an event is in view.
    pub fn has(&self, record: &Record) -> bool {
        self.window.has(record.t) && self.shown.has(record.node)
    }
}

/// An interval of time, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The start.
    pub from: Time,
    /// The end.
    pub until: Time,
}

impl Window {
    /// Whether a time is in the window.
    pub fn has(&self, time: Time) -> bool {
        (self.from..=self.until).contains(&time)
    }
}

/// The whole run.
impl Default for Window {
    fn default() -> Self {
        Self { from: Time::ZERO, until: Time::NEVER }
    }
}

/// A text that is not a [`View`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseViewError {
    /// The text is not an interval.
    #[error("not a window: write two times, for example 10..20, 10.. or ..20, not '{0}'")]
    Window(String),
    /// The end is not after the start.
    #[error("an empty window: write the earlier time first, for example 10..20, not '{0}'")]
    EmptyWindow(String),
    /// The text does not name processes.
    #[error("not processes: write for example 0..7 or 0,3,9, not '{0}'")]
    Processes(String),
}

impl FromStr for Window {
    type Err = ParseViewError;

    /// Parses `10..20`, in time units; either end may be omitted.
    fn from_str(text: &str) -> Result<Self, ParseViewError> {
        let wrong = || ParseViewError::Window(text.to_owned());
        let (from, until) = text.split_once("..").ok_or_else(wrong)?;
        let time = |text: &str, open: Time| match text {
            "" => Ok(open),
            text => text.parse::<Span>().map(|span| Time::ZERO + span).map_err(|_| wrong()),
        };
        let window = Self { from: time(from, Time::ZERO)?, until: time(until, Time::NEVER)? };
        if window.from < window.until {
            Ok(window)
        } else {
            Err(ParseViewError::EmptyWindow(text.to_owned()))
        }
    }
}

/// The processes that are shown; all if none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown(Vec<(NodeId, NodeId)>);

impl Shown {
    /// Whether all processes are shown.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a process is shown.
    pub fn has(&self, node: NodeId) -> bool {
        self.is_all() || self.0.iter().any(|(first, last)| (*first..=*last).contains(&node))
    }

    /// The shown processes of a run of `nodes` processes.
    pub fn of(&self, nodes: u32) -> impl Iterator<Item = NodeId> {
        (0..nodes).map(NodeId).filter(|node| self.has(*node))
    }
}

impl FromStr for Shown {
    type Err = ParseViewError;

    /// Parses `0..7`, both included, or `0,3,9`, or both: `0..2,9`.
    fn from_str(text: &str) -> Result<Self, ParseViewError> {
        let wrong = || ParseViewError::Processes(text.to_owned());
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

/// A view that could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The input is not a trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The view cannot be written.
    #[error("the view cannot be written")]
    Io(#[from] io::Error),
    /// None of the selected processes exists.
    #[error(
        "the trace has n = {0} processes, and none is selected: select some of 0..{last}",
        last = .0.saturating_sub(1)
    )]
    NoProcess(u32),
}

/// Reads up to the end of the window, and passes every event on with whether it is in view.
fn each<R: BufRead>(
    reader: &mut Reader<R>,
    view: &View,
    mut see: impl FnMut(&Record, bool) -> io::Result<()>,
) -> Result<(), ViewError> {
    let nodes = reader.run().n;
    if view.shown.of(nodes).next().is_none() {
        return Err(ViewError::NoProcess(nodes));
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
