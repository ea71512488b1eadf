//! SIGSTOP: a holder that is stopped beyond its deadline has lost its permit, and its command is
//! dead by then if the front or the guard of `kgate run` still runs.

use std::thread;

use kgate_client::LeaseInstant;
use kgate_testkit::wait_for;
use rustix::process::{Pid, Signal, kill_process};

use crate::book::Book;
use crate::client::{ApiClient, make_gate, next};
use crate::cluster::{Cluster, LEASE, QUICK, RENEWAL, TIMING};
use crate::fixture::{GRACE, Home, expect_gone, family, is_gone, until, until_gate, until_past};

const STUBBORN: &str = "trap '' TERM; setsid sleep 1000 &";

fn freeze(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
}

/// The guard is stopped: the front kills all processes below it in time and releases the permit.
/// The next holder finds the slot free.
#[test]
fn the_guard() {
    let home = Home::new("frozen-guard");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 2, QUICK);
    let mut run = book.hold(cluster.run(&home, 0, "gpu", 1), "first", STUBBORN);
    let members = family(run.guard());
    freeze(run.guard());
    next(&cluster.api[1], "gpu", &book, "next");
    assert_eq!(run.code(), Some(121));
    expect_gone(&members);
    assert_eq!(book.check(1).len(), 2);
}

/// The front is stopped for longer than a lease: the guard renews, and nothing is lost. Then the
/// front continues and the guard is stopped beyond the deadline: the front kills the command, and
/// the next client gets the permit.
#[test]
fn the_front_and_then_the_guard() {
    let home = Home::new("frozen-both");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 2, QUICK);
    let mut run = book.hold(cluster.run(&home, 0, "gpu", 1), "first", STUBBORN);
    let (guard, members) = (run.guard(), family(run.guard()));
    run.send(Signal::STOP);
    until_past(LeaseInstant::now() + LEASE + RENEWAL);
    assert!(members.iter().all(|member| !is_gone(*member)), "the guard renewed all the while");
    run.send(Signal::CONT);
    freeze(guard);
    next(&cluster.api[1], "gpu", &book, "next");
    assert_eq!(run.code(), Some(121));
    expect_gone(&members);
    assert_eq!(book.check(1).len(), 2);
}

/// Front and guard are stopped together beyond the deadline: the node on their machine kills all
/// processes below them, and the next holder, at that node or at another, finds the slot free.
/// Whether the front or the guard continues first, the exit code is that of a lost permit.
/// `KGATE_TEST_FROZEN` is the number of rounds.
#[test]
fn the_front_and_the_guard_together() {
    let rounds: usize =
        std::env::var("KGATE_TEST_FROZEN").map_or(3, |rounds| rounds.parse().unwrap());
    let home = Home::new("frozen-together");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start_leased(&home, 2, TIMING);
    let unix = cluster.unix(0);
    for round in 0..rounds {
        let words = ["run", "gpu", "-k", "1", "--grace", GRACE, "--node", &unix];
        let mut run = book.hold(home.kgate(&words), &format!("first-{round}"), STUBBORN);
        let guard = run.guard();
        // The kernel may leave a child out of its list while another process ends.
        let members = wait_for("the command and its child in another session", || {
            Some(family(guard).split_off(1)).filter(|members| members.len() >= 2)
        });
        until_gate(&cluster.api[0], "gpu", |gate| gate.holders().all(|one| one.is_guarded()));
        run.send(Signal::STOP);
        freeze(guard);
        next(&cluster.api[round % 2], "gpu", &book, &format!("next-{round}"));
        assert!(members.iter().all(|member| is_gone(*member)), "round {round}");
        let mut sleepers = [run.pid(), guard];
        sleepers.rotate_left(round % 2);
        for sleeper in sleepers {
            // The first one may have ended the second.
            let _gone = kill_process(sleeper, Signal::CONT);
        }
        assert_eq!(run.code(), Some(121), "round {round}");
        if (round + 1) % 10 == 0 {
            println!("round {}: {} went in, one at a time", round + 1, book.check(1).len());
        }
    }
    assert_eq!(book.check(1).len(), 2 * rounds);
}

