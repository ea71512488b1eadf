//! Space-time diagrams: a run drawn from its trace and nothing else.
//!
//! Processes are horizontal lines, time runs to the right. A message is an arrow from send to
//! delivery, with a colour and dashes for its kind. A light bar on a line means that a client waits
//! (in the state model: that the process is enabled), a dark bar that it holds a slot. The diagram
//! is one self-contained SVG file.
//!
//! A scenario ([`draw`]) has a column for every time at which an event happens, whatever the times
//! between, so that a schedule of forty steps is readable. A run, or a window of it ([`Canvas`]),
//! is drawn to scale. A run that does not fit is rejected with a window that does.
//!
//! - `timeline.rs`: the elements, from the lines of a trace; `label.rs`: short texts, and free
//!   places for them;
//! - `svg.rs`: the SVG file; `arrows.rs`: its messages; `scale.rs`: times as coordinates;
//!   `legend.rs`: the meaning of the signs.

mod arrows;
mod label;
mod legend;
mod scale;
mod svg;
mod timeline;

use std::io::BufRead;

use kgate_core::{NodeId, Time};

use crate::trace::reader::{Reader, Record, Run, TraceError};
use crate::view::View;

/// Largest number of arrows, bars and marks: more are unreadable.
pub const MOST_SIGNS: usize = 2000;
/// Largest number of processes.
pub const MOST_LINES: usize = 64;

/// The diagram of a scenario, as SVG. `title` describes it in one line; events after the time
/// `last` are set off.
pub fn draw(run: &Run, record: &[Record], title: &str, last: Option<Time>) -> String {
    let mut builder = timeline::TimelineBuilder::new(run, &View::default(), usize::MAX, true);
    for record in record {
        builder.see(record);
    }
    match builder.end() {
        Ok(timeline) => svg::draw(&timeline, scale::Scale::columns(&timeline), title, last),
        Err(_) => unreachable!("there is no limit here"),
    }
}

/// A diagram to scale of a run, or of a window of it, built event by event.
pub struct Canvas(timeline::TimelineBuilder);

impl Canvas {
    /// An empty diagram.
    pub fn new(run: &Run, view: &View) -> Result<Self, DiagramError> {
        match view.shown.of(run.n).take(MOST_LINES + 1).count() {
            0 => Err(DiagramError::NoProcess(run.n)),
            lines if lines > MOST_LINES => Err(DiagramError::Lines { most: MOST_LINES }),
            _ => Ok(Self(timeline::TimelineBuilder::new(run, view, MOST_SIGNS, false))),
        }
    }

    /// Adds the next event; returns whether later events matter.
    pub fn see(&mut self, record: &Record) -> bool {
        self.0.see(record)
    }

    /// The diagram as SVG. `title` describes it in one line.
    pub fn finish(self, title: &str) -> Result<String, DiagramError> {
        let timeline = self.0.end()?;
        Ok(svg::draw(&timeline, scale::Scale::even(&timeline), title, None))
    }
}

/// Draws the view of a trace.
pub fn draw_trace<R: BufRead>(
    reader: Reader<R>,
    view: &View,
    title: &str,
) -> Result<String, DrawError> {
    let mut canvas = Canvas::new(reader.run(), view)?;
    for record in reader {
        if !canvas.see(&record?) {
            break;
        }
    }
    Ok(canvas.finish(title)?)
}

/// A trace that cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// The input is not a trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The run does not fit.
    #[error(transparent)]
    Diagram(#[from] DiagramError),
}

/// A run that does not fit into a diagram; each error says what would fit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiagramError {
    /// There are too many arrows, bars and marks.
    #[error(
        "{signs} arrows, bars and marks are too many for a diagram, which holds {most}: {}",
        fitting(*window, *processes)
    )]
    Signs {
        /// The number of signs.
        signs: u64,
        /// The largest number that fits.
        most: usize,
        /// A window that fits, with the same processes.
        window: Option<(Time, Time)>,
        /// Processes that fit, over the same window.
        processes: Option<(NodeId, NodeId)>,
    },
    /// There are too many processes.
    #[error(
        "more than {most} processes are too many for a diagram: select some, for example --show \
         0..15"
    )]
    Lines {
        /// The largest number that fits.
        most: usize,
    },
    /// None of the selected processes exists.
    #[error(
        "the trace has n = {0} processes, and none is selected: select some of 0..{last}",
        last = .0.saturating_sub(1)
    )]
    NoProcess(u32),
}

fn fitting(window: Option<(Time, Time)>, processes: Option<(NodeId, NodeId)>) -> String {
    let window = window.map(|(from, until)| format!("--window {from}..{until}"));
    let processes = processes.map(|(first, last)| format!("--show {}..{}", first.0, last.0));
    match (window, processes) {
        (None, None) => "give a --window, or fewer processes with --show".into(),
        (Some(one), None) | (None, Some(one)) => format!("{one} fits"),
        (Some(window), Some(processes)) => format!("{window} fits, or {processes}"),
    }
}

#[cfg(test)]
mod tests;
