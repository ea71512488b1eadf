//! How fast is the simulator, and how small is a process?
//!
//! `cargo bench -p kgate-benches --bench sim [-- --rounds R]`. Machines are noisy, so whatever is
//! compared runs in turns within one run, each in a fresh process. Noise only ever slows a run
//! down, so besides the medians the fastest rounds are compared:
//!
//! 1. `raymond`, n = 1024, constant and uniform latency, everybody asks once (k = 3: one burst of
//!    requests) or four times (k = 1: one after the other): bucket engine, heap engine, and the
//!    crate `dscale` 0.7.2 on the same REQUEST/REPLY traffic as a process of its own
//!    (`benches/dscale`; built here if it can be);
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
        ["--child", "raymond", engine, latency, k, entries] => {
            raymond::child(engine, latency, k, entries);
        }
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
    assert!(
        output.status.success(),
        "the child failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
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

    fn fastest(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    fn print(&self, what: &str, beside: Option<(&str, &Rates)>) {
        let millions = |rate: f64| rate / 1e6;
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let ratio = beside.map(|(whose, rates)| {
            let (medians, fastest) =
                (self.median() / rates.median(), self.fastest() / rates.fastest());
            format!("  {whose} x {medians:.1}, fastest x {fastest:.1}")
        });
        println!(
            "  {what:<34} {:>7.2} M deliveries/s  ({:.2} .. {:.2}){}",
            millions(self.median()),
            millions(least),
            millions(self.fastest()),
            ratio.unwrap_or_default()
        );
    }
}
