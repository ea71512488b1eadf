//! At a terminal of an interactive shell: Ctrl-C, Ctrl-Z, fg, and the foreground group.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::Test;
use crate::fixture::wait_for;

pub(crate) const TESTS: &[Test] = &[
    ("jobs::ctrl_c_reaches_the_command", ctrl_c_reaches_the_command),
    ("jobs::ctrl_z_stops_the_job_and_fg_resumes_it", ctrl_z_stops_the_job_and_fg_resumes_it),
    ("jobs::the_command_is_the_foreground_group", the_command_is_the_foreground_group),
    (
        "jobs::in_a_pipeline_cmd_gets_the_terminal_on_demand",
        in_a_pipeline_cmd_gets_the_terminal_on_demand,
    ),
    ("jobs::the_calling_script_gets_the_terminal_back", the_calling_script_gets_the_terminal_back),
];

/// An interactive bash on a terminal of its own.
pub(crate) struct Shell {
    bash: Child,
    pub(crate) keys: File,
    shown: Arc<Mutex<String>>,
}

impl Shell {
    fn start() -> Self {
        Self::with(&[("TERM", "dumb")])
    }

    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&keys).expect("granted");
        unlockpt(&keys).expect("unlocked");
        let name = ptsname(&keys, Vec::new()).expect("its name").into_string().expect("plain");
        let side = || {
            Stdio::from(File::options().read(true).write(true).open(&name).expect("its other side"))
        };
        let mut bash = Command::new("setsid");
        bash.args(["--ctty", "--wait", "bash", "--norc", "--noprofile", "-i"]).process_group(0);
        bash.env("PS1", "ready> ").env("KGATE", std::env::current_exe().expect("this binary"));
        bash.envs(variables.iter().copied())
            .env_remove("INPUTRC")
            .stdin(side())
            .stdout(side())
            .stderr(side());
        let bash = bash.spawn().expect("bash");
        let keys = File::from(keys);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut screen, copy) = (keys.try_clone().expect("the same"), shown.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                copy.lock().expect("unbroken").push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let mut shell = Shell { bash, keys, shown };
        shell.expect("ready> ");
        shell
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("pressed");
    }

    /// Waits for the text on the screen, and returns everything up to its end, which is dropped.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let shown = self.shown.clone();
        wait_for(&format!("`{text}` on the screen"), || {
            let mut shown = shown.lock().expect("unbroken");
            let end = shown.find(text)? + text.len();
            Some(shown.drain(..end).collect::<String>())
        })
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "on the screen: {}",
                self.shown.lock().map(|text| text.clone()).unwrap_or_default()
            );
        }
        let _gone = self.keys.write_all(b"\x03\x03\nexit\nexit\n");
        wait_for("the shell's end", || self.bash.try_wait().expect("our child"));
    }
}

/// CMD is interrupted; the shell gets its exit code and drops the rest of the line, as after any
/// command that dies by Ctrl-C.
fn ctrl_c_reaches_the_command() {
    let mut shell = Shell::start();
    shell.press(
        "$KGATE run gate -- sh -c 'echo run''ning; exec sleep 1000'; echo rest of the li''ne\n",
    );
    shell.expect("running");
    shell.press("\x03");
    shell.expect("ready> ");
    shell.press("echo code=$?\n");
    let shown = shell.expect("code=130");
    assert!(!shown.contains("rest of the line"), "{shown}");
}

/// Ctrl-Z stops CMD and the front, not the guard; the shell shows its prompt; fg continues both;
/// twice.
fn ctrl_z_stops_the_job_and_fg_resumes_it() {
    let mut shell = Shell::start();
    shell.press(
        "$KGATE run gate -- sh -c 'echo run''ning; while read line; do echo got $line; done; exit \
         5'\n",
    );
    shell.expect("running");
    for _ in 0..2 {
        shell.press("\x1a");
        shell.expect("Stopped");
        shell.expect("ready> ");
        shell.press("fg\n");
        shell.expect("KGATE run gate");
        // The shell prints the job before it changes the foreground group, and a key pressed in
        // between would go to the shell. The echo proves that CMD gets the keys.
        shell.press("again\n");
        shell.expect("got again");
    }
    shell.press("\x04");
    shell.expect("ready> ");
    shell.press("echo code=$?\n");
    shell.expect("code=5");
}

/// CMD runs in the foreground group: some programs check that.
fn the_command_is_the_foreground_group() {
    let mut shell = Shell::start();
    // Field 5 is the group, field 8 the terminal's foreground group.
    shell.press(
        "$KGATE run gate -- sh -c 'cut -d\" \" -f5,8 /proc/$$/stat | (read a b; [ $a = $b \
     ] && echo sa''me)'\n",
    );
    shell.expect("same");
    shell.expect("ready> ");
}

/// The other processes of a pipeline keep the keys until CMD reads from the terminal.
fn in_a_pipeline_cmd_gets_the_terminal_on_demand() {
    let mut shell = Shell::start();
    shell.press(
        "$KGATE run gate -- sh -c 'read line < /dev/tty; echo got $line' | cat; echo \
         code=${PIPESTATUS[0]}\n",
    );
    shell.expect("code=$");
    shell.press("hello\n");
    shell.expect("got hello");
    shell.expect("code=0");
}

/// Otherwise the next read of the script would stop it.
fn the_calling_script_gets_the_terminal_back() {
    let mut shell = Shell::start();
    shell.press("sh -c '$KGATE run gate -- true; echo as''king; read line; echo got $line'\n");
    shell.expect("asking");
    shell.press("hello\n");
    shell.expect("got hello");
}
