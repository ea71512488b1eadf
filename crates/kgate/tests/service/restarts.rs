//! Nodes that are killed and restarted with their stored data: readmitted where the protocol
//! tolerates that, refused with the reason where it does not.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use kgate_client::{Client, Error};

use crate::book::Book;
use crate::cluster::{Cluster, QUICK, TIMING};
use crate::fixture::{Home, Process, block_on, until, until_waiting};

/// A gate whose nodes may return after a crash.
const TREE_TOKEN: &str =
    "new_gates = false\n[[gate]]\nname = \"gpu\"\nk = 1\nprotocol = \"tree-token\"\n";

/// Every node in turn is killed and restarted while clients of all nodes acquire, hold and release,
/// and reconnect when they are cut off: never two holders, and every client is served.
#[test]
fn each_in_turn_under_load() {
    let home = Home::new("in-turn");
    let cluster = Cluster::start(&home, 3, &format!("lease_ms = 1500\n{TREE_TOKEN}"));
    in_turn_under_load(&home, cluster, &[Cluster::kill]);
}

/// The same with the protocol `home` and leases: each node, and so each home, is stopped cleanly,
/// and killed.
#[test]
fn each_home_in_turn_under_load() {
    let home = Home::new("homes-in-turn");
    let gate = "[[gate]]\nname = \"gpu\"\nk = 1\nprotocol = \"home\"\n";
    let cluster = Cluster::start_leased(&home, 3, &format!("{TIMING}{gate}"));
    in_turn_under_load(&home, cluster, &[Cluster::stop, Cluster::kill]);
}

/// Ends and restarts every node in turn while clients of all nodes contend.
fn in_turn_under_load(home: &Home, mut cluster: Cluster, ends: &[fn(&mut Cluster, usize)]) {
    let book = Book::new(home, "gpu");
    let load =
        Load { over: AtomicBool::new(false), entered: (0..6).map(|_| AtomicU32::new(0)).collect() };
    let load = Arc::new(load);
    let all_went_in_again = |why: &str| {
        let before: Vec<u32> =
            load.entered.iter().map(|entered| entered.load(Ordering::Relaxed)).collect();
        let more =
            |(entered, before): (&AtomicU32, &u32)| entered.load(Ordering::Relaxed) > before + 1;
        until(why, || load.entered.iter().zip(&before).all(more));
    };
    let (apis, worker, pages) = (cluster.api.clone(), load.clone(), book.clone());
    let clients = thread::spawn(move || {
        block_on(async {
            let clients = (0..6).map(|client| {
                worker.clone().contend(client, apis[client % 3].clone(), pages.clone())
            });
            let clients: Vec<_> = clients.map(tokio::spawn).collect();
            for client in clients {
                client.await.unwrap();
            }
        });
    });
    all_went_in_again("everybody is served at first");
    for (node, end) in (0..3).flat_map(|node| ends.iter().map(move |end| (node, end))) {
        end(&mut cluster, node);
        cluster.start_again(node);
        all_went_in_again(&format!("everybody is served after the restart of node {node}"));
    }
    load.over.store(true, Ordering::Relaxed);
    clients.join().unwrap();
    let entries = book.check(1);
    assert!(entries.len() >= 6 * 8, "{}", entries.len());
}

struct Load {
    over: AtomicBool,
    /// The number of grants per client.
    entered: Vec<AtomicU32>,
}

