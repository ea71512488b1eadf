//! Runs written down: one JSON object a line (NDJSON). `docs/reference/trace-format.md` describes it for those who
//! write or read it elsewhere.
//!
//! The first line is the header `{"trace":1,...}` with the version of this format and what was run;
//! every other line is one event with its time in nanoseconds. Fields are only ever added within a
//! version.

pub mod reader;

use std::io::{self, Write};

use kgate_core::{NodeId, Time};
use serde::Serialize;

/// The version of the format.
pub const VERSION: u32 = 1;

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// A client wants in.
    Acquire {
        /// With how many units.
        #[serde(skip_serializing_if = "is_one")]
        weight: u32,
    },
    /// The request leaves its process.
    Asked,
    /// The client goes in.
    Granted {
        /// With which slots, where the protocol numbers them.
        #[serde(skip_serializing_if = "<[u32]>::is_empty")]
        slots: &'a [u32],
        /// Under which fence, in hexadecimal, where there is one: JSON has no numbers of 128 bits.
        #[serde(skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
        /// The clock of its request, where the protocol claims to serve requests in the order of
        /// their stamps.
        #[serde(skip_serializing_if = "Option::is_none")]
        stamp: Option<u64>,
        /// Which grant of this process, where it may have several at once.
        #[serde(skip_serializing_if = "Option::is_none")]
        grant: Option<u64>,
    },
    /// The client comes out.
    Release {
        /// Of which grant, where the process may have several at once.
        #[serde(skip_serializing_if = "Option::is_none")]
        grant: Option<u64>,
    },
    /// A client that waits gives up; of several, the one that asked last.
    Withdraw,
    /// The client that has waited longest here is told that its request cannot be granted any more.
    TooLarge {
        /// How many units it wants.
        weight: u32,
        /// How many there are.
        most: u32,
    },
    /// The process learns that there are k units from now on.
    Resize {
        /// How many.
        k: u32,
    },
    /// A message is handed to the network; `copies` of it, to `to` if it is one, to everybody else
    /// if neither says to whom.
    Send {
        /// Its kind.
        kind: &'a str,
        /// To whom, if to one.
        to: Option<NodeId>,
        /// To whom, if to some.
        #[serde(skip_serializing_if = "<[NodeId]>::is_empty")]
        to_many: &'a [NodeId],
        /// To how many.
        copies: u32,
        /// What it says.
        message: &'a str,
    },
    /// A message arrives.
    Deliver {
        /// Its kind.
        kind: &'a str,
        /// From whom.
        from: NodeId,
        /// What it says.
        message: &'a str,
    },
    /// A message to this process is lost on its way, or comes while the process is down.
    Lost {
        /// Its kind.
        kind: &'a str,
        /// From whom.
        from: NodeId,
        /// What it says.
        message: &'a str,
    },
    /// The network doubles a message of this process.
    Doubled {
        /// Its kind.
        kind: &'a str,
        /// To whom.
        to: NodeId,
        /// What it says.
        message: &'a str,
    },
    /// The process crashes.
    Crash,
    /// The process starts again.
    Restart {
        /// Its number, if it is a new incarnation that begins with nothing: whoever waited here is
        /// gone.
        #[serde(skip_serializing_if = "Option::is_none")]
        incarnation: Option<u32>,
    },
    /// The process's memory becomes anything.
    Fault,
    /// The run has recovered from all transient faults; told once, of the process at which that was
    /// seen.
    Recovered,
    /// The process is stopped: nothing happens to it.
    Pause,
    /// The process goes on.
    Resume,
    /// The process holds another for crashed.
    Suspected {
        /// Whom.
        whom: NodeId,
    },
    /// The process learns that another takes part again.
    Joined {
        /// Which.
        whom: NodeId,
    },
    /// In the state model: the process takes an action.
    Moved {
        /// The action's name.
        action: &'a str,
        /// Its state after it.
        state: &'a str,
    },
    /// In the state model: from now on the process can take these actions.
    Can {
        /// Their names.
        actions: &'a [&'a str],
        /// Whether it has the privilege: it may be inside until it moves.
        inside: bool,
    },
    /// A checker has found that the run is not correct; told of the first process that it concerns.
    Violated {
        /// The property that does not hold.
        property: &'a str,
        /// Whom it concerns.
        nodes: &'a [NodeId],
        /// In a sentence.
        text: &'a str,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref)] // So serde calls it.
fn is_one(weight: &u32) -> bool {
    *weight == 1
}

#[derive(Serialize)]
struct Line<'a> {
    t: Time,
    node: NodeId,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

/// Writes a trace. The first failure is kept and told by [`finish`](Self::finish): a run does not
/// stop for its trace.
pub struct Writer<'a> {
    to: Box<dyn Write + 'a>,
    failure: Option<io::Error>,
}

impl<'a> Writer<'a> {
    /// Starts a trace; `run` says what is run.
    pub fn new(mut to: Box<dyn Write + 'a>, run: &serde_json::Value) -> Self {
        let header = serde_json::json!({ "trace": VERSION, "run": run });
        let failure = writeln!(to, "{header}").err();
        Self { to, failure }
    }

    /// Writes one event.
    pub fn write(&mut self, t: Time, node: NodeId, event: &Event<'_>) {
        if self.failure.is_none() {
            let written = serde_json::to_writer(&mut self.to, &Line { t, node, event })
                .map_err(io::Error::from);
            self.failure = written.and_then(|()| self.to.write_all(b"\n")).err();
        }
    }

    /// Ends the trace; says whether all of it was written.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.to.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented form: a header with the version, then a line an event.
    #[test]
    fn a_trace_is_lines_of_json() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(Box::new(&mut bytes), &serde_json::json!({ "n": 2 }));
        writer.write(Time(5), NodeId(1), &Event::Suspected { whom: NodeId(0) });
        writer.finish().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text,
            "{\"run\":{\"n\":2},\"trace\":1}\n{\"t\":5,\"node\":1,\"event\":\"suspected\",\"whom\":0}\n"
        );
    }
}
