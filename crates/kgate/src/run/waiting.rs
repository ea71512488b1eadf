//! What a waiting `kgate run` says: which gate it waits for and how long, its place in the queue,
//! and how long it will probably take.
//!
//! On a terminal it is one line, redrawn in place and cleared before CMD starts. The cursor stays
//! at the beginning of the line: a terminal that becomes narrower may wrap the line, keeps the
//! cursor at its first row, and everything from there on can be cleared. The line is cut to the
//! width; the terminal is told not to wrap it, in case it counts the columns of a character
//! otherwise.
//!
//! Only the guard writes the line, and only while the group of the front is in the foreground:
//! after Ctrl-Z the terminal belongs to the shell. The guard does not wait for a terminal that
//! takes no output (Ctrl-S).
//!
//! With `-v` and no terminal the same is printed once, and again when something other than a time
//! has changed.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use kgate_api::{ago, printable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, getpgid};
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use unicode_width::UnicodeWidthChar;

use super::lease_clock::LeaseInstant;

/// What is known of a waiting request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitReport {
    /// The holder that has been inside for the longest time.
    pub(crate) holder: Option<Holder>,
    /// The number of other holders.
    pub(crate) other_holders: usize,
    /// The place in the queue, 1 for the next one, and the length of the queue.
    pub(crate) place: Option<(usize, usize)>,
    /// The expected time until the grant.
    pub(crate) estimate: Option<Duration>,
}

/// A holder, as its client describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) user: String,
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) age: Duration,
}

/// How the wait is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// A line that is redrawn.
    Line,
    /// Lines, when something has changed.
    Log,
    Nothing,
}

/// Whether a report of the wait would be shown: the keeper asks the node for none otherwise.
pub(crate) fn is_shown(quiet: bool, verbose: bool, detached: bool) -> bool {
    style(quiet, verbose, detached) != Style::Nothing
}

fn style(quiet: bool, verbose: bool, detached: bool) -> Style {
    let obeys = std::env::var("TERM").is_ok_and(|name| !name.is_empty() && name != "dumb");
    if !quiet && !detached && obeys && io::stderr().is_terminal() {
        Style::Line
    } else if verbose {
        Style::Log
    } else {
        Style::Nothing
    }
}

/// What the guard has shown of the wait.
#[derive(Debug)]
pub(crate) struct WaitLine {
    style: Style,
    /// The group that must be in the foreground.
    front: Option<Pid>,
    gate: String,
    begun: LeaseInstant,
    last: RefCell<Option<WaitReport>>,
    /// The width of the terminal when the line was drawn, if it is drawn.
    drawn: Cell<Option<u16>>,
    suspended: Cell<bool>,
}

impl WaitLine {
    pub(crate) fn new(front: Pid, gate: &str, quiet: bool, verbose: bool, detached: bool) -> Self {
        Self {
            style: style(quiet, verbose, detached),
            // Asked only at a terminal: the group may be one of another process namespace, which
            // has no number here.
            front: io::stderr().is_terminal().then(|| getpgid(Some(front)).ok()).flatten(),
            gate: gate.to_owned(),
            begun: LeaseInstant::now(),
            last: RefCell::new(None),
            drawn: Cell::new(None),
            suspended: Cell::new(false),
        }
    }

    /// Shows a report.
    pub(crate) fn show(&self, report: WaitReport) {
        let changed = self.last.borrow().as_ref().is_none_or(|last| !is_same(last, &report));
        if self.style == Style::Log && changed {
            let line = text(&self.gate, &report, LeaseInstant::now().after(self.begun));
            let _closed = writeln!(io::stderr(), "kgate: {line}");
        }
        *self.last.borrow_mut() = Some(report);
        self.draw();
    }

    /// Draws the line anew: a time has changed, or the size of the terminal.
    pub(crate) fn draw(&self) {
        let last = self.last.borrow();
        let (Style::Line, Some(report), false) = (self.style, &*last, self.suspended.get()) else {
            return;
        };
        if !self.is_foreground() {
            self.drawn.set(None);
            return;
        }
        let columns = columns();
        let line = text(&self.gate, report, LeaseInstant::now().after(self.begun));
        let line = cut(&format!("kgate: {line}"), columns);
        let clear = self.clearing(columns);
        write_now(&format!("\r{clear}\x1b[?7l{line}\x1b[?7h\r"));
        self.drawn.set(Some(columns));
    }

    /// Clears the line, if it is there.
    pub(crate) fn clear(&self) {
        if self.drawn.get().is_some() && self.is_foreground() {
            let clear = self.clearing(columns());
            write_now(&format!("\r{clear}"));
        }
        self.drawn.set(None);
    }

    /// The front is about to stop, or continues.
    pub(crate) fn suspend(&self, suspended: bool) {
        if suspended {
            self.clear();
        }
        self.suspended.set(suspended);
        self.draw();
    }

    /// Whether the front is stopped.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.get()
    }

    /// Clears the line, and the rows into which a narrower terminal has wrapped it. Nothing else is
    /// below: the line was the last output.
    fn clearing(&self, columns: u16) -> &'static str {
        match self.drawn.get() {
            Some(drawn) if drawn > columns => "\x1b[J",
            Some(_) | None => "\x1b[K",
        }
    }

    fn is_foreground(&self) -> bool {
        self.front.is_some() && tcgetpgrp(io::stderr()).ok() == self.front
    }
}

