//! The node of a whole machine: one gate for all users, and what becomes of it when the node ends.

use std::process::Stdio;

use kgate_testkit::wait_until;
use rustix::process::Signal;

use crate::oracle::{Holder, Oracle};
use crate::sandbox::{MachineNode, SOCKET, inside, kgate, printed, said};

/// Two users meet at the machine's node: one waits for the other, fences grow from one to the next,
/// and the status shows the user that the kernel reports.
#[test]
fn two_users_share_a_gate() {
    inside("machine_node::two_users_share_a_gate", || {
        let _node = MachineNode::start();
        let oracle = Oracle::new("shared", 1);
        let mut command = kgate("ann", &["run", "shared", "-k", "1"]);
        command.env("USER", "somebody-else");
        let ann = oracle.hold(command, "ann");
        assert_eq!(said(&mut kgate("bob", &["run", "shared", "-n", "--", "true"])).0, Some(120));
        let status = printed(&mut kgate("bob", &["status", "shared"]));
        assert!(status.contains("ann@"), "{status}");
        let mut waits = oracle.inside(kgate("bob", &["run", "shared"]), "bob", "");
        let mut bob = waits.stdin(Stdio::null()).spawn().expect("it starts");
        wait_until("bob waits", || {
            printed(&mut kgate("root", &["status", "shared"])).contains("1 waiting")
        });
        assert!(!oracle.has("bob"));
        assert_eq!(ann.leave(), Some(0));
        assert_eq!(bob.wait().expect("it ends").code(), Some(0));
        assert_eq!(oracle.check(), 2);
    });
}

/// A machine's node that ends, by a signal or by `kill -9`, with holders of several users inside:
/// nobody takes another node meanwhile, the holders go on, the next node finds them, and fences
/// grow.
#[test]
fn a_restart_loses_no_permit() {
    inside("machine_node::a_restart_loses_no_permit", || {
        let mut node = MachineNode::start();
        let oracle = Oracle::new("gpu", 2);
        let mut all: Vec<Holder> = Vec::new();
        for user in ["ann", "bob"] {
            all.push(oracle.hold(kgate(user, &["run", "gpu", "-k", "2"]), user));
        }
        for signal in [Signal::KILL, Signal::TERM, Signal::KILL] {
            node.end(signal);
            for user in ["ann", "bob", "root"] {
                let (code, error) = said(&mut kgate(user, &["run", "gpu", "-n", "--", "true"]));
                assert_eq!(code, Some(122), "{error}");
                assert!(error.contains("does not run") && error.contains(SOCKET), "{error}");
                assert_eq!(said(&mut kgate(user, &["status"])).0, Some(122));
            }
            node = MachineNode::start();
            for user in ["ann", "bob", "root"] {
                let (code, error) = said(&mut kgate(user, &["run", "gpu", "-n", "--", "true"]));
                assert_eq!(code, Some(120), "{error}");
            }
        }
        assert!(all.iter_mut().all(Holder::is_inside));
        for holder in all {
            assert_eq!(holder.leave(), Some(0));
        }
        let next = || oracle.inside(kgate("bob", &["run", "gpu", "-n"]), "next", "").status();
        wait_until("a slot is free", || next().expect("it starts").code() == Some(0));
        oracle.check();
    });
}

/// A request that waits while the node restarts is granted by the next node, after the holder.
#[test]
fn a_waiting_request_survives_a_restart() {
    inside("machine_node::a_waiting_request_survives_a_restart", || {
        let node = MachineNode::start();
        let oracle = Oracle::new("gpu", 1);
        let ann = oracle.hold(kgate("ann", &["run", "gpu", "-k", "1"]), "ann");
        let mut command = oracle.inside(kgate("bob", &["run", "gpu"]), "bob", "");
        let mut bob = command.spawn().expect("it starts");
        let waits = || printed(&mut kgate("root", &["status", "gpu"])).contains("1 waiting");
        wait_until("bob waits", waits);
        node.end(Signal::KILL);
        let _node = MachineNode::start();
        wait_until("bob waits again", waits);
        assert!(!oracle.has("bob"));
        assert_eq!(ann.leave(), Some(0));
        assert_eq!(bob.wait().expect("it ends").code(), Some(0));
        assert_eq!(oracle.check(), 2);
    });
}

/// `kgate acquire` of one environment is released from another, and the slot of a killed holder is
/// free for the other user.
#[test]
fn scripts_of_several_users() {
    inside("machine_node::scripts_of_several_users", || {
        let _node = MachineNode::start();
        let token = printed(&mut kgate("ann", &["acquire", "job", "-k", "1"]));
        assert_eq!(said(&mut kgate("bob", &["acquire", "job", "-n"])).0, Some(120));
        assert_eq!(said(&mut kgate("bob", &["release", &token])).0, Some(121), "not bob's");
        let mut release = kgate("ann", &["release", &token]);
        release.env("XDG_RUNTIME_DIR", "/tmp").env("HOME", "/nonexistent");
        assert_eq!(said(&mut release).0, Some(0));
        assert_eq!(said(&mut kgate("bob", &["run", "job", "-n", "--", "true"])).0, Some(0));
    });
}
