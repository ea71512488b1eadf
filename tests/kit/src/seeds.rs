//! How many seeds a test runs, and how to replay the one that failed.
//!
//! `KGATE_TEST_SEEDS` asks for more seeds than usual, `KGATE_FIRST_SEED` for others.

use std::ops::Range;

/// `usual` seeds from `first` on, unless the environment asks for others.
pub fn seeds(first: u64, usual: u64) -> Range<u64> {
    let first = given("KGATE_FIRST_SEED").unwrap_or(first);
    first..first + given(COUNT).unwrap_or(usual)
}

/// Whether the environment asks for a number of seeds: a long run, which may also print more.
pub fn is_count_given() -> bool {
    given(COUNT).is_some()
}

/// Runs a test with each seed. If it panics, the command that replays the seed is printed; `test`
/// says which test that is, for example `-p kgate-control --lib no_child_outlives`.
pub fn each_seed(seeds: Range<u64>, test: &str, mut run: impl FnMut(u64)) {
    for seed in seeds {
        let _replay = Replay { seed, test };
        run(seed);
    }
}

const COUNT: &str = "KGATE_TEST_SEEDS";

fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

/// Prints the command when it is dropped by a panic.
struct Replay<'a> {
    seed: u64,
    test: &'a str,
}

impl Replay<'_> {
    fn command(&self) -> String {
        let Self { seed, test } = self;
        format!("KGATE_FIRST_SEED={seed} KGATE_TEST_SEEDS=1 cargo test {test}")
    }
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}\nREPRODUCE WITH: {}", self.seed, self.command());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command names the seed and the test.
    #[test]
    fn the_replay_names_the_seed() {
        let replay = Replay { seed: 42, test: "-p x y" };
        let command = "KGATE_FIRST_SEED=42 KGATE_TEST_SEEDS=1 cargo test -p x y";
        assert_eq!(replay.command(), command);
    }

    /// Every seed runs, in order.
    #[test]
    fn each_seed_runs_once() {
        let mut seen = Vec::new();
        each_seed(3..6, "-p x y", |seed| seen.push(seed));
        assert_eq!(seen, [3, 4, 5]);
    }
}
