//! The cross-check by SPIN: `verification/cross-check/raymond.pml` must have as many states and
//! transitions as `kgate check` finds.
//!
//! Two models and two explorers that share nothing but the algorithm. SPIN searches exhaustively,
//! without reduction, compression by hashes or any optimisation that changes what a state is, so
//! its numbers are exact. Needs `spin` and a C compiler, and is therefore no part of `verify`; the
//! numbers are pinned in `crates/check/src/tests/spin.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

const MODEL: &str = "verification/cross-check/raymond.pml";

/// n, k, entries.
const SIZES: [[u32; 3]; 7] =
    [[2, 1, 1], [2, 1, 2], [2, 1, 3], [3, 1, 1], [3, 1, 2], [3, 1, 3], [3, 2, 1]];

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    ensure!(words.is_empty(), "`cargo xtask spin` takes no options");
    for (program, flag, how) in [
        ("spin", "-V", "Debian and Ubuntu: apt-get install spin; else https://spinroot.com"),
        ("cc", "--version", "Debian and Ubuntu: apt-get install gcc"),
    ] {
        let found = Command::new(program).arg(flag).output();
        ensure!(
            found.is_ok_and(|output| output.status.success()),
            "`{program}` is missing ({how})"
        );
    }
    let kgate = crate::cargo::kgate(root)?;
    let folder = root.join("target/spin");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    println!("{MODEL}, SPIN beside kgate check --protocol raymond\n");
    println!(
        "{:>2} {:>2} {:>7}  {:>22}  {:>22}",
        "n", "k", "entries", "states, transitions", "kgate"
    );
    let mut different = 0;
    for size in SIZES {
        let theirs = counted_by_spin(root, &folder, size)?;
        let ours = counted_by_kgate(&kgate, size)?;
        let verdict = if theirs == ours { "equal" } else { "DIFFERENT" };
        different += usize::from(theirs != ours);
        let [n, k, entries] = size;
        let [theirs, ours] =
            [theirs, ours].map(|count| format!("{}, {}", count.states, count.transitions));
        println!("{n:>2} {k:>2} {entries:>7}  {theirs:>22}  {ours:>22}  {verdict}");
    }
    ensure!(different == 0, "sizes with different numbers: {different}");
    println!("\nmutual exclusion and service hold in SPIN's model too");
    Ok(())
}

/// Both count the first state among the transitions.
#[derive(Debug, PartialEq)]
struct Count {
    states: u64,
    transitions: u64,
}

fn counted_by_kgate(kgate: &Path, [n, k, entries]: [u32; 3]) -> Result<Count> {
    let (n, k, entries) = (n.to_string(), k.to_string(), entries.to_string());
    let words = [
        "check",
        "--protocol",
        "raymond",
        "-n",
        &n,
        "-k",
        &k,
        "--entries",
        &entries,
        "--channels",
        "fifo",
    ];
    let text = output(Command::new(kgate).args(words).arg("--json"))?;
    let found: Value = serde_json::from_str(&text).context("kgate check --json")?;
    ensure!(found["complete"] == true, "kgate check did not visit every state");
    let number =
        |key: &str| found[key].as_u64().with_context(|| format!("kgate check --json: no `{key}`"));
    Ok(Count { states: number("unique")?, transitions: number("states")? })
}

/// Runs SPIN with the check of service and then without it, because it adds transitions.
fn counted_by_spin(root: &Path, folder: &Path, size: [u32; 3]) -> Result<Count> {
    let checked = parse(&verify(root, folder, size, true)?)?;
    let counted = parse(&verify(root, folder, size, false)?)?;
    ensure!(checked.states == counted.states, "the checker of service changes states");
    Ok(counted)
}

fn verify(root: &Path, folder: &Path, [n, k, entries]: [u32; 3], served: bool) -> Result<String> {
    let mut spin = Command::new("spin");
    spin.current_dir(folder).args([
        format!("-DN={n}"),
        format!("-DK={k}"),
        format!("-DENTRIES={entries}"),
    ]);
    if served {
        spin.arg("-DSERVED");
    }
    // -o1, -o2, -o3: no optimisation that would merge states.
    output(spin.args(["-o1", "-o2", "-o3", "-a"]).arg(root.join(MODEL)))?;
    let pan = ["-w", "-O2", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"];
    output(Command::new("cc").current_dir(folder).args(pan))?;
    // -E: without the checker every end is as good as another; -m: deeper than any schedule.
    output(Command::new(folder.join("pan")).current_dir(folder).args(["-E", "-m1000000"]))
}

/// Parses the counts of the verifier; an error if it found a violation or did not finish.
fn parse(text: &str) -> Result<Count> {
    if !text.contains("errors: 0")
        || text.contains("Search not completed")
        || text.contains("max search depth")
    {
        bail!("SPIN found an error in {MODEL}, or did not finish:\n{text}");
    }
    let before = |what: &str| {
        let line = text.lines().find(|line| line.contains(what));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.with_context(|| format!("SPIN printed no `{what}`:\n{text}"))
    };
    Ok(Count { states: before("states, stored")?, transitions: before("transitions (")? })
}

fn output(command: &mut Command) -> Result<String> {
    let program = PathBuf::from(command.get_program());
    let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}\n{text}{complaint}", program.display(), output.status);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "State-vector 204 byte, depth reached 36, errors: 0
    25674 states, stored
    45699 states, matched
    71373 transitions (= stored+matched)
";

    #[test]
    fn the_verifier_is_understood() {
        assert_eq!(parse(SAID).unwrap(), Count { states: 25_674, transitions: 71_373 });
    }

    #[test]
    fn an_error_or_an_unfinished_search_is_no_count() {
        assert!(parse(&SAID.replace("errors: 0", "errors: 1")).is_err());
        assert!(parse(&format!("Warning: Search not completed\n{SAID}")).is_err());
        assert!(parse(&format!("error: max search depth too small\n{SAID}")).is_err());
        assert!(parse("").is_err());
    }
}
