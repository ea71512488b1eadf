//! The table of `docs/internals/verification.md`, made by a command: `cargo xtask verification`.
//!
//! `verification/rows.txt` lists commands with their expected results,
//! `verification/results.ndjson` the results with their commits. The command runs the rows without
//! a result, one at a time, each as a process with limits. It appends each result at once, so that
//! an interrupted run loses only the present row, and writes the table. The check `verified` runs
//! no row: it fails if the table differs from the results, if a row has no result, or if a result
//! is not as expected.

mod process;
mod results;
mod rows;
mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use results::Outcome;
use rows::Row;

const ROWS: &str = "verification/rows.txt";
const RESULTS: &str = "verification/results.ndjson";
const PAGE: &str = "docs/internals/verification.md";

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let rows = rows::parse(&read(root, ROWS)?)?;
    let known = results::parse(&read(root, RESULTS)?)?;
    let chosen: Vec<&Row> = rows.iter().filter(|row| options.chooses(row, &known)).collect();
    println!("to run: {} of {} rows", chosen.len(), rows.len());
    if !chosen.is_empty() {
        let kgate = crate::cargo::kgate(root)?;
        let commit = commit(root)?;
        for (number, row) in (1..).zip(&chosen) {
            println!("{number} of {}: {}", chosen.len(), row.command);
            let limits = options
                .minutes
                .map_or(row.limits, |minutes| rows::Limits { minutes, ..row.limits });
            let outcome = process::run(&kgate, row, limits, &commit)?;
            println!("  {}", table::told(&outcome));
            results::append(&root.join(RESULTS), &outcome)?;
            write_page(root, &rows)?;
        }
    }
    write_page(root, &rows)?;
    let results = results::parse(&read(root, RESULTS)?)?;
    let unmet = chosen.iter().filter_map(|row| offence(row, results::of(&results, row)));
    crate::report(&unmet.collect::<Vec<_>>())
}

pub(crate) fn check(root: &Path) -> Result<()> {
    let rows = rows::parse(&read(root, ROWS)?)?;
    let results = results::parse(&read(root, RESULTS)?)?;
    let mut found = offences(&rows, &results);
    let page = read(root, PAGE)?;
    if table::put_into(&page, &table::render(&rows, &results), &table::schedules(&rows, &results))?
        != page
    {
        found.push(format!(
            "{PAGE}: its table is not that of {RESULTS}: run cargo xtask verification"
        ));
    }
    crate::report(&found)
}

fn offences(rows: &[Row], results: &[Outcome]) -> Vec<String> {
    rows.iter().filter_map(|row| offence(row, results::of(results, row))).collect()
}

fn offence(row: &Row, outcome: Option<&Outcome>) -> Option<String> {
    let command = &row.command;
    let Some(outcome) = outcome else {
        return Some(format!("no result: {command} (run cargo xtask verification)"));
    };
    let met = outcome.meets(&row.expected);
    (!met).then(|| format!("not as expected: {command}: {}", table::told(outcome)))
}

fn write_page(root: &Path, rows: &[Row]) -> Result<()> {
    let results = results::parse(&read(root, RESULTS)?)?;
    let page = table::put_into(
        &read(root, PAGE)?,
        &table::render(rows, &results),
        &table::schedules(rows, &results),
    )?;
    fs::write(root.join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))
}

fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

/// The commit, with `+` if the tree differs from it in anything but the results.
fn commit(root: &Path) -> Result<String> {
    let head = process::output(root, "git", &["rev-parse", "--short", "HEAD"])?;
    let ours = [".", ":!verification", ":!docs/internals/verification.md"];
    let changed =
        process::output(root, "git", &[&["status", "--porcelain", "--"], &ours[..]].concat())?;
    let mark = if changed.trim().is_empty() { "" } else { "+" };
    Ok(format!("{}{mark}", head.trim()))
}

/// The options: which rows run, and for how long.
#[derive(Debug, Default, PartialEq)]
struct Options {
    only: Option<String>,
    minutes: Option<u64>,
    again: bool,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--only" => {
                    options.only = Some((*words.next().context("--only takes a text")?).to_owned())
                }
                "--minutes" => {
                    let minutes = words.next().and_then(|text| text.parse().ok());
                    options.minutes = Some(minutes.context("--minutes takes a number")?);
                }
                "--again" => options.again = true,
                other => {
                    bail!(
                        "unknown option `{other}`: \
                         cargo xtask verification [--only TEXT] [--minutes M] [--again]"
                    )
                }
            }
        }
        Ok(options)
    }

    fn chooses(&self, row: &Row, known: &[Outcome]) -> bool {
        let matches = self.only.as_ref().is_none_or(|text| row.command.contains(text));
        matches && (self.again || results::of(known, row).is_none())
    }
}

#[cfg(test)]
mod tests;
