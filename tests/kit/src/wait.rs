//! Waiting for a condition of real processes and files, with a deadline.
//!
//! Nothing notifies a test of a file that appears or a process that ends, so the condition is
//! polled. The thread parks between two attempts; no test waits for a fixed time.

use std::time::{Duration, Instant};

/// How long a condition may take before the test fails: long, because a loaded machine is slow.
pub const PATIENCE: Duration = Duration::from_secs(120);

const INTERVAL: Duration = Duration::from_millis(5);

/// Polls until there is an answer; panics with `what` after [`PATIENCE`].
#[allow(clippy::disallowed_methods, reason = "a deadline for real processes")]
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "timed out after {PATIENCE:?}: {what}");
        std::thread::park_timeout(INTERVAL);
    }
}

/// Polls until the condition holds; panics with `what` after [`PATIENCE`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first answer ends the wait.
    #[test]
    fn the_first_answer_counts() {
        let mut attempts = 0;
        let found = wait_for("the third attempt", || {
            attempts += 1;
            (attempts == 3).then_some(attempts)
        });
        assert_eq!(found, 3);
    }
}
