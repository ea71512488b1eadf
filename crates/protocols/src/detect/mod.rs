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

use kgate_core::{Input, NodeId, Observation, Refusal, Span};

use crate::collections::NodeList;

/// An input that concerns a detector.
enum DetectorInput<M, T> {
    Deliver { from: NodeId, message: M },
    Expire(T),
}

/// Checks the input of detector `protocol` at process `me` before it is used: a message must come
/// from another process of the system, and a detector serves no client.
fn checked<M, T>(
    protocol: &'static str,
    me: NodeId,
    nodes: u32,
    input: Input<M, T>,
) -> Result<DetectorInput<M, T>, Refusal> {
    match input {
        Input::Deliver { from, .. } if from == me || from.0 >= nodes => {
            Err(Refusal::UnknownNode(from))
        }
        Input::Deliver { from, message } => Ok(DetectorInput::Deliver { from, message }),
        Input::Expire(timer) => Ok(DetectorInput::Expire(timer)),
        Input::Acquire { .. }
        | Input::Withdraw
        | Input::Release { .. }
        | Input::Resize(_)
        | Input::Reserved(_)
        | Input::Lease(_)
        | Input::Applied(_)
        | Input::Lapse { .. }
        | Input::Adopt(_)
        | Input::Confirm { .. }
        | Input::Crashed { .. }
        | Input::Joined { .. } => Err(no_clients(protocol)),
    }
}

/// A detector serves no client.
fn no_clients(protocol: &'static str) -> Refusal {
    Refusal::Unsupported { protocol, what: "clients: it is a detector" }
}

/// A test reply must name only processes that exist.
fn check_reply(nodes: u32, mut named: impl Iterator<Item = NodeId>) -> Result<(), Refusal> {
    if named.any(|node| node.0 >= nodes) {
        return Err(Refusal::Malformed("a test reply names a process that does not exist"));
    }
    Ok(())
}

/// What a detector shows of its state: the processes that it considers crashed.
fn observed(crashed: &NodeList) -> Observation {
    Observation { crashed: crashed.iter().collect(), ..Observation::default() }
}

/// An answer that takes exactly the timeout is in time, in whatever order a driver delivers
/// simultaneous events.
fn in_time(timeout: Span) -> Span {
    timeout + Span(1)
}

#[cfg(test)]
mod tests;
