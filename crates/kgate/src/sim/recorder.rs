//! Records a run: its trace in a file, its diagram in another, or both. The diagram is drawn from
//! the lines of the trace as they are written, so a long run needs no trace file for it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use kgate_sim::OpenTrace;
use kgate_spec::diagram::{Canvas, DiagramError};
use kgate_spec::trace::reader::{Record, RecordSink, Run};
use kgate_spec::view::View;

use super::options::SimArgs;
use crate::{Failure, scenario};

pub(super) struct Recorder<'a> {
    trace: Option<&'a Path>,
    diagram: Option<(&'a Path, Sketch)>,
}

/// The diagram as far as it is drawn.
struct Sketch {
    view: View,
    canvas: Option<Canvas>,
    rejected: Option<DiagramError>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(args: &'a SimArgs) -> Self {
        let view = View {
            window: args.window.unwrap_or_default(),
            shown: args.show.clone().unwrap_or_default(),
        };
        let sketch = Sketch { view, canvas: None, rejected: None };
        Self {
            trace: args.trace.as_deref(),
            diagram: args.diagram.as_deref().map(|path| (path, sketch)),
        }
    }

    /// The writer for the simulator; none if neither trace nor diagram is requested.
    pub(super) fn open(&mut self) -> Option<OpenTrace<'_>> {
        let (trace, sketch) = (self.trace, self.diagram.as_mut().map(|(_, sketch)| sketch));
        if trace.is_none() && sketch.is_none() {
            return None;
        }
        Some(Box::new(move || {
            let file = trace.map(|path| File::create(path).map(BufWriter::new)).transpose()?;
            let sink = sketch.map(|sketch| {
                RecordSink::new(|run: &Run, record: &Record| sketch.see(run, record))
            });
            Ok(Box::new(Tee(file, sink)))
        }))
    }

    /// Writes the diagram.
    pub(super) fn finish(self, title: &str) -> Result<(), Failure> {
        let Some((path, sketch)) = self.diagram else { return Ok(()) };
        let Some(canvas) = sketch.canvas else {
            return Err(Failure::Usage("no event to draw: give a longer --duration".into()));
        };
        let svg = canvas.finish(title).map_err(|why| Failure::Usage(why.to_string()))?;
        scenario::write(path, svg.as_bytes())
    }

    /// Why the diagram was rejected while the run was in progress.
    pub(super) fn rejected(self) -> Option<Failure> {
        let (_, sketch) = self.diagram?;
        sketch.rejected.map(|why| Failure::Usage(why.to_string()))
    }
}

impl Sketch {
    fn see(&mut self, run: &Run, record: &Record) -> io::Result<()> {
        if self.canvas.is_none() {
            match Canvas::new(run, &self.view) {
                Ok(canvas) => self.canvas = Some(canvas),
                Err(why) => {
                    let error = io::Error::other(why.to_string());
                    self.rejected = Some(why);
                    return Err(error);
                }
            }
        }
        if let Some(canvas) = &mut self.canvas {
            canvas.see(record);
        }
        Ok(())
    }
}

/// Writes to two writers.
struct Tee<A, B>(Option<A>, Option<B>);

impl<A: Write, B: Write> Write for Tee<A, B> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(first) = &mut self.0 {
            first.write_all(bytes)?;
        }
        if let Some(second) = &mut self.1 {
            second.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Write::flush)?;
        self.1.as_mut().map_or(Ok(()), Write::flush)
    }
}
