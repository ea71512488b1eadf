//! What is to be run, and what must come out: the lines of `verification/rows.txt`.
//!
//! A line is `EXPECTED | COMMAND` or `EXPECTED | LIMITS | COMMAND`. Empty lines and those that
//! begin with `#` say nothing. Beside limits may stand how many states another model of the same
//! has (`was=457009`).

use anyhow::{Context, Result, bail, ensure};

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) expected: Expected,
    pub(super) limits: Limits,
    /// How many states the same row had in the throw-away model from which the protocol was made.
    pub(super) was: Option<u64>,
    /// As one would type it, without limits. It is also the row's name in the results.
    pub(super) command: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expected {
    /// Every property holds in all that is visited.
    Holds,
    /// A schedule is found that violates this property.
    Violated(String),
}

/// What a row may take; what is over is stopped, and what it reached until then is its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    pub(super) minutes: u64,
    pub(super) gibibytes: u64,
}

const USUAL: Limits = Limits { minutes: 10, gibibytes: 16 };

impl Row {
    /// The words behind `kgate`.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.command.split_whitespace().skip(1)
    }

    /// The word behind an option.
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
