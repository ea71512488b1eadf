//! A client of the API in a process of its own, which runs this binary again, so that a test can
//! kill and stop it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use kgate_client::{Client, LeaseInstant};

use crate::book::Book;
use crate::cluster::Cluster;
use crate::fixture::{Home, PATIENCE, Process, block_on, until_waiting};

/// Such a process acquires a permit and releases it when its input ends, and the next client gets
/// it after that and not before.
#[test]
fn in_a_process_of_its_own() {
    match std::env::var("KGATE_TEST_NODE") {
        Ok(node) => be_one(&node),
        Err(_) => one_goes_in_and_out(),
    }
}

fn one_goes_in_and_out() {
    let home = Home::new("own-process");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 1, "");
    make_gate(&home, &cluster.api[0], "gpu", 1);
    let mut client = ApiClient::start(&cluster.api[0], "gpu", Some(&book));
    let (inside, _) = client.told("in");
    let (node, pages) = (cluster.api[0].clone(), book.clone());
    let waits = std::thread::spawn(move || next(&node, "gpu", &pages, "next"));
    until_waiting(&cluster.api[0], "gpu", 1);
    let closed = LeaseInstant::now();
    client.process.close_input();
    client.told("released");
    assert!(inside < closed && closed < waits.join().unwrap());
    assert_eq!(book.check(1).len(), 2);
}

/// The other process: it acquires a permit of the gate `KGATE_TEST_GATE`, reports the grant and a
/// loss, and releases the permit when its input ends.
fn be_one(node: &str) {
    let gate = std::env::var("KGATE_TEST_GATE").unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(node).await.unwrap();
        let permit = client.gate(gate).acquire().await.unwrap();
        let now = LeaseInstant::now();
        let inside = std::env::var("KGATE_TEST_BOOK")
            .ok()
            .map(|book| Book::at(&book).enter(&permit, "client"));
        println!("\ntells in {}", now.0);
        // In a thread of its own, because it blocks.
        let (done, over) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            let _ = done.send(());
        });
        let lost = async {
            let why = permit.lost().await;
            let now = LeaseInstant::now();
            let deadline = client.valid_until().borrow().0;
            println!("\ntells lost {} {deadline} {why}", now.0);
        };
        tokio::select! {
            () = lost => std::future::pending().await,
            _ = over => {}
        }
        // First leave the book: the next holder may enter before the release is confirmed.
        drop(inside);
        permit.release().await.unwrap();
        println!("\ntells released {}", LeaseInstant::now().0);
    });
}

/// A client process.
pub(crate) struct ApiClient {
    pub(crate) process: Process,
    lines: mpsc::Receiver<String>,
}

impl ApiClient {
    /// Acquires a permit of an existing gate. With a book it enters as a holder named `client`.
    pub(crate) fn start(node: &str, gate: &str, book: Option<&Book>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "client::in_a_process_of_its_own", "--nocapture"]);
        command.env("KGATE_TEST_NODE", node).env("KGATE_TEST_GATE", gate);
        if let Some(book) = book {
            command.env("KGATE_TEST_BOOK", book.folder());
        }
        let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let out = BufReader::new(process.0.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(told) = line.strip_prefix("tells ") {
                    let _ = tell.send(told.to_owned());
                }
            }
        });
        Self { process, lines }
    }

    /// Waits until it reports this event; returns the time of the event and the rest of the report.
    pub(crate) fn told(&self, what: &str) -> (LeaseInstant, String) {
        let line = self.lines.recv_timeout(PATIENCE).expect("it tells something");
        let (instant, rest) = instant(line.strip_prefix(what).unwrap_or_else(|| panic!("{line}")));
        (instant, rest.to_owned())
    }

    /// Waits until it reports a loss; returns the time when it noticed and its deadline.
    pub(crate) fn lost(&self) -> (LeaseInstant, LeaseInstant) {
        let (told, rest) = self.told("lost");
        (told, instant(&rest).0)
    }
}

/// The instant at the beginning of a text, and the rest.
fn instant(text: &str) -> (LeaseInstant, &str) {
    let text = text.trim_start();
    let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
    (LeaseInstant(number.parse().unwrap()), rest)
}

/// Acquires a permit in this process, releases it at once, and returns the time of the grant.
pub(crate) fn next(node: &str, gate: &str, book: &Book, name: &str) -> LeaseInstant {
    block_on(async {
        let permit = Client::connect(node).await.unwrap().gate(gate).acquire().await.unwrap();
        let now = LeaseInstant::now();
        drop(book.enter(&permit, name));
        permit.release().await.unwrap();
        now
    })
}

/// Creates a gate for all.
pub(crate) fn make_gate(home: &Home, node: &str, gate: &str, k: u32) {
    assert_eq!(
        home.code(&[
            "run",
            gate,
            "-k",
            &k.to_string(),
            "--grace",
            "100ms",
            "--node",
            node,
            "--",
            "true"
        ]),
        Some(0)
    );
}
