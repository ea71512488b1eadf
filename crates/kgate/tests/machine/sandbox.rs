//! A machine of its own for a test: mounts and processes that no other process sees, with `/run`,
//! `/tmp`, `/home`, `/etc` and `/var/lib` that are thrown away, and two users, `ann` and `bob`.
//!
//! The test binary starts itself again inside. When it ends, the kernel kills what is left there.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use kgate_testkit::wait_until;
use rustix::process::{Pid, Signal, kill_process};

/// Where the users find the program: the folder of the build may be closed to them.
pub(crate) const KGATE: &str = "/run/bin/kgate";
pub(crate) const SOCKET: &str = "/run/kgate/node.sock";
const INSIDE: &str = "KGATE_TEST_INSIDE";

/// Prepares the mounts and the users. `$1` is the binary under test; the rest is the test to run.
const PREPARE: &str = r##"
set -e
binary=$1; shift
for folder in run tmp home var/lib; do mount -t tmpfs none /$folder; done
chmod 1777 /tmp
homes=/home; mkdir /tmp/etc /run/bin /run/user $homes/root
cp -a /etc/. /tmp/etc
mount --bind /tmp/etc /etc
for program in kgate kgate-full; do
    touch /run/bin/$program
    mount --bind "${binary%/*}/$program" /run/bin/$program
done
sed -i "s|^root:.*|root:x:0:0:root:$homes/root:/bin/sh|" /etc/passwd
useradd -m ann
useradd -m bob
# A session of its own: the one outside has no number here.
exec setsid "$@"
"##;

/// Runs a test inside such a machine. `name` is the test's own path.
pub(crate) fn inside(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED {name}: only root can make users");
    }
    let unshare = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let possible = Command::new("unshare").args(unshare).arg("true").output();
    if !possible.is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED {name}: no mounts of its own are allowed here (unshare)");
    }
    let mut command = Command::new("unshare");
    command.args(unshare).args(["sh", "-c", PREPARE, "sh", env!("CARGO_BIN_EXE_kgate")]);
    command.arg(std::env::current_exe().expect("this binary"));
    command.args([name, "--exact", "--nocapture", "--include-ignored"]).env(INSIDE, "1");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KGATE_OPT_")) {
        command.env_remove(name); // A developer's own settings are not part of the test.
    }
    let output = command.output().expect("it starts");
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    // What the test prints on success, such as the numbers of a long run.
    said.lines().filter(|line| line.starts_with("# ")).for_each(|line| eprintln!("{line}"));
}

/// A command as a user, with nothing but these variables in its environment.
pub(crate) fn as_user(user: &str, environment: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        &format!("--reuid={user}"),
        &format!("--regid={}", group(user)),
        "--init-groups",
    ]);
    // The process that started the tests may ignore signals; what is started here must not.
    command.args(["env", "-i", "--default-signal=HUP,INT,QUIT,USR1,USR2,TERM"]);
    command.arg("PATH=/usr/local/bin:/usr/bin:/bin").args(environment).args(words);
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// The number of a user's own group.
fn group(user: &str) -> String {
    let users = fs::read_to_string("/etc/passwd").expect("the users");
    let entry = users.lines().find(|line| line.starts_with(&format!("{user}:")));
    entry.and_then(|line| line.split(':').nth(3)).expect("a group").to_owned()
}

/// `kgate` as a user, in an environment like cron's.
pub(crate) fn kgate(user: &str, words: &[&str]) -> Command {
    let home = format!("HOME={}", home(user).display());
    as_user(user, &[&home], &[&[KGATE], words].concat())
}

pub(crate) fn home(user: &str) -> PathBuf {
    Path::new("/home").join(user)
}

/// The code of a command, and what it has written to standard error.
pub(crate) fn said(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("it starts");
    (output.status.code(), text(&output.stderr))
}

/// What a command that succeeds has written to standard output.
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", both(&output));
    text(&output.stdout)
}

pub(crate) fn both(output: &Output) -> String {
    format!("{:?} {}{}", output.status, text(&output.stdout), text(&output.stderr))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Writes a file that every user can read.
pub(crate) fn write(path: &str, text: &str) {
    fs::create_dir_all(Path::new(path).parent().expect("a folder")).expect("created");
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("readable");
}

/// The node of the machine, which is killed when this is dropped.
pub(crate) struct MachineNode(Child);

impl MachineNode {
    /// Starts it, and waits until it serves.
    pub(crate) fn start() -> Self {
        Self::start_for("root")
    }

    /// The same where only some users may see its status.
    pub(crate) fn start_for(user: &str) -> Self {
        let log = File::options().create(true).append(true).open("/tmp/node.log").expect("a log");
        let mut command = Command::new(KGATE);
        command.args(["node", "--machine"]).current_dir("/").stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
        let node = Self(child);
        wait_until("the machine's node serves", || {
            said(&mut kgate(user, &["status"])).0 == Some(0)
        });
        node
    }

    /// Sends a signal, and waits for the end.
    pub(crate) fn end(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
        self.0.wait().expect("it ends");
    }
}

impl Drop for MachineNode {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}
