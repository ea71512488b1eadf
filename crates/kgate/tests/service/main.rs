//! The whole service with real processes: nodes, `kgate run` and clients of the API, some of which
//! are killed, stopped, restarted, or receive malformed input.
//!
//! Every run in which permits are granted is checked by a book (`book.rs`): each holder locks a
//! file of its slot. A second holder, or one that enters before the last descendant of its
//! predecessor is dead, finds the lock taken.

mod alone;
mod book;
mod client;
mod cluster;
mod codes;
mod contend;
mod familiar;
mod fixture;
mod frozen;
mod held;
mod hostile;
mod killed;
mod nested;
mod newcomer;
mod operators;
mod outages;
mod restarts;
mod rolling;
mod scripts;
mod secure;
mod silent;
mod slots;
mod terminal;
mod waiters;
