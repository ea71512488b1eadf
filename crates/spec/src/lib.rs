//! What a correct run is: the properties, each with a checker.
//!
//! A *checker* watches one property. It sees only what can be seen from outside: requests, grants,
//! releases, crashes, and what a protocol reports about itself and its messages (`Observation`,
//! `Carried`). No checker reads a protocol's state. Each property has a file of its own;
//! `docs/internals/checkers.md` lists them all.
//!
//! - [`trace`] is the format of a recorded run, [`trace::reader`] reads it, and [`history`] checks
//!   one without the simulator or the protocol.
//! - [`schedule`] holds the step language, and a [`scenario`] is a file of steps and their effects.
//! - [`diagram`] draws a trace; [`view`] prints it for people and converts it for other tools.

pub mod at_most_k;
pub mod broadcast;
pub mod convergence;
pub mod detection;
pub mod diagram;
pub mod entry_order;
pub mod everyone_served;
pub mod history;
pub mod no_deadlock;
pub mod no_residue;
pub mod not_left_lying;
pub mod one_token;
pub mod permissions;
pub mod queue_order;
pub mod scenario;
pub mod schedule;
pub mod slot_fences;
pub mod sometimes_k;
pub mod strict_order;
pub mod trace;
pub mod view;
mod violation;
pub mod within_k;

pub use at_most_k::AtMostK;
pub use broadcast::Broadcast;
pub use convergence::Convergence;
pub use detection::{Accuracy, Completeness, Loss};
pub use entry_order::EntryOrder;
pub use everyone_served::EveryoneServed;
pub use no_deadlock::NoDeadlock;
pub use no_residue::NoResidue;
pub use not_left_lying::NotLeftLying;
pub use one_token::OneToken;
pub use permissions::Permissions;
pub use queue_order::QueueOrder;
pub use scenario::Scenario;
pub use schedule::{Fate, Step};
pub use slot_fences::SlotFences;
pub use sometimes_k::SometimesK;
pub use strict_order::StrictOrder;
pub use violation::{GRANTED_IN_TIME, NOT_REFUSED, Violation};
pub use within_k::WithinK;
