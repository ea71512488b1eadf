//! A directory with a fake keeper and a `kgate run`; both are removed on drop.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, flock, mknodat};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Limit of every wait: long enough for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(20);

pub(crate) struct Fixture {
    pub(crate) folder: PathBuf,
    command: Command,
}

pub(crate) struct Running {
    pub(crate) fixture: Fixture,
    pub(crate) front: Child,
}

impl Fixture {
    /// `kgate run OPTIONS` with the fake keeper.
    pub(crate) fn new(options: &[&str]) -> Self {
        Fixture::of("run", options)
    }

    /// The same with another subcommand.
    pub(crate) fn of(subcommand: &str, options: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("kgate-run-{}-{number}", std::process::id()));
        fs::create_dir(&folder).expect("a new directory");
        let control = folder.join("control");
        mknodat(rustix::fs::CWD, &control, FileType::Fifo, Mode::RWXU, 0).expect("a named pipe");
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.arg(subcommand).args(options).current_dir(&folder);
        command.env("FAKE_LOG", folder.join("log")).env("FAKE_CONTROL", &control);
        command.env("FAKE_MARKER", folder.join("marker"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Fixture { folder, command }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Command)) -> Self {
        change(&mut self.command);
        self
    }

    pub(crate) fn start(mut self) -> Running {
        let front = self.command.spawn().expect("kgate run");
        Running { fixture: self, front }
    }

    /// Runs to the end: exit code, standard output, standard error, log of the fake.
    pub(crate) fn finish(mut self) -> (Option<i32>, String, String, String) {
        let output = self.command.output().expect("kgate run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr), self.log())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _kept = fs::remove_dir_all(&self.folder);
    }
}

impl Running {
    /// Keeps the fixture and drops the process.
    pub(crate) fn into_fixture(mut self) -> Fixture {
        let empty = Fixture { folder: PathBuf::from("/nowhere"), command: Command::new("true") };
        std::mem::replace(&mut self.fixture, empty)
    }

    pub(crate) fn control(&self, command: &str) {
        let mut pipe = File::options()
            .read(true)
            .write(true)
            .open(self.fixture.path("control"))
            .expect("control");
        writeln!(pipe, "{command}").expect("written");
    }

    pub(crate) fn front_pid(&self) -> Pid {
        Pid::from_child(&self.front)
    }

    /// The only child of the front.
    pub(crate) fn guard_pid(&self) -> Pid {
        let front = self.front.id();
        let path = format!("/proc/{front}/task/{front}/children");
        let read = || fs::read_to_string(&path).ok()?.split_whitespace().next()?.parse().ok();
        Pid::from_raw(wait_for("the guard", read)).expect("a process")
    }

    /// The process id that CMD wrote into this file.
    pub(crate) fn pid_in(&self, name: &str) -> Pid {
        let path = self.fixture.path(name);
        let read = || fs::read_to_string(&path).ok()?.strip_suffix('\n')?.parse().ok();
        Pid::from_raw(wait_for(name, read)).expect("a process")
    }

    pub(crate) fn send(&self, process: Pid, signal: Signal) {
        kill_process(process, signal).expect("the process exists");
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the end of kgate run", || self.front.try_wait().expect("our child"))
    }

    /// The exit code as a shell sees it.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let status = self.wait();
        status.code().or(status.signal().map(|signal| 128 + signal))
    }

    /// Waits until no process holds the marker, and these processes are gone.
    pub(crate) fn expect_gone(&self, processes: &[Pid]) {
        let marker = self.fixture.path("marker");
        wait_for("the marker to be free", || is_free(&marker).then_some(()));
        for process in processes {
            wait_for("a process to be gone", || is_gone(*process).then_some(()));
        }
    }

    pub(crate) fn expect_log(&self, line: &str) {
        wait_for(&format!("`{line}` in the log, which is\n{}", self.fixture.log()), || {
            self.fixture.log().contains(line).then_some(())
        });
    }
}

/// Ends the processes that a failed test left behind.
impl Drop for Running {
    fn drop(&mut self) {
        let guard = format!("/proc/{0}/task/{0}/children", self.front.id());
        if let Some(guard) =
            fs::read_to_string(guard).ok().and_then(|text| text.trim().parse().ok())
            && let Some(guard) = Pid::from_raw(guard)
        {
            let _gone = kill_process(guard, Signal::CONT);
        }
        let _gone = kill_process(self.front_pid(), Signal::CONT);
        let _gone = self.front.kill();
        let _gone = self.front.wait();
    }
}

pub(crate) fn is_free(marker: &Path) -> bool {
    File::open(marker)
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// Whether a process is gone; a zombie counts as gone.
pub(crate) fn is_gone(process: Pid) -> bool {
    let stat =
        fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    let dead =
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']));
    dead || test_kill_process(process).is_err()
}

/// Polls until the condition holds, up to a limit.
#[allow(clippy::disallowed_methods, reason = "a test waits for real processes")]
pub(crate) fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(start.elapsed() < WAIT_MAX, "no {what} in time");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// CMD with a grandchild in its own session. Both hold the marker and write their process ids.
/// `on_term` is their handler of SIGTERM: `''` ignores it.
pub(crate) fn family(on_term: &str) -> [String; 3] {
    let script = format!(
        "exec 9>marker; flock -x 9; trap {on_term} TERM
         setsid sh -c \"trap {on_term} TERM; echo \\$\\$ > grandchild.new; mv grandchild.new \
         grandchild; \
             while :; do sleep 1000; done\" &
         while [ ! -e grandchild ]; do sleep 0.01; done
         echo $$ > command.new; mv command.new command
         while :; do sleep 1000; done"
    );
    ["sh".to_owned(), "-c".to_owned(), script]
}
