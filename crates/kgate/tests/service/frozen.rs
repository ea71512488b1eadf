//! SIGSTOP: whoever sleeps through its deadline has lost its permit, and what it runs is dead by
//! then if anybody of `kgate run` is awake.

use std::thread;

use kgate_client::LeaseInstant;
use rustix::process::{Pid, Signal, kill_process};

use crate::book::Book;
use crate::client::{ApiClient, make_gate, next};
use crate::cluster::{Cluster, LEASE, QUICK, RENEWAL};
use crate::scene::{Home, expect_gone, family, is_gone, until, until_past};

const STUBBORN: &str = "trap '' TERM; setsid sleep 1000 &";

fn freeze(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
}

/// The guard sleeps: the front kills all below it in time, and gives the permit back; the next one
/// finds nobody inside.
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

/// The front sleeps: the guard renews, and nothing is lost, for longer than a lease. Then the front
/// wakes and the guard sleeps, through the deadline: the front kills. Then the permit is the next
/// one's.
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

/// The front sleeps and the node is killed: the guard kills by itself, before another node grants
/// the slot. Awake again, the front has the code.
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

/// A client of the API sleeps beyond its deadline: the next one gets the permit, not before that
/// deadline, and the client knows as soon as it wakes that it has lost its own.
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
    // On a busy machine it runs a little later.
    assert!(told.after(woken) < RENEWAL * 4, "{:?} later", told.after(woken));
    book.check(1);
}

/// The node sleeps, and its kernel takes new connections all the while: a client of the API knows
/// of the loss by its deadline, before another node would grant the slot.
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
        crate::scene::until_waiting(&cluster.api[2], "gpu", 1);
        cluster.nodes[0].as_ref().unwrap().send(Signal::STOP);
        let (told, deadline) = client.lost();
        // On a busy machine it runs a little later.
        assert!(
            told.after(deadline) < RENEWAL / 2,
            "{:?} after the deadline",
            told.after(deadline)
        );
        assert!(told < waits.join().unwrap(), "granted to another before it knew of the loss");
    });
    // Awake again, it hears that the others have gone on without it, and stops.
    cluster.nodes[0].as_ref().unwrap().send(Signal::CONT);
    until("it says so", || cluster.log(0).contains("has declared this node, 0, dead"));
    book.check(1);
}
