//! What a correct run is.
//!
//! One file a property, each an independent checker over what can be seen from outside: who asked,
//! who went in, who came out, who crashed, and what a protocol shows of itself and its messages
//! (`Observation`, `Carried`). No checker looks into a protocol. `docs/internals/checkers.md` lists them all.
//! [`trace`] is the format in which a run is written down and [`told`] reads it, [`schedule`] has
//! the words in which one is prescribed, and a [`scenario`] is a file of both. [`diagram`] draws a
//! trace, and [`view`] tells it to people and to other tools.

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
pub mod scenario;
pub mod schedule;
pub mod slot_fences;
pub mod sometimes_k;
pub mod strict_order;
pub mod told;
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
pub use scenario::Scenario;
pub use schedule::{Fate, Step};
pub use slot_fences::SlotFences;
pub use sometimes_k::SometimesK;
pub use strict_order::StrictOrder;
pub use violation::{GRANTED_IN_TIME, NOT_REFUSED, Violation};
pub use within_k::WithinK;