/// -v shows whether the node ends the command if both processes of kgate run are stopped.
#[test]
fn verbose_tells_of_the_third_killer() {
    let home = Home::new("frozen-verbose");
    let cluster = Cluster::start_leased(&home, 1, TIMING);
    let said = |node: &str| {
        let words = ["run", "gpu", "--grace", GRACE, "-v", "--node", node, "--", "true"];
        let (code, _, error) = home.said(&words);
        assert_eq!(code, Some(0), "{error}");
        error
    };
    let guarded = said(&cluster.unix(0));
    assert!(guarded.contains("the node also ends the command at the deadline"), "{guarded}");
    let remote = said(&cluster.api[0]);
    assert!(remote.contains("not connected by a Unix socket of this machine"), "{remote}");
}

/// The front is stopped and the node is killed: the guard kills the command without help, before
/// another node grants the slot. When the front continues, it gets the exit code.
#[test]
fn the_front_while_its_node_dies() {
    let home = Home::new("frozen-front");
    let book = Book::new(&home, "gpu");
    let mut cluster = Cluster::start(&home, 2, QUICK);
    let mut run = book.hold(cluster.run(&home, 0, "gpu", 1), "first", STUBBORN);
    let members = family(run.guard());
    run.send(Signal::STOP);
    cluster.kill(0);
    next(&cluster.api[1], "gpu", &book, "next");
    assert!(members.iter().all(|member| is_gone(*member)));
    run.send(Signal::CONT);
    assert_eq!(run.code(), Some(121));
    assert_eq!(book.check(1).len(), 2);
}

/// A client of the API is stopped beyond its deadline: the next client gets the permit, but not
/// before that deadline, and the stopped one learns of the loss as soon as it continues.
#[test]
fn a_client_of_the_api() {
    let home = Home::new("frozen-client");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 2, QUICK);
    make_gate(&home, &cluster.api[0], "gpu", 1);
    let client = ApiClient::start(&cluster.api[0], "gpu", None);
    client.told("in");
    client.process.send(Signal::STOP);
    let granted = next(&cluster.api[1], "gpu", &book, "next");
    client.process.send(Signal::CONT);
    let woken = LeaseInstant::now();
    let (told, deadline) = client.lost();
    assert!(deadline < granted, "granted too early");
    // The margin is for a busy machine.
    assert!(told.after(woken) < RENEWAL * 4, "{:?} later", told.after(woken));
    book.check(1);
}

/// The node is stopped while its kernel still accepts connections: a client of the API learns of
/// the loss by its deadline, before another node grants the slot.
#[test]
fn a_node() {
    let home = Home::new("frozen-node");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 3, QUICK);
    make_gate(&home, &cluster.api[0], "gpu", 1);
    let client = ApiClient::start(&cluster.api[0], "gpu", None);
    client.told("in");
    thread::scope(|scope| {
        let waits = scope.spawn(|| next(&cluster.api[1], "gpu", &book, "next"));
        crate::fixture::until_waiting(&cluster.api[2], "gpu", 1);
        cluster.nodes[0].as_ref().unwrap().send(Signal::STOP);
        let (told, deadline) = client.lost();
        // The margin is for a busy machine.
        assert!(
            told.after(deadline) < RENEWAL / 2,
            "{:?} after the deadline",
            told.after(deadline)
        );
        assert!(told < waits.join().unwrap(), "granted to another before it knew of the loss");
    });
    // When it continues, it learns that it was declared dead, and stops.
    cluster.nodes[0].as_ref().unwrap().send(Signal::CONT);
    until("it says so", || cluster.log(0).contains("has declared this node, 0, dead"));
    book.check(1);
}
