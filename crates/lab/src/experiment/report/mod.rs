//! The HTML report: published facts, measurements, figures, verdicts, and the command of every
//! point. It is a single file without scripts or external resources, so it can be mailed, archived
//! and read offline.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use super::facts::{Outcome, Verdict};
use super::file::{Experiment, Plot};
use super::plot::Drawing;
use super::results::Results;
use super::summary::Cell;

const STYLE: &str = include_str!("style.css");

/// The report of one experiment; `drawings` are its plots, in their order.
pub fn page(results: &Results, drawings: &[Drawing]) -> String {
    let experiment = &results.experiment;
    let mut to = String::new();
    head(&mut to, &experiment.name, &experiment.title);
    if let Some(paper) = &experiment.paper {
        line(&mut to, "p class=\"dim\"", paper);
    }
    warnings(&mut to, results);
    for paragraph in experiment.about.split("\n\n").map(str::trim).filter(|text| !text.is_empty()) {
        line(&mut to, "p", paragraph);
    }
    if !results.verdicts.is_empty() {
        line(&mut to, "h2 id=\"verdicts\"", "Published and measured");
        line(&mut to, "p", &tally(&results.verdicts));
        facts(&mut to, &results.verdicts, true);
    }
    if !experiment.plot.is_empty() {
        line(&mut to, "h2 id=\"figures\"", "Figures");
    }
    for (plot, drawing) in experiment.plot.iter().zip(drawings) {
        figure(&mut to, plot, drawing, results);
    }
    commands(&mut to, experiment, &results.cells);
    again(&mut to, experiment);
    foot(&mut to);
    to
}

/// The index of several experiments: all verdicts, with links. Each experiment comes with the name
/// of its folder.
pub fn index(all: &[(String, &Results)]) -> String {
    let mut to = String::new();
    head(&mut to, "laboratory", "Published and measured results");
    let verdicts: Vec<Verdict> =
        all.iter().flat_map(|(_, results)| results.verdicts.clone()).collect();
    line(&mut to, "p", &tally(&verdicts));
    to += "<div class=\"wide\"><table><thead><tr><th>Experiment</th><th \
           class=\"number\">Runs</th><th class=\"number\">Reproduced</th>\
           <th class=\"number\">Not reproduced</th><th class=\"number\">Cannot be \
           checked</th></tr></thead><tbody>\n";
    for (folder, results) in all {
        let runs: usize = results.cells.iter().map(|cell| cell.runs).sum();
        let link = format!(
            "<a href=\"{}/report.html\">{}</a>: {}{}",
            escape(folder),
            escape(&results.experiment.name),
            escape(&results.experiment.title),
            if results.experiment.taken.quick { " (quick)" } else { "" },
        );
        let _ = write!(to, "<tr><td>{link}</td><td class=\"number\">{runs}</td>");
        for outcome in [Outcome::Reproduced, Outcome::NotReproduced, Outcome::Cannot] {
            let _ = write!(to, "<td class=\"number\">{}</td>", count(&results.verdicts, outcome));
        }
        to += "</tr>\n";
    }
    to += "</tbody></table></div>\n";
    for (folder, results) in all.iter().filter(|(_, results)| !results.verdicts.is_empty()) {
        let _ = writeln!(
            to,
            "<h2><a href=\"{}/report.html\">{}</a></h2>",
            escape(folder),
            escape(&results.experiment.name)
        );
        warnings(&mut to, results);
        facts(&mut to, &results.verdicts, false);
    }
    foot(&mut to);
    to
}

/// The number of facts per verdict.
pub fn tally(verdicts: &[Verdict]) -> String {
    let of = |outcome| count(verdicts, outcome);
    format!(
        "{} published facts: {} reproduced, {} not reproduced, {} that cannot be checked.",
        verdicts.len(),
        of(Outcome::Reproduced),
        of(Outcome::NotReproduced),
        of(Outcome::Cannot)
    )
}

fn count(verdicts: &[Verdict], outcome: Outcome) -> usize {
    verdicts.iter().filter(|verdict| verdict.outcome == outcome).count()
}

fn head(to: &mut String, name: &str, title: &str) {
    let _ = write!(
        to,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{} - kgate</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(name)
    );
    line(to, "p class=\"dim\"", &format!("kgate lab: {name}"));
    line(to, "h1", title);
}

fn foot(to: &mut String) {
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(
        to,
        "<p class=\"dim\">Made by kgate {version}. The same command lines give the same \
         numbers.</p>"
    );
    *to += "</main>\n</body>\n</html>\n";
}

