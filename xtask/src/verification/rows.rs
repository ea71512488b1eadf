//! The rows: the lines of `verification/rows.txt`, each a command with its expected result.
//!
//! A line is `EXPECTED | COMMAND` or `EXPECTED | LIMITS | COMMAND`. Empty lines and lines
//! that begin with `#` are ignored. Limits may include the number of states of another model of the
//! same system (`was=457009`).

use anyhow::{Context, Result, bail, ensure};

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) expected: Expected,
    pub(super) limits: Limits,
    /// The number of states of the same row in the prototype of the protocol.
    pub(super) was: Option<u64>,
    /// The command without limits. It identifies the row in the results.
    pub(super) command: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expected {
    /// Every property holds in all visited states.
    Holds,
    /// The search finds a schedule that violates this property.
    Violated(String),
}

/// The limits of a row. A search that exceeds one is stopped; its result is what it reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    pub(super) minutes: u64,
    pub(super) gibibytes: u64,
}

const USUAL: Limits = Limits { minutes: 10, gibibytes: 16 };

impl Row {
    /// The arguments of `kgate`.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.command.split_whitespace().skip(1)
    }

    /// The value of an option.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.words().skip_while(|word| *word != name).nth(1)
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let row = row(line).with_context(|| format!("rows, line {number}: {line}"))?;
        let twice = rows.iter().any(|known| known.command == row.command);
        ensure!(!twice, "rows, line {number}: twice the same command: {line}");
        rows.push(row);
    }
    Ok(rows)
}

fn row(line: &str) -> Result<Row> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let (wanted, (limits, was), command) = match columns[..] {
        [wanted, command] => (wanted, (USUAL, None), command),
        [wanted, limits, command] => (wanted, parse_limits(limits)?, command),
        _ => bail!("a row is EXPECTED | COMMAND or EXPECTED | LIMITS | COMMAND"),
    };
    ensure!(command.starts_with("kgate check "), "only `kgate check` can be run yet");
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Row { expected: parse_expected(wanted)?, limits, was, command })
}

fn parse_expected(text: &str) -> Result<Expected> {
    if text == "holds" {
        return Ok(Expected::Holds);
    }
    let property = text.strip_prefix("violated \"").and_then(|rest| rest.strip_suffix('"'));
    let property = property.context("expected is `holds` or `violated \"PROPERTY\"`")?;
    Ok(Expected::Violated(property.to_owned()))
}

fn parse_limits(text: &str) -> Result<(Limits, Option<u64>)> {
    const FORM: &str = "limits are `minutes=M` and `gibibytes=G`; beside them `was=STATES`";
    let (mut limits, mut was) = (USUAL, None);
    for word in text.split_whitespace() {
        let (name, number) = word.split_once('=').context(FORM)?;
        let number = number.parse().with_context(|| format!("`{number}` is not a number"))?;
        match name {
            "minutes" => limits.minutes = number,
            "gibibytes" => limits.gibibytes = number,
            "was" => was = Some(number),
            _ => bail!(FORM),
        }
    }
    Ok((limits, was))
}
