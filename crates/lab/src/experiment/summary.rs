//! Aggregates the runs of one combination of parameters: for each metric its mean over the seeds
//! and a 95 % confidence interval.

use std::collections::{BTreeMap, BTreeSet};

use super::{Mean, Row};

/// The runs of one combination of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The grid.
    pub grid: String,
    /// The parameters with the labels of their values.
    pub at: BTreeMap<String, String>,
    /// The number of runs, one per seed.
    pub runs: usize,
    /// The number of runs without a violation.
    pub correct: usize,
    /// The commands that repeat the runs.
    pub commands: Vec<String>,
    /// Metrics by name. `runs` shows if only some of the runs have the metric.
    pub means: BTreeMap<String, Mean>,
    /// Time series by name, with a mean per element.
    pub courses: BTreeMap<String, Vec<Mean>>,
}

impl Cell {
    /// A metric by its name: a number, an element of a series (`slots_in_use.series.57`), or
    /// `correct`, the share of correct runs.
    pub fn metric(&self, name: &str) -> Option<Mean> {
        if name == CORRECT {
            return mean((0..self.runs).map(|run| if run < self.correct { 1.0 } else { 0.0 }));
        }
        self.means.get(name).copied().or_else(|| {
            let (course, place) = name.rsplit_once('.')?;
            self.courses.get(course)?.get(place.parse::<usize>().ok()?).copied()
        })
    }

    /// Whether a published defect is switched on, so that a violation is expected.
    pub fn as_printed(&self) -> bool {
        self.commands.iter().any(|command| command.contains("--as-printed"))
    }

    /// The time between two elements of a series, given by its window; 1 without a window.
    pub fn step(&self, course: &str) -> f64 {
        let window = course
            .strip_suffix(".series")
            .and_then(|stem| self.means.get(&format!("{stem}.window")));
        window.map_or(1.0, |window| window.mean)
    }
}

/// The metric that every run has: whether it was correct.
pub const CORRECT: &str = "correct";

/// All combinations, in the order of their first run in `rows`.
pub fn summarise(rows: &[Row]) -> Vec<Cell> {
    let mut order: Vec<Vec<&Row>> = Vec::new();
    let mut known = BTreeMap::new();
    for row in rows {
        let place = *known.entry((&row.grid, &row.at)).or_insert_with(|| {
            order.push(Vec::new());
            order.len() - 1
        });
        order[place].push(row);
    }
    order.into_iter().map(|runs| cell(&runs)).collect()
}

fn cell(runs: &[&Row]) -> Cell {
    let first = runs[0];
    let names: BTreeSet<_> = runs.iter().flat_map(|run| run.measured.keys()).collect();
    let means = names
        .into_iter()
        .filter_map(|name| {
            let values = runs.iter().filter_map(|run| run.measured.get(name).copied());
            Some((name.clone(), mean(values)?))
        })
        .collect();
    let names: BTreeSet<_> = runs.iter().flat_map(|run| run.series.keys()).collect();
    let courses = names
        .into_iter()
        .map(|name| {
            let lists: Vec<&[f64]> =
                runs.iter().filter_map(|run| run.series.get(name).map(Vec::as_slice)).collect();
            // Series of different lengths are averaged up to the shortest one.
            let length = lists.iter().map(|list| list.len()).min().unwrap_or(0);
            let course =
                (0..length).map_while(|place| mean(lists.iter().map(|list| list[place]))).collect();
            (name.clone(), course)
        })
        .collect();
    Cell {
        grid: first.grid.clone(),
        at: first.at.clone(),
        runs: runs.len(),
        correct: runs.iter().filter(|run| run.correct).count(),
        commands: runs.iter().map(|run| run.command.clone()).collect(),
        means,
        courses,
    }
}

/// The mean with its interval; none without values. Values that are not numbers are ignored.
#[allow(clippy::cast_precision_loss)] // Numbers of runs are small.
fn mean(values: impl Iterator<Item = f64>) -> Option<Mean> {
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    let runs = values.len();
    if runs == 0 {
        return None;
    }
    // Equal values have a mean without a rounding error, and an interval of zero.
    if values.iter().all(|value| *value == values[0]) {
        return Some(Mean { mean: values[0], half: (runs > 1).then_some(0.0), runs });
    }
    let mean = values.iter().sum::<f64>() / runs as f64;
    let half = (runs > 1).then(|| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        student(runs - 1) * (squares / (runs - 1) as f64 / runs as f64).sqrt()
    });
    Some(Mean { mean, half, runs })
}

/// The 97.5 % quantile of Student's distribution: the table of Abramowitz and Stegun, *Handbook of
/// Mathematical Functions*, 26.10, up to 30 degrees of freedom, and their expansion 26.7.5 above,
/// which is good to four digits there.
#[allow(clippy::cast_precision_loss)] // Numbers of runs are small.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    const NORMAL: f64 = 1.959_964;
    TABLE.get(freedom - 1).copied().unwrap_or_else(|| {
        let freedom = freedom as f64;
        NORMAL
            + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom)
            + (5.0 * NORMAL.powi(5) + 16.0 * NORMAL.powi(3) + 3.0 * NORMAL)
                / (96.0 * freedom * freedom)
    })
}

