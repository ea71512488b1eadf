//! R1: five nodes are stopped and started again, one after the other, under load. To the others
//! that is a pause, and to clients it is nothing: no request fails, no permit is lost.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use kgate_client::Client;

use crate::book::Book;
use crate::client::make_gate;
use crate::cluster::Cluster;
use crate::scene::{Home, Process, until, until_waiting};

const NODES: usize = 5;
/// A restart may take so long that even a very busy machine keeps it.
const PATIENT: &str = "[timing]\nlease = \"20s\"\nnode_ping = \"200ms\"\nsession_ping = \"200ms\"\nsuspect_after = \"15s\"\n";

/// At every node somebody holds a permit by `kgate run` all the while, somebody waits for it all
/// the while, and two sessions of the API go in and out of another gate.
#[test]
fn nobody_notices() {
    let home = Home::new("rolling");
    let (long, short) = (Book::new(&home, "long"), Book::new(&home, "short"));
    let mut cluster = Cluster::start_leased(&home, NODES, PATIENT);
    make_gate(&home, &cluster.api[0], "short", 2);
    let run = |node: usize| cluster.run(&home, node, "long", 5);
    let mut holders: Vec<Process> =
        (0..NODES).map(|node| long.hold(run(node), &format!("holds-{node}"), "")).collect();
    let waits = |node: usize| {
        let mut command = long.inside(run(node), &format!("waits-{node}"), "");
        Process::start(command.stdout(Stdio::null()))
    };
    let mut waiting: Vec<Process> = (0..NODES).map(waits).collect();
    until_waiting(&cluster.api[0], "long", NODES);

    let load = Arc::new(Load::default());
    let (worker, apis, pages) = (load.clone(), cluster.api.clone(), short.clone());
    let sessions = thread::spawn(move || worker.run(&apis, &pages));
    let all_went_in = |why: &str| {
        let before = load.entered();
        let more = |(now, before): (u32, u32)| now > before + 1;
        until(why, || sessions.is_finished() || load.entered().into_iter().zip(before).all(more));
        // Then somebody could not go on, and the reason is told below.
        !sessions.is_finished()
    };
    let went_on = all_went_in("everybody is served at first")
        && (0..NODES).all(|node| {
            cluster.stop(node);
            cluster.start_again(node);
            all_went_in(&format!("everybody is served after the restart of node {node}"))
        });
    load.over.store(true, Ordering::Relaxed);
    assert_eq!(sessions.join().unwrap(), Ok(()), "no request fails, no permit is lost");
    assert!(went_on);
    for process in holders.iter_mut().chain(&mut waiting) {
        let ended = process.0.try_wait().unwrap();
        assert!(ended.is_none(), "a kgate run has ended: {ended:?}");
    }
    holders.iter_mut().for_each(Process::close_input);
    for process in holders.iter_mut().chain(&mut waiting) {
        assert_eq!(process.code(), Some(0));
    }
    assert_eq!(long.check(5).len(), 2 * NODES);
    assert!(short.check(2).len() >= 2 * NODES * 2 * (NODES + 1));
}

/// Sessions that go in and out, two at each node.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    entered: [AtomicU32; 2 * NODES],
}

impl Load {
    /// How often each went in.
    fn entered(&self) -> [u32; 2 * NODES] {
        self.entered.each_ref().map(|entered| entered.load(Ordering::Relaxed))
    }

    /// Until all is over, or somebody cannot go on: why.
    fn run(self: Arc<Self>, apis: &[String], book: &Book) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut all = tokio::task::JoinSet::new();
            for client in 0..2 * NODES {
                all.spawn(self.clone().contend(client, apis[client % NODES].clone(), book.clone()));
            }
            while let Some(ended) = all.join_next().await {
                ended.unwrap()?;
            }
            Ok(())
        })
    }

    async fn contend(
        self: Arc<Self>,
        client: usize,
        api: String,
        book: Book,
    ) -> Result<(), String> {
        let failed = |error| format!("client {client} at {api}: {error}");
        let session = Client::connect(&api).await.map_err(failed)?;
        while !self.over.load(Ordering::Relaxed) {
            let permit = session.gate("short").acquire().await.map_err(failed)?;
            let inside = book.enter(&permit, &client.to_string());
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
                why = permit.lost() => return Err(format!("client {client} at {api} has lost its permit: {why}")),
            }
            drop(inside);
            permit.release().await.unwrap();
            self.entered[client].fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
