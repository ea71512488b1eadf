//! Finished runs on disk: `runs.ndjson`, one per line, each written as soon as it is finished. An
//! interrupted experiment resumes from it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::row::Row;

/// The file of the runs.
pub const RUNS: &str = "runs.ndjson";
/// Runs that were made with other settings of the experiment, kept for later use.
pub const UNUSED: &str = "unused.ndjson";
/// The experiment that was run.
pub const EXPERIMENT: &str = "experiment.toml";
const LOCK: &str = ".lock";

/// Results that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system reports an error.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Another process writes the results.
    #[error("{0} is being written by another kgate lab: wait for it, or give another --out")]
    Busy(PathBuf),
    /// A line of the file is not a run.
    #[error(
        "line {line} of {path} is not a run ({error}): remove the line, and the run is made again"
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The error.
        error: String,
    },
}

impl StoreError {
    /// For `map_err`, with the path.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }
}

/// The runs of a folder in the order of the file, which is the order of the grids once the
/// experiment is finished.
pub fn read(dir: &Path) -> Result<Vec<Row>, StoreError> {
    Ok(read_file(&dir.join(RUNS))?.0)
}

/// The runs of a file (none if there is no file), and the length of the complete lines: the rest is
/// an incomplete line of a killed process.
fn read_file(path: &Path) -> Result<(Vec<Row>, u64), StoreError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((vec![], 0)),
        Err(error) => return Err(StoreError::at(path)(error)),
    };
    let mut rows = Vec::new();
    let mut whole = 0;
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        let broken = |error: serde_json::Error| StoreError::Broken {
            path: path.to_owned(),
            line: index + 1,
            error: error.to_string(),
        };
        rows.push(serde_json::from_slice(line).map_err(broken)?);
        whole += line.len() as u64;
    }
    Ok((rows, whole))
}

/// A directory of results, locked for writing by this process.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    runs: File,
    _lock: File,
}

impl Store {
    /// Opens or creates the folder, with all runs in it, whatever their settings.
    pub fn open(dir: &Path) -> Result<(Self, Vec<Row>), StoreError> {
        std::fs::create_dir_all(dir).map_err(StoreError::at(dir))?;
        let lock = lock(dir)?;
        let path = dir.join(RUNS);
        let (mut rows, whole) = read_file(&path)?;
        let runs = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(StoreError::at(&path))?;
        runs.set_len(whole).map_err(StoreError::at(&path))?;
        rows.extend(read_file(&dir.join(UNUSED))?.0);
        Ok((Self { dir: dir.to_owned(), runs, _lock: lock }, rows))
    }

    /// The path of the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes all runs.
    pub fn clear(&self) -> Result<(), StoreError> {
        self.runs.set_len(0).map_err(StoreError::at(&self.dir.join(RUNS)))?;
        write(&self.dir.join(UNUSED), b"")
    }

    /// Adds a run, in one write.
    pub fn append(&self, row: &Row) -> Result<(), StoreError> {
        (&self.runs).write_all(&line(row)).map_err(StoreError::at(&self.dir.join(RUNS)))
    }

    /// Sorts the runs and moves unused ones to the other file. Nothing can be appended after that.
    pub fn settle<'a>(
        self,
        used: impl IntoIterator<Item = &'a Row>,
        unused: impl IntoIterator<Item = &'a Row>,
    ) -> Result<(), StoreError> {
        let text =
            |rows: &mut dyn Iterator<Item = &'a Row>| rows.flat_map(line).collect::<Vec<u8>>();
        let unused = text(&mut unused.into_iter());
        let path = self.dir.join(UNUSED);
        if !unused.is_empty() {
            write(&path, &unused)?;
        } else if path.exists() {
            std::fs::remove_file(&path).map_err(StoreError::at(&path))?;
        }
        write(&self.dir.join(RUNS), &text(&mut used.into_iter()))
    }
}

fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join(LOCK);
    let file =
        OpenOptions::new().create(true).append(true).open(&path).map_err(StoreError::at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Busy(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(StoreError::at(&path)(error)),
    }
}

fn line(row: &Row) -> Vec<u8> {
    let mut line = serde_json::to_vec(row).expect("text, numbers and maps with names as keys");
    line.push(b'\n');
    line
}

/// Writes a file atomically: a reader sees the old or the new contents.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    std::fs::write(&temporary, bytes).map_err(StoreError::at(&temporary))?;
    std::fs::rename(&temporary, path).map_err(StoreError::at(path))
}
