//! The algorithms of kgate, each a pure state machine ([`kgate_core::Protocol`]), and the registry
//! that names them.
//!
//! Four systems of the papers are compositions of three layers, not four copies:
//!
//! | system | detector ([`detect`]) | broadcast ([`broadcast`]) | mutex |
//! |---|---|---|---|
//! | `raymond` | none | [`broadcast::Direct`] | [`permission`] |
//! | `bas` | [`detect::Heartbeat`] | [`broadcast::Direct`] | [`permission`] |
//! | `vcube` | [`detect::VCube`] | [`broadcast::Tree`] | [`permission`] |
//! | `robust` | [`detect::HiAdsd`] | [`broadcast::Sta`] | [`permission`] |
//!
//! Three more have ideas of their own: [`timer_free`] finds crashes by its requests and replies,
//! [`tree_token`] passes tokens along a tree and comes back from crashes, [`stabilizing`] is right
//! again after any corruption of memory and channels. [`slots`] is our own: numbered, fenced slots
//! in strict order, with weights, changes of k and new incarnations.
//!
//! Nothing here does I/O, reads a clock or draws a number; the crate is `no_std`.
#![no_std]

extern crate alloc;

pub mod broadcast;
pub mod collections;
pub mod defects;
pub mod detect;
#[cfg(test)]
mod harness;
pub mod permission;
pub mod registry;
pub mod slots;
pub mod stabilizing;
pub mod timer_free;
pub mod topology;
pub mod tree_token;
