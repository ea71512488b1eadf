//! The laboratory: joins the registry of protocols with the drivers, which know no protocol by
//! name.
//!
//! - [`case`]: a run of a named protocol, and [`command`](mod@command), the command line that
//!   replays it;
//! - [`generate`](mod@generate): whole settings drawn from a seed; `generate/slots.rs`: those of
//!   numbered slots;
//! - [`swarm`]: many generated runs, each checked; [`shrink`]: minimises a failing one;
//! - [`scenario`]: plays scenarios and compares the run with the expected effects;
//! - [`experiment`]: grids of runs, with plots, published facts and verdicts.

pub mod case;
pub mod command;
pub mod experiment;
pub mod generate;
pub mod scenario;
pub mod shrink;
pub mod swarm;

pub use case::{Case, claims_of, graph, t};
pub use command::command;
pub use generate::{generate, generate_disturbed};