/// `summary.csv`: one line per combination and metric. Numbers are written in the shortest form
/// that reads back exactly.
pub fn csv(cells: &[Cell]) -> Result<Vec<u8>, csv::Error> {
    let parameters: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.at.keys()).collect();
    let mut to = csv::Writer::from_writer(Vec::new());
    let mut head = vec!["grid"];
    head.extend(parameters.iter().map(|name| name.as_str()));
    head.extend(["metric", "mean", "half_95", "runs"]);
    to.write_record(&head)?;
    for cell in cells {
        let mut place = vec![cell.grid.clone()];
        place.extend(parameters.iter().map(|name| cell.at.get(*name).cloned().unwrap_or_default()));
        let correct = cell.metric(CORRECT).map(|mean| (CORRECT.to_owned(), mean));
        for (name, mean) in correct.into_iter().chain(cell.means.clone()) {
            let mut line = place.clone();
            let half = mean.half.map_or_else(String::new, |half| half.to_string());
            line.extend([name, mean.mean.to_string(), half, mean.runs.to_string()]);
            to.write_record(&line)?;
        }
    }
    to.into_inner().map_err(|error| error.into_error().into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A correct run with one metric.
    pub(crate) fn row(grid: &str, at: &[(&str, &str)], seed: u64, measured: &[(&str, f64)]) -> Row {
        let at: BTreeMap<_, _> =
            at.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let flags: Vec<_> = at.iter().map(|(name, value)| format!("--{name} {value}")).collect();
        Row {
            grid: grid.into(),
            command: format!("kgate sim {} --seed {seed}", flags.join(" ")),
            at,
            seed,
            hash: String::new(),
            correct: true,
            measured: measured.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            series: BTreeMap::new(),
        }
    }

    /// Mean and interval of five runs, computed by hand: t(4) = 2.776, s = 1.5811, half = 1.963.
    #[test]
    fn five_seeds_give_an_interval() {
        let rows: Vec<_> = (1..=5u8)
            .map(|x| row("g", &[("n", "8")], u64::from(x), &[("y", f64::from(x))]))
            .collect();
        let cells = summarise(&rows);
        let mean = cells[0].metric("y").unwrap();
        assert_eq!((cells.len(), mean.mean, mean.runs), (1, 3.0, 5));
        assert!((mean.half.unwrap() - 1.963).abs() < 1e-3, "{mean:?}");
    }

    /// A run that lacks a metric, or has no number there, is not counted, and `runs` shows that; a
    /// single run has no interval.
    #[test]
    fn what_is_absent_is_seen() {
        let rows = [
            row("g", &[("n", "8")], 1, &[("y", 2.0), ("z", f64::NAN)]),
            row("g", &[("n", "8")], 2, &[]),
        ];
        let cell = &summarise(&rows)[0];
        assert_eq!(cell.metric("y"), Some(Mean { mean: 2.0, half: None, runs: 1 }));
        assert_eq!((cell.metric("z"), cell.metric("nothing"), cell.runs), (None, None, 2));
    }

    /// An element of a series is a metric; its mean is over the seeds.
    #[test]
    fn a_course_has_places() {
        let mut rows =
            [row("g", &[], 1, &[("u.window", 10.0)]), row("g", &[], 2, &[("u.window", 10.0)])];
        rows[0].series.insert("u.series".into(), vec![1.0, 3.0]);
        rows[1].series.insert("u.series".into(), vec![1.0, 5.0, 7.0]);
        let cell = &summarise(&rows)[0];
        assert_eq!(cell.metric("u.series.1").unwrap().mean, 4.0);
        assert_eq!(cell.metric("u.series.2"), None);
        assert_eq!(cell.step("u.series"), 10.0);
    }

    /// Student's quantiles are continuous where the table ends, and approach the normal quantile.
    #[test]
    fn quantiles_fall() {
        let values: Vec<f64> = (1..200).map(student).collect();
        assert!(values.windows(2).all(|pair| pair[0] > pair[1]));
        assert!((student(40) - 2.021).abs() < 1e-3 && (student(120) - 1.980).abs() < 1e-3);
    }

    /// The table is the same, byte for byte, whenever it is written.
    #[test]
    fn summary_as_csv() {
        let rows =
            [row("g", &[("n", "8")], 1, &[("y", 0.1)]), row("g", &[("n", "16")], 1, &[("y", 2.0)])];
        let text = String::from_utf8(csv(&summarise(&rows)).unwrap()).unwrap();
        assert_eq!(
            text,
            "grid,n,metric,mean,half_95,runs\ng,8,correct,1,,1\ng,8,y,0.1,,1\ng,16,correct,1,,1\n\
             g,16,y,2,,1\n"
        );
    }
}
