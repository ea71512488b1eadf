//! The runtime of a thread that waits for a node.

use std::fs::File;
use std::io;

use tokio::runtime::{Builder, Runtime};

/// At least as many descriptors as a runtime opens.
const DESCRIPTORS: usize = 8;

/// A runtime for this thread. tokio panics where no descriptor is free, so a few are opened before:
/// then it is an error like any other.
pub(crate) fn runtime() -> io::Result<Runtime> {
    let free: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    drop(free?);
    Builder::new_current_thread().enable_all().build()
}
