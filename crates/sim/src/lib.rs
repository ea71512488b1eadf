//! The deterministic simulator: runs any [`Protocol`](kgate_core::Protocol) beside any failure
//! detector, as the papers did.
//!
//! Time is an integer, events are ordered by (time, sequence), and all randomness comes from one
//! seed. A run is described by a [`Config`] and ends in a [`Report`]; its hash covers every event,
//! so that two runs can be compared.
//!
//! - [`config`]: what a run depends on, and which configurations are refused;
//! - [`queue`]: which event is next (a fast bucket queue, and a heap that checks it);
//! - [`cost`]: how long a message takes (the papers' t_s, t_t and t_r, in three readings), and
//!   [`latency`];
//! - [`load`]: when clients ask; [`faults`]: which processes crash, and when; [`disturbance`]:
//!   pauses, partitions, cut links, loss and duplicates;
//! - [`engine`]: the loop that drives the protocols and applies their effects;
//! - [`report`]: the metrics of a run, and [`gauge`]: levels over time;
//! - [`state`]: the state model, with guarded commands, daemons and rounds instead of messages and
//!   time.
//!
//! This crate names no protocol: the caller passes one (`kgate-protocols::registry`).

pub mod config;
pub mod cost;
pub mod disturbance;
pub mod engine;
pub mod faults;
pub mod gauge;
mod hash;
pub mod latency;
mod link_cut;
pub mod load;
mod memory;
pub mod queue;
pub mod report;
mod rng;
mod run_trace;
pub mod state;
mod stats;

pub use config::{Agreement, Audit, Claims, Config, ConfigError, Detection, Detector};
pub use cost::{Cost, ReceiveCost, SendCost};
pub use disturbance::{Chance, Direction, Disturbance, Partition, Pause};
pub use engine::{
    Bucket, Engine, Heap, ImpossibleStep, OpenTrace, PlayError, Played, RunError, Script,
    StartError, StepError, play, run,
};
pub use faults::{Crash, Down, Transient};
pub use latency::{Grid, Latency};
pub use link_cut::LinkCut;
pub use load::{Load, Think};
pub use report::Report;
pub use rng::Rng;
pub use state::{
    Daemon, Start, StateConfig, StateError, StatePlayed, StateReport, StateScript, play_rules,
    run_rules,
};
