//! The whole service with real processes: nodes, `kgate run`, clients of the API, and what becomes
//! of them when somebody is killed, frozen, started again or talks nonsense.
//!
//! Every run in which permits are granted is checked by a book (`book.rs`): whoever goes in locks a
//! file of its slot, so that a second one inside, or one who comes in before the last descendant of
//! the one before is dead, finds the lock taken.

mod alone;
mod book;
mod client;
mod cluster;
mod codes;
mod contend;
mod frozen;
mod held;
mod killed;
mod operators;
mod outages;
mod restarts;
mod rolling;
mod scene;
mod secure;
mod strangers;
mod waiters;