/// Whether two reports differ in times only.
fn is_same(one: &WaitReport, other: &WaitReport) -> bool {
    let timeless = |report: &WaitReport| {
        let holder = report.holder.clone().map(|holder| Holder { age: Duration::ZERO, ..holder });
        WaitReport { holder, estimate: None, ..report.clone() }
    };
    timeless(one) == timeless(other)
}

/// The most important first: the end is cut off. The gate and the holder come from others.
fn text(gate: &str, report: &WaitReport, waited: Duration) -> String {
    let mut text = format!("waiting for {} for {}", printable(gate), span(waited));
    if let Some((place, length)) = report.place {
        text.push_str(&format!(", {} of {length} in the queue", ordinal(place)));
    }
    if let Some(estimate) = report.estimate {
        text.push_str(&format!(", about {} left", span(estimate)));
    }
    if let Some(Holder { user, pid, command, age }) = &report.holder {
        let who = match pid {
            0 => "an unknown process".to_owned(),
            pid => format!("{} (pid {pid})", printable(user)),
        };
        text.push_str(&format!("; held for {} by {who}", span(*age)));
        match report.other_holders {
            0 => {}
            1 => text.push_str(" and 1 other"),
            more => text.push_str(&format!(" and {more} others")),
        }
        if !command.is_empty() {
            text.push_str(&format!(": {}", printable(command)));
        }
    }
    text
}

fn ordinal(number: usize) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

fn span(span: Duration) -> String {
    // Milliseconds say nothing in a line that is drawn once a second.
    let seconds = Duration::from_secs(span.as_secs().max(1));
    ago(u64::try_from(seconds.as_nanos()).unwrap_or(u64::MAX))
}

/// As much of the text as fits, with a sign that something is missing. The last column stays free.
fn cut(text: &str, columns: u16) -> String {
    let room = usize::from(columns).saturating_sub(1);
    let width = |character: char| character.width().unwrap_or(0);
    if text.chars().map(width).sum::<usize>() <= room {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |character: &char| {
        used += width(*character);
        used <= room
    };
    let cut: String = text.chars().take_while(fits).collect();
    if room == 0 { cut } else { cut + "…" }
}

/// The width of the terminal. One that does not know its own says 0.
fn columns() -> u16 {
    let known = tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0);
    known.map_or(80, |size| size.ws_col)
}

/// Writes, unless the terminal takes nothing at present: the guard waits for nothing.
fn write_now(text: &str) {
    let error = io::stderr();
    let mut ready = [PollFd::new(&error, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut ready, Some(&now)).is_ok() && ready[0].revents().contains(PollFlags::OUT) {
        let _closed = rustix::io::write(&error, text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> WaitReport {
        WaitReport {
            holder: Some(Holder {
                user: "alice".into(),
                pid: 4711,
                command: "./train.sh --epochs 9".into(),
                age: Duration::from_secs(750),
            }),
            other_holders: 2,
            place: Some((2, 3)),
            estimate: Some(Duration::from_secs(240)),
        }
    }

    /// Everything that is known is said, and nothing else.
    #[test]
    fn a_line_says_what_is_known() {
        let line = text("gpu", &report(), Duration::from_secs(12));
        assert_eq!(
            line,
            "waiting for gpu for 12 s, 2nd of 3 in the queue, about 4 min left; held for 12 min by \
             alice (pid 4711) and 2 others: ./train.sh --epochs 9"
        );
        let nothing = text("gpu", &WaitReport::default(), Duration::from_millis(1200));
        assert_eq!(nothing, "waiting for gpu for 1 s");
        let ordinals = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).join(" ");
        assert_eq!(ordinals, "1st 2nd 3rd 4th 11th 12th 13th 21st 112th");
    }

    /// A terminal obeys nothing of what others call themselves.
    #[test]
    fn hostile_texts_are_shown_as_escapes() {
        let hostile = || "\x1b]0;x\x07\n\u{9b}2J\u{202e}".to_owned();
        let mut report = report();
        report.holder = Some(Holder { user: hostile(), command: hostile(), ..Holder::default() });
        for pid in [0, 7] {
            report.holder.as_mut().expect("set").pid = pid;
            let line = text(&hostile(), &report, Duration::ZERO);
            let obeyed = |character: char| character.is_control() || character == '\u{202e}';
            assert!(!line.contains(obeyed), "{line:?}");
        }
    }

    /// A line is narrower than the terminal, whatever its characters and its width.
    #[test]
    fn a_line_is_cut_to_the_width() {
        assert_eq!(cut("abcdef", 7), "abcdef");
        assert_eq!(cut("abcdef", 6), "abcd…");
        assert_eq!(cut("漢字漢字", 9), "漢字漢字");
        assert_eq!(cut("漢字漢字", 8), "漢字漢…");
        assert_eq!(cut("漢字", 3), "…");
        assert_eq!((cut("ab", 1).as_str(), cut("ab", 2).as_str()), ("", "…"));
    }

    /// What counts as a change: holders and places, not times.
    #[test]
    fn times_are_no_change() {
        let mut later = report();
        later.estimate = None;
        later.holder.as_mut().expect("set").age += Duration::from_secs(5);
        assert!(is_same(&report(), &later));
        assert!(!is_same(&report(), &WaitReport { place: Some((1, 3)), ..report() }));
        assert!(!is_same(&report(), &WaitReport { holder: None, ..report() }));
    }
}
