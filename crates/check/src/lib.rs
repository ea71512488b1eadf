//! Exhaustive exploration: every schedule of a protocol within bounds, on `stateright`.
//!
//! What is explored is the very [`Protocol`](kgate_core::Protocol) code that simulator and network
//! run. The driver here is a [`ProtocolModel`] of processes and channels in which everything that can
//! happen next is a choice: which message arrives, who asks, who comes out, who crashes, who learns
//! of a crash. CrashNotifications of crashes are perfect and reach each process at any time after the crash.
//!
//! - [`bounds`]: how often what may happen; [`limits`]: what stops a search before its end;
//! - [`state`], [`client`], [`log`], [`action`], [`model`]: the world, and what can happen in it;
//! - [`properties`]: what must hold in every state; [`ghost`]: what checkers remember besides;
//! - [`mod@explore`]: the search, and what it found;
//! - [`symmetry`]: states that differ in names only; [`fair`]: schedules without end;
//! - [`rules`]: the state model, every configuration instead of every schedule.

pub mod action;
pub mod bounds;
pub mod client;
pub mod explore;
pub mod fair;
pub mod ghost;
pub mod limits;
pub mod log;
pub mod model;
pub mod properties;
pub mod rules;
pub mod state;
pub mod symmetry;

pub use bounds::{Bounds, Channels, CrashNotifications, Down, Tolerates};
pub use explore::{Finding, Order, Outcome, ScheduleStep, explore, explore_fair, explore_model};
pub use limits::{Limits, Stopped};
pub use model::ProtocolModel;
pub use rules::explore_rules;
#[cfg(test)]
mod tests;
