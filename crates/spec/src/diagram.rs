//! Space-time diagrams: a run as a picture that a reader can follow, drawn from its trace and
//! nothing else.
//!
//! Processes are horizontal lines, time runs to the right. A message is an arrow from where it was
//! sent to where it arrived, with a colour and dashes for its kind. A light bar on a line says that
//! a client waits (in the state model: that the process can move), a dark one that it is inside.
//! The picture is one SVG file that needs nothing from outside.
//!
//! A story ([`draw`]) has a column for every moment at which something happens, however far apart
//! the moments are, so that a schedule of forty steps can be read. A run, or a window of it
//! ([`Canvas`]), is drawn to scale. Event would be too much for a picture is refused with what would
//! fit.
//!
//! - `scene.rs`: what is to be seen, from the lines of a trace; `label.rs`: short texts, and places
//!   where they hide nothing;
//! - `svg.rs`: the picture; `arrows.rs`: its messages; `scale.rs`: where a moment is on paper;
//!   `legend.rs`: what its signs mean.

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

/// So many arrows, bars and marks are drawn at most: more is a black page.
pub const MOST_SIGNS: usize = 2000;
/// So many processes are drawn at most.
pub const MOST_LINES: usize = 64;

/// The picture of a story, as SVG. `title` says in a line what it shows; what came after the time
/// `last`, if there is any, is set off.
pub fn draw(run: &Run, record: &[Record], title: &str, last: Option<Time>) -> String {
    let mut builder = timeline::TimelineBuilder::new(run, &View::default(), usize::MAX, true);
    for record in record {
        builder.see(record);
    }
    match builder.end() {
        Ok(timeline) => svg::draw(&timeline, scale::Scale::columns(&timeline), title, last),
        Err(_) => unreachable!("nothing is too much here"),
    }
}

/// A picture to scale of a run, or of a window of it, that is told event by event.
pub struct Canvas(timeline::TimelineBuilder);

impl Canvas {
    /// An empty one.
    pub fn new(run: &Run, view: &View) -> Result<Self, DiagramError> {
        match view.shown.of(run.n).take(MOST_LINES + 1).count() {
            0 => Err(DiagramError::Nobody(run.n)),
            lines if lines > MOST_LINES => Err(DiagramError::Lines { most: MOST_LINES }),
            _ => Ok(Self(timeline::TimelineBuilder::new(run, view, MOST_SIGNS, false))),
        }
    }

    /// Takes in the next event; whether the ones after it matter.
    pub fn see(&mut self, record: &Record) -> bool {
        self.0.see(record)
    }

    /// The picture, as SVG. `title` says in a line what it shows.
    pub fn finish(self, title: &str) -> Result<String, DiagramError> {
        let timeline = self.0.end()?;
        Ok(svg::draw(&timeline, scale::Scale::even(&timeline), title, None))
    }
}

/// Draws what is in view of a trace.
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

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// There is no trace.
    #[error(transparent)]
    TraceError(#[from] TraceError),
    /// There is no room.
    #[error(transparent)]
    DiagramError(#[from] DiagramError),
}

/// Event is asked for does not fit into a picture; each says what would.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiagramError {
    /// Too many arrows, bars and marks.
    #[error("{signs} arrows, bars and marks are too much for a picture, which holds {most}: {}", fitting(*window, *processes))]
    Signs {
        /// How many there are.
        signs: u64,
        /// How many fit.
        most: usize,
        /// A window that fits, of the same processes.
        window: Option<(Time, Time)>,
        /// Processes that fit, all the time.
        processes: Option<(NodeId, NodeId)>,
    },
    /// Too many processes.
    #[error(
        "more than {most} processes are too much for a picture: choose some, as in --show 0..15"
    )]
    Lines {
        /// How many fit.
        most: usize,
    },
    /// None at all.
    #[error("there are n = {0} processes, and none of them is asked for: name some of 0..{last}", last = .0.saturating_sub(1))]
    Nobody(u32),
}

fn fitting(window: Option<(Time, Time)>, processes: Option<(NodeId, NodeId)>) -> String {
    let window = window.map(|(from, until)| format!("--window {from}..{until}"));
    let processes = processes.map(|(first, last)| format!("--show {}..{}", first.0, last.0));
    match (window, processes) {
        (None, None) => "choose a --window, or fewer processes with --show".into(),
        (Some(one), None) | (None, Some(one)) => format!("{one} would fit"),
        (Some(window), Some(processes)) => format!("{window} would fit, or {processes}"),
    }
}

#[cfg(test)]
mod tests;
