//! The format of a recorded run: one JSON object per line (NDJSON).
//! `docs/reference/trace-format.md` describes it for other programs.
//!
//! The first line is the header `{"trace":1,...}` with the version of the format and the run. Every
//! other line is one event with its time in nanoseconds. Within a version, fields are only added.

pub mod reader;

use std::borrow::Cow;
use std::io::{self, Write};

use kgate_core::{NodeId, Time};
use serde::{Deserialize, Serialize};

/// The version of the format.
pub const VERSION: u32 = 1;

/// One event of a run. A writer lends its texts and lists; a reader owns them (`Event<'static>`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// A client issues a request.
    Acquire {
        /// The number of slots it requests.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        weight: u32,
    },
    /// The request leaves its process.
    Requested,
    /// A request is granted.
    Granted {
        /// The slots, where the protocol numbers them.
        #[serde(default, skip_serializing_if = "<[u32]>::is_empty")]
        slots: Cow<'a, [u32]>,
        /// The fence, if there is one; in hexadecimal, because JSON has no 128-bit numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
        /// The clock of the request's stamp, where the protocol claims to serve requests in the
        /// order of their stamps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stamp: Option<u64>,
        /// The id of the grant, where a process may have several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<u64>,
    },
    /// A client releases its grant.
    Release {
        /// The id of the grant, where a process may have several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<u64>,
    },
    /// A waiting client withdraws its request; of several requests, the last one.
    Withdraw,
    /// The oldest request of this process is rejected: k has become too small for it.
    TooLarge {
        /// The weight of the request.
        weight: u32,
        /// The largest possible weight.
        most: u32,
    },
    /// The process learns the value of k from now on.
    Resize {
        /// The new k.
        k: u32,
    },
    /// A message is passed to the network: `copies` of it, to `to` or to `to_many`; to all other
    /// processes if neither is given.
    Send {
        /// The kind of the message.
        kind: Cow<'a, str>,
        /// The receiver, if there is one.
        to: Option<NodeId>,
        /// The receivers, if there are several but not all.
        #[serde(default, skip_serializing_if = "<[NodeId]>::is_empty")]
        to_many: Cow<'a, [NodeId]>,
        /// The number of receivers.
        copies: u32,
        /// The text of the message.
        message: Cow<'a, str>,
    },
    /// A message is delivered.
    Deliver {
        /// The kind of the message.
        kind: Cow<'a, str>,
        /// The sender.
        from: NodeId,
        /// The text of the message.
        message: Cow<'a, str>,
    },
    /// A message to this process is lost in transit, or arrives while the process is down.
    Lost {
        /// The kind of the message.
        kind: Cow<'a, str>,
        /// The sender.
        from: NodeId,
        /// The text of the message.
        message: Cow<'a, str>,
    },
    /// The network duplicates a message of this process.
    Duplicated {
        /// The kind of the message.
        kind: Cow<'a, str>,
        /// The receiver.
        to: NodeId,
        /// The text of the message.
        message: Cow<'a, str>,
    },
    /// The process crashes.
    Crash,
    /// The process recovers.
    Restart {
        /// The incarnation, if the process starts with empty memory: its waiting requests are gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        incarnation: Option<u32>,
    },
    /// A transient fault: the memory of the process becomes arbitrary.
    Fault,
    /// The run has recovered from all transient faults; recorded once, at the process where it was
    /// seen.
    Recovered,
    /// The process pauses: it handles no event.
    Pause,
    /// The process continues.
    Resume,
    /// The process suspects that another has crashed.
    Suspected {
        /// The suspected process.
        whom: NodeId,
    },
    /// The process learns that another has recovered.
    Joined {
        /// The recovered process.
        whom: NodeId,
    },
    /// In the state model: the process takes an action.
    Moved {
        /// The action's name.
        action: Cow<'a, str>,
        /// Its state after it.
        state: Cow<'a, str>,
    },
    /// In the state model: the actions that are enabled at the process from now on.
    Enabled {
        /// The names of the actions.
        actions: Vec<Cow<'a, str>>,
        /// Whether the process has the privilege: it may hold a slot until it moves.
        inside: bool,
    },
    /// A checker has found a violation; recorded at the first process concerned.
    Violated {
        /// The violated property.
        property: Cow<'a, str>,
        /// The processes concerned.
        nodes: Cow<'a, [NodeId]>,
        /// What happened, in a sentence.
        text: Cow<'a, str>,
    },
    /// An event kind that this version of kgate does not know. It is read, and never written.
    #[serde(other)]
    Other,
}

/// The default weight of a request.
pub(crate) fn one() -> u32 {
    1
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

/// Writes a trace. The first error is kept and returned by [`finish`](Self::finish): a run does not
/// stop because of its trace.
pub struct Writer<'a> {
    to: Box<dyn Write + 'a>,
    failure: Option<io::Error>,
}

impl<'a> Writer<'a> {
    /// Starts a trace; `run` describes the run.
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

    /// Ends the trace, and returns the first error, if any.
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

    /// The documented form: a header with the version, then one line per event.
    #[test]
    fn a_trace_is_lines_of_json() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(Box::new(&mut bytes), &serde_json::json!({ "n": 2 }));
        writer.write(Time(5), NodeId(1), &Event::Suspected { whom: NodeId(0) });
        writer.finish().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text,
            "{\"run\":{\"n\":2},\"trace\":1}\n\
             {\"t\":5,\"node\":1,\"event\":\"suspected\",\"whom\":0}\n"
        );
    }
}
