//! All checks of the project by one command: `cargo xtask verify`.
//!
//! A check reads the tree and changes nothing in it. `verify` runs the checks in order and stops at
//! the first that fails; each can also run alone, by its name. A job needs more than Rust or more
//! than minutes, or writes files: it runs by its name only. Exit codes: 0 passed, 1 a check or job
//! failed, 2 usage error.

mod cargo;
mod deps;
mod spin;
mod tidy;
mod verification;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

struct Check {
    name: &'static str,
    about: &'static str,
    run: fn(root: &Path) -> Result<()>,
}

/// In the order of `verify`.
const CHECKS: &[Check] = &[
    Check { name: "fmt", about: "the code is formatted", run: cargo::fmt },
    Check { name: "clippy", about: "clippy reports nothing", run: cargo::clippy },
    Check { name: "doc", about: "the API documentation builds without a warning", run: cargo::doc },
    Check {
        name: "deps",
        about: "packages depend only on the packages that they may use",
        run: deps::check,
    },
    Check {
        name: "tidy",
        about: "the files keep the rules of style that no lint checks",
        run: tidy::check,
    },
    Check {
        name: "verified",
        about: "docs/internals/verification.md agrees with the results, and those are as expected",
        run: verification::check,
    },
    Check { name: TEST, about: "the tests pass", run: cargo::test },
];

const TEST: &str = "test";

struct Job {
    name: &'static str,
    about: &'static str,
    run: fn(root: &Path, words: &[&str]) -> Result<()>,
}

/// Not run by `verify`.
const JOBS: &[Job] = &[
    Job {
        name: "chaos",
        about: "real nodes under faults from a seed (needs root) [--seed S] [--seeds N] ..",
        run: cargo::chaos,
    },
    Job {
        name: "partition-tries",
        about: "margin between a holder's death and the next grant (needs root) [--tries N] ..",
        run: cargo::partition_tries,
    },
    Job {
        name: "reference",
        about: "write the generated pages of docs/reference: CLI, configuration, metrics",
        run: cargo::reference,
    },
    Job {
        name: "spin",
        about: "SPIN counts the same states as kgate check (needs spin, cc)",
        run: spin::run,
    },
    Job {
        name: "verification",
        about: "run the rows of verification/rows.txt that have no result yet [--only TEXT] ..",
        run: verification::run,
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match choose(&words) {
        Choice::Help => {
            print!("{}", usage());
            ExitCode::SUCCESS
        }
        Choice::Run(checks) => run(&checks),
        Choice::Do(job) => match root().and_then(|root| (job.run)(&root, &words[1..])) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("xtask: `{}` failed: {error:#}", words.join(" "));
                ExitCode::FAILURE
            }
        },
        Choice::Unknown => {
            eprint!("xtask: unknown command `{}`\n\n{}", words.join(" "), usage());
            ExitCode::from(2)
        }
    }
}

enum Choice {
    Help,
    Run(Vec<&'static Check>),
    Do(&'static Job),
    Unknown,
}

fn choose(words: &[&str]) -> Choice {
    match words {
        [] | ["--help" | "-h" | "help"] => Choice::Help,
        ["verify"] => Choice::Run(CHECKS.iter().collect()),
        ["verify", "--without-tests"] => {
            Choice::Run(CHECKS.iter().filter(|c| c.name != TEST).collect())
        }
        [name] => match CHECKS.iter().find(|c| c.name == *name) {
            Some(check) => Choice::Run(vec![check]),
            None => job(name),
        },
        [name, ..] => job(name),
    }
}

fn job(name: &str) -> Choice {
    JOBS.iter().find(|job| job.name == name).map_or(Choice::Unknown, Choice::Do)
}

fn run(checks: &[&Check]) -> ExitCode {
    for check in checks {
        println!("== {}", check.name);
        if let Err(error) = root().and_then(|root| (check.run)(&root)) {
            eprintln!("xtask: check `{0}` failed: {error:#} (again: cargo xtask {0})", check.name);
            return ExitCode::FAILURE;
        }
    }
    let names: Vec<&str> = checks.iter().map(|c| c.name).collect();
    println!("xtask: passed {} of {} checks: {}", checks.len(), CHECKS.len(), names.join(", "));
    ExitCode::SUCCESS
}

/// The root of the workspace. Cargo names the package at run time, so that a moved checkout does
/// not use its old place.
fn root() -> Result<PathBuf> {
    let xtask =
        std::env::var_os("CARGO_MANIFEST_DIR").context("start this program as `cargo xtask`")?;
    Ok(Path::new(&xtask)
        .parent()
        .context("the xtask package has no directory above it")?
        .to_owned())
}

fn usage() -> String {
    let mut text = String::from(
        "cargo xtask verify                  all checks, in this order, up to the first failure\n\
         cargo xtask verify --without-tests  all but `test`\n",
    );
    for check in CHECKS {
        text += &format!("cargo xtask {:<23} {}\n", check.name, check.about);
    }
    text += "\nnot part of verify:\n";
    for job in JOBS {
        text += &format!("cargo xtask {:<23} {}\n", job.name, job.about);
    }
    text
}

/// Prints each offence on standard error; one error for all of them.
fn report(offences: &[String]) -> Result<()> {
    for offence in offences {
        eprintln!("{offence}");
    }
    anyhow::ensure!(offences.is_empty(), "offences: {}", offences.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verify_runs_all_checks_and_the_tests_last() {
        assert_eq!(
            names(&["verify"]),
            ["fmt", "clippy", "doc", "deps", "tidy", "verified", "test"]
        );
        let without = names(&["verify", "--without-tests"]);
        assert_eq!(without, ["fmt", "clippy", "doc", "deps", "tidy", "verified"]);
    }

    #[test]
    fn a_check_runs_alone_by_its_name() {
        for check in CHECKS {
            assert_eq!(names(&[check.name]), [check.name]);
            assert!(usage().contains(&format!("cargo xtask {} ", check.name)));
        }
    }

    #[test]
    fn a_job_runs_by_its_name_and_not_with_verify() {
        for job in JOBS {
            assert!(
                matches!(choose(&[job.name, "--word"]), Choice::Do(found) if found.name == job.name)
            );
            assert!(!names(&["verify"]).contains(&job.name));
            assert!(usage().contains(&format!("cargo xtask {} ", job.name)));
        }
    }

    #[test]
    fn help_is_not_an_error_but_an_unknown_word_is() {
        assert!(matches!(choose(&[]), Choice::Help));
        assert!(matches!(choose(&["--help"]), Choice::Help));
        assert!(matches!(choose(&["lint"]), Choice::Unknown));
        assert!(matches!(choose(&["tidy", "--without-tests"]), Choice::Unknown));
    }

    #[test]
    fn a_report_fails_if_there_is_an_offence() {
        assert!(report(&[]).is_ok());
        assert!(report(&["one".to_owned()]).is_err());
    }

    fn names(words: &[&str]) -> Vec<&'static str> {
        let Choice::Run(checks) = choose(words) else { panic!("{words:?} runs nothing") };
        checks.iter().map(|c| c.name).collect()
    }
}
