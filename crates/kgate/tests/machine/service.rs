//! `kgate node --machine` under a service manager, and `kgate setup machine`.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kgate_client::local::MACHINE_CONFIG;
use kgate_testkit::{PATIENCE, wait_until};

use rustix::process::Signal;

use crate::oracle::Oracle;
use crate::sandbox::{KGATE, MachineNode, SOCKET, both, inside, kgate, said, write};

/// Starts a node as systemd does: the socket is descriptor 3, which `LISTEN_PID` says is for it.
fn activate(socket: &UnixListener) -> Child {
    let log = File::options().create(true).append(true).open("/tmp/node.log").expect("a log");
    let socket = OwnedFd::from(socket.try_clone().expect("a copy"));
    let start = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", start, "sh", KGATE, "node", "--machine"]);
    command.env("NOTIFY_SOCKET", "/run/notify").stdin(socket).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("it starts")
}

fn notified(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 64];
    let count = manager.recv(&mut bytes).expect("a message in time");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

/// The manager's socket stays open while nodes come and go: a command that starts meanwhile waits
/// for the next node, and the manager hears when a node serves and when it stops.
#[test]
fn a_socket_of_the_manager() {
    inside("service::a_socket_of_the_manager", || {
        fs::create_dir("/run/kgate").expect("created");
        let socket = UnixListener::bind(SOCKET).expect("bound");
        fs::set_permissions(SOCKET, fs::Permissions::from_mode(0o666)).expect("for all users");
        let manager = UnixDatagram::bind("/run/notify").expect("bound");
        manager.set_read_timeout(Some(PATIENCE.min(Duration::from_secs(60)))).expect("a limit");
        let oracle = Oracle::new("gpu", 1);
        let mut early = oracle.inside(kgate("ann", &["run", "gpu", "-k", "1"]), "early", "");
        let mut early = early.spawn().expect("it starts");
        let mut node = activate(&socket);
        assert_eq!(notified(&manager), "READY=1");
        assert_eq!(early.wait().expect("it ends").code(), Some(0));
        let holder = oracle.hold(kgate("bob", &["run", "gpu"]), "bob");
        for signal in ["-KILL", "-TERM"] {
            let pid = node.id().to_string();
            let killed = Command::new("kill").args([signal, &pid]).status();
            assert!(killed.expect("kill").success());
            node.wait().expect("it ends");
            if signal == "-TERM" {
                assert_eq!(notified(&manager), "STOPPING=1");
            }
            let mut command = kgate("ann", &["run", "gpu", "-n", "--", "true"]);
            let mut meanwhile = command.stderr(Stdio::null()).spawn().expect("it starts");
            assert!(meanwhile.try_wait().expect("a child").is_none(), "it waits for the node");
            node = activate(&socket);
            assert_eq!(notified(&manager), "READY=1");
            assert_eq!(meanwhile.wait().expect("it ends").code(), Some(120));
        }
        assert_eq!(holder.leave(), Some(0));
        node.kill().expect("it runs");
        node.wait().expect("it ends");
        assert_eq!(oracle.check(), 2);
    });
}

/// A socket of another path is refused, and so is a second node beside a running one.
#[test]
fn sockets_that_do_not_fit() {
    inside("service::sockets_that_do_not_fit", || {
        let other = UnixListener::bind("/run/other.sock").expect("bound");
        assert_eq!(activate(&other).wait().expect("it ends").code(), Some(2));
        let _node = MachineNode::start();
        let (code, error) = said(Command::new(KGATE).args(["node", "--machine"]));
        assert!(code == Some(125) && error.contains("another node listens"), "{code:?} {error}");
        let (code, error) = said(&mut kgate("ann", &["node", "--machine"]));
        assert!(code == Some(125) && error.contains("root"), "{code:?} {error}");
        write(MACHINE_CONFIG, "lease_ms = 7\n");
        let (code, error) = said(Command::new(KGATE).args(["node", "--machine"]));
        assert!(code == Some(2) && error.contains("lease_ms"), "{code:?} {error}");
    });
}

