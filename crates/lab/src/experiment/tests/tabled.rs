//! Reports as numbers, and runs as tables.

use kgate_testkit::TempFolder;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::json;

use super::{run_in, small};
use crate::experiment::{metrics, store};

/// Paths name numbers; true is 1; null and machine-dependent values are omitted; lists are series,
/// named objects or counts.
#[test]
fn numbers_by_their_paths() {
    let of = metrics::of(&json!({
        "protocol": "vcube", "n": 8, "seed": 3, "hash": "0x1", "wall_seconds": 1.5,
        "seconds": 2.0, "events_per_second": 9, "peak_memory_bytes": 7,
        "k_in_use_seen": true, "obtaining": { "mean": 0.5, "p50": null },
        "messages": { "by_kind": { "tree": 4 } }, "use": { "series": [0, 0.5] },
        "violations": [{ "text": "x" }],
        "properties": [{ "name": "at most k", "holds": false }],
    }));
    let expected = [
        ("k_in_use_seen", 1.0),
        ("messages.by_kind.tree", 4.0),
        ("n", 8.0),
        ("obtaining.mean", 0.5),
        ("properties.at-most-k.holds", 0.0),
        ("violations", 1.0),
    ];
    assert_eq!(of.measured, expected.map(|(name, number)| (name.to_owned(), number)).into());
    assert_eq!(of.series, [("use.series".to_owned(), vec![0.0, 0.5])].into());
}

/// A row finds a number by its path, and an element of a series by its index.
#[test]
fn values_of_rows() {
    let folder = TempFolder::new("values");
    run_in(&folder, &small()).expect("runs");
    let rows = store::read(&folder).expect("rows");
    assert_eq!(rows[0].value("use.series.3"), Some(3.0));
    assert_eq!(rows[0].value("violations"), Some(0.0));
    assert_eq!(
        (rows[0].value("use.series.4"), rows[0].value("use.series"), rows[0].value("nothing")),
        (None, None, None)
    );
}

/// The tables have one line per run, in the order of the grids, and only time series that a plot or
/// a fact uses.
#[test]
fn tables_for_other_programs() {
    let folder = TempFolder::new("tables");
    run_in(&folder, &small()).expect("runs");
    let runs = std::fs::read_to_string(folder.join("runs.csv")).expect("a table");
    let head =
        "grid,case,processes,protocol,seed,correct,hash,grants,k,obtaining.mean,violations,command";
    assert_eq!(runs.lines().next(), Some(head));
    assert_eq!(runs.lines().count(), 21);
    assert!(runs.lines().nth(1).is_some_and(|line| line.starts_with("low,,8,raymond,1,true,0x")));
    assert!(
        runs.lines()
            .last()
            .is_some_and(|line| line.starts_with("explored,with a crash,,,1,true,0x"))
    );
    let series = std::fs::read_to_string(folder.join("series.csv")).expect("a table");
    assert_eq!(series.lines().next(), Some("grid,case,processes,protocol,seed,metric,index,value"));
    assert_eq!(series.lines().count(), 1 + 20 * 4);
    assert!(series.lines().nth(4).is_some_and(|line| line == "low,,8,raymond,1,use.series,3,3"));
}

/// Parquet, read back, equals the CSV in every column of every run.
#[test]
fn parquet_is_read_back() {
    let folder = TempFolder::new("parquet");
    run_in(&folder, &small()).expect("runs");
    let file = std::fs::File::open(folder.join("runs.parquet")).expect("a table");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    assert_eq!(reader.metadata().file_metadata().created_by(), Some("kgate lab"));
    let text = |field: &Field| {
        if let Field::Str(text) = field {
            text.clone()
        } else if let Field::Double(number) = field {
            number.to_string()
        } else if *field == Field::Null {
            String::new()
        } else {
            field.to_string()
        }
    };
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    let read: Vec<Vec<String>> =
        rows.map(|row| row.get_column_iter().map(|(_, field)| text(field)).collect()).collect();
    let mut csv = csv::Reader::from_path(folder.join("runs.csv")).expect("a table");
    let lines: Vec<Vec<String>> = csv
        .records()
        .map(|line| line.expect("a line").iter().map(String::from).collect())
        .collect();
    assert_eq!(read, lines);
    let head: Vec<&str> = reader
        .metadata()
        .file_metadata()
        .schema()
        .get_fields()
        .iter()
        .map(|field| field.name())
        .collect();
    assert_eq!(head, csv.headers().expect("a head").iter().collect::<Vec<_>>());
}

/// A number keeps its last digit in the file of runs: otherwise a resumed experiment would differ
/// from an uninterrupted one.
#[test]
fn numbers_keep_their_digits() {
    let mut number = 0.1_f64;
    for _ in 0..10_000 {
        number = (number * 1.000_7).fract() + 1e-3;
        let text = serde_json::to_string(&number).expect("a number");
        assert_eq!(
            serde_json::from_str::<f64>(&text).expect("a number").to_bits(),
            number.to_bits()
        );
    }
}
