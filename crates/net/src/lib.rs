//! kgate on a real network.
//!
//! - [`driver`]: any protocol behind one face, bytes in and bytes out.
#![forbid(unsafe_code)]

pub mod driver;
