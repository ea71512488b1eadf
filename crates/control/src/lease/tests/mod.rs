//! Tests of the leases: each rule by itself, and all of them in a random world with clocks that
//! err.

mod eviction;
mod hall;
mod lease;
mod random;
mod stories;
mod world;
