//! What is written down of a run: a line of JSON for each fact, by the process that saw it, at the
//! time of the real clock.
//!
//! Each process appends to a file of its own, one write a line, so that a process that is killed
//! leaves whole lines behind. A record's time is read *before* the deadline that it tells of: a
//! process that is frozen in between says something that was true at that time.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::clock;

/// Somebody saw something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// When, by the real clock, in nanoseconds.
    pub(crate) t: u64,
    /// At which node.
    pub(crate) node: u32,
    /// The request, by its name; the driver's own records have none.
    pub(crate) who: String,
    /// What.
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What somebody saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum What {
    /// A permit is asked for; the process that waits for the answer.
    Asked { gate: String, pid: u32 },
    /// Somebody goes in. `process`: a child of `kgate run`, whose incarnation is the belief; else
    /// belief ends at `until` at the latest.
    Granted { gate: String, slots: Vec<u32>, fence: String, until: u64, pid: u32, process: bool },
    /// It is still inside, and may be so until then.
    Inside { until: u64 },
    /// It has ended its work, and gives the permit back after this.
    Out,
    /// It has seen that the permit is lost, and has stopped.
    Lost { why: String },
    /// The request has ended, one way or another.
    Answered { how: String },
    /// The lock of its slot was taken by that process.
    Crowded { slot: u32, owner: u32 },
    /// The resource has refused its fence: it has seen a greater one.
    Stale { slot: u32, greatest: String, until: u64 },
    /// The driver begins or ends a fault.
    Fault { text: String },
    /// The driver has killed that client.
    Killed { pid: u32 },
    /// The driver has stopped that whole tree of processes; nobody of it can end the others.
    Frozen { pid: u32 },
    /// It goes on.
    Thawed { pid: u32 },
    /// From now on these nodes, and no others, cannot reach a quorum.
    Minority { nodes: Vec<u32> },
    /// All faults are over.
    Healed,
    /// The run is over: whoever is not answered by now never will be.
    End,
    /// A node has ended by itself.
    Ended { text: String },
    /// That processor ran nobody who was ready for so long, or somebody else.
    Stalled { processor: usize, ms: u64 },
}

/// Writes the records of one process.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    node: u32,
}

/// The folder of the records, in that of the run.
const FOLDER: &str = "records";

impl Writer {
    /// Appends to the file of that name.
    pub(crate) fn open(run: &Path, name: &str, node: u32) -> Result<Self> {
        let folder = run.join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(format!("{name}.ndjson"));
        let file = File::options().create(true).append(true).open(&path);
        Ok(Self { file: file.with_context(|| format!("cannot write {}", path.display()))?, node })
    }

    /// It is so now.
    pub(crate) fn write(&mut self, who: &str, what: What) -> Result<()> {
        self.write_at(clock::now(), who, what)
    }

    /// It was so then.
    pub(crate) fn write_at(&mut self, t: u64, who: &str, what: What) -> Result<()> {
        let record = Record { t, node: self.node, who: who.to_owned(), what };
        let mut line = serde_json::to_string(&record)?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).context("cannot write a record")
    }
}

/// All records of a run, in the order of time.
pub(crate) fn read_all(run: &Path) -> Result<Vec<Record>> {
    let folder = run.join(FOLDER);
    let mut records = Vec::new();
    for entry in
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        records.extend(
            parse(&text).with_context(|| format!("{} is not as it was written", path.display()))?,
        );
    }
    records.sort_by_key(|record| record.t);
    Ok(records)
}

/// The records of one process; none if it has not begun.
pub(crate) fn read_one(run: &Path, name: &str) -> Result<Vec<Record>> {
    match fs::read_to_string(run.join(FOLDER).join(format!("{name}.ndjson"))) {
        Ok(text) => parse(&text),
        Err(_) => Ok(Vec::new()),
    }
}

/// The whole lines of a text; a last one without its end was cut off by a kill.
fn parse(text: &str) -> Result<Vec<Record>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written is read again, up to the last instant of the clock; a line that a kill has
    /// cut off is passed over.
    #[test]
    fn records_come_back_as_they_were() {
        let granted = What::Granted {
            gate: "a".into(),
            slots: vec![0, 2],
            fence: "00ff".into(),
            until: u64::MAX,
            pid: 7,
            process: true,
        };
        let record = Record { t: 5, node: 1, who: "1-run-0.3".into(), what: granted };
        let out = Record { what: What::Out, ..record.clone() };
        let text =
            [&record, &out].map(|record| serde_json::to_string(record).unwrap() + "\n").concat();
        assert_eq!(parse(&text).unwrap(), [record, out]);
        assert_eq!(parse(&text[..text.len() - 3]).unwrap().len(), 1);
        assert!(parse("{}\n").is_err());
    }
}
