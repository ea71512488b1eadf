//! Tests of the leases: each rule by itself, and all of them together in random simulations with
//! clocks that err.

mod eviction;
mod fixture;
mod harness;
mod lease;
mod random;
mod scenarios;
