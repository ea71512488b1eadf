//! Checks whether a curve along an axis grows, falls, stays flat or peaks. There is one curve per
//! combination of the other parameters.

use super::super::file::{Check, Relation};
use super::super::number::shown;
use super::super::summary::Cell;
use super::{Place, differing, incorrect, named, nothing, select};

/// The axis of a time series.
const TIME: &str = "time";

/// A curve: its cells, and its points in the order of the axis.
struct Curve<'a> {
    cells: Vec<&'a Cell>,
    points: Vec<Point>,
    /// Whether some point lacks the metric in some run.
    absent: bool,
}

struct Point {
    x: f64,
    label: String,
    y: f64,
}

/// The places, one per curve, or why there are none.
pub(super) fn places(check: &Check, cells: &[Cell]) -> Result<Vec<Place>, String> {
    let along = check.along.as_deref().ok_or("the check does not say along which axis")?;
    let left = select(cells, &check.grid, &check.only, &check.left);
    if left.is_empty() {
        return Err(nothing(check, cells, &check.grid));
    }
    let curves = if along == TIME {
        left.iter().map(|cell| course(cell, &check.metric)).collect()
    } else {
        curves(check, along, &left)?
    };
    let mut at = differing(&left);
    at.remove(along);
    let mut places = Vec::new();
    for curve in curves {
        if curve.points.len() < 2 && !curve.absent {
            return Err(format!(
                "a curve needs at least two points, not {} along {along}: {}",
                curve.points.len(),
                nothing_more(check)
            ));
        }
        if check.is == Relation::Peaks {
            both_sides(check, &curve, along)?;
        }
        places.push(place(check, &curve, named(curve.cells[0], &at)));
    }
    let silent = places.iter().all(|place| place.numbers.is_empty());
    if silent { Err(format!("no run has {}", check.metric)) } else { Ok(places) }
}

fn nothing_more(check: &Check) -> String {
    format!("too few runs of the grid {}", check.grid)
}

/// The values of a time series.
fn course<'a>(cell: &'a Cell, metric: &str) -> Curve<'a> {
    let values = cell.courses.get(metric).map_or(&[][..], Vec::as_slice);
    let step = cell.step(metric);
    #[allow(clippy::cast_precision_loss)] // Courses are short.
    let point = |(place, mean): (usize, &super::super::Mean)| {
        let x = place as f64 * step;
        Point { x, label: shown(x), y: mean.mean }
    };
    Curve {
        cells: vec![cell],
        points: values.iter().enumerate().map(point).collect(),
        absent: values.is_empty() || values.iter().any(|mean| mean.runs < cell.runs),
    }
}

/// Cells that differ only in the axis form a curve.
fn curves<'a>(check: &Check, along: &str, left: &[&'a Cell]) -> Result<Vec<Curve<'a>>, String> {
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for &cell in left {
        let label = cell
            .at
            .get(along)
            .ok_or_else(|| format!("the grid {} does not vary {along}", check.grid))?;
        let x = label
            .parse::<f64>()
            .map_err(|_| format!("{along}={label} is not a number, so it cannot be an axis"))?;
        let same = |curve: &Curve<'_>| {
            let first = curve.cells[0];
            first.at.iter().all(|(name, label)| name == along || cell.at.get(name) == Some(label))
        };
        let curve = match curves.iter().position(same) {
            Some(place) => &mut curves[place],
            None => {
                curves.push(Curve { cells: Vec::new(), points: Vec::new(), absent: false });
                curves.last_mut().expect("just pushed")
            }
        };
        curve.cells.push(cell);
        match cell.metric(&check.metric) {
            Some(mean) if mean.runs == cell.runs => {
                curve.points.push(Point { x, label: label.clone(), y: mean.mean });
            }
            Some(_) | None => curve.absent = true,
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Ok(curves)
}

/// A peak needs runs inside the interval where it should be, and runs outside of it.
fn both_sides(check: &Check, curve: &Curve<'_>, along: &str) -> Result<(), String> {
    let (least, greatest) = check.between.ok_or("the check does not say where the peak is")?;
    let within = curve.points.iter().filter(|point| (least..=greatest).contains(&point.x)).count();
    if within == 0 || within == curve.points.len() {
        let where_ = if within == 0 { "between" } else { "outside" };
        return Err(format!("no runs {where_} {along} {} and {}", shown(least), shown(greatest)));
    }
    Ok(())
}

fn place(check: &Check, curve: &Curve<'_>, at: String) -> Place {
    let absent = if curve.absent {
        format!("{} is absent in some runs; ", check.metric)
    } else {
        String::new()
    };
    let numbers = if curve.points.is_empty() {
        String::new()
    } else {
        format!("{absent}{}", list(&curve.points))
    };
    Place {
        at,
        numbers,
        holds: !curve.absent && shape(check, &curve.points),
        commands: curve.cells.iter().flat_map(|cell| cell.commands.clone()).collect(),
        incorrect: curve.cells.iter().map(|cell| incorrect(cell)).sum(),
    }
}

/// Whether the curve has the claimed shape. Values that are not numbers have no shape.
fn shape(check: &Check, points: &[Point]) -> bool {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return false };
    let steps = || points.windows(2).map(|pair| (pair[0].y, pair[1].y));
    match check.is {
        Relation::Grows => {
            last.y > first.y
                && steps().all(|(before, after)| after >= before - check.within * before.abs())
        }
        Relation::Falls => {
            last.y < first.y
                && steps().all(|(before, after)| after <= before + check.within * before.abs())
        }
        Relation::Flat => {
            #[allow(clippy::cast_precision_loss)] // A few points.
            let mean = points.iter().map(|point| point.y).sum::<f64>() / points.len() as f64;
            points.iter().all(|point| (point.y - mean).abs() <= check.within * mean.abs())
        }
        Relation::Peaks => {
            let greatest = points.iter().map(|point| point.y).fold(f64::NEG_INFINITY, f64::max);
            let (least, most) = check.between.unwrap_or((f64::NAN, f64::NAN));
            let mut outside = points.iter().filter(|point| !(least..=most).contains(&point.x));
            outside.all(|point| point.y < greatest - check.within * greatest.abs())
        }
        Relation::Greater | Relation::Less | Relation::Equal | Relation::Most | Relation::Least => {
            false
        }
    }
}

/// A short curve in full; of a long one its ends and its extremes.
fn list(points: &[Point]) -> String {
    const SHORT: usize = 8;
    let by = |a: &&Point, b: &&Point| a.y.total_cmp(&b.y);
    let text = |point: &Point| format!("{} at {}", shown(point.y), point.label);
    if points.len() <= SHORT {
        return points.iter().map(text).collect::<Vec<_>>().join(", ");
    }
    let ends = [&points[0], &points[points.len() - 1]];
    let (least, most) = (points.iter().min_by(by), points.iter().max_by(by));
    let (Some(least), Some(most)) = (least, most) else { return String::new() };
    format!("{} .. {}, least {}, most {}", text(ends[0]), text(ends[1]), text(least), text(most))
}
