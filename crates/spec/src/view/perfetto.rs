//! A trace for Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing`: the JSON form of
//! Chrome's trace events.
//!
//! A process of the run is a process there, with three tracks: when it is inside, when it waits,
//! and what happens to it. A message is an arrow (a flow) between two events. Times are in
//! microseconds, with the nanoseconds as decimals.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};

use kgate_core::{NodeId, Time};
use serde_json::json;

use super::bars::{Bar, Bars};
use super::channels::Channels;
use super::describe::describe;
use super::{View, ViewError, each};
use crate::trace::reader::{Event, Reader, Record};

/// The tracks of a process, in the order in which they are shown.
const INSIDE: u32 = 1;
const WAITS: u32 = 2;
const EVENTS: u32 = 3;

/// Writes the view as Chrome trace events, each as soon as it is known.
pub fn perfetto<R: BufRead>(
    mut reader: Reader<R>,
    view: &View,
    to: &mut dyn Write,
) -> Result<(), ViewError> {
    let run = reader.run().clone();
    let mut out = Out { to, view, nodes: run.n, flows: 0, named: BTreeSet::new(), comma: "" };
    let about = json!({ "protocol": run.protocol, "n": run.n, "k": run.k });
    write!(out.to, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[")?;
    let (mut bars, mut channels) = (Bars::default(), Channels::default());
    let mut last = view.window.from;
    each(&mut reader, view, |record, seen| {
        last = last.max(record.t);
        for bar in bars.see(record) {
            out.bar(&bar)?;
        }
        out.event(record, seen, &mut channels)
    })?;
    for bar in bars.rest(last) {
        out.bar(&bar)?;
    }
    writeln!(out.to, "\n]}}")?;
    Ok(())
}

struct Out<'a> {
    to: &'a mut dyn Write,
    view: &'a View,
    nodes: u32,
    /// Number of delivered messages.
    flows: u64,
    /// Processes whose tracks are named.
    named: BTreeSet<NodeId>,
    /// The separator before the next object.
    comma: &'static str,
}

impl Out<'_> {
    /// Writes one object of the list; `fields` is JSON.
    fn put(
        &mut self,
        phase: &str,
        node: NodeId,
        track: u32,
        at: Time,
        fields: &str,
    ) -> io::Result<()> {
        self.name(node)?;
        let (pid, at) = (node.0, micros(at.0));
        let comma = self.comma;
        write!(
            self.to,
            "{comma}\n{{\"ph\":\"{phase}\",\"pid\":{pid},\"tid\":{track},\"ts\":{at},{fields}}}"
        )
    }

    /// Writes the names of a process and its tracks before its first event.
    fn name(&mut self, node: NodeId) -> io::Result<()> {
        if !self.named.insert(node) {
            return Ok(());
        }
        let pid = node.0;
        let mut tell = |what: &str, track: u32, args: serde_json::Value| {
            let record = json!({ "ph": "M", "pid": pid, "tid": track, "name": what, "args": args });
            let comma = std::mem::replace(&mut self.comma, ",");
            write!(self.to, "{comma}\n{record}")
        };
        tell("process_name", 0, json!({ "name": node.to_string() }))?;
        tell("process_sort_index", 0, json!({ "sort_index": pid }))?;
        for (track, name) in [(INSIDE, "inside"), (WAITS, "waits"), (EVENTS, "events")] {
            tell("thread_name", track, json!({ "name": name }))?;
            tell("thread_sort_index", track, json!({ "sort_index": track }))?;
        }
        Ok(())
    }

    /// Writes a bar as a slice, cut to the view.
    fn bar(&mut self, bar: &Bar) -> io::Result<()> {
        let window = self.view.window;
        if !self.view.shown.has(bar.node) || bar.until < window.from {
            return Ok(());
        }
        let from = bar.from.max(window.from);
        let (track, name) = if bar.inside { (INSIDE, "inside") } else { (WAITS, "waits") };
        let length = micros(bar.until.since(from).0);
        self.put("X", bar.node, track, from, &format!("\"dur\":{length},\"name\":\"{name}\""))
    }

    /// A message is a short slice at either end, because arrows end only at slices; all other
    /// events are instants. The arrow is written at the delivery, with both ends, if both are in
    /// view.
    fn event(
        &mut self,
        record: &Record,
        seen: bool,
        channels: &mut Channels<Option<Time>>,
    ) -> io::Result<()> {
        let sent = channels.see(record, self.nodes, || seen.then_some(record.t)).flatten();
        if !seen {
            return Ok(());
        }
        let (node, at) = (record.node, record.t);
        let says = describe(record, self.nodes);
        if let Event::Send { kind, .. } = &record.event {
            self.slice(node, at, &format!("send {kind}"), &says)
        } else if let Event::Deliver { kind, from, .. } = &record.event {
            self.slice(node, at, &format!("get {kind}"), &says)?;
            let Some(sent) = sent else { return Ok(()) };
            self.flows += 1;
            let arrow =
                format!("\"cat\":\"message\",\"id\":{},\"name\":{}", self.flows, json!(kind));
            self.put("s", *from, EVENTS, sent, &arrow)?;
            self.put("f", node, EVENTS, at, &format!("{arrow},\"bp\":\"e\""))
        } else if record.event == Event::Other {
            Ok(())
        } else {
            self.put("i", node, EVENTS, at, &format!("\"s\":\"t\",\"name\":{}", json!(says)))
        }
    }

    /// Writes a slice of one nanosecond: two events of a process are never closer.
    fn slice(&mut self, node: NodeId, at: Time, name: &str, says: &str) -> io::Result<()> {
        let args = json!({ "says": says });
        self.put(
            "X",
            node,
            EVENTS,
            at,
            &format!("\"dur\":0.001,\"name\":{},\"args\":{args}", json!(name)),
        )
    }
}

/// Microseconds with the nanoseconds as decimals.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}
