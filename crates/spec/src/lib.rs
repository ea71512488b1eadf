//! What a correct run is.
//!
//! One file a property, each an independent judge over what can be seen from outside: who asked, who went in, who
//! came out, who crashed. No judge looks into a protocol. [`trace`] is the format in which a run is written down and [`told`] reads it,
//! [`schedule`] has the words in which one is prescribed, and a [`scenario`] is a file of both. [`diagram`] draws a trace.

pub mod at_most_k;
pub mod diagram;
pub mod everyone_served;
pub mod history;
pub mod scenario;
pub mod schedule;
pub mod slot_fences;
pub mod told;
pub mod trace;
mod violation;

pub use at_most_k::AtMostK;
pub use everyone_served::EveryoneServed;
pub use scenario::Scenario;
pub use schedule::{Fate, Step};
pub use slot_fences::SlotFences;
pub use violation::Violation;
