//! The control plane of kgate: what a fleet agrees on, rarely, so that permits can be granted often
//! and without agreement.
//!
//! - [`voters`]: the nodes that vote, and quorums of them; [`membership`]: the members, their
//!   incarnations, and the suspicions;
//! - [`timing`]: the numbers of the leases, and the inequalities between them;
//! - [`lease`]: node leases, suspicion and eviction, as a state machine without clock or sockets;
//! - [`state`]: the replicated state: members, gates, and permits that outlive their node; [`log`]:
//!   the log itself, on openraft and redb;
//! - `permissions.rs`: files that only their owner can read.
//!
//! The rules have names (N1, E3 ..): docs/internals/leases.md says what each is and why.
#![forbid(unsafe_code)]

pub mod lease;
pub mod log;
pub mod membership;
mod permissions;
pub mod state;
pub mod timing;
pub mod voters;

pub use permissions::{private_file, private_folder};
