//! What the tests share: the laboratory's cases, by their short names.

pub use kgate_lab::{Case, claims_of, command, generate, generate_disturbed, graph, t};
