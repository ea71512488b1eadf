//! What is shown while `kgate run` waits: on a terminal, in a log, and what is left of it.

use std::fs::{File, create_dir_all};
use std::io::Write;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, mknodat};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::Test;
use crate::fixture::{Fixture, wait_for};
use crate::jobs::Shell;

pub(crate) const TESTS: &[Test] = &[
    ("waits::the_line_is_gone_before_the_command", the_line_is_gone_before_the_command),
    ("waits::ctrl_z_and_ctrl_c_find_a_clear_line", ctrl_z_and_ctrl_c_find_a_clear_line),
    ("waits::the_line_follows_the_width", the_line_follows_the_width),
    ("waits::a_line_is_not_drawn_where_nobody_wants_it", a_line_is_not_drawn_where_nobody_wants_it),
    ("waits::a_log_says_it_once", a_log_says_it_once),
];

/// Where the line begins.
const LINE: &str = "\r\x1b[K\x1b[?7lkgate: waiting for gate for ";
/// After the line: the cursor is at its beginning.
const END: &str = "\x1b[?7h\r";
const CLEARED: &str = "\r\x1b[K";

/// A shell whose `kgate run` waits until the pipe says otherwise.
struct Waiting {
    shell: Shell,
    pipe: PathBuf,
}

impl Waiting {
    fn new(name: &str, variables: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("kgate-waits-{}", std::process::id()));
        create_dir_all(&folder).expect("a directory");
        let pipe = folder.join(name);
        mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).expect("a named pipe");
        let (log, path) = (folder.join(format!("{name}.log")), pipe.display().to_string());
        let log = log.display().to_string();
        let always = [("FAKE_ANSWER", "silence"), ("FAKE_CONTROL", &path), ("FAKE_LOG", &log)];
        let mut waiting = Self { shell: Shell::with(&[&always, variables].concat()), pipe };
        waiting.shell.press("$KGATE run gate sh -c 'echo in''side'\n");
        waiting.shell.expect("in''side'\r\n");
        wait_for("the request", || {
            std::fs::read_to_string(&log).ok().filter(|log| log.contains("requested"))
        });
        waiting
    }

    fn control(&self, command: &str) {
        let pipe = File::options().read(true).write(true).open(&self.pipe);
        writeln!(pipe.expect("the pipe"), "{command}").expect("written");
    }

    /// Waits for the line, and returns what it says.
    fn line(&mut self) -> String {
        self.shell.expect(LINE);
        let line = self.shell.expect(END);
        line.trim_end_matches(END).to_owned()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _kept = std::fs::remove_file(&self.pipe);
    }
}

const TERMINAL: (&str, &str) = ("TERM", "xterm-256color");

/// The line says who is inside, obeys nothing that the holder calls itself, and is redrawn in
/// place. When CMD starts, nothing of it is left and nothing comes after it.
fn the_line_is_gone_before_the_command() {
    let mut waiting = Waiting::new("gone", &[TERMINAL]);
    for _ in 0..2 {
        waiting.control("waiting");
        let line = waiting.line();
        assert!(line.contains("2nd of 3 in the queue; held for 2 min"));
        assert!(!line.contains(char::is_control), "{line:?}");
        // The width of the terminal is not known.
        assert!(line.ends_with('…') && line.chars().count() < 80, "{line}");
    }
    waiting.control("grant");
    let before = waiting.shell.expect("inside\r\n");
    assert_eq!(before, format!("{CLEARED}inside\r\n"));
    let after = waiting.shell.expect("ready> ");
    assert!(!after.contains(CLEARED) && !after.contains("waiting for"), "{after:?}");
}

/// Ctrl-Z: the line is gone before the shell has the terminal, nothing is drawn there meanwhile,
/// and fg shows it again. Ctrl-C: it is gone before the prompt, and the code is 130.
fn ctrl_z_and_ctrl_c_find_a_clear_line() {
    let mut waiting = Waiting::new("keys", &[TERMINAL]);
    for _ in 0..2 {
        waiting.control("waiting");
        waiting.line();
        waiting.shell.press("\x1a");
        let before = waiting.shell.expect("Stopped");
        assert!(before.contains(CLEARED) && !before.contains("waiting for"), "{before:?}");
        waiting.shell.expect("ready> ");
        waiting.control("waiting");
        waiting.shell.press("echo still; sleep 0.3; echo he''re\n");
        let meanwhile = waiting.shell.expect("here\r\n");
        waiting.shell.expect("ready> ");
        assert!(!meanwhile.contains("waiting for"), "{meanwhile:?}");
        waiting.shell.press("fg\n");
        waiting.line();
    }
    waiting.shell.press("\x03");
    let before = waiting.shell.expect("ready> ");
    assert!(before.contains(CLEARED) && !before.contains("waiting for"), "{before:?}");
    waiting.shell.press("echo code=$?\n");
    waiting.shell.expect("code=130");
}

/// When the terminal becomes narrower, the line is drawn anew, and the rows into which it was
/// wrapped are cleared.
fn the_line_follows_the_width() {
    let mut waiting = Waiting::new("width", &[TERMINAL]);
    let size = |ws_col| Winsize { ws_row: 24, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&waiting.shell.keys, size(100)).expect("resized");
    waiting.control("waiting");
    assert_eq!(waiting.line().chars().count() + "kgate: waiting for gate for ".len(), 99);
    tcsetwinsize(&waiting.shell.keys, size(40)).expect("resized");
    waiting.shell.expect("\r\x1b[J\x1b[?7l");
    let line = waiting.shell.expect(END);
    assert!(line.starts_with("kgate: waiting for gate for "), "{line:?}");
    assert_eq!(line.trim_end_matches(END).chars().count(), 39, "{line:?}");
    waiting.control("grant");
    assert_eq!(waiting.shell.expect("inside"), format!("{CLEARED}inside"));
}

/// A terminal without cursor control, and one whose user asked for quiet, get no line.
fn a_line_is_not_drawn_where_nobody_wants_it() {
    let quiet = [TERMINAL, ("KGATE_OPT_QUIET", "1")];
    for (name, variables) in [("dumb", &[("TERM", "dumb")][..]), ("quiet", &quiet)] {
        let mut waiting = Waiting::new(name, variables);
        waiting.control("waiting");
        waiting.control("grant");
        let before = waiting.shell.expect("inside");
        assert!(!before.contains("waiting for") && !before.contains(CLEARED), "{before:?}");
    }
}

/// With -v and no terminal the report is printed, and not again while only times differ; without -v
/// nothing is printed.
fn a_log_says_it_once() {
    for (options, count) in [(&["gate", "-v"][..], 1), (&["gate"], 0), (&["gate", "-vq"], 1)] {
        let fixture = Fixture::new(&[options, &["true"]].concat()).with("FAKE_ANSWER", "silence");
        let mut running = fixture.start();
        running.expect_log("requested");
        for command in ["waiting", "waiting", "waiting", "grant"] {
            running.control(command);
        }
        assert_eq!(running.code(), Some(0));
        let mut said = String::new();
        let error = running.front.stderr.as_mut().expect("piped");
        std::io::Read::read_to_string(error, &mut said).expect("text");
        let lines = said.lines().filter(|line| line.contains("waiting for gate for 1 s, 2nd of"));
        assert_eq!(lines.count(), count, "{said}");
        assert!(!said.contains('\x1b') && said.lines().all(|line| line.starts_with("kgate: ")));
    }
}
