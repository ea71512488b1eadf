//! What exists and cannot be used is an error with exit code 122, and no reason to take another
//! node: the command does not run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use kgate_client::local::{MACHINE_CONFIG, MACHINE_SOCKET};
use rustix::process::Signal;

use crate::sandbox::{KGATE, MachineNode, as_user, home, inside, kgate, said, write};

/// Runs a command as that user, which must not run, and returns why.
fn refused(user: &str) -> String {
    let mut command = kgate(user, &["run", "gpu", "--", "echo", "inside"]);
    let output = command.output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(122), "{error}");
    assert!(output.stdout.is_empty(), "it ran");
    error
}

fn user_of(user: &str) -> u32 {
    let found = fs::metadata(home(user)).expect("a home");
    std::os::unix::fs::MetadataExt::uid(&found)
}

/// A folder with that owner and mode, and all above it as a user's own.
fn folder(path: &Path, owner: &str, mode: u32) {
    fs::create_dir_all(path).expect("created");
    for above in path.ancestors().filter(|above| above.starts_with(home("ann").join(".local"))) {
        chown(above, Some(user_of("ann")), None).expect("owned");
        fs::set_permissions(above, fs::Permissions::from_mode(0o700)).expect("a mode");
    }
    let owner = if owner == "root" { 0 } else { user_of(owner) };
    chown(path, Some(owner), None).expect("owned");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// A folder of the user's node that somebody else owns, that others may enter, or that a symbolic
/// link names, is refused at every step; so is a home that anybody may change.
#[test]
fn places_that_others_control() {
    inside("refusals::places_that_others_control", || {
        let own = home("ann").join(".local");
        let machine = {
            assert_eq!(said(&mut kgate("ann", &["run", "gpu", "--", "true"])).0, Some(0));
            let mut folders = fs::read_dir(own.join("state/kgate")).expect("a folder");
            let path = folders.next().expect("one").expect("readable").path();
            let pid = fs::read_to_string(path.join("node.pid")).expect("a node");
            assert!(Command::new("kill").args(["-9", &pid]).status().expect("kill").success());
            path
        };
        let steps = [own.clone(), own.join("state"), own.join("state/kgate"), machine];
        for step in &steps {
            fs::remove_dir_all(&own).expect("removed");
            folder(step, "bob", 0o700);
            let owner = format!("{} belongs to user bob", step.display());
            let error = refused("ann");
            // Bob's folder may be closed to her before its owner can be seen.
            assert!(error.contains(&owner) || error.contains("cannot be opened"), "{error}");
            fs::remove_dir_all(&own).expect("removed");
            folder(step, "ann", 0o777);
            let error = refused("ann");
            assert!(error.contains("writable for everybody"), "{error}");
            fs::remove_dir_all(step).expect("removed");
            fs::create_dir_all("/tmp/elsewhere").expect("created");
            chown("/tmp/elsewhere", Some(user_of("ann")), None).expect("owned");
            symlink("/tmp/elsewhere", step).expect("a link");
            let error = refused("ann");
            assert!(error.contains("symbolic link"), "{error}");
            fs::remove_file(step).expect("removed");
            folder(&own, "ann", 0o700);
        }
        for step in &steps[2..] {
            fs::remove_dir_all(&own).expect("removed");
            folder(step, "ann", 0o750);
            let error = refused("ann");
            assert!(error.contains("chmod 700"), "{error}");
        }
        fs::remove_dir_all(&own).expect("removed");
        fs::set_permissions(home("ann"), fs::Permissions::from_mode(0o777)).expect("a mode");
        assert!(refused("ann").contains("chmod o-w"));
        fs::set_permissions(home("ann"), fs::Permissions::from_mode(0o700)).expect("a mode");
        assert_eq!(said(&mut kgate("ann", &["run", "gpu", "--", "true"])).0, Some(0));
    });
}

/// A user without a home directory of its own, or without an entry in the user database, cannot
/// have a node, is told what to do, and can use the machine's.
#[test]
fn users_without_a_home() {
    inside("refusals::users_without_a_home", || {
        assert!(refused("nobody").contains("/nonexistent cannot be opened"));
        assert!(refused("daemon").contains("belongs to user root"));
        let run = [KGATE, "run", "gpu", "--", "true"];
        let (code, error) = said(&mut unknown_user(&run));
        assert!(code == Some(122) && error.contains("no entry for this user"), "{code:?} {error}");
        for advice in ["kgate setup machine", "--node"] {
            assert!(error.contains(advice), "{error}");
        }
        let _node = MachineNode::start();
        for user in ["nobody", "daemon"] {
            assert_eq!(said(&mut kgate(user, &["run", "gpu", "--", "true"])).0, Some(0));
        }
        assert_eq!(said(&mut unknown_user(&run)).0, Some(0));
    });
}

fn unknown_user(words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=54321", "--regid=54321", "--clear-groups"]).args(words);
    command
}

/// A socket of the machine's node that a user may not use, that nobody listens on, or that is
/// missing although the machine is configured to have it.
#[test]
fn a_machine_node_that_cannot_be_used() {
    inside("refusals::a_machine_node_that_cannot_be_used", || {
        write(MACHINE_CONFIG, "");
        for user in ["ann", "root"] {
            assert!(refused(user).contains("is missing"), "{user}");
        }
        write(MACHINE_CONFIG, "socket_mode = \"0660\"\nsocket_group = \"bob\"\n");
        let node = MachineNode::start();
        let error = refused("ann");
        assert!(error.contains("may not connect") && error.contains("socket_group"), "{error}");
        assert_eq!(said(&mut kgate("bob", &["run", "gpu", "--", "true"])).0, Some(0));
        assert_eq!(said(&mut kgate("ann", &["status"])).0, Some(122));
        assert_eq!(said(&mut kgate("ann", &["acquire", "gpu"])).0, Some(122));
        node.end(Signal::TERM);
        fs::remove_file(MACHINE_CONFIG).expect("removed");
        assert!(refused("bob").contains("does not run"));
        fs::set_permissions("/run/kgate", fs::Permissions::from_mode(0o700)).expect("closed");
        assert!(refused("bob").contains("may not connect"));
        fs::set_permissions("/run/kgate", fs::Permissions::from_mode(0o755)).expect("open");
        fs::remove_file(MACHINE_SOCKET).expect("removed");
        fs::write(MACHINE_SOCKET, "no socket").expect("written");
        fs::set_permissions(MACHINE_SOCKET, fs::Permissions::from_mode(0o666)).expect("a mode");
        assert!(refused("bob").contains("does not run"));
        // What a command names is used in spite of all that.
        let own = ["KGATE_OPT_NODE=private"];
        let run = [KGATE, "run", "gpu", "--", "true"];
        assert_eq!(said(&mut as_user("bob", &own, &run)).0, Some(0));
    });
}
