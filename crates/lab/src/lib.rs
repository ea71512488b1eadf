//! The laboratory: what joins the registry of protocols with the drivers that name none.
//!
//! - [`case`]: a run of a named system, and [`command`](mod@command), the line that makes it again;
//! - [`generate`](mod@generate): whole settings drawn from a seed; `generate/slots.rs`: those of
//!   numbered slots;
//! - [`swarm`]: many of those, each checked; [`shrink`]: a failing one made smaller;
//! - [`scenario`]: stories that are played and compared with what they tell;
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
