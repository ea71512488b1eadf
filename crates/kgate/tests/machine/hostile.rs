//! What a user of a machine's node can do to the others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kgate_client::Client;
use kgate_client::local::{self, MACHINE_CONFIG};
use kgate_testkit::wait_until;
use rustix::process::Signal;

use crate::oracle::Oracle;
use crate::sandbox::{KGATE, MachineNode, SOCKET, as_user, inside, kgate, printed, said, write};

/// Long enough for an answer that comes at once.
const MOMENT: Duration = Duration::from_millis(300);

fn shell(user: &str, script: &str) -> Command {
    as_user(user, &[], &["sh", "-c", script])
}

/// The lock files of others cannot be found, opened, written or replaced.
#[test]
fn lock_files_are_out_of_reach() {
    inside("hostile::lock_files_are_out_of_reach", || {
        let _node = MachineNode::start();
        let oracle = Oracle::new("gpu", 1);
        let holder = oracle.hold(kgate("ann", &["run", "gpu", "-k", "1"]), "ann");
        let slots = fs::read_dir("/run/kgate/slots").expect("root can list them");
        let names: Vec<String> =
            slots.map(|file| file.expect("a file").path().display().to_string()).collect();
        let lock = names.iter().find(|name| name.contains("/gpu.0.")).expect("the lock");
        let secret = lock.rsplit('.').next().expect("a secret");
        assert_eq!(secret.len(), 32, "{lock}");
        for attempt in [
            "ls /run/kgate/slots".to_owned(),
            "cat /run/kgate/slots/gpu.k".to_owned(),
            "touch /run/kgate/slots/gpu.0".to_owned(),
            format!("echo x >> {lock}"),
            format!("rm {lock}"),
            "rm /run/kgate/node.sock".to_owned(),
            "mv /run/kgate/node.sock /run/kgate/x".to_owned(),
            "flock -n /run/kgate/node.sock.lock true".to_owned(),
            "ls /var/lib/kgate".to_owned(),
            "ls /proc/*/fd | grep -q slots".to_owned(),
        ] {
            let output = shell("bob", &attempt).output().expect("a shell");
            assert!(!output.status.success(), "bob can: {attempt}");
        }
        assert_eq!(said(&mut kgate("bob", &["run", "gpu", "-n", "--", "true"])).0, Some(120));
        assert_eq!(holder.leave(), Some(0));
        assert_eq!(said(&mut kgate("bob", &["run", "gpu", "-n", "--", "true"])).0, Some(0));
        oracle.check();
    });
}

/// A link in place of the folder of slots is not followed: where it leads keeps its mode, and the
/// node says what to do.
#[test]
fn a_link_to_another_folder() {
    inside("hostile::a_link_to_another_folder", || {
        fs::create_dir_all("/run/kgate").expect("a folder");
        fs::create_dir("/run/target").expect("a folder");
        let mode = || fs::metadata("/run/target").expect("a folder").permissions().mode() & 0o777;
        fs::set_permissions("/run/target", fs::Permissions::from_mode(0o700)).expect("a mode");
        std::os::unix::fs::symlink("/run/target", "/run/kgate/slots").expect("a link");
        let (code, error) = said(Command::new(KGATE).args(["node", "--machine"]));
        let said = error.contains("/run/kgate/slots") && error.contains("it is no folder");
        assert!(code == Some(125) && said, "{code:?} {error}");
        assert_eq!(mode(), 0o700);
    });
}

/// The name of an old lock file is worth nothing: each grant has a file of its own.
#[test]
fn an_old_name_locks_nothing() {
    inside("hostile::an_old_name_locks_nothing", || {
        let mut node = MachineNode::start();
        let show = "readlink /proc/self/fd/* | grep /slots/gpu.0.";
        let mut bob = kgate("bob", &["run", "gpu", "-k", "1", "--", "sh", "-c", show]);
        let path = printed(&mut bob);
        let oracle = Oracle::new("gpu", 1);
        for _ in 0..2 {
            let ann = oracle.hold(kgate("ann", &["run", "gpu", "-n"]), "ann");
            assert!(!fs::exists(&path).expect("a path"), "{path}");
            let (code, _) = said(&mut shell("bob", &format!("flock -n {path} true")));
            assert_ne!(code, Some(0));
            assert_eq!(ann.leave(), Some(0));
            node.end(Signal::KILL);
            node = MachineNode::start();
        }
        assert_eq!(oracle.check(), 2);
    });
}

