//! `kgate run` with real processes and a fake keeper that the tests control.
//!
//! By its first argument this binary is `kgate run` with the fake keeper, or its tests.

#[allow(unused_imports)]
#[path = "../../src/advice.rs"]
mod advice;
#[allow(dead_code)]
#[path = "../../src/credentials.rs"]
mod credentials;
#[allow(dead_code)]
#[path = "../../src/node_arg.rs"]
mod node_arg;
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../src/run/mod.rs"]
mod run;

mod ends;
mod fake;
mod faults;
mod fixture;
mod groups;
mod holds;
mod jobs;
mod signals;
mod waits;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::panic;
use std::process::{Command, ExitCode};
use std::sync::Mutex;

use clap::{CommandFactory, FromArgMatches, Parser};

/// The subcommands that are tested.
#[derive(Debug, Parser)]
enum FakeKgate {
    Run(run::options::RunArgs),
    Acquire(run::options::AcquireArgs),
    Release(run::options::ReleaseArgs),
}

type Test = (&'static str, fn());

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = run::hidden(&arguments) {
        return code;
    }
    if arguments
        .get(1)
        .is_some_and(|first| first == "run" || first == "acquire" || first == "release")
    {
        return fake_kgate();
    }
    reset_ignored_signals(&arguments);
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let all = [
        ends::TESTS,
        signals::TESTS,
        faults::TESTS,
        jobs::TESTS,
        holds::TESTS,
        waits::TESTS,
        groups::TESTS,
    ]
    .concat();
    if std::env::args().any(|word| word == "--list") {
        all.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let chosen = all
        .into_iter()
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|f| name.contains(f)));
    run_all(chosen.collect())
}

/// Starts this binary again without ignored signals if there are any: children inherit them, for
/// example from `nohup`.
fn reset_ignored_signals(arguments: &[OsString]) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored =
        status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap_or(0);
    // HUP, INT, QUIT, USR1, USR2, TERM.
    let tested = [1, 2, 3, 10, 12, 15].iter().fold(0, |all, number| all | 1 << (number - 1));
    if ignored & tested != 0 && std::env::var_os("KGATE_TEST_SIGNALS_RESET").is_none() {
        let mut again = Command::new("env");
        again
            .arg("--default-signal=HUP,INT,QUIT,USR1,USR2,TERM")
            .args(std::env::current_exe())
            .args(&arguments[1..]);
        let error = again.env("KGATE_TEST_SIGNALS_RESET", "1").exec();
        panic!("cannot start again with all signals: {error}");
    }
}

fn fake_kgate() -> ExitCode {
    let matches = FakeKgate::command().get_matches();
    let command = FakeKgate::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let (_, given) = matches.subcommand().expect("one of them");
    let done = match command {
        FakeKgate::Run(args) => run::run(
            args,
            given,
            run::EarlyGuard::start(&std::env::args_os().collect::<Vec<_>>(), fake::open),
            fake::open,
        ),
        FakeKgate::Acquire(args) => run::hold::acquire(&args, given),
        FakeKgate::Release(args) => run::hold::release(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("kgate: {error}");
        ExitCode::from(2)
    })
}

/// Runs four tests at a time: most of them wait for processes.
fn run_all(mut tests: Vec<Test>) -> ExitCode {
    tests.reverse();
    let total = tests.len();
    let waiting = Mutex::new(tests);
    let failed = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some((name, test)) = waiting.lock().expect("unbroken").pop() else { break };
                    let passed = panic::catch_unwind(test).is_ok();
                    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
                    *failed.lock().expect("unbroken") += u32::from(!passed);
                }
            });
        }
    });
    let failed = *failed.lock().expect("unbroken");
    println!("\ntest result: {total} tests, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
