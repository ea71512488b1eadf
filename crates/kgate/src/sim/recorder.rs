//! What a run leaves behind: its trace in a file, its picture in another, or both. The picture is
//! drawn from the lines of the trace as they are written, so a long run needs no file for it.

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

/// The picture as far as it has come.
struct Sketch {
    view: View,
    canvas: Option<Canvas>,
    refused: Option<DiagramError>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(args: &'a SimArgs) -> Self {
        let view = View {
            window: args.window.unwrap_or_default(),
            shown: args.show.clone().unwrap_or_default(),
        };
        let sketch = Sketch { view, canvas: None, refused: None };
        Self {
            trace: args.trace.as_deref(),
            diagram: args.diagram.as_deref().map(|path| (path, sketch)),
        }
    }

    /// Where the simulator writes to, if anybody wants to know.
    pub(super) fn open(&mut self) -> Option<OpenTrace<'_>> {
        let (trace, sketch) = (self.trace, self.diagram.as_mut().map(|(_, sketch)| sketch));
        if trace.is_none() && sketch.is_none() {
            return None;
        }
        Some(Box::new(move || {
            let file = trace.map(|path| File::create(path).map(BufWriter::new)).transpose()?;
            let sink = sketch.map(|sketch| {
                RecordSink::new(|run: &Run, record: &Record| sketch.hear(run, record))
            });
            Ok(Box::new(Both(file, sink)))
        }))
    }

    /// Draws the picture.
    pub(super) fn finish(self, title: &str) -> Result<(), Failure> {
        let Some((path, sketch)) = self.diagram else { return Ok(()) };
        let Some(canvas) = sketch.canvas else {
            return Err(Failure::Usage(
                "nothing happened that could be drawn: give a longer --duration".into(),
            ));
        };
        let picture = canvas.finish(title).map_err(|why| Failure::Usage(why.to_string()))?;
        scenario::write(path, picture.as_bytes())
    }

    /// Why the picture was given up while the run went on.
    pub(super) fn refused(self) -> Option<Failure> {
        let (_, sketch) = self.diagram?;
        sketch.refused.map(|why| Failure::Usage(why.to_string()))
    }
}

impl Sketch {
    fn hear(&mut self, run: &Run, record: &Record) -> io::Result<()> {
        if self.canvas.is_none() {
            match Canvas::new(run, &self.view) {
                Ok(canvas) => self.canvas = Some(canvas),
                Err(why) => {
                    let error = io::Error::other(why.to_string());
                    self.refused = Some(why);
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

/// To the one and to the other.
struct Both<A, B>(Option<A>, Option<B>);

impl<A: Write, B: Write> Write for Both<A, B> {
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
