//! The control plane of kgate: what a fleet agrees on, rarely, so that permits can be granted often
//! and without agreement.
//!
//! - [`voters`]: who votes, and what a quorum is; [`membership`]: who is a member, in which
//!   incarnation, and who is suspected;
//! - [`timing`]: the numbers of the leases and the inequalities between them;
//! - [`lease`]: node leases, suspicion and eviction, as a state machine without clock or sockets;
//! - `private.rs`: what is on disk is for its owner alone;
//! - [`state`]: what the log says: members, gates, permits that outlive their node; [`log`]: the
//!   log itself, on openraft and redb.
//!
//! The rules have names (N1, E3 ..): docs/internals/leases.md says what each is and why.
#![forbid(unsafe_code)]

pub mod lease;
pub mod log;
pub mod membership;
mod private;
pub mod state;
pub mod timing;
pub mod voters;

pub use private::{private_file, private_folder};
