//! The laboratory: experiments that bring protocols, simulator and judges together, for the binary and for tests alike.

pub mod scenario;