impl Load {
    async fn contend(self: Arc<Self>, client: usize, api: String, book: Book) {
        while !self.over.load(Ordering::Relaxed) {
            if self.go_in(client, &api, &book).await.is_err() {
                // Its node is down and may be back a moment later.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Acquires and releases with one session, until the node is gone or the test is over.
    async fn go_in(&self, client: usize, api: &str, book: &Book) -> Result<(), Error> {
        let session = Client::connect(api).await?;
        while !self.over.load(Ordering::Relaxed) {
            let permit = session.gate("gpu").acquire().await?;
            let inside = book.enter(&permit, &client.to_string());
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
                _ = permit.lost() => {}
            }
            drop(inside);
            permit.release().await.unwrap();
            self.entered[client].fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A holder outlives the crash of its node by the validity that it was given: the node restarts at
/// once, and yet no permit is granted before that holder is dead.
#[test]
fn a_holder_of_the_former_incarnation() {
    let home = Home::new("earlier-incarnation");
    let book = Book::new(&home, "gpu");
    let mut cluster = Cluster::start(&home, 3, &format!("{QUICK}{TREE_TOKEN}"));
    // CMD survives as long as it can.
    let mut held = book.hold(cluster.run(&home, 0, "gpu", 1), "first", "trap '' TERM");
    let next = |node: usize, name: &str| {
        Process::start(
            book.inside(cluster.run(&home, node, "gpu", 1), name, "").stdout(Stdio::null()),
        )
    };
    let mut others = [next(1, "second"), next(2, "third")];
    until_waiting(&cluster.api[1], "gpu", 2);
    cluster.kill(0);
    cluster.start_again(0);
    assert_eq!(others.each_mut().map(Process::code), [Some(0); 2]);
    assert_eq!(held.code(), Some(121));
    assert_eq!(book.check(1).len(), 3);
}

/// A restarted node of `slots` is refused by all others, logs that and stops; the others continue
/// when they have declared its earlier incarnation dead and its clients have certainly stopped.
#[test]
fn slots_take_nobody_back() {
    let home = Home::new("refused");
    let book = Book::new(&home, "gpu");
    let mut cluster = Cluster::start(&home, 3, QUICK);
    let mut held = book.hold(cluster.run(&home, 0, "gpu", 1), "first", "trap '' TERM");
    let mut next = Process::start(&mut book.inside(cluster.run(&home, 1, "gpu", 1), "next", ""));
    until_waiting(&cluster.api[2], "gpu", 1);
    cluster.kill(0);
    cluster.start_again(0);
    let text = "was incarnation 1 and has restarted as incarnation 2: with fixed nodes a restarted \
                node cannot take part again";
    for node in 0..3 {
        until(&format!("node {node} says why"), || cluster.log(node).contains(text));
    }
    assert_eq!(cluster.nodes[0].as_mut().unwrap().code(), Some(125), "{}", cluster.log(0));
    assert_eq!((held.code(), next.code()), (Some(121), Some(0)));
    assert_eq!(book.check(1).len(), 2);
}

/// A node without storage for its protocol's state is not readmitted, even if the protocol
/// tolerates recoveries: a forgotten token would be created twice.
#[test]
fn nobody_without_a_memory() {
    let home = Home::new("forgetful");
    let book = Book::new(&home, "gpu");
    let mut cluster = Cluster::start_forgetful(&home, 2, &format!("{QUICK}{TREE_TOKEN}"));
    let _held = book.hold(cluster.run(&home, 1, "gpu", 1), "first", "");
    cluster.kill(0);
    cluster.start_again(0);
    assert_eq!(cluster.nodes[0].as_mut().unwrap().code(), Some(125), "{}", cluster.log(0));
    assert_eq!(book.check(1).len(), 1);
}

/// All nodes are killed and restarted without their data while a client holds a permit of the
/// former cluster: its command is dead before any permit is granted.
#[test]
fn a_holder_of_the_former_cluster() {
    let home = Home::new("former-cluster");
    let book = Book::new(&home, "gpu");
    let mut cluster = Cluster::start(&home, 2, QUICK);
    for node in [0, 1, 0, 1] {
        crate::client::next(&cluster.api[node], "gpu", &book, "before");
    }
    let mut held = book.hold(cluster.run(&home, 1, "gpu", 1), "first", "trap '' TERM");
    cluster.kill(0);
    cluster.kill(1);
    cluster.start_again(0);
    cluster.start_again(1);
    let mut next = book.inside(cluster.run(&home, 0, "gpu", 1), "next", "");
    assert_eq!(next.status().unwrap().code(), Some(0));
    assert_eq!(held.code(), Some(121));
    // Fences start again with a new cluster, as long as it has no agreed view.
    assert_eq!(book.check_locks(1).len(), 6);
}
