//! The trace of a run, if one is wanted.

use kgate_core::{Message, NodeId, Time};
use kgate_spec::{Violation, trace};
use serde_json::Value;

use crate::engine::{OpenTrace, RunError};

/// A trace that may be switched off.
pub(crate) struct RunTrace<'a> {
    writer: Option<trace::Writer<'a>>,
    /// The number of violations written so far.
    violations: usize,
}

impl<'a> RunTrace<'a> {
    /// Opens the trace, if one is wanted, and writes its header.
    pub(crate) fn open(open: Option<OpenTrace<'a>>, header: &Value) -> Result<Self, RunError> {
        let to = open.map(|open| open()).transpose().map_err(RunError::OpenTrace)?;
        Ok(Self { writer: to.map(|to| trace::Writer::new(to, header)), violations: 0 })
    }

    /// Whether a trace is written.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.writer.is_some()
    }

    #[inline]
    pub(crate) fn write(&mut self, at: Time, node: NodeId, event: &trace::Event<'_>) {
        if let Some(writer) = &mut self.writer {
            writer.write(at, node, event);
        }
    }

    /// Writes those of `all` violations that are new since the last call.
    pub(crate) fn write_violations(&mut self, at: Time, all: &[Violation]) {
        let Some(writer) = &mut self.writer else { return };
        for Violation { property, nodes, text, .. } in &all[self.violations..] {
            let node = nodes.first().copied().unwrap_or(NodeId(0));
            let (property, nodes, text) = ((*property).into(), nodes.into(), text.into());
            writer.write(at, node, &trace::Event::Violated { property, nodes, text });
            self.violations += 1;
        }
    }

    /// Ends the trace.
    pub(crate) fn finish(self) -> Result<(), RunError> {
        self.writer.map_or(Ok(()), |writer| writer.finish().map_err(RunError::Trace))
    }
}

/// A message as a trace shows it: its kind and its content.
pub(crate) fn described<M: Message>(message: &M) -> (&'static str, String) {
    (M::kind_name(message.kind()), format!("{message:?}"))
}
