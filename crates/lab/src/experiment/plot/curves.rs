//! The contents of a plot without any drawing: curves with points, and two axes.

use std::collections::BTreeSet;

use super::super::Mean;
use super::super::file::Plot;
use super::super::summary::Cell;
use super::axis::Axis;

/// The contents of a plot.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// The horizontal axis.
    pub(super) x: Axis,
    /// The vertical axis.
    pub(super) y: Axis,
    /// The curves, in the order of the file.
    pub(super) curves: Vec<Curve>,
    /// The number of points per curve that cannot be shown: zero on a logarithmic axis.
    pub(super) left_out: Vec<(String, usize)>,
}

/// A curve.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Its name in the legend.
    pub(super) name: String,
    /// The number of its style: the same for the same value in all plots of an experiment.
    pub(super) style: usize,
    /// Whether it is a published curve.
    pub(super) published: bool,
    /// Whether it is a time series: many points, and few markers.
    pub(super) course: bool,
    /// The points, from left to right.
    pub(super) points: Vec<Point>,
}

/// A point with its confidence interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// The place on the horizontal axis.
    pub(super) x: f64,
    /// The mean.
    pub(super) y: f64,
    /// Half of its interval, if it has one.
    pub(super) half: Option<f64>,
}

/// The horizontal axis that is not a parameter.
const TIME: &str = "time";

/// The contents of a plot of these cells.
pub(super) fn figure(plot: &Plot, cells: &[Cell]) -> Figure {
    let grid: Vec<&Cell> = cells.iter().filter(|cell| cell.grid == plot.grid).collect();
    let fits = |cell: &&&Cell| {
        let is = |name: &String, label: &str| cell.at.get(name).is_some_and(|at| at == label);
        plot.only.iter().all(|(name, words)| words.0.iter().any(|word| is(name, &word.0)))
    };
    let shown: Vec<&Cell> = grid.iter().filter(fits).copied().collect();
    let names = names_of_x(plot, &shown);
    let mut curves: Vec<Curve> = Vec::new();
    for cell in &shown {
        let name = curve_name(plot, cell, &shown);
        let place = curves.iter().position(|curve| curve.name == name).unwrap_or_else(|| {
            let style = style(plot, cell, cells, curves.len());
            curves.push(Curve {
                name,
                style,
                published: false,
                course: plot.x == TIME,
                points: Vec::new(),
            });
            curves.len() - 1
        });
        curves[place].points.extend(points(plot, cell, names.as_deref()));
    }
    if !plot.published.is_empty() {
        let points = plot.published.iter().map(|&(x, y)| Point { x, y, half: None }).collect();
        curves.push(Curve {
            name: "published".into(),
            style: 0,
            published: true,
            course: false,
            points,
        });
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    curves.retain(|curve| !curve.points.is_empty());
    let (x, y) = axes(plot, &curves, names.as_deref());
    let mut left_out = Vec::new();
    for curve in &mut curves {
        let all = curve.points.len();
        curve.points.retain(|point| x.place(point.x).is_some() && y.place(point.y).is_some());
        if curve.points.len() < all {
            left_out.push((curve.name.clone(), all - curve.points.len()));
        }
    }
    curves.retain(|curve| !curve.points.is_empty());
    Figure { x, y, curves, left_out }
}

/// The labels of a horizontal axis whose values are not numbers.
fn names_of_x(plot: &Plot, shown: &[&Cell]) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for label in shown.iter().filter_map(|cell| cell.at.get(&plot.x)) {
        if !names.contains(label) {
            names.push(label.clone());
        }
    }
    let numbers = names.iter().all(|name| name.parse::<f64>().is_ok_and(f64::is_finite));
    (!numbers && plot.x != TIME).then_some(names)
}

/// The name of a curve: the value of the plot's series, and of every other parameter that differs
/// among the cells shown.
fn curve_name(plot: &Plot, cell: &Cell, shown: &[&Cell]) -> String {
    let differs = |name: &&String| {
        let labels: BTreeSet<_> = shown.iter().map(|cell| cell.at.get(*name)).collect();
        **name != plot.x && **name != plot.series && labels.len() > 1
    };
    let mut words: Vec<String> = cell.at.get(&plot.series).into_iter().cloned().collect();
    words.extend(cell.at.keys().filter(differs).map(|name| format!("{name} {}", cell.at[name])));
    if words.is_empty() { "measured".into() } else { words.join(", ") }
}

/// The position of the series' value among all values of the experiment, so that a protocol has the
/// same style in every plot; if a value has several curves, the number of the curve.
fn style(plot: &Plot, cell: &Cell, cells: &[Cell], curve: usize) -> usize {
    let mut labels: Vec<&String> = Vec::new();
    for label in cells.iter().filter_map(|cell| cell.at.get(&plot.series)) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let open = |name: &&String| {
        **name != plot.x
            && **name != plot.series
            && plot.only.get(*name).is_none_or(|words| words.0.len() > 1)
    };
    let grid = || cells.iter().filter(|other| other.grid == plot.grid);
    let same = |name: &String| grid().all(|other| other.at.get(name) == cell.at.get(name));
    let alone = cell.at.keys().filter(open).all(same);
    let place =
        cell.at.get(&plot.series).and_then(|label| labels.iter().position(|other| *other == label));
    place.filter(|_| alone).unwrap_or(curve)
}

fn points(plot: &Plot, cell: &Cell, names: Option<&[String]>) -> Vec<Point> {
    let point = |x: f64, mean: &Mean| Point { x, y: mean.mean, half: mean.half };
    if plot.x == TIME {
        let step = cell.step(&plot.y);
        let means = cell.courses.get(&plot.y).map_or(&[][..], Vec::as_slice);
        #[allow(clippy::cast_precision_loss)] // Courses are short.
        return means
            .iter()
            .enumerate()
            .map(|(place, mean)| point((place as f64 + 0.5) * step, mean))
            .collect();
    }
    let (Some(label), Some(mean)) = (cell.at.get(&plot.x), cell.metric(&plot.y)) else {
        return Vec::new();
    };
    #[allow(clippy::cast_precision_loss)] // A few names.
    let x = match names {
        Some(names) => names.iter().position(|name| name == label).map(|place| place as f64),
        None => label.parse().ok(),
    };
    x.map(|x| point(x, &mean)).into_iter().collect()
}

fn axes(plot: &Plot, curves: &[Curve], names: Option<&[String]>) -> (Axis, Axis) {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let mut across: Vec<f64> = points().map(|point| point.x).collect();
    across.sort_by(f64::total_cmp);
    across.dedup();
    let x = match names {
        Some(names) => Axis::of_names(names),
        None if plot.x == TIME => Axis::time(&across),
        None if plot.log_x => {
            across.retain(|value| *value > 0.0);
            Axis::of_values(&across)
        }
        None => Axis::linear(&across),
    };
    let reach = |point: &Point| {
        let half =
            if curves.iter().any(|curve| curve.course) { 0.0 } else { point.half.unwrap_or(0.0) };
        // A count is never below zero, whatever its interval.
        let low = if point.y >= 0.0 { (point.y - half).max(0.0) } else { point.y - half };
        [low, point.y, point.y + half]
    };
    let mut up: Vec<f64> = points().flat_map(reach).collect();
    let y = if plot.log_y {
        // An interval that reaches zero or below has no lower end on this axis.
        up.retain(|value| *value > 0.0);
        let least =
            points().map(|point| point.y).filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
        up.retain(|value| *value >= least / 3.0);
        Axis::log(&up)
    } else {
        Axis::linear(&up)
    };
    (x, y)
}
