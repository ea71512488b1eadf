//! Joins the results of several shards of an experiment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::file::Experiment;
use super::finish;
use super::grid::{self, Flags};
use super::parse::ExperimentError;
use super::row::Row;
use super::run::{Done, RunError, sorted_out};
use super::store::{self, Store, StoreError};

/// Joins `parts` into `dir`, and writes all results derived from the runs.
pub fn merge(parts: &[PathBuf], dir: &Path, flags: &Flags) -> Result<Done, RunError> {
    let mut experiment: Option<(Experiment, &PathBuf)> = None;
    let mut rows: BTreeMap<_, (Row, &PathBuf)> = BTreeMap::new();
    for part in parts {
        let path = part.join(store::EXPERIMENT);
        let text = std::fs::read_to_string(&path).map_err(StoreError::at(&path))?;
        match &experiment {
            Some((first, _)) if first.text == text => {}
            Some((_, other)) => {
                return Err(differ(
                    part,
                    other,
                    "they belong to different experiments or settings",
                )
                .into());
            }
            None => experiment = Some((Experiment::parse(&text)?, part)),
        }
        for row in store::read(part)? {
            let key = (row.grid.clone(), row.at.clone(), row.seed);
            match rows.get(&key) {
                Some((other, _)) if *other == row => {}
                Some((_, other)) => {
                    let what = format!("they measured different things for {}", row.command);
                    return Err(differ(part, other, &what).into());
                }
                None => drop(rows.insert(key, (row, part))),
            }
        }
    }
    let Some((experiment, _)) = experiment else {
        return Err(ExperimentError::Wrong {
            place: "merge".into(),
            what: "give the folders to join".into(),
        }
        .into());
    };
    let plan = grid::plan(&experiment, flags)?;
    let (store, before) = Store::open(dir)?;
    if !before.is_empty() {
        return Err(ExperimentError::Wrong {
            place: dir.display().to_string(),
            what: "there are results already: give another --out".into(),
        }
        .into());
    }
    store::write(&dir.join(store::EXPERIMENT), experiment.text.as_bytes())?;
    let (rows, unused) = sorted_out(&plan.points, rows.into_values().map(|(row, _)| row).collect());
    store.settle(rows.values(), &unused)?;
    let wrong = rows.iter().filter(|(index, row)| !row.correct && !plan.points[**index].as_printed);
    let wrong = wrong.map(|(_, row)| row.command.clone()).collect();
    let rows: Vec<Row> = rows.into_values().collect();
    finish(dir, &experiment, &rows)?;
    Ok(Done { all: plan.points.len(), there: rows.len(), made: 0, wrong })
}

fn differ(part: &Path, other: &Path, what: &str) -> ExperimentError {
    ExperimentError::Wrong {
        place: format!("{} and {}", part.display(), other.display()),
        what: what.into(),
    }
}
