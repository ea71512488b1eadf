//! One line per event: time, process, description.

use std::io::{BufRead, Write};

use kgate_core::{Span, Time};

use super::describe::{describe, name_width};
use super::{View, ViewError, each};
use crate::trace::reader::{Event, Reader};

/// Writes the view as text. A message is `->` where it is sent, `<-` where it is delivered and `x-`
/// where it is lost.
pub fn text<R: BufRead>(
    mut reader: Reader<R>,
    view: &View,
    to: &mut dyn Write,
) -> Result<(), ViewError> {
    let run = reader.run().clone();
    let wide = name_width(run.n);
    writeln!(to, "{}, n = {}, k = {}; time in t.u.", run.protocol, run.n, run.k)?;
    each(&mut reader, view, |record, seen| {
        if seen && record.event != Event::Other {
            let node = record.node.to_string();
            writeln!(to, "{}  {node:<wide$}  {}", aligned(record.t), describe(record, run.n))?;
        }
        Ok(())
    })
}

/// Aligns decimal points, without trailing zeros.
fn aligned(time: Time) -> String {
    let (whole, fraction) = (time.0 / Span::UNIT.0, time.0 % Span::UNIT.0);
    let digits = format!(".{fraction:09}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{whole:>6}{digits:<10}")
}
