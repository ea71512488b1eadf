//! A folder of results: reads its runs from `runs.ndjson`, and writes summary, verdicts, plots and
//! report.

use std::io;
use std::path::{Path, PathBuf};

use super::facts::{self, Verdict};
use super::file::Experiment;
use super::parse::ExperimentError;
use super::plot::{self, Drawing};
use super::report;
use super::row::Row;
use super::store::{self, StoreError};
use super::summary::{self, Cell};

/// The results of an experiment.
#[derive(Clone, Debug)]
pub struct Results {
    /// The experiment.
    pub experiment: Experiment,
    /// Its runs, by combination of parameters.
    pub cells: Vec<Cell>,
    /// The verdicts on the published facts.
    pub verdicts: Vec<Verdict>,
}

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The folder has no results.
    #[error(
        "{0} has no results: give the folder of --out of `kgate lab run`, or the folder of one \
         experiment in it"
    )]
    None(PathBuf),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The copy of the experiment beside the runs is invalid.
    #[error("{path}: {error}")]
    Experiment {
        /// The file.
        path: PathBuf,
        /// The error.
        error: ExperimentError,
    },
}

/// The file name of the report.
pub const REPORT: &str = "report.html";

impl Results {
    /// The results of these runs.
    pub fn of(experiment: Experiment, rows: &[Row]) -> Self {
        let cells = summary::summarise(rows);
        let verdicts = facts::evaluate_all(&experiment, &cells);
        Self { experiment, cells, verdicts }
    }

    /// Reads the folder of one experiment.
    pub fn read(dir: &Path) -> Result<Self, ResultsError> {
        let path = dir.join(store::EXPERIMENT);
        let text = std::fs::read_to_string(&path).map_err(StoreError::at(&path))?;
        let experiment =
            Experiment::parse(&text).map_err(|error| ResultsError::Experiment { path, error })?;
        Ok(Self::of(experiment, &store::read(dir)?))
    }

    /// Writes summary, verdicts, plots and report.
    pub fn write(&self, dir: &Path) -> Result<(), StoreError> {
        let plots = dir.join("plots");
        std::fs::create_dir_all(&plots).map_err(StoreError::at(&plots))?;
        let mut drawings = Vec::new();
        for plot in &self.experiment.plot {
            let path = plots.join(format!("{}.svg", plot.name));
            let broken = |error: String| StoreError::at(&path)(io::Error::other(error));
            let drawing: Drawing = plot::draw(plot, &self.cells).map_err(broken)?;
            store::write(&path, drawing.svg.as_bytes())?;
            drawings.push(drawing);
        }
        let table = |name: &str, bytes: Result<Vec<u8>, csv::Error>| {
            let path = dir.join(name);
            let bytes = bytes.map_err(|error| StoreError::at(&path)(io::Error::other(error)))?;
            store::write(&path, &bytes)
        };
        table("summary.csv", summary::csv(&self.cells))?;
        table("verdicts.csv", facts::csv(&self.verdicts))?;
        store::write(&dir.join(REPORT), report::page(self, &drawings).as_bytes())
    }
}

/// All results of a folder: its own, or those of its subfolders, each with its path.
pub fn read_all(dir: &Path) -> Result<Vec<(PathBuf, Results)>, ResultsError> {
    if dir.join(store::EXPERIMENT).exists() {
        return Ok(vec![(dir.to_owned(), Results::read(dir)?)]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|_| ResultsError::None(dir.to_owned()))? {
        let path = entry.map_err(StoreError::at(dir))?.path();
        if path.join(store::EXPERIMENT).exists() {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(ResultsError::None(dir.to_owned()));
    }
    found.into_iter().map(|path| Results::read(&path).map(|results| (path, results))).collect()
}

/// Writes the index of a folder with several experiments and returns its path; none for the folder
/// of one experiment.
pub fn write_index(dir: &Path) -> Result<Option<PathBuf>, ResultsError> {
    if dir.join(store::EXPERIMENT).exists() {
        return Ok(None);
    }
    let all = read_all(dir)?;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let listed: Vec<_> = all.iter().map(|(path, results)| (name(path), results)).collect();
    let path = dir.join(REPORT);
    store::write(&path, report::index(&listed).as_bytes())?;
    Ok(Some(path))
}
