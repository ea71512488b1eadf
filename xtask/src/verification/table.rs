//! Renders the table of `docs/internals/verification.md`, between its marks.

use anyhow::{Context, Result};

use super::results::{self, Outcome};
use super::rows::Row;

const TABLE: &str = "<!-- table -->";
const SCHEDULES: &str = "<!-- schedules -->";

/// Replaces the table and the schedules of the page.
pub(super) fn put_into(page: &str, table: &str, schedules: &str) -> Result<String> {
    between(&between(page, TABLE, table)?, SCHEDULES, schedules)
}

fn between(page: &str, mark: &str, text: &str) -> Result<String> {
    let missing = || format!("the page needs two lines `{mark}`");
    let (before, rest) = page.split_once(mark).with_context(missing)?;
    let (_, after) = rest.split_once(mark).with_context(missing)?;
    Ok(format!("{before}{mark}\n\n{text}\n{mark}{after}"))
}

/// The table in the order of the rows; a row without a result says so.
pub(super) fn render(rows: &[Row], results: &[Outcome]) -> String {
    let mut text = String::from(
        "| protocol | bounds | properties | method | different states | prototype | exhaustive? \
         | time | commit |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let (protocol, bounds) = (protocol(row), bounds(row));
        let was = row.was.map(thousands).unwrap_or_default();
        let cells = match results::of(results, row) {
            Some(outcome) => [
                properties(outcome),
                outcome.method.clone(),
                thousands(outcome.found.unique),
                was,
                exhaustive(outcome),
                time(outcome.found.seconds),
                outcome.commit.clone(),
            ],
            None => ["not run yet", "", "", &was, "", "", ""].map(str::to_owned),
        };
        text += &format!("| {protocol} | {bounds} | {} |\n", cells.join(" | "));
    }
    text
}

/// The schedules of the counterexamples, each under its command.
pub(super) fn schedules(rows: &[Row], results: &[Outcome]) -> String {
    let mut text = String::new();
    for row in rows {
        let found = results::of(results, row).map(|outcome| &outcome.found);
        let Some(property) =
            found.and_then(|found| found.violated().find(|property| !property.schedule.is_empty()))
        else {
            continue;
        };
        text +=
            &format!("**{}**: {}\n\n```text\n$ {}\n", protocol(row), property.name, row.command);
        for (number, step) in (1..).zip(&property.schedule) {
            text += &format!("{number:>3}  {step}\n");
        }
        text += "```\n\n";
    }
    text
}

/// One result as a row of the table.
pub(super) fn told(outcome: &Outcome) -> String {
    let (states, time) = (thousands(outcome.found.unique), time(outcome.found.seconds));
    format!(
        "{}; exhaustive: {}; {states} different states, {time}",
        properties(outcome),
        exhaustive(outcome)
    )
}

fn protocol(row: &Row) -> String {
    let printed =
        row.option("--as-printed").map_or(String::new(), |id| format!(" as printed, {id}"));
    format!("`{}`{printed}", row.option("--protocol").unwrap_or("?"))
}

/// All other options, as written.
fn bounds(row: &Row) -> String {
    let mut bounds = Vec::new();
    let mut words = row.words().skip(1);
    while let Some(word) = words.next() {
        match word {
            "--protocol" | "--as-printed" => drop(words.next()),
            "--shortest" => {}
            word => bounds.push(word),
        }
    }
    format!("`{}`", bounds.join(" "))
}

fn properties(outcome: &Outcome) -> String {
    let found = &outcome.found;
    let violated: Vec<String> = found
        .violated()
        .map(|property| match property.steps {
            Some(steps) => format!("**violated**: {}, in {steps} steps", property.name),
            None => format!("**violated**: {}", property.name),
        })
        .collect();
    match (violated.is_empty(), found.complete) {
        (true, true) => "all hold".to_owned(),
        (true, false) => "none was seen to break".to_owned(),
        (false, _) => violated.join("; "),
    }
}

fn exhaustive(outcome: &Outcome) -> String {
    match (&outcome.stopped, outcome.found.complete) {
        (Some(why), _) => format!("**no**: {why}"),
        (None, true) => "yes".to_owned(),
        (None, false) => "up to the first wrong state".to_owned(),
    }
}

fn time(seconds: f64) -> String {
    if seconds < 120.0 { format!("{seconds:.1} s") } else { format!("{:.0} min", seconds / 60.0) }
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
