//! Tests of the leases: each rule by itself, and all of them in a random world with clocks that err.

mod random;
mod world;
