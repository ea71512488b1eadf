//! Clusters with a log and leases, some of whose nodes are killed. Without a quorum, every holder
//! stops in time and every request is refused with the reason. With a quorum, the others continue.
//! When the nodes are back, all of them grant again.

use std::process::Stdio;
use std::time::Duration;

use kgate_client::LeaseInstant;

use crate::book::Book;
use crate::cluster::{Cluster, LEASED, TIMING};
use crate::fixture::{Home, Process, expect_gone, family, until, until_waiting};

/// Ends only by SIGKILL, and has a child in another session.
const STUBBORN: &str = "trap '' TERM; setsid sleep 1000 &";
/// The longest delay with which a test on a busy machine may notice an event.
const SEEN_LATER: Duration = Duration::from_secs(5);

/// LEASES: one of two voters is no quorum.
#[test]
fn one_of_two() {
    without_a_quorum("one-of-two", 2, &[1]);
}

/// One of three voters is no quorum: requests at it are refused instead of queued.
#[test]
fn two_of_three() {
    without_a_quorum("two-of-three", 3, &[2, 1]);
}

/// Node 0 keeps running, the others are killed: its holder is stopped in time, new requests exit
/// with 122 and a reason, and all nodes grant again when the others are back.
fn without_a_quorum(name: &str, nodes: usize, killed: &[usize]) {
    let home = Home::new(name);
    let book = Book::new(&home, "gpu");
    // Of two nodes only one votes by default.
    let mut cluster = Cluster::start_leased(&home, nodes, &format!("voters = {nodes}\n{TIMING}"));
    let mut held = book.hold(cluster.run(&home, 0, "gpu", 1), "first", STUBBORN);
    let members = family(held.guard());
    for node in killed {
        cluster.kill(*node);
    }
    let alone = LeaseInstant::now();
    // The guard releases the permit first.
    expect_gone(&members[1..]);
    let lasted = LeaseInstant::now().after(alone);
    assert!(lasted < LEASED + SEEN_LATER, "it ran for {lasted:?} without a quorum");
    assert_eq!(held.code(), Some(121));
    let ask = ["run", "gpu", "-w", "30s", "--node", &cluster.api[0], "--", "true"];
    let (code, _, said) = home.said(&ask);
    assert!(code == Some(122) && said.contains("no quorum"), "{code:?} {said}");
    for node in killed {
        cluster.start_again(*node);
    }
    for node in 0..nodes {
        cluster.until_grants(&home, node);
        let name = format!("after-{node}");
        until("it gets in", || {
            book.inside(cluster.run(&home, node, "gpu", 1), &name, "").status().unwrap().success()
        });
    }
    assert!(book.check(1).len() > nodes);
}

/// Each of three nodes in turn is killed while it has the holder and the others have waiting
/// requests: the holder is dead before one of them is granted. Then the node returns as another
/// incarnation, and later has a holder again.
#[test]
fn each_of_three() {
    let home = Home::new("each-of-three");
    let book = Book::new(&home, "gpu");
    let mut cluster = Cluster::start_leased(&home, 3, TIMING);
    for victim in 0..3 {
        let others = [(victim + 1) % 3, (victim + 2) % 3];
        let mut held =
            book.hold(cluster.run(&home, victim, "gpu", 1), &format!("at-{victim}"), STUBBORN);
        let mut waiting = others.map(|node| {
            let name = format!("at-{node}-after-{victim}");
            let mut command = book.inside(cluster.run(&home, node, "gpu", 1), &name, "");
            Process::start(command.stdout(Stdio::null()))
        });
        until_waiting(&cluster.api[others[0]], "gpu", 2);
        cluster.kill(victim);
        assert_eq!(waiting.each_mut().map(Process::code), [Some(0); 2], "node {victim} was killed");
        assert_eq!(held.code(), Some(121));
        cluster.start_again(victim);
        cluster.until_grants(&home, victim);
    }
    assert_eq!(book.check(1).len(), 9);
}
