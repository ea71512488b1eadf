//! Failure detectors.
//!
//! A detector is a [`Protocol`](kgate_core::Protocol) that never grants anything. It emits
//! `Notice::Suspected`, and the driver passes that to the mutexes of its node as `Input::Crashed`.
//! All three are perfect in a synchronous system, as the papers demand: where an answer takes at
//! most `detect_timeout`, no live process is ever suspected, and every crashed process is
//! eventually suspected by all live ones.

mod heartbeat;
mod hi_adsd;
mod none;
mod vcube;

pub use heartbeat::{Beat, Heartbeat, HeartbeatTimer};
pub use hi_adsd::{HiAdsd, HiAdsdMessage, HiAdsdTimer};
pub use none::NoDetector;
pub use vcube::{Change, VCube, VCubeMessage, VCubeTimer};

use kgate_core::{NodeId, Refusal, Span};

/// Ids are checked before use: a message must come from another process of the system.
fn known(me: NodeId, nodes: u32, from: NodeId) -> Result<(), Refusal> {
    if from == me || from.0 >= nodes { Err(Refusal::UnknownNode(from)) } else { Ok(()) }
}

/// A detector serves no client.
fn no_mutex(protocol: &'static str) -> Result<(), Refusal> {
    Err(Refusal::Unsupported { protocol, what: "clients: it is a detector" })
}

/// An answer that takes exactly the timeout is in time, in whatever order a driver delivers
/// simultaneous events.
fn in_time(timeout: Span) -> Span {
    timeout + Span(1)
}

#[cfg(test)]
mod tests;
