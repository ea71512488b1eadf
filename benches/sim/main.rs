//! How fast is the simulator, and how small is a process?
//!
//! `cargo bench -p kgate-benches --bench sim [-- --rounds R]`. Machines are noisy, so whatever is compared runs in turns within
//! one run, each in a fresh process, and what counts is the ratio of medians:
//!
//! 1. `raymond`, everybody asks once, n = 1024, k = 3, constant and uniform latency: bucket engine, heap engine, and the crate `dscale`
//!    0.7.2 on the same REQUEST/REPLY traffic as a process of its own (`benches/dscale`; built here if it can be);
//! 2. the bare engine, with handlers that do nothing;
//! 3. memory: 2^20 processes and one broadcast down a tree, in a fresh process.
//!
//! Nothing here fails for being slow; unequal numbers of delivered messages do.

mod bare;
mod memory;
mod raymond;
mod rival;

use std::process::{Command, ExitCode};

/// The allocator of the `kgate` binary, and of `dscale`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--child", "memory"] => memory::child(),
        ["--child", "raymond", engine, latency] => raymond::child(engine, latency),
        _ => {
            let rounds = words.iter().skip_while(|word| **word != "--rounds").nth(1);
            let Ok(rounds) = rounds.map_or(Ok(9), |text| text.parse::<usize>()) else {
                eprintln!("--rounds takes a number");
                return ExitCode::from(2);
            };
            println!("simulator, median of {rounds} rounds in turns (least .. most)\n");
            raymond::compare(rounds.max(1));
            bare::measure(rounds.max(1));
            memory::measure();
        }
    }
    ExitCode::SUCCESS
}

/// Runs this program again with these words, and returns what it printed.
fn child(words: &[&str]) -> String {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).arg("--child").args(words).output().expect("a child");
    assert!(output.status.success(), "the child failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Deliveries a second of several rounds.
struct Rates(Vec<f64>);

impl Rates {
    fn new() -> Self {
        Self(Vec::new())
    }

    #[allow(clippy::cast_precision_loss)] // For tables.
    fn add(&mut self, delivered: u64, seconds: f64) {
        self.0.push(delivered as f64 / seconds);
    }

    fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    fn print(&self, what: &str, beside: Option<(&str, f64)>) {
        let millions = |rate: f64| rate / 1e6;
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.0.iter().copied().fold(0.0, f64::max);
        let ratio = beside
            .map(|(whose, rate)| format!("  {whose} x {:.1}", self.median() / rate))
            .unwrap_or_default();
        println!(
            "  {what:<34} {:>7.2} M deliveries/s  ({:.2} .. {:.2}){ratio}",
            millions(self.median()),
            millions(least),
            millions(most)
        );
    }
}
