//! More clients than slots, at the nodes of one cluster.

use std::process::Stdio;

use crate::book::Book;
use crate::cluster::{Cluster, QUICK};
use crate::fixture::{Home, Process, until, until_gate, until_waiting};

/// k = 2 and three `kgate run` at three nodes: two hold, the third waits and is granted when one of
/// them releases. Every node shows the holders.
#[test]
fn one_more_than_k() {
    let home = Home::new("one-more");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 3, QUICK);
    let mut held: Vec<Process> = (0..2)
        .map(|node| book.hold(cluster.run(&home, node, "gpu", 2), &format!("run-{node}"), ""))
        .collect();
    let mut third = book.inside(cluster.run(&home, 2, "gpu", 2), "third", "exec cat");
    let mut third = Process::start(third.stdin(Stdio::piped()));
    for api in &cluster.api {
        until_gate(api, "gpu", |gate| (gate.holders().len(), gate.waiting().len()) == (2, 1));
    }
    assert_eq!((book.inside_now(), book.entries().len()), (2, 2));
    held[0].close_input();
    book.until_in("third");
    assert_eq!((held[0].code(), book.inside_now()), (Some(0), 2));
    held[1].close_input();
    third.close_input();
    assert_eq!((held[1].code(), third.code()), (Some(0), Some(0)));
    let entries = book.check(2);
    assert_eq!(entries[2].slot, entries[0].slot, "{entries:?}");
}

/// Many commands at all nodes of a cluster: never more than k hold, sometimes k do, and all are
/// granted.
#[test]
fn many_at_all_nodes() {
    let home = Home::new("crowd");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 3, QUICK);
    let run = |number: usize| {
        let command = cluster.run(&home, number % 3, "gpu", 2);
        // Both of a pair must be inside at once, or one waits for ever: this shows that k hold
        // sometimes.
        let meet = format!(
            "touch {0}/here-{number}; while [ $(ls {0} | grep -c here) -lt 2 ]; do sleep 0.01; \
             done",
            book.folder().display()
        );
        Process::start(&mut book.inside(command, &number.to_string(), &meet))
    };
    let all: Vec<Process> = (0..9).map(run).collect();
    for mut process in all {
        assert_eq!(process.code(), Some(0));
    }
    assert_eq!(book.check(2).len(), 9);
    until("nobody is inside", || book.inside_now() == 0);
    until_waiting(&cluster.api[0], "gpu", 0);
}
