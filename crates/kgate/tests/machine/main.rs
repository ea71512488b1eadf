//! One machine with several real users: where they meet, what each of them may do, and what is left
//! when a node or a command is killed. Every test runs as root in a machine of its own
//! (`sandbox.rs`), and is skipped with a message where that is not possible.

mod hostile;
mod machine_node;
mod oracle;
mod private_nodes;
mod random;
mod refusals;
mod sandbox;
mod service;
