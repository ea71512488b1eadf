//! The deterministic simulator: runs any [`Protocol`](kgate_core::Protocol) with any detector
//! beside it, as the papers did.
//!
//! Time is an integer, events come in the order of (time, sequence), and everything random comes
//! from one seed. A run is described by a [`Config`] and ends in a [`Report`]; its hash covers
//! every event, so that two runs can be compared.
//!
//! - [`queue`]: what happens next (a fast bucket queue, and a heap that checks it);
//! - [`cost`]: how long a message takes (the papers' t_s, t_t, t_r in three readings) and
//!   [`latency`];
//! - [`load`]: who asks when; [`faults`]: who crashes when; [`disturbance`]: who stops, what is cut
//!   off, lost, doubled;
//! - [`engine`]: the loop that drives the protocols and carries out their effects;
//! - [`report`]: what was measured, in one place;
//! - [`state`]: the state model, with guarded commands, daemons and rounds in place of messages and
//!   time.
//!
//! This crate names no protocol: its caller passes one (`kgate-protocols::registry`).

pub mod config;
pub mod cost;
pub mod disturbance;
pub mod engine;
pub mod faults;
pub mod gauge;
mod hash;
pub mod latency;
pub mod load;
mod memory;
pub mod queue;
pub mod report;
mod rng;
pub mod state;
mod stats;

pub use config::{Audit, Claims, Config, ConfigError, Detection, Detector};
pub use cost::{Cost, ReceiveCost, SendCost};
pub use disturbance::{Chance, Direction, Disturbance, Partition, Pause};
pub use engine::{
    Bucket, Engine, Heap, ImpossibleStep, OpenTrace, PlayError, Played, RunError, Script,
    StartError, StepError, play, run,
};
pub use faults::{Crash, Down, Transient};
pub use latency::{Grid, Latency};
pub use load::{Load, Think};
pub use report::Report;
pub use rng::Rng;
pub use state::{
    Daemon, Start, StateConfig, StateError, StatePlayed, StateReport, StateScript, play_rules,
    run_rules,
};
