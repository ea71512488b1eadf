//! A user with folders of its own, processes that end with the test, and functions that wait.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kgate_client::{GateStatus, LeaseInstant, Status};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio_stream::StreamExt;

pub(crate) const KGATE: &str = env!("CARGO_BIN_EXE_kgate");
/// The longest wait of a test, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The time from SIGTERM to SIGKILL, in all tests where it matters.
pub(crate) const GRACE: &str = "100ms";

/// A user with folders of its own, whose node is killed on drop.
pub(crate) struct Home(pub(crate) PathBuf);

impl Home {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("kgate-service-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A `kgate` command with default signal handling: the tests may have been started with signals
    /// ignored (`nohup` does that, and a shell for background jobs), and children inherit that.
    pub(crate) fn kgate(&self, words: &[&str]) -> Command {
        let mut command = Command::new("env");
        command
            .args(["--default-signal=HUP,INT,QUIT,USR1,USR2,TERM", KGATE])
            .args(words)
            .env("KGATE_OPT_NODE", format!("private:{}", self.0.join("run").display()));
        command.current_dir(&self.0).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.kgate(words).output().unwrap()
    }

    pub(crate) fn code(&self, words: &[&str]) -> Option<i32> {
        self.run(words).status.code()
    }

    /// The exit code, standard output and standard error.
    pub(crate) fn said(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let output = self.run(words);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    pub(crate) fn kill_node(&self) {
        let file = self.0.join("run/node.pid");
        let pid =
            fs::read_to_string(&file).ok().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::KILL);
            let _ = fs::remove_file(file);
            expect_gone(&[pid]);
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.kill_node();
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed on drop, even if it is stopped; its guard is continued so that it
/// cleans up.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// The guard: the only child of the front.
    pub(crate) fn guard(&self) -> Pid {
        wait_for("the guard", || children(self.pid()).first().copied())
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is there");
    }

    /// The exit code as a shell sees it, once the process has ended.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let status = wait_for("the end of a process", || self.0.try_wait().unwrap());
        status.code().or(status.signal().map(|signal| 128 + signal))
    }

    /// The rest of its output, once the process has ended.
    pub(crate) fn output(&mut self) -> (Option<i32>, String, String) {
        let code = self.code();
        let (mut out, mut error) = (String::new(), String::new());
        self.0.stdout.as_mut().map(|pipe| pipe.read_to_string(&mut out));
        self.0.stderr.as_mut().map(|pipe| pipe.read_to_string(&mut error));
        (code, out.trim().to_owned(), error.trim().to_owned())
    }

    pub(crate) fn close_input(&mut self) {
        drop(self.0.stdin.take());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        for process in children(self.pid()) {
            let _ = kill_process(process, Signal::CONT);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The children of a process, as listed by the kernel.
pub(crate) fn children(process: Pid) -> Vec<Pid> {
    let pid = process.as_raw_nonzero();
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// A process and all its descendants.
pub(crate) fn family(process: Pid) -> Vec<Pid> {
    let mut all = vec![process];
    let mut at = 0;
    while let Some(member) = all.get(at).copied() {
        all.extend(children(member));
        at += 1;
    }
    all
}

/// A zombie counts as gone, unless other threads of it are still ending: its sockets are open until
/// the last of them has ended, so a node that was killed would still accept a connection.
pub(crate) fn is_gone(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    if threads.is_ok_and(|threads| threads.count() > 1) {
        return false;
    }
    let stat =
        fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    let dead =
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']));
    dead || test_kill_process(process).is_err()
}

pub(crate) fn expect_gone(processes: &[Pid]) {
    for process in processes {
        until(&format!("the end of process {}", process.as_raw_nonzero()), || is_gone(*process));
    }
}

/// Polls until there is an answer.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    #[allow(clippy::disallowed_methods, reason = "a test waits for real processes")]
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Polls until the condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// Waits until this time of the lease clock.
pub(crate) fn until_past(instant: LeaseInstant) {
    until("an instant to pass", || LeaseInstant::now() > instant);
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Runs a future to its end, on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("in time") })
}

/// Waits until a node shows a gate in this state.
pub(crate) async fn looks_so(api: &str, gate: &str, is_so: impl Fn(GateStatus<'_>) -> bool) {
    let mut seen = Box::pin(Status::watch(api, Some(gate)).await.unwrap());
    while let Some(status) = seen.next().await {
        if status.unwrap().gates().next().is_some_and(&is_so) {
            return;
        }
    }
    panic!("the node at {api} has ended");
}

pub(crate) fn until_gate(api: &str, gate: &str, is_so: impl Fn(GateStatus<'_>) -> bool) {
    block_on(looks_so(api, gate, is_so));
}

/// Waits until a node shows this number of waiting requests at a gate.
pub(crate) fn until_waiting(api: &str, gate: &str, count: usize) {
    until_gate(api, gate, |gate| gate.waiting().len() == count);
}
