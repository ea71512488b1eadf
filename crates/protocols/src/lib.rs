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
//! Three more are designs of their own: [`timer_free`] detects crashes by its requests and replies,
//! [`tree_token`] passes tokens along a tree and recovers from crashes, [`stabilizing`] recovers
//! from any corruption of memory and channels. [`slots`] is kgate's own: numbered, fenced slots in
//! strict order, with weights, changes of k and new incarnations. [`home`] is the same at a
//! constant cost per entry, by one home per gate; no node runs it yet.
//!
//! No code here does I/O, reads a clock or draws a random number; the crate is `no_std`.
#![no_std]

extern crate alloc;

pub mod broadcast;
pub mod collections;
pub mod defects;
pub mod detect;
pub mod gates;
#[cfg(test)]
mod harness;
pub mod home;
pub mod permission;
pub mod registry;
pub mod slots;
pub mod stabilizing;
pub mod timer_free;
pub mod topology;
pub mod tree_token;
