//! Space-time diagrams: a run as a picture that a reader can follow, drawn from its trace and nothing else.
//!
//! Processes are horizontal lines, time runs to the right. Every moment at which something happens has a column of its own, however far
//! apart the moments are, so that a schedule of forty steps can be read. A message is an arrow from where it was sent to where it
//! arrived, coloured by its kind. A light bar on a line says that a client waits (in the state model: that the process can move), a dark one
//! that it is inside. The picture is one SVG file that needs nothing from outside.
//!
//! - `scene.rs`: what is to be seen, from the lines of a trace; `label.rs`: short texts, and places where they hide nothing;
//! - `svg.rs`: the picture; `legend.rs`: what its signs mean.

mod label;
mod legend;
mod scene;
mod svg;

use kgate_core::Time;

use crate::told::{Run, Told};

/// The picture of a run, as SVG. `title` says in a line what it shows; what came after the time `last`, if there is any, is set off.
pub fn draw(run: &Run, told: &[Told], title: &str, last: Option<Time>) -> String {
    svg::draw(&scene::Scene::new(run, told), title, last)
}

#[cfg(test)]
mod tests;
