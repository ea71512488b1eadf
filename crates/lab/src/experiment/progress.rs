//! Shows on stderr what is running, how much is done and the time left: a progress bar on a
//! terminal, a line now and then otherwise.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};

/// The number of lines in a log, over the whole experiment.
const LINES: usize = 20;

/// The progress of an experiment.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    name: String,
    all: usize,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    done: usize,
    /// In the order of their start.
    names: BTreeMap<usize, String>,
}

impl Progress {
    /// The progress of so many runs. Nothing is shown without runs, or with `--quiet`.
    pub fn new(name: &str, all: usize, quiet: bool) -> Self {
        let bar = (!quiet && all > 0 && std::io::stderr().is_terminal()).then(|| {
            let style = "{prefix} {bar:24} {pos}/{len}, {eta} left: {wide_msg}";
            let style = ProgressStyle::with_template(style)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(all as u64).with_style(style).with_prefix(name.to_owned());
            bar.enable_steady_tick(std::time::Duration::from_millis(250));
            bar
        });
        let all = if quiet { 0 } else { all };
        Self { bar, name: name.into(), all, running: Mutex::default() }
    }

    /// Records that a run starts.
    pub fn begin(&self, index: usize, name: String) {
        let mut running = self.running.lock().expect("no thread panics while counting");
        running.names.insert(index, name);
        self.show(&running);
    }

    /// Records that a run has ended.
    pub fn end(&self, index: usize) {
        let mut running = self.running.lock().expect("no thread panics while counting");
        running.names.remove(&index);
        running.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        } else if self.all > 0
            && running.done * LINES / self.all > (running.done - 1) * LINES / self.all
        {
            eprintln!("kgate: {}: {} of {} runs", self.name, running.done, self.all);
        }
        self.show(&running);
    }

    fn show(&self, running: &Running) {
        let Some(bar) = &self.bar else { return };
        let mut names = running.names.values();
        let first = names.next().cloned().unwrap_or_default();
        bar.set_message(match names.count() {
            0 => first,
            more => format!("{first} (and {more} more)"),
        });
    }

    /// Prints a message without disturbing the bar.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("kgate: {text}")),
            None => eprintln!("kgate: {text}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
