//! The runs as tables for other programs: `runs.csv` and `runs.parquet` with one line per run, and
//! `series.csv` with one line per element of a time series.
//!
//! The tables do not depend on when, where or in which order the runs were made: the same runs give
//! the same bytes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::file::Experiment;
use super::row::Row;
use super::store::{self, StoreError};

/// Writes all three files.
pub fn write(dir: &Path, experiment: &Experiment, rows: &[Row]) -> Result<(), StoreError> {
    let columns = columns(rows);
    store::write(&dir.join("runs.csv"), &runs_csv(&columns, rows))?;
    let path = dir.join("runs.parquet");
    let broken = |error: ParquetError| StoreError::at(&path)(std::io::Error::other(error));
    store::write(&path, &runs_parquet(&columns, rows).map_err(broken)?)?;
    store::write(&dir.join("series.csv"), &series_csv(experiment, rows))
}

/// A column of the table of runs.
struct Column {
    name: String,
    of: Of,
}

/// The contents of a column.
enum Of {
    Grid,
    Parameter(String),
    Seed,
    Correct,
    Hash,
    Metric(String),
    Command,
}

/// The columns: those in which at least one run has a value.
fn columns(rows: &[Row]) -> Vec<Column> {
    let parameters = parameters(rows);
    let metrics: BTreeSet<&String> = rows.iter().flat_map(|row| row.measured.keys()).collect();
    let mut columns = vec![Column { name: "grid".into(), of: Of::Grid }];
    let parameter =
        |name: &&String| Column { name: (*name).clone(), of: Of::Parameter((*name).clone()) };
    columns.extend(parameters.iter().map(parameter));
    let fixed = [("seed", Of::Seed), ("correct", Of::Correct), ("hash", Of::Hash)];
    columns.extend(fixed.map(|(name, of)| Column { name: name.into(), of }));
    let mut taken: BTreeSet<String> = columns.iter().map(|column| column.name.clone()).collect();
    taken.insert("command".into());
    // A run whose duration is a parameter also measures its duration: most readers would lose one
    // of two columns with the same name.
    let apart = |name: &String| {
        if taken.contains(name) { format!("measured.{name}") } else { name.clone() }
    };
    columns.extend(
        metrics.into_iter().map(|name| Column { name: apart(name), of: Of::Metric(name.clone()) }),
    );
    columns.push(Column { name: "command".into(), of: Of::Command });
    columns
}

fn parameters(rows: &[Row]) -> BTreeSet<&String> {
    rows.iter().flat_map(|row| row.at.keys()).collect()
}

impl Column {
    /// The text of a cell; empty where the run has no value.
    fn text(&self, row: &Row) -> String {
        match &self.of {
            Of::Grid => row.grid.clone(),
            Of::Parameter(name) => row.at.get(name).cloned().unwrap_or_default(),
            Of::Seed => row.seed.to_string(),
            Of::Correct => row.correct.to_string(),
            Of::Hash => row.hash.clone(),
            Of::Metric(name) => row.measured.get(name).map(f64::to_string).unwrap_or_default(),
            Of::Command => row.command.clone(),
        }
    }