/// Warnings that a reader must see first.
fn warnings(to: &mut String, results: &Results) {
    let taken = &results.experiment.taken;
    if taken.quick {
        line(
            to,
            "p class=\"warning\"",
            "This is a quick run: fewer sizes and seeds than the whole experiment.",
        );
    }
    if !taken.set.is_empty() {
        let text = taken.set.iter().map(|(flag, words)| {
            let words: Vec<_> = words.iter().map(|word| word.0.as_str()).collect();
            format!("{flag} = {}", words.join(", "))
        });
        let text = text.collect::<Vec<_>>().join("; ");
        line(to, "p class=\"warning\"", &format!("Differs from the experiment's file: {text}."));
    }
    let wrong: usize = results
        .cells
        .iter()
        .filter(|cell| !cell.as_printed())
        .map(|cell| cell.runs - cell.correct)
        .sum();
    if wrong > 0 {
        line(to, "p class=\"warning\"", &format!("{wrong} runs violate a property: see runs.csv."));
    }
}

/// The table of verdicts; with `details` also all places with their commands.
fn facts(to: &mut String, verdicts: &[Verdict], details: bool) {
    *to += "<table class=\"facts\"><thead><tr><th>Published</th><th>Measured</th>\
            <th>Verdict</th></tr></thead><tbody>\n";
    for verdict in verdicts {
        let class = verdict.outcome.to_string().replace(' ', "-");
        let _ = write!(
            to,
            "<tr><td data-label=\"published\"><strong>{}</strong> {}<p \
             class=\"dim\">{}</p></td><td data-label=\"measured\">{}",
            escape(&verdict.id),
            escape(&verdict.claim),
            escape(&verdict.place),
            escape(&verdict.measured)
        );
        if let Some(remark) = &verdict.remark {
            let _ = write!(to, "<p class=\"dim\">{}</p>", escape(remark));
        }
        if details && !verdict.places.is_empty() {
            let text = match verdict.places.len() {
                1 => "with its commands".to_owned(),
                some => format!("all {some} places, with their commands"),
            };
            let _ = write!(to, "<details><summary>{text}</summary>");
            for place in &verdict.places {
                let holds = if place.holds { "holds" } else { "does not hold" };
                let at = if place.at.is_empty() { "here" } else { &place.at };
                let _ = write!(to, "<p>{}: {} ({holds})</p>", escape(at), escape(&place.numbers));
                code(to, &place.commands);
            }
            *to += "</details>";
        }
        let _ = writeln!(
            to,
            "</td><td data-label=\"verdict\"><span class=\"verdict {class}\">{}</span></td></tr>",
            verdict.outcome
        );
    }
    *to += "</tbody></table>\n";
}

fn figure(to: &mut String, plot: &Plot, drawing: &Drawing, results: &Results) {
    let _ = writeln!(to, "<figure id=\"{}\">\n{}<figcaption>", escape(&plot.name), drawing.svg);
    if let Some(figure) = &plot.figure {
        let _ = write!(to, "Reproduces figure {} of the paper. ", escape(figure));
    }
    let intervals = results.cells.iter().any(|cell| cell.grid == plot.grid && cell.runs > 1);
    *to += if intervals && plot.x != "time" {
        "Bars are 95 % confidence intervals over the seeds. "
    } else {
        ""
    };
    if let Some(note) = &drawing.note {
        let _ = write!(to, "{} ", escape(note));
    }
    *to += "</figcaption>\n";
    *to += "</figure>\n";
}

/// The commands of every point, by grid and combination.
fn commands(to: &mut String, experiment: &Experiment, cells: &[Cell]) {
    line(to, "h2 id=\"commands\"", "The command of every point");
    for grid in &experiment.grid {
        let cells: Vec<_> = cells.iter().filter(|cell| cell.grid == grid.name).collect();
        let runs: usize = cells.iter().map(|cell| cell.runs).sum();
        let _ = writeln!(
            to,
            "<details><summary>{}: {} points, {runs} runs</summary>",
            escape(&grid.name),
            cells.len()
        );
        let all: Vec<String> = cells.iter().flat_map(|cell| cell.commands.clone()).collect();
        code(to, &all);
        *to += "</details>\n";
    }
}

fn again(to: &mut String, experiment: &Experiment) {
    line(to, "h2 id=\"again\"", "Run it again");
    let mut command = format!("kgate lab run {}", experiment.name);
    if experiment.taken.quick {
        command += " --quick";
    }
    for (flag, words) in &experiment.taken.set {
        for word in words {
            let _ = write!(command, " --set {flag}={}", word.0);
        }
    }
    code(to, &[command, format!("kgate lab compare lab-out/{}", experiment.name)]);
    line(
        to,
        "p class=\"dim\"",
        "Beside this page: experiment.toml (change it and give the file to kgate lab run), \
         runs.csv and runs.parquet (every run with its seed, hash and command), series.csv, \
         summary.csv (means with intervals), verdicts.csv and plots/.",
    );
}

fn code(to: &mut String, lines: &[String]) {
    let _ = writeln!(to, "<pre><code>{}</code></pre>", escape(&lines.join("\n")));
}

/// An element with text; `tag` may have attributes.
fn line(to: &mut String, tag: &str, text: &str) {
    let name = tag.split(' ').next().unwrap_or(tag);
    let _ = writeln!(to, "<{tag}>{}</{name}>", escape(text));
}

/// Text escaped for HTML and SVG, also for attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
