//! A log for ShiViz, which draws and searches runs in a browser:
//! <https://bestchai.bitbucket.io/shiviz/>.
//!
//! ShiViz knows no messages, only vector clocks (Fidge 1988, Mattern 1988): an event happened
//! before another if its clock is smaller. A process counts its own events in view; a message
//! carries the clock of its sender, and its receiver merges it. A process out of view counts no
//! events but still passes clocks on, so that dependencies through it are kept. The loss of a
//! message is not an event of a process and is left out.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::rc::Rc;

use kgate_core::NodeId;

use super::channels::Channels;
use super::describe::describe;
use super::{View, ViewError, each};
use crate::trace::reader::{Event, Reader, Record};

/// The regular expression by which ShiViz parses the log; the empty line means a single run.
const HEADER: &str = r"(?<host>\S+) (?<clock>\{.*\}) (?<time>\S+)\n(?<event>.*)";

/// A vector clock: the number of known events of each process.
pub(super) type Clock = BTreeMap<NodeId, u64>;

/// Writes the view as a log for ShiViz.
pub fn shiviz<R: BufRead>(
    mut reader: Reader<R>,
    view: &View,
    to: &mut dyn Write,
) -> Result<(), ViewError> {
    let nodes = reader.run().n;
    let mut clocks = Clocks::default();
    writeln!(to, "{HEADER}\n")?;
    each(&mut reader, view, |record, seen| {
        if matches!(record.event, Event::Lost { .. }) {
            clocks.see(record, nodes, false);
            return Ok(());
        }
        let seen = seen && record.event != Event::Other;
        let clock = clocks.see(record, nodes, seen);
        if seen {
            let known: Vec<String> =
                clock.iter().map(|(node, count)| format!("\"{node}\":{count}")).collect();
            writeln!(
                to,
                "{} {{{}}} {}\n{}",
                record.node,
                known.join(","),
                record.t,
                describe(record, nodes)
            )?;
        }
        Ok(())
    })
}

/// The clock of each process. A message shares the clock of its sender, which is copied at the next
/// event of the sender.
#[derive(Default)]
pub(super) struct Clocks {
    clocks: BTreeMap<NodeId, Rc<Clock>>,
    channels: Channels<Rc<Clock>>,
}

impl Clocks {
    /// Processes an event, which counts if it is in view; returns the clock of its process after
    /// it.
    pub(super) fn see(&mut self, record: &Record, nodes: u32, counts: bool) -> &Clock {
        let clock = self.clocks.entry(record.node).or_default();
        if counts {
            *Rc::make_mut(clock).entry(record.node).or_default() += 1;
        }
        let carried = self.channels.see(record, nodes, || Rc::clone(clock));
        if let (Some(carried), Event::Deliver { .. }) = (carried, &record.event) {
            let clock = Rc::make_mut(clock);
            for (&node, &count) in carried.iter() {
                let known = clock.entry(node).or_default();
                *known = count.max(*known);
            }
        }
        clock
    }

    /// Planted bug: forgets the messages in transit.
    #[cfg(test)]
    pub(super) fn forget(&mut self) {
        self.channels = Channels::default();
    }
}
