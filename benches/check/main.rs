//! How fast is the explorer?
//!
//! `cargo bench -p kgate-benches --bench check [-- --rounds R]`: `raymond`, n = 3, k = 1, every
//! client asks four times, FIFO channels, all states, depth first on one core.
//! `kgate_check::explore` beside `stateright`'s own actor model ([`actor`]), which drives the same
//! protocol code with the same search and the same properties. The two models have the same states
//! and the same steps, and both must count just as many. They run in turns, each time in a fresh
//! process; noise only ever slows a run down, so besides the medians the fastest rounds are
//! compared, and besides the time that passed the time that the processor spent on it, which
//! others' work disturbs less.

mod actor;

use std::process::{Command, ExitCode};
use std::time::Instant;

use kgate_check::{Bounds, CrashNotifications, Limits, SearchOrder, explore};
use kgate_core::Setup;

/// The allocator of the `kgate` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: u32 = 3;
const PERMITS: u32 = 1;
const ENTRIES: u32 = 4;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--child", "kgate"] => print(measure(ours)),
        ["--child", "actor"] => print(measure(|| actor::search(NODES, PERMITS, ENTRIES))),
        _ => {
            let rounds = words.iter().skip_while(|word| **word != "--rounds").nth(1);
            let Ok(rounds) = rounds.map_or(Ok(9), |text| text.parse::<usize>()) else {
                eprintln!("--rounds takes a number");
                return ExitCode::from(2);
            };
            compare(rounds.max(1));
        }
    }
    ExitCode::SUCCESS
}

/// Different states, and states generated.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    unique: usize,
    generated: usize,
}

fn ours() -> Found {
    let bounds = Bounds { notifications: CrashNotifications::None, ..Bounds::new(ENTRIES) };
    let outcome = explore::<actor::Process>(
        Setup::new(NODES, PERMITS),
        bounds,
        Limits::default(),
        SearchOrder::Depth,
    );
    assert!(
        outcome.complete && outcome.properties.iter().all(|finding| finding.holds),
        "{outcome:?}"
    );
    Found { unique: outcome.unique, generated: outcome.states }
}

/// Seconds that a search took.
#[derive(Clone, Copy)]
struct Seconds {
    passed: f64,
    /// Where the system tells.
    processor: Option<f64>,
}

#[allow(clippy::disallowed_methods)] // A benchmark reads the clock.
fn measure(search: impl FnOnce() -> Found) -> (Found, Seconds) {
    let (started, spent) = (Instant::now(), processor());
    let found = search();
    let processor = processor().zip(spent).map(|(now, before)| now - before);
    (found, Seconds { passed: started.elapsed().as_secs_f64(), processor })
}

/// What all threads of this process have spent so far: Linux tells it in hundredths.
fn processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

fn print((found, seconds): (Found, Seconds)) {
    let processor = seconds.processor.map_or("-".to_owned(), |seconds| seconds.to_string());
    println!("{} {} {} {processor}", found.unique, found.generated, seconds.passed);
}

fn compare(rounds: usize) {
    let (mut kgate, mut actor) = (Vec::new(), Vec::new());
    let mut found = None;
    for _ in 0..rounds {
        for (whose, times) in [("kgate", &mut kgate), ("actor", &mut actor)] {
            let (now, seconds) = child(whose);
            assert_eq!(
                *found.get_or_insert(now),
                now,
                "{whose}: both models have the same states and steps"
            );
            times.push(seconds);
        }
    }
    let Found { unique, generated } = found.expect("a round");
    println!(
        "raymond, n = {NODES}, k = {PERMITS}, {ENTRIES} entries each, depth first, one core, \
         {rounds} rounds in turns"
    );
    println!("{unique} different states of {generated} generated, on both sides");
    let passed = |seconds: &Seconds| Some(seconds.passed);
    let processor = |seconds: &Seconds| seconds.processor;
    table("by the clock", unique, kgate.iter().filter_map(passed), actor.iter().filter_map(passed));
    if kgate.iter().all(|seconds| seconds.processor.is_some()) {
        let (kgate, actor) =
            (kgate.iter().filter_map(processor), actor.iter().filter_map(processor));
        table("by the processor's time", unique, kgate, actor);
    }
}

/// One search in a fresh process.
fn child(whose: &str) -> (Found, Seconds) {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).args(["--child", whose]).output().expect("a child");
    assert!(
        output.status.success(),
        "the child failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let [unique, generated, passed, processor] = text.split_whitespace().collect::<Vec<_>>()[..]
    else {
        panic!("four words, not {text}")
    };
    let count = |word: &str| word.parse::<usize>().expect("a count");
    let seconds =
        Seconds { passed: passed.parse().expect("a time"), processor: processor.parse().ok() };
    (Found { unique: count(unique), generated: count(generated) }, seconds)
}

fn table(
    what: &str,
    states: usize,
    kgate: impl Iterator<Item = f64>,
    actor: impl Iterator<Item = f64>,
) {
    let (ours, theirs) = (Rates::of(states, kgate), Rates::of(states, actor));
    println!("\ndifferent states a second, {what}: median (least .. most)");
    theirs.print("stateright's actor model");
    ours.print("kgate-check");
    println!("  ratio {:.2}, fastest {:.2}", ours.median / theirs.median, ours.most / theirs.most);
}

/// Different states a second.
struct Rates {
    median: f64,
    least: f64,
    most: f64,
}

impl Rates {
    #[allow(clippy::cast_precision_loss)] // For tables.
    fn of(states: usize, seconds: impl Iterator<Item = f64>) -> Self {
        let mut rates: Vec<f64> = seconds.map(|seconds| states as f64 / seconds).collect();
        rates.sort_by(f64::total_cmp);
        Self { median: rates[rates.len() / 2], least: rates[0], most: rates[rates.len() - 1] }
    }

    fn print(&self, whose: &str) {
        let Self { median, least, most } = self;
        println!("  {whose:<26} {median:>9.0}  ({least:.0} .. {most:.0})");
    }
}
