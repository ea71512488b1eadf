//! What a checker says of a run that is not correct.

use std::fmt;

use kgate_core::{NodeId, Time};
use serde::Serialize;

/// No correct process sends what another must refuse; seen by whoever drives the processes.
pub const NOT_REFUSED: &str = "no input is refused";
/// Something is under way, and nobody has been granted anything for longer than any grant can take;
/// seen by whoever has a clock.
pub const GRANTED_IN_TIME: &str = "a grant within the time limit";

/// A property that does not hold: which, when, and whom it concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The property's name.
    pub property: &'static str,
    /// When it was seen, in nanoseconds.
    pub at_ns: Time,
    /// The processes that it concerns.
    pub nodes: Vec<NodeId>,
    /// In a sentence.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violated at t={}: {}", self.property, self.at_ns, self.text)
    }
}
