//! `home` on manually driven networks, and random walks of whole systems against an oracle that
//! shares no code with it.

mod bound;
mod costs;
mod fixture;
mod harness;
mod malformed;
mod moves;
mod pass;
mod relay;
mod walks;
mod witness;

use super::Home;
