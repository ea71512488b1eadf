//! A real terminal emulator: what is on the screen while `kgate run` waits, and after Ctrl-C,
//! Ctrl-Z and `fg`. It needs tmux; without it the tests say that they were skipped.

use std::process::Command;

use crate::book::Book;
use crate::familiar::hostile_holder;
use crate::fixture::{Home, KGATE, text, wait_for};

/// A tmux server of its own, with one interactive bash.
struct Screen<'a> {
    home: &'a Home,
    socket: String,
}

impl<'a> Screen<'a> {
    /// None, with a message, if there is no tmux.
    fn open(home: &'a Home, columns: &str) -> Option<Self> {
        let screen = Self { home, socket: home.0.join("tmux").display().to_string() };
        let size = ["-x", columns, "-y", "12"];
        let shell = ["bash --norc --noprofile -i"];
        let start = [&["-f", "/dev/null", "new-session", "-d"][..], &size, &shell].concat();
        if screen.tmux(&start).is_none() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        screen.keys(&format!("PS1='ready> '; alias kgate={KGATE}; shopt -s expand_aliases; clear"));
        screen.until("the prompt", |shown| shown == "ready>");
        Some(screen)
    }

    fn tmux(&self, words: &[&str]) -> Option<String> {
        let environment = self.home.kgate(&[]);
        let mut command = Command::new("tmux");
        command.args(["-S", &self.socket]).args(words).current_dir(&self.home.0);
        for (name, value) in environment.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.env("TERM", "xterm-256color").env_remove("TMUX").output().ok()?;
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        Some(text(&output.stdout))
    }

    /// A line for the shell.
    fn keys(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn shown(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).expect("tmux runs").trim_end().to_owned()
    }

    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let look = || {
            last = self.shown();
            is_so(&last).then(|| last.clone())
        };
        wait_for(&format!("{what} on the screen"), look)
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("on the screen:\n{}", self.shown());
        }
        self.tmux(&["kill-server"]);
    }
}

/// One line while it waits, with the holder's name and its hostile command as escapes; none after
/// Ctrl-Z, one again after `fg`, none after Ctrl-C; one row at most when the screen gets narrower;
/// and when CMD runs, its output alone.
#[test]
fn the_screen_while_a_command_waits() {
    let home = Home::new("screen");
    let Some(screen) = Screen::open(&home, "200") else { return };
    let mut holder = hostile_holder(&home, "gpu");
    let waits = |shown: &str| shown.contains("kgate: waiting for gpu for");
    let user = text(&Command::new("id").arg("-un").output().unwrap().stdout);

    screen.keys("kgate run gpu echo in''side");
    let shown = screen.until("the line", |shown| shown.contains("; held for"));
    let line = shown.lines().last().unwrap();
    assert!(shown.lines().count() == 2 && waits(line), "{shown}");
    assert!(line.contains("1st of 1 in the queue"), "{shown}");
    assert!(line.contains(&format!(" by {user} (pid {}): sh -c", holder.pid().as_raw_nonzero())));
    assert!(
        line.contains(r": sh -c : '\x1b[2J\x1b]0;forged\x07\u{9b}2J\u{202e}'\n: kgate"),
        "{shown}"
    );
    assert!(!shown.contains("about"), "nothing is known of past holds: {shown}");

    screen.press("C-z");
    let shown = screen.until("the stopped job", |shown| shown.ends_with("\nready>"));
    assert!(shown.contains("Stopped") && !waits(&shown), "{shown}");
    screen.keys("clear; sleep 1.2; echo no''thing");
    let shown = screen.until("the next command", |shown| shown.ends_with("nothing\nready>"));
    assert_eq!(shown, "nothing\nready>");
    screen.keys("clear; fg");
    screen.until("the line again", |shown| shown.lines().last().is_some_and(waits));
    screen.press("C-c");
    let shown = screen.until("the prompt", |shown| shown.lines().last() == Some("ready>"));
    assert!(!waits(&shown), "{shown}");
    screen.keys("echo code=$?");
    screen.until("the code", |shown| shown.ends_with("code=130\nready>"));

    screen.keys("clear; kgate run gpu echo in''side");
    screen.until("the line", |shown| shown.contains("; held for"));
    screen.tmux(&["resize-window", "-x", "40", "-y", "12"]);
    let shown = screen.until("a shorter line", |shown| shown.ends_with('…'));
    assert!(shown.lines().count() == 1 && shown.chars().count() < 40, "{shown}");
    holder.close_input();
    let shown = screen.until("the output", |shown| shown.ends_with("ready>"));
    assert_eq!(shown, "inside\nready>");
}

/// Ctrl-C ends a script that runs `kgate run`, while it waits and while the command runs, as it
/// does for a command that the script starts itself. A stopped job that waits starts nothing until
/// `fg`.
#[test]
fn keys_reach_the_job_of_the_shell() {
    let home = Home::new("keys");
    let Some(screen) = Screen::open(&home, "100") else { return };
    let ends = |what: &str| {
        screen.press("C-c");
        let shown = screen.until("the prompt", |shown| shown.lines().last() == Some("ready>"));
        assert!(!shown.contains("next step"), "{what}: {shown}");
    };
    let script = format!("clear; bash -c '{KGATE} run gpu -k 1 sh -c \"echo in''side; sleep 100\"");
    screen.keys(&format!("{script}; echo next\" \"step; true'"));
    screen.until("the command", |shown| shown.contains("inside"));
    ends("while the command runs");

    let book = Book::new(&home, "gpu");
    let mut holder = book.hold(home.kgate(&["run", "gpu", "-k", "1"]), "holder", "");
    screen.keys(&format!("{script}; echo next\" \"step; true'"));
    screen.until("the line", |shown| shown.contains("waiting for gpu"));
    ends("while it waits");

    screen.keys("clear; kgate run gpu echo in''side");
    screen.until("the line", |shown| shown.contains("waiting for gpu"));
    screen.press("C-z");
    screen.until("the stopped job", |shown| shown.contains("Stopped"));
    holder.close_input();
    assert_eq!(holder.code(), Some(0));
    screen.keys("clear; kgate run gpu -n true; echo code=$?");
    let shown = screen.until("the slot is the stopped job's", |shown| shown.contains("code="));
    assert!(shown.contains("code=120") && !shown.contains("inside"), "{shown}");
    screen.keys("clear; fg");
    screen.until("the output", |shown| shown.ends_with("inside\nready>"));
}

/// On a terminal, `kgate watch` shows one status, redrawn in place with ages that count on.
#[test]
fn a_watch_is_redrawn_in_place() {
    let home = Home::new("redrawn");
    let book = Book::new(&home, "gpu");
    let Some(screen) = Screen::open(&home, "120") else { return };
    let mut holder = book.hold(home.kgate(&["run", "gpu", "-k", "2"]), "holder", "");
    screen.keys("kgate watch gpu");
    let inside = |shown: &str| shown.contains("gpu  k = 2  1 in use  0 waiting");
    let shown = screen.until("the holder", |shown| inside(shown));
    let first = shown.lines().next().unwrap();
    assert!(first.ends_with('Z') && first.contains('T') && shown.lines().count() == 3, "{shown}");
    screen.until("an age that counts on", |shown| inside(shown) && shown.contains("  2 s  "));
    holder.close_input();
    let shown = screen.until("an empty gate", |shown| shown.contains("0 in use"));
    assert_eq!(shown.lines().count(), 2, "{shown}");
    screen.press("C-c");
    screen.until("the prompt", |shown| shown.ends_with("ready>"));
}
