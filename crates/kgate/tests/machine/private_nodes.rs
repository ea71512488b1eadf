//! The node of one user: the same in every environment of that user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use kgate_testkit::wait_until;

use crate::oracle::Oracle;
use crate::sandbox::{KGATE, MachineNode, as_user, home, inside, kgate, printed, said};

/// Environments of one user: a login, cron, a service, `sudo` without HOME, and whatever else is in
/// the variables that the place of a node must not depend on.
fn environments(user: &str) -> Vec<Vec<String>> {
    let home = format!("HOME={}", home(user).display());
    let runtime = format!("XDG_RUNTIME_DIR=/run/user/{user}");
    let of = |variables: &[&str]| variables.iter().map(|it| (*it).to_owned()).collect();
    vec![
        of(&[&home, &runtime, "TMPDIR=/tmp"]),
        of(&[&home]),
        of(&[]),
        of(&["HOME=/nonexistent"]),
        of(&["HOME=/", "TMPDIR=/var/tmp"]),
        of(&[&home, "XDG_STATE_HOME=/tmp/state", "TMPDIR=/nonexistent"]),
        of(&["HOME=", "XDG_RUNTIME_DIR="]),
    ]
}

fn run(user: &str, environment: &[String], words: &[&str]) -> std::process::Command {
    let environment: Vec<&str> = environment.iter().map(String::as_str).collect();
    as_user(user, &environment, &[&[KGATE], words].concat())
}

/// Every environment of a user leads to the same node, also root's: one holder excludes all others,
/// and fences grow from each to the next, also when the node is killed in between.
#[test]
fn one_node_in_every_environment() {
    inside("private_nodes::one_node_in_every_environment", || {
        for user in ["ann", "root"] {
            fs::create_dir_all(format!("/run/user/{user}")).expect("created");
            let id = if user == "ann" { fs::metadata(home("ann")).ok() } else { None };
            let owner = id.map(|found| std::os::unix::fs::MetadataExt::uid(&found));
            std::os::unix::fs::chown(format!("/run/user/{user}"), owner, None).expect("owned");
            let oracle = Oracle::new(user, 1);
            for (number, holding) in environments(user).into_iter().enumerate() {
                let name = format!("holder-{number}");
                let holder = oracle.hold(run(user, &holding, &["run", "gpu", "-k", "1"]), &name);
                for other in environments(user) {
                    let (code, error) =
                        said(&mut run(user, &other, &["run", "gpu", "-n", "--", "true"]));
                    assert_eq!(code, Some(120), "{user} {holding:?} {other:?}: {error}");
                }
                assert_eq!(holder.leave(), Some(0));
                kill_node(user);
            }
            assert_eq!(oracle.check(), environments(user).len());
            assert!(!fs::exists("/tmp/kgate").expect("/tmp"), "the place for all users of before");
        }
    });
}

fn kill_node(user: &str) {
    let folders = fs::read_dir(home(user).join(".local/state/kgate")).expect("a folder");
    for folder in folders.flatten() {
        let pid = fs::read_to_string(folder.path().join("node.pid")).expect("a node");
        let killed = std::process::Command::new("kill").args(["-9", pid.trim()]).status();
        assert!(killed.expect("kill").success());
        // A command that still reaches the dying node is refused, as by any node that is killed.
        let socket = folder.path().join("node.sock");
        wait_until("the node is gone", || UnixStream::connect(&socket).is_err());
    }
}

/// Without a machine's node each user has a node. With one, `--private`, `--node private` and
/// `KGATE_OPT_NODE=private` name the user's own, and only the one who asks for it is there.
#[test]
fn a_private_node_is_named() {
    inside("private_nodes::a_private_node_is_named", || {
        let own = Oracle::new("own", 1);
        let before = own.hold(kgate("ann", &["run", "gpu", "-k", "1"]), "before");
        let _node = MachineNode::start();
        let oracle = Oracle::new("gpu", 1);
        let holder = oracle.hold(kgate("bob", &["run", "gpu", "-k", "1"]), "bob");
        assert_eq!(said(&mut kgate("ann", &["run", "gpu", "-n", "--", "true"])).0, Some(120));
        let private = || {
            let run = ["run", "gpu", "-n", "--", "true"];
            let flag = said(&mut kgate("ann", &["run", "gpu", "--private", "-n", "--", "true"]));
            let name = ["run", "gpu", "--node", "private", "-n", "--", "true"];
            let mut variable = as_user("ann", &["KGATE_OPT_NODE=private"], &[KGATE]);
            [flag.0, said(&mut kgate("ann", &name)).0, said(variable.args(run)).0]
        };
        assert_eq!(private(), [Some(120); 3]);
        assert_eq!(before.leave(), Some(0));
        assert_eq!(private(), [Some(0); 3]);
        let status = printed(&mut kgate("ann", &["status", "gpu", "--private"]));
        assert!(status.contains("0 in use"), "{status}");
        assert_eq!(holder.leave(), Some(0));
    });
}

/// `private:DIR` is a node in another folder, which must be the user's alone.
#[test]
fn a_private_node_in_a_folder() {
    inside("private_nodes::a_private_node_in_a_folder", || {
        let at = |folder: &str| {
            let node = format!("private:{folder}");
            said(&mut kgate("ann", &["run", "gpu", "-n", "--node", &node, "--", "true"]))
        };
        assert_eq!(at("/tmp/anns").0, Some(0));
        let mode = fs::metadata("/tmp/anns").expect("created").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::create_dir("/tmp/bobs").expect("created");
        let (code, error) = at("/tmp/bobs");
        assert!(code == Some(122) && error.contains("belongs to user root"), "{code:?} {error}");
    });
}
