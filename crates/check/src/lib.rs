//! Exhaustive exploration: every schedule of a protocol within bounds, on `stateright`.
//!
//! What is explored is the very [`Protocol`](kgate_core::Protocol) code that simulator and network run. The driver here
//! is a [`World`] of processes and channels in which everything that can happen next is a choice: which message
//! arrives, who asks, who comes out, who crashes, who learns of a crash. News of crashes are perfect and reach each
//! process at any time after the crash.
//!
//! - [`model`]: the world, and what can happen in it;
//! - [`properties`]: what must hold in every state; [`ghost`]: what judges remember besides;
//! - [`mod@explore`]: the search, and what it found.

pub mod explore;
pub mod ghost;
pub mod model;
pub mod properties;

pub use explore::{Bounds, Finding, News, Order, Outcome, explore, explore_world};
pub use model::{Channels, World};
#[cfg(test)]
mod tests;
