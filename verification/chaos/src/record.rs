//! The records of a run: one JSON object per event, written by the process that saw it, with the
//! time of the real clock.
//!
//! Each process appends to a file of its own, one write per line, so that a killed process leaves
//! whole lines behind. The time of a record is read *before* the deadline in it: the record of a
//! process that is frozen in between was true at its time.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::clock;

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Time by the real clock, in nanoseconds.
    pub(crate) t: u64,
    /// The node at which it happened.
    pub(crate) node: u32,
    /// The request, by its name; the driver's own records have none.
    pub(crate) who: String,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum What {
    /// A client requests a permit; `pid` waits for the answer.
    Asked { gate: String, pid: u32 },
    /// A permit was granted. With `process` the holder is a child of `kgate run` and holds as long
    /// as it runs; otherwise its belief ends at `until` at the latest.
    Granted { gate: String, slots: Vec<u32>, fence: String, until: u64, pid: u32, process: bool },
    /// Heartbeat: the holder still holds, and may do so until then.
    Inside { until: u64 },
    /// The holder has finished its work and releases the permit next.
    Out,
    /// The holder has noticed that the permit is lost, and has stopped.
    Lost { why: String },
    /// The request has ended.
    Answered { how: String },
    /// The lock of its slot was taken by process `owner`.
    LockTaken { slot: u32, owner: u32 },
    /// The resource refused its fence, because it has seen a greater one.
    Stale { slot: u32, greatest: String, until: u64 },
    /// The driver begins or ends a fault.
    Fault { text: String },
    /// The driver killed this client.
    Killed { pid: u32 },
    /// The driver stopped a whole tree of processes; none of them can end another.
    Frozen { pid: u32 },
    /// The driver resumed it.
    Thawed { pid: u32 },
    /// From now on these nodes, and no others, cannot reach a quorum.
    Minority { nodes: Vec<u32> },
    /// All faults are over.
    Healed,
    /// The run is over: a request without an answer stays without one.
    End,
    /// A node ended by itself.
    Ended { text: String },
    /// A processor did not run a ready thread of the witness for this long.
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

    /// Writes a record with the present time.
    pub(crate) fn write(&mut self, who: &str, what: What) -> Result<()> {
        self.write_at(clock::now(), who, what)
    }

    /// Writes a record with the time `t`.
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
        records.extend(parse(&text).with_context(|| format!("{} is malformed", path.display()))?);
    }
    records.sort_by_key(|record| record.t);
    Ok(records)
}

/// The records of one process; empty if it has written none.
pub(crate) fn read_one(run: &Path, name: &str) -> Result<Vec<Record>> {
    match fs::read_to_string(run.join(FOLDER).join(format!("{name}.ndjson"))) {
        Ok(text) => parse(&text),
        Err(_) => Ok(Vec::new()),
    }
}

/// Parses the whole lines; a last line without its end was cut off by a kill.
fn parse(text: &str) -> Result<Vec<Record>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A written record is read back unchanged, up to the last instant of the clock; a line that a
    /// kill cut off is skipped.
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
