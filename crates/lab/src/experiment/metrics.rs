//! The JSON output of a command as named numbers.
//!
//! A number is named by its path, as in `obtaining.mean`; true is 1, and null has no name. A list
//! of numbers is a series. In a list of objects with a `name`, each is addressed by it
//! (`properties.at-most-k.holds`), and any other list is counted (`violations`). Values that depend
//! on the machine are omitted, so that the same run gives the same numbers everywhere.

use std::collections::BTreeMap;

use serde_json::Value;

/// Values that differ from machine to machine, and the seed, which has a column of its own.
const LEFT_OUT: [&str; 5] =
    ["wall_seconds", "seconds", "events_per_second", "peak_memory_bytes", "seed"];

/// Numbers and series by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Single numbers.
    pub measured: BTreeMap<String, f64>,
    /// Lists of numbers.
    pub series: BTreeMap<String, Vec<f64>>,
}

/// The numbers of a report.
pub fn of(report: &Value) -> Metrics {
    let mut metrics = Metrics::default();
    if let Value::Object(members) = report {
        for (name, value) in members.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
            metrics.add(name.clone(), value);
        }
    }
    metrics
}

impl Metrics {
    fn add(&mut self, path: String, value: &Value) {
        match value {
            Value::Null | Value::String(_) => {}
            Value::Bool(truth) => drop(self.measured.insert(path, f64::from(u8::from(*truth)))),
            Value::Number(number) => {
                if let Some(number) = number.as_f64() {
                    self.measured.insert(path, number);
                }
            }
            Value::Object(members) => {
                for (name, value) in members {
                    self.add(format!("{path}.{name}"), value);
                }
            }
            Value::Array(items) => self.add_list(path, items),
        }
    }

    #[allow(clippy::cast_precision_loss)] // A count for tables.
    fn add_list(&mut self, path: String, items: &[Value]) {
        let numbers: Option<Vec<f64>> = items.iter().map(Value::as_f64).collect();
        let names: Option<Vec<&str>> =
            items.iter().map(|item| item.get("name")?.as_str()).collect();
        match (numbers, names) {
            (Some(numbers), _) if !items.is_empty() => drop(self.series.insert(path, numbers)),
            (_, Some(names)) if !items.is_empty() => {
                for (name, item) in names.iter().zip(items) {
                    self.add(format!("{path}.{}", name.replace(' ', "-")), item);
                }
            }
            _ => drop(self.measured.insert(path, items.len() as f64)),
        }
    }
}
