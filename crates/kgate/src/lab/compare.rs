//! `kgate lab compare`: verdicts and rankings of results, or differences between two results.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use kgate_lab::experiment::compare::{self, Change, Difference, Ranked, Ranking, USUAL};
use kgate_lab::experiment::facts::{self, Verdict};
use kgate_lab::experiment::number::{shown, shown_mean};
use kgate_lab::experiment::report::tally;
use kgate_lab::experiment::{Results, results};
use serde_json::json;

use super::CompareArgs;
use crate::{Failure, Outcome};

/// Largest number of differences printed.
const SHOWN: usize = 30;

pub(super) fn run(args: &CompareArgs) -> Outcome {
    let here: Vec<Results> =
        results::read_all(&args.dir)?.into_iter().map(|(_, results)| results).collect();
    let mut stdout = io::stdout().lock();
    match &args.other {
        None => alone(&mut stdout, args, &here)?,
        Some(other) => {
            let there = results::read_all(other)?;
            let mut differences = Vec::new();
            for results in &here {
                let same =
                    |(_, other): &&(_, Results)| other.experiment.name == results.experiment.name;
                match there.iter().find(same) {
                    Some((_, other)) => differences.push(compare::difference(results, other)),
                    None => eprintln!("{} is not in {}", results.experiment.name, other.display()),
                }
            }
            if differences.is_empty() {
                return Err(Failure::Usage(
                    "the results have no experiment in common: nothing to compare".into(),
                ));
            }
            two(&mut stdout, args, &differences)?;
        }
    }
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn alone(to: &mut impl Write, args: &CompareArgs, here: &[Results]) -> Result<(), Failure> {
    let by = args.by.as_deref().unwrap_or(USUAL[0]);
    if args.by.is_some()
        && !here.iter().any(|results| results.cells.iter().any(|cell| cell.metric(by).is_some()))
    {
        return Err(Failure::Usage(format!(
            "no run has the metric '{by}': the columns of runs.csv are the metrics"
        )));
    }
    // --by shows the ranking, also for experiments with published results.
    let ranked = |results: &Results| results.verdicts.is_empty() || args.by.is_some();
    if args.json {
        let list: Vec<_> = here
            .iter()
            .map(|results| {
                let rankings = ranked(results).then(|| compare::rankings(results, by, args.most));
                json!({
                    "name": results.experiment.name,
                    "verdicts": results.verdicts,
                    "rankings": rankings,
                })
            })
            .collect();
        return print_json(to, &json!({ "experiments": list }));
    }
    if args.markdown {
        here.iter()
            .filter(|results| !results.verdicts.is_empty())
            .try_for_each(|results| print_markdown(to, results))?;
        return Ok(());
    }
    for results in here {
        writeln!(to, "{}: {}", results.experiment.name, results.experiment.title)?;
        if ranked(results) {
            for ranking in compare::rankings(results, by, args.most) {
                print_ranking(to, &ranking)?;
            }
        } else {
            print_verdicts(to, &results.verdicts)?;
        }
        writeln!(to)?;
    }
    Ok(())
}

fn print_verdicts(to: &mut impl Write, verdicts: &[Verdict]) -> io::Result<()> {
    let width = verdicts.iter().map(|verdict| verdict.id.len()).max().unwrap_or(0);
    for verdict in verdicts {
        writeln!(to, "  {:<width$}  {:<17}  {}", verdict.id, verdict.outcome, verdict.claim)?;
        writeln!(to, "  {:<width$}  {:<17}    {}", "", "", verdict.measured)?;
    }
    writeln!(to, "  {}", tally(verdicts))
}

/// The verdicts as in the book.
fn print_markdown(to: &mut impl Write, results: &Results) -> io::Result<()> {
    writeln!(to, "### {}\n\n{}\n", results.experiment.name, tally(&results.verdicts))?;
    writeln!(to, "| | published | measured | verdict |\n|---|---|---|---|")?;
    for Verdict { id, place, claim, measured, outcome, .. } in &results.verdicts {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let outcome = if *outcome == facts::Outcome::Reproduced {
            outcome.to_string()
        } else {
            format!("**{outcome}**")
        };
        writeln!(
            to,
            "| {} | {} ({}) | {} | {outcome} |",
            cell(id),
            cell(claim),
            cell(place),
            cell(measured)
        )?;
    }
    writeln!(to)
}

fn print_ranking(to: &mut impl Write, ranking: &Ranking) -> io::Result<()> {
    let at: Vec<_> = ranking.at.iter().map(|(name, label)| format!("{name} {label}")).collect();
    let at = if at.is_empty() { String::new() } else { format!(", {}", at.join(", ")) };
    writeln!(to, "\n  {}{at}: by {}, best first", ranking.grid, ranking.by)?;
    let mut metrics = vec![ranking.by.as_str()];
    metrics.extend(USUAL.into_iter().filter(|metric| *metric != ranking.by));
    let name = ranking.order.iter().map(|ranked| ranked.name.len()).max().unwrap_or(0);
    write!(to, "      {:<name$}", "")?;
    for metric in &metrics {
        write!(to, "  {metric:>20}")?;
    }
    writeln!(to)?;
    let mut tied = false;
    for (place, ranked) in ranking.order.iter().enumerate() {
        tied |= ranked.ties;
        let place = if ranked.ties { "=".into() } else { (place + 1).to_string() };
        write!(to, "  {place:>2}  {:<name$}", ranked.name)?;
        for metric in &metrics {
            write!(to, "  {:>20}", value(ranked, metric))?;
        }
        let wrong = match ranked.incorrect {
            0 => String::new(),
            runs => format!("  {runs} runs NOT CORRECT"),
        };
        writeln!(to, "{wrong}")?;
    }
    if tied {
        writeln!(to, "   =  not distinguishable from the one above: the 95 % intervals overlap")?;
    }
    Ok(())
}

fn value(ranked: &Ranked, metric: &str) -> String {
    ranked.means.get(metric).map_or_else(|| "-".into(), |value| shown_mean(&(*value).into()))
}

fn two(to: &mut impl Write, args: &CompareArgs, differences: &[Difference]) -> Result<(), Failure> {
    if args.json {
        return print_json(to, &json!({ "differences": differences }));
    }
    for found in differences {
        if found.is_none() {
            writeln!(to, "{}: no difference in {} means", found.experiment, found.compared)?;
            continue;
        }
        let count = found.metrics.len();
        writeln!(
            to,
            "{}: {count} of {} means differ by more than their intervals",
            found.experiment, found.compared
        )?;
        for (id, here, there) in &found.verdicts {
            writeln!(to, "  {id}: {here}, there {there}")?;
        }
        for (points, whose) in [(&found.only_here, "the first"), (&found.only_there, "the other")] {
            if let Some(point) = points.first() {
                writeln!(to, "  {} points are only in {whose}, such as {point}", points.len())?;
            }
        }
        for change in found.metrics.iter().take(SHOWN) {
            writeln!(to, "  {}", describe(change))?;
        }
        if count > SHOWN {
            writeln!(to, "  .. and {} more; --json has them all", count - SHOWN)?;
        }
    }
    Ok(())
}

fn describe(change: &Change) -> String {
    let side = |value: compare::Value| {
        if value.runs == 0 { "none".into() } else { shown_mean(&value.into()) }
    };
    let share = change.share();
    let share = if share.is_finite() {
        format!(
            " ({}{} %)",
            if share > 0.0 { "+" } else { "" },
            shown((share * 1000.0).round() / 10.0)
        )
    } else {
        String::new()
    };
    format!(
        "{}  {}: {}, there {}{share}",
        change.at,
        change.metric,
        side(change.here),
        side(change.there)
    )
}

fn print_json(to: &mut impl Write, value: &serde_json::Value) -> Result<(), Failure> {
    writeln!(to, "{}", serde_json::to_string_pretty(value).context("printing JSON")?)?;
    Ok(())
}
