//! The node of kgate: a daemon as a library.
//!
//! - [`core`]: a node without its sockets.
#![forbid(unsafe_code)]

pub mod core;