/// `kgate setup machine` writes the units that it prints with `--dry-run`, keeps a configuration
/// that is there, and enables the socket; without systemd it names the command for any init.
#[test]
fn setup() {
    inside("service::setup", || {
        let setup = |more: &[&str]| {
            let output = Command::new(KGATE).args(["setup", "machine"]).args(more).output();
            let output = output.expect("it starts");
            assert!(output.status.success(), "{}", both(&output));
            both(&output)
        };
        let dry = setup(&["--dry-run", "--group", "ann"]);
        for part in
            ["Type=notify", "ListenStream=/run/kgate/node.sock", "SocketGroup=ann", "$ systemctl"]
        {
            assert!(dry.contains(part), "{part}: {dry}");
        }
        assert!(!fs::exists(MACHINE_CONFIG).expect("/etc"), "it changes nothing");
        let without = setup(&[]);
        assert!(without.contains("node --machine"), "{without}");
        let (code, error) = said(&mut kgate("ann", &["run", "gpu", "--", "true"]));
        assert!(code == Some(122) && error.contains("is missing"), "{code:?} {error}");
        write(MACHINE_CONFIG, "# an administrator's own\n");
        fs::create_dir_all("/run/systemd/system").expect("created");
        write("/run/fake/systemctl", "#!/bin/sh\necho \"$@\" >>/tmp/systemctl.log\n");
        fs::set_permissions("/run/fake/systemctl", fs::Permissions::from_mode(0o755)).expect("x");
        let path = format!("/run/fake:{}", std::env::var("PATH").expect("a path"));
        let output = Command::new(KGATE).args(["setup", "machine"]).env("PATH", path).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{}", both(&output));
        let log = fs::read_to_string("/tmp/systemctl.log").expect("it was called");
        assert!(
            log.contains("daemon-reload") && log.contains("enable --now kgate.socket"),
            "{log}"
        );
        assert!(!log.contains("restart"), "nothing was there before: {log}");
        let kept = fs::read_to_string(MACHINE_CONFIG).expect("the configuration");
        assert_eq!(kept, "# an administrator's own\n");
        let unit = fs::read_to_string("/etc/systemd/system/kgate.service").expect("a unit");
        assert!(unit.contains("ExecStart=") && unit.contains(" node --machine"), "{unit}");
        let (code, _) = said(&mut kgate("ann", &["setup", "machine"]));
        assert_eq!(code, Some(125), "only root");
    });
}

/// Issue 19: `--group` is in effect afterwards, also where the units were there before with another
/// mode: the socket is restarted with what the configuration says. A configuration that somebody
/// has changed is not changed, and then nothing is.
#[test]
fn setup_of_a_group() {
    inside("service::setup_of_a_group", || {
        let systemctl = FakeSystemd::new();
        let (code, text) = systemctl.setup(&[]);
        assert_eq!(code, Some(0), "{text}");
        let unit = || fs::read_to_string("/etc/systemd/system/kgate.socket").expect("a unit");
        assert!(unit().contains("SocketMode=0666\n"), "{}", unit());
        assert!(!systemctl.log().contains("restart"), "it was not there before");
        let (code, text) = systemctl.setup(&["--group", "ann"]);
        assert_eq!(code, Some(0), "{text}");
        let config = fs::read_to_string(MACHINE_CONFIG).expect("the configuration");
        assert!(config.contains("socket_group = \"ann\""), "{config}");
        assert!(unit().contains("SocketMode=0660\nSocketGroup=ann\n"), "{}", unit());
        assert!(systemctl.log().contains("restart kgate.socket kgate.service"));
        write(MACHINE_CONFIG, "# own\n");
        let before = systemctl.log();
        let (code, text) = systemctl.setup(&["--group", "bob"]);
        assert!(code == Some(2) && text.contains("socket_group = \"bob\""), "{code:?} {text}");
        assert!(unit().contains("SocketGroup=ann") && systemctl.log() == before);
        // A group that does not exist changes nothing, in the option and in the configuration.
        write(MACHINE_CONFIG, "socket_mode = \"0660\"\nsocket_group = \"nope\"\n");
        let check = said(Command::new(KGATE).args(["node", "--machine", "--check"]));
        for (code, text) in [systemctl.setup(&["--group", "nope"]), systemctl.setup(&[]), check] {
            assert!(code == Some(2) && text.contains("groupadd"), "{code:?} {text}");
        }
        assert!(unit().contains("SocketGroup=ann") && systemctl.log() == before);
        write(MACHINE_CONFIG, "# own\n");
        // Without --group the unit follows the configuration.
        assert_eq!(systemctl.setup(&[]).0, Some(0));
        assert!(unit().contains("SocketMode=0666\n") && !unit().contains("Group"), "{}", unit());
    });
}

/// A `systemctl` that only notes how it is called.
struct FakeSystemd;

impl FakeSystemd {
    const LOG: &str = "/tmp/systemctl.log";

    fn new() -> Self {
        fs::create_dir_all("/run/systemd/system").expect("created");
        write("/run/fake/systemctl", "#!/bin/sh\necho \"$@\" >>/tmp/systemctl.log\n");
        fs::set_permissions("/run/fake/systemctl", fs::Permissions::from_mode(0o755)).expect("x");
        Self
    }

