//! The model checker: explores every schedule of a protocol within bounds, on `stateright`.
//!
//! It explores the same [`Protocol`](kgate_core::Protocol) code that the simulator and the network
//! run. A [`ProtocolModel`] drives processes and channels; every possible next event is a choice:
//! which message arrives, which client asks or releases, which process crashes, and which process
//! is notified of a crash. Crash notifications are never false and reach each process at any time
//! after the crash.
//!
//! - [`bounds`]: how often each event may happen; [`limits`]: what stops a search early;
//! - [`state`], [`client`], [`log`], [`action`], [`model`]: the states and the transitions between
//!   them;
//! - [`properties`]: what must hold in every state; [`ghost`]: what the property checkers remember
//!   besides the state of processes;
//! - [`mod@explore`]: the search and its results;
//! - [`log_model`]: protocols that follow an agreed log, with the log as a part of the state;
//! - [`symmetry`]: states that differ only by a renaming of processes; [`fair`]: infinite
//!   schedules;
//! - [`rules`]: the state model, where every configuration is explored instead of every schedule.

pub mod action;
pub mod bounds;
pub mod client;
pub mod explore;
pub mod fair;
pub mod ghost;
pub mod limits;
pub mod log;
pub mod log_model;
pub mod model;
pub mod properties;
pub mod rules;
pub mod state;
pub mod symmetry;

pub use bounds::{Bounds, Channels, CrashNotifications, Down, Tolerates};
pub use explore::{
    Event, Finding, Outcome, ScheduleStep, SearchOrder, explore, explore_fair, explore_model,
};
pub use limits::{Limits, Stopped};
pub use log_model::{LogBounds, LogModel, explore_log};
pub use model::ProtocolModel;
pub use rules::explore_rules;
#[cfg(test)]
mod tests;