    fn schema(&self) -> Result<Arc<Type>, ParquetError> {
        let (physical, converted, repetition) = match &self.of {
            Of::Grid | Of::Hash | Of::Command => {
                (Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED)
            }
            Of::Parameter(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::OPTIONAL),
            Of::Seed => (Physical::INT64, ConvertedType::UINT_64, Repetition::REQUIRED),
            Of::Correct => (Physical::BOOLEAN, ConvertedType::NONE, Repetition::REQUIRED),
            Of::Metric(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
        };
        let builder = Type::primitive_type_builder(&self.name, physical);
        builder.with_converted_type(converted).with_repetition(repetition).build().map(Arc::new)
    }

    fn fill(&self, rows: &[Row], to: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        match to {
            ColumnWriter::ByteArrayColumnWriter(to) => {
                let optional = matches!(self.of, Of::Parameter(_));
                let there = |row: &&Row| match &self.of {
                    Of::Parameter(name) => row.at.contains_key(name),
                    Of::Grid | Of::Seed | Of::Correct | Of::Hash | Of::Metric(_) | Of::Command => {
                        true
                    }
                };
                let texts: Vec<ByteArray> = rows
                    .iter()
                    .filter(there)
                    .map(|row| ByteArray::from(self.text(row).into_bytes()))
                    .collect();
                let levels: Vec<i16> = rows.iter().map(|row| i16::from(there(&row))).collect();
                to.write_batch(&texts, optional.then_some(&levels), None)?;
            }
            ColumnWriter::DoubleColumnWriter(to) => {
                let Of::Metric(name) = &self.of else { unreachable!("only metrics are numbers") };
                let numbers: Vec<Option<f64>> =
                    rows.iter().map(|row| row.measured.get(name).copied()).collect();
                let levels: Vec<i16> =
                    numbers.iter().map(|number| i16::from(number.is_some())).collect();
                let numbers: Vec<f64> = numbers.into_iter().flatten().collect();
                to.write_batch(&numbers, Some(&levels), None)?;
            }
            ColumnWriter::Int64ColumnWriter(to) => {
                let seeds: Vec<i64> = rows.iter().map(|row| row.seed.cast_signed()).collect();
                to.write_batch(&seeds, None, None)?;
            }
            ColumnWriter::BoolColumnWriter(to) => {
                let correct: Vec<bool> = rows.iter().map(|row| row.correct).collect();
                to.write_batch(&correct, None, None)?;
            }
            ColumnWriter::Int32ColumnWriter(_)
            | ColumnWriter::Int96ColumnWriter(_)
            | ColumnWriter::FloatColumnWriter(_)
            | ColumnWriter::FixedLenByteArrayColumnWriter(_) => {
                unreachable!("no column is of such a type")
            }
        }
        Ok(())
    }
}

fn runs_csv(columns: &[Column], rows: &[Row]) -> Vec<u8> {
    let mut lines = vec![columns.iter().map(|column| column.name.clone()).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|column| column.text(row)).collect()));
    csv(&lines)
}

fn runs_parquet(columns: &[Column], rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(Column::schema).collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("runs").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_created_by("kgate lab".into())
        .set_compression(parquet::basic::Compression::SNAPPY)
        .build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for column in columns {
        let mut writer = group.next_column()?.expect("as many as in the schema");
        column.fill(rows, writer.untyped())?;
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(bytes)
}

/// One line per element of each time series that a plot or a fact uses.
fn series_csv(experiment: &Experiment, rows: &[Row]) -> Vec<u8> {
    let looked_at: BTreeSet<&str> = metrics(experiment).collect();
    let used = |name: &str| {
        let inside = |metric: &&str| {
            metric.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        looked_at.iter().any(inside)
    };
    let parameters = parameters(rows);
    let mut head = vec!["grid".to_owned()];
    head.extend(parameters.iter().map(|name| (*name).clone()));
    head.extend(["seed", "metric", "index", "value"].map(String::from));
    let mut lines = vec![head];
    for row in rows {
        for (metric, numbers) in row.series.iter().filter(|(metric, _)| used(metric)) {
            for (index, number) in numbers.iter().enumerate() {
                let mut line = vec![row.grid.clone()];
                line.extend(
                    parameters.iter().map(|name| row.at.get(*name).cloned().unwrap_or_default()),
                );
                line.extend([
                    row.seed.to_string(),
                    metric.clone(),
                    index.to_string(),
                    number.to_string(),
                ]);
                lines.push(line);
            }
        }
    }
    csv(&lines)
}

/// The metrics that plots and facts use.
fn metrics(experiment: &Experiment) -> impl Iterator<Item = &str> {
    let plots = experiment.plot.iter().map(|plot| plot.y.as_str());
    let checks = experiment.fact.iter().flat_map(|fact| &fact.check);
    let facts =
        checks.flat_map(|check| [Some(check.metric.as_str()), check.right_metric.as_deref()]);
    plots.chain(facts.flatten())
}

fn csv(lines: &[Vec<String>]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in lines {
        writer.write_record(line).expect("lines of equal length, into memory");
    }
    writer.into_inner().expect("into memory")
}
