//! Compares one side with another, or with a number, place by place.
//!
//! A left cell is compared with every right cell that agrees with it in all parameters that both
//! have and that `right` does not name.

use super::super::Mean;
use super::super::file::{Check, Relation};
use super::super::number::{shown, shown_mean};
use super::super::summary::Cell;
use super::{Place, differing, incorrect, named, nothing, select};

/// The places, or why there are none.
pub(super) fn places(check: &Check, cells: &[Cell]) -> Result<Vec<Place>, String> {
    let left = select(cells, &check.grid, &check.only, &check.left);
    if left.is_empty() {
        return Err(nothing(check, cells, &check.grid));
    }
    let at = differing(&left);
    let metric = check.right_metric.as_ref().unwrap_or(&check.metric);
    if let Some(number) = check.value {
        let right = Mean { mean: number, half: None, runs: 1 };
        let place = |cell: &&Cell| {
            compare(check, named(cell, &at), (cell, complete(cell, &check.metric)), &[], Ok(right))
        };
        return measured(left.iter().map(place).collect());
    }
    let grid = check.right_grid.as_ref().unwrap_or(&check.grid);
    // `only` does not restrict parameters that the other grid does not have.
    let mut only = check.only.clone();
    only.retain(|name, _| {
        cells.iter().any(|cell| cell.grid == *grid && cell.at.contains_key(name))
    });
    let right = select(cells, grid, &only, &check.right);
    let right_at =
        differing(&right).into_iter().filter(|name| check.right.contains_key(name)).collect();
    let mut places = Vec::new();
    for &cell in &left {
        for &other in right.iter().filter(|other| paired(check, cell, other)) {
            if std::ptr::eq(cell, other) && *metric == check.metric {
                continue;
            }
            let against = named(other, &right_at);
            let place = match (named(cell, &at), against.is_empty()) {
                (place, true) => place,
                (place, false) => format!("{place} against {against}").trim_start().to_owned(),
            };
            let left = (cell, complete(cell, &check.metric));
            places.push(compare(check, place, left, &[other], complete(other, metric)));
        }
    }
    if places.is_empty() { Err(nothing(check, cells, grid)) } else { measured(places) }
}

/// Whether two cells are at the same place, apart from what distinguishes the sides.
fn paired(check: &Check, left: &Cell, right: &Cell) -> bool {
    let same =
        |name: &String, label: &String| right.at.get(name).is_none_or(|other| other == label);
    left.at.iter().all(|(name, label)| check.right.contains_key(name) || same(name, label))
}

/// A metric that all runs of the cell must have.
fn complete(cell: &Cell, metric: &str) -> Result<Mean, String> {
    match cell.metric(metric) {
        None => Err(format!("no {metric}")),
        Some(mean) if mean.runs < cell.runs => {
            Err(format!("{metric} in {} of {} runs only", mean.runs, cell.runs))
        }
        Some(mean) => Ok(mean),
    }
}

/// The place, and whether both sides have a number there.
fn compare(
    check: &Check,
    at: String,
    (cell, left): (&Cell, Result<Mean, String>),
    others: &[&Cell],
    right: Result<Mean, String>,
) -> (Place, bool) {
    let (holds, numbers) = match (&left, &right) {
        (Ok(left), Ok(right)) => {
            (relation(check, left.mean, right.mean), numbers(check, left, right))
        }
        (left, right) => {
            let text =
                |side: &Result<Mean, String>| side.as_ref().map_or_else(Clone::clone, shown_mean);
            (false, format!("{} against {}", text(left), text(right)))
        }
    };
    // A cell whose two metrics are compared is listed once here.
    let used = || {
        std::iter::once(cell)
            .chain(others.iter().copied().filter(|other| !std::ptr::eq(*other, cell)))
    };
    let place = Place {
        at,
        numbers,
        holds,
        commands: used().flat_map(|cell| cell.commands.clone()).collect(),
        incorrect: used().map(incorrect).sum(),
    };
    (place, left.is_ok() && right.is_ok())
}

/// Whether the claimed relation holds. It never holds for values that are not numbers.
fn relation(check: &Check, left: f64, right: f64) -> bool {
    let right = right * check.times;
    match check.is {
        Relation::Greater => left > right,
        Relation::Less => left < right,
        Relation::Most => left <= right,
        Relation::Least => left >= right,
        Relation::Equal => (left - right).abs() <= check.within * right.abs(),
        Relation::Grows | Relation::Falls | Relation::Flat | Relation::Peaks => false,
    }
}

fn numbers(check: &Check, left: &Mean, right: &Mean) -> String {
    let times =
        if check.times == 1.0 { String::new() } else { format!("{} x ", shown(check.times)) };
    let reach = left.half.unwrap_or(0.0) + check.times.abs() * right.half.unwrap_or(0.0);
    let apart = (left.mean - check.times * right.mean).abs();
    let unsure =
        matches!(check.is, Relation::Greater | Relation::Less) && reach > 0.0 && apart <= reach;
    let unsure = if unsure { " (the intervals overlap)" } else { "" };
    format!("{} against {times}{}{unsure}", shown_mean(left), shown_mean(right))
}

/// If no place has both numbers, the check says nothing.
fn measured(places: Vec<(Place, bool)>) -> Result<Vec<Place>, String> {
    match places.iter().all(|(_, complete)| !complete) {
        true => Err(format!("no run has both sides: {}", places[0].0.numbers)),
        false => Ok(places.into_iter().map(|(place, _)| place).collect()),
    }
}