    fn log(&self) -> String {
        fs::read_to_string(Self::LOG).unwrap_or_default()
    }

    /// `kgate setup machine` as root: its code, and what it says.
    fn setup(&self, more: &[&str]) -> (Option<i32>, String) {
        let path = format!("/run/fake:{}", std::env::var("PATH").expect("a path"));
        said(Command::new(KGATE).args(["setup", "machine"]).args(more).env("PATH", path))
    }
}

/// Issue 19: a machine's node that was started without a configuration leaves one behind, so users
/// do not take nodes of their own after a reboot, which clears `/run`.
#[test]
fn a_node_leaves_a_mark() {
    inside("service::a_node_leaves_a_mark", || {
        let node = MachineNode::start();
        assert_eq!(said(&mut kgate("ann", &["run", "gpu", "--", "true"])).0, Some(0));
        node.end(Signal::KILL);
        fs::remove_dir_all("/run/kgate").expect("as a reboot does");
        let (code, error) = said(&mut kgate("ann", &["run", "gpu", "--", "true"]));
        assert!(code == Some(122) && error.contains("is missing"), "{code:?} {error}");
        drop(MachineNode::start());
        // A configuration with another name has the same rights at the next start without it.
        fs::remove_file(MACHINE_CONFIG).expect("it was there");
        write("/etc/other.toml", "[[allow]]\nuser = \"root\"\n");
        let other = ["node", "--machine", "--config", "/etc/other.toml"];
        let mut node =
            Command::new(KGATE).args(other).stderr(Stdio::null()).spawn().expect("a node");
        wait_until("it serves", || said(&mut kgate("root", &["status"])).0 == Some(0));
        node.kill().expect("it runs");
        node.wait().expect("it ends");
        let _node = MachineNode::start();
        let (code, error) = said(&mut kgate("ann", &["run", "gpu", "--", "true"]));
        assert!(code == Some(125) && error.contains("may not"), "{code:?} {error}");
    });
}

/// Issue 19: the machine's node is given up by one command, which refuses while permits are held,
/// whether the node runs or not. Then each user has a node again.
#[test]
fn giving_up_the_node() {
    inside("service::giving_up_the_node", || {
        let remove = || said(Command::new(KGATE).args(["setup", "machine", "--remove"]));
        let node = MachineNode::start();
        let oracle = Oracle::new("gpu", 1);
        let holder = oracle.hold(kgate("ann", &["run", "gpu", "-k", "1"]), "ann");
        let (code, error) = remove();
        assert!(
            code == Some(120) && error.contains("gate `gpu`: 1 slot in use"),
            "{code:?} {error}"
        );
        node.end(Signal::KILL);
        let (code, error) = remove();
        let text = "a process holds slot 0 of gate `gpu`";
        assert!(code == Some(120) && error.contains(text), "{code:?} {error}");
        assert!(fs::exists(MACHINE_CONFIG).expect("/etc") && fs::exists(SOCKET).expect("/run"));
        let node = MachineNode::start();
        assert_eq!(holder.leave(), Some(0));
        let (code, error) = remove();
        assert!(code == Some(125) && error.contains("still runs"), "{code:?} {error}");
        node.end(Signal::TERM);
        let (code, error) = said(&mut kgate("ann", &["setup", "machine", "--remove"]));
        assert!(code == Some(125) && error.contains("root"), "{code:?} {error}");
        assert_eq!(said(&mut kgate("ann", &["run", "gpu", "--", "true"])).0, Some(122));
        let (code, error) = remove();
        assert_eq!(code, Some(0), "{error}");
        assert!(!fs::exists(MACHINE_CONFIG).expect("/etc") && !fs::exists(SOCKET).expect("/run"));
        assert_eq!(said(&mut kgate("ann", &["run", "gpu", "--", "true"])).0, Some(0));
        let (code, error) = remove();
        assert!(code == Some(0) && error.contains("nothing to remove"), "{code:?} {error}");
        // With systemd the units are stopped first, and removed.
        let systemctl = FakeSystemd::new();
        assert_eq!(systemctl.setup(&[]).0, Some(0));
        let (code, error) = systemctl.setup(&["--remove"]);
        assert_eq!(code, Some(0), "{error}");
        assert!(systemctl.log().contains("disable --now kgate.socket kgate.service"));
        for unit in ["kgate.socket", "kgate.service"] {
            assert!(!fs::exists(format!("/etc/systemd/system/{unit}")).expect("/etc"), "{unit}");
        }
        assert_eq!(oracle.check(), 1);
    });
}
