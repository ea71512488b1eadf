//! R1: five nodes are stopped and restarted, one after the other, under load. Other nodes see a
//! pause, clients see nothing: no request fails, and no permit is lost.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use kgate_client::Client;

use crate::book::Book;
use crate::client::make_gate;
use crate::cluster::Cluster;
use crate::fixture::{Home, Process, until, until_waiting};

const NODES: usize = 5;
/// The lease is so long that a restart keeps it even on a very busy machine.
const PATIENT: &str = "[timing]\nlease = \"20s\"\nnode_ping = \"200ms\"\nsession_ping = \"200ms\"\n\
                       suspect_after = \"15s\"\n";

/// At every node one `kgate run` holds a permit, another waits for it, and two sessions of the API
/// acquire and release at another gate, all the time.
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
        // A client failed; the reason is printed below.
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

/// Two sessions per node that acquire and release.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    entered: [AtomicU32; 2 * NODES],
}

impl Load {
    /// The number of grants per session.
    fn entered(&self) -> [u32; 2 * NODES] {
        self.entered.each_ref().map(|entered| entered.load(Ordering::Relaxed))
    }

    /// Runs until the end, or until a client fails; returns the reason.
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
                why = permit.lost() => return Err(format!("client {client} at {api} has lost its \
                                                           permit: {why}")),
            }
            drop(inside);
            permit.release().await.unwrap();
            self.entered[client].fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
