//! The core of kgate: the interface between a k-mutual-exclusion algorithm and its drivers.
//!
//! A [`Protocol`] is a pure state machine. It is written once and runs unchanged in the model
//! checker, in the simulator and on a real network, because it knows none of them: it takes an
//! [`Input`], changes its state and leaves [`Effect`]s in an [`Outbox`]. The driver does the rest.
//!
//! # The laws
//!
//! 1. **One input, all effects, next input.** The driver passes one input, carries out every effect
//!    in the order in which it was left, and only then passes the next input.
//! 2. **Durable before visible.** An [`Effect::Persist`] is on stable storage before any later
//!    [`Effect::Send`] leaves.
//! 3. **No clock, no random numbers, no I/O.** Time is an argument; a timer asks for a range and
//!    the driver draws from it. This crate and every protocol are `no_std`, so that breaking this
//!    law does not compile.
//! 4. **A refusal changes nothing.** A [`Protocol::handle`] that returns a [`Refusal`] has left the
//!    state and the outbox as they were.
//! 5. **Ids are checked before use.** Every message of a peer is either a valid input or a refusal,
//!    never a panic. A broken invariant of the process itself, in contrast, is a panic.
//! 6. **Idle is small.** A process that neither waits nor holds keeps O(log n) or sparse state, so
//!    that a million of them fit into memory. (The one exception is a detector in which every
//!    process hears from every other one all the time.)
#![no_std]

extern crate alloc;

mod adoption;
mod defects;
mod directory;
mod effect;
mod explorable;
mod graph;
mod id;
mod input;
mod log_view;
mod mechanism;
mod message;
mod observation;
mod options;
mod protocol;
mod refusal;
mod rules;
mod split_mix;
mod stamp;
mod suspend;
mod time;
mod transient;

pub use adoption::Adoption;
pub use defects::Defects;
pub use directory::{Directory, Placement, Term};
pub use effect::{Effect, EffectOf, Notice, Outbox, To};
pub use explorable::{Assigned, Explorable, Inventory};
pub use graph::{Graph, NotAGraph};
pub use id::{Fence, GrantId, Incarnation, NodeId, ViewId};
pub use input::{Input, InputOf};
pub use log_view::{LogIndex, LogView};
pub use mechanism::Mechanism;
pub use message::{Carried, Message, Never, Token};
pub use observation::{Observation, Phase};
pub use options::{Dissemination, MembershipSource, SlotOptions};
pub use protocol::{InitialMembers, Protocol, Setup};
pub use refusal::Refusal;
pub use rules::{Rules, Step, Survey, View};
pub use split_mix::split_mix64;
pub use stamp::Stamp;
pub use suspend::Suspend;
pub use time::{NotATime, Span, Time};
pub use transient::TransientFaults;