/// A client that releases its permit, or ends its session, and keeps the lock keeps the slot: no
/// other client gets in before the lock is free.
#[test]
fn a_kept_lock_keeps_the_slot() {
    inside("hostile::a_kept_lock_keeps_the_slot", || {
        let _node = MachineNode::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        for releases in [true, false] {
            let lock = runtime.block_on(async {
                let client = Client::local().await.expect("a node");
                let permit = client.gate("gpu").k(1).acquire().await.expect("a permit");
                let file = Path::new(SOCKET).with_file_name(&permit.lock_files()[0]);
                let lock = local::lock_file(&file).expect("a lock");
                assert!(local::lock_file(&file).is_err(), "it is taken");
                if releases {
                    // It is not confirmed before the lock is free.
                    let released = tokio::time::timeout(MOMENT, permit.release()).await;
                    assert!(released.is_err(), "{released:?}");
                } else {
                    drop(permit);
                }
                drop(tokio::time::timeout(MOMENT, client.close()).await);
                lock
            });
            let run = ["run", "gpu", "-n", "--", "true"];
            assert_eq!(said(&mut kgate("bob", &run)).0, Some(120));
            drop(lock);
            wait_until("the slot is free", || said(&mut kgate("bob", &run)).0 == Some(0));
        }
    });
}

/// Only root may operate, whatever a user calls itself; an `[[allow]]` list restricts who may
/// acquire, by user and by group.
#[test]
fn rights_of_users() {
    inside("hostile::rights_of_users", || {
        let node = MachineNode::start();
        assert_eq!(said(&mut kgate("ann", &["run", "gpu", "-k", "1", "--", "true"])).0, Some(0));
        let mut set = kgate("ann", &["set", "gpu", "-k", "5"]);
        let (code, error) = said(set.env("USER", "root"));
        assert!(code == Some(125) && error.contains("permission denied"), "{code:?} {error}");
        node.end(Signal::TERM);
        let groups = Command::new("groupadd").arg("render").status().expect("groupadd");
        assert!(groups.success());
        let member = Command::new("usermod").args(["-aG", "render", "ann"]).status();
        assert!(member.expect("usermod").success());
        write(
            MACHINE_CONFIG,
            "[[allow]]\ngroup = \"render\"\ngates = [\"film\"]\n\
             [[allow]]\nuser = \"bob\"\ngates = [\"gpu\"]\n",
        );
        let _node = MachineNode::start_for("ann");
        for (user, gate, expected) in
            [("ann", "film", 0), ("ann", "gpu", 125), ("bob", "film", 125), ("bob", "gpu", 0)]
        {
            let (code, error) = said(&mut kgate(user, &["run", gate, "-n", "--", "true"]));
            assert_eq!(code, Some(expected), "{user} {gate}: {error}");
        }
    });
}

/// A user with as many connections and requests as it can get does not keep another one out.
#[test]
fn one_user_cannot_use_up_the_node() {
    inside("hostile::one_user_cannot_use_up_the_node", || {
        write(MACHINE_CONFIG, "[limits]\nconnections = 20\nsessions = 5\nwaiting = 5\n");
        let _node = MachineNode::start();
        // Silent connections of bob: more than are served, and than may be in a handshake.
        let script = "import socket,time\n\
            s=[]\n\
            for i in range(400):\n \
             c=socket.socket(socket.AF_UNIX); c.connect('/run/kgate/node.sock'); s.append(c)\n\
            print('connected', flush=True)\n\
            time.sleep(1000)";
        let mut flood = as_user("bob", &[], &["python3", "-c", script]);
        let has_python = Command::new("python3").arg("--version").output().is_ok();
        let mut held: Vec<UnixStream> = Vec::new();
        let mut bob = if has_python {
            let mut bob = flood.stdout(Stdio::piped()).spawn().expect("it starts");
            let mut line = [0; 9];
            let output = bob.stdout.as_mut().expect("piped");
            std::io::Read::read_exact(output, &mut line).expect("connected");
            Some(bob)
        } else {
            // Without an interpreter root is the one who floods.
            held.extend((0..400).filter_map(|_| UnixStream::connect(SOCKET).ok()));
            None
        };
        for _ in 0..20 {
            assert_eq!(said(&mut kgate("ann", &["run", "gpu", "-n", "--", "true"])).0, Some(0));
        }
        if let Some(bob) = &mut bob {
            let _ended = bob.kill();
            let _reaped = bob.wait();
        }
        let oracle = Oracle::new("one", 1);
        let holder = oracle.hold(kgate("ann", &["run", "one", "-k", "1"]), "ann");
        let waiting = || {
            let mut command = kgate("bob", &["run", "one", "--", "true"]);
            command.stderr(Stdio::null()).spawn().expect("it starts")
        };
        let mut crowd: Vec<_> = (0..8).map(|_| waiting()).collect();
        wait_until("some are refused", || {
            let refused = |child: &mut std::process::Child| {
                child.try_wait().expect("a child").and_then(|status| status.code()) == Some(120)
            };
            crowd.iter_mut().filter_map(|child| refused(child).then_some(())).count() >= 3
        });
        let status = printed(&mut kgate("root", &["status", "one"]));
        assert!(status.contains("5 waiting"), "{status}");
        assert_eq!(holder.leave(), Some(0));
        for mut child in crowd {
            child.wait().expect("it ends");
        }
    });
}
