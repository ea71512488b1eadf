//! The report of a checker about a run that is not correct.

use std::fmt;

use kgate_core::{NodeId, Time};
use serde::Serialize;

/// No correct process sends a message that another must reject. The driver of the processes checks
/// it.
pub const NOT_REFUSED: &str = "no input is refused";
/// While events are in progress, some request is granted within the longest time a grant can take.
/// Drivers with a clock check it.
pub const GRANTED_IN_TIME: &str = "a grant within the time limit";

/// A violated property, with its time and the processes concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The name of the property.
    pub property: &'static str,
    /// The time at which the violation was seen, in nanoseconds.
    pub at_ns: Time,
    /// The processes concerned.
    pub nodes: Vec<NodeId>,
    /// What happened, in a sentence.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violated at t={}: {}", self.property, self.at_ns, self.text)
    }
}
