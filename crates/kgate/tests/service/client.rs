//! A client of the API in a process of its own: this binary again, so that it can be killed and
//! frozen.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use kgate_client::{Client, LeaseInstant};

use crate::book::Book;
use crate::cluster::Cluster;
use crate::scene::{Home, PATIENCE, Process, block_on, until_waiting};

/// Such a process goes in, gives back when its input ends, and the next one gets in after that and
/// not before.
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

/// What the other process does: it asks at that node for a permit of the gate `KGATE_TEST_GATE`,
/// tells that it is in, tells of the loss, and gives the permit back when its input ends.
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
        // A thread of its own: it blocks.
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
        // Out first: the next one may be in before we hear that our word was heard.
        drop(inside);
        permit.release().await.unwrap();
        println!("\ntells released {}", LeaseInstant::now().0);
    });
}

/// Such a process.
pub(crate) struct ApiClient {
    pub(crate) process: Process,
    lines: mpsc::Receiver<String>,
}

impl ApiClient {
    /// Asks for a permit of a gate, which is there. With a book it writes that it is in, under the
    /// name `client`.
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

    /// Waits until it tells that, and returns when it did so and what else it said.
    pub(crate) fn told(&self, what: &str) -> (LeaseInstant, String) {
        let line = self.lines.recv_timeout(PATIENCE).expect("it tells something");
        let (instant, rest) = instant(line.strip_prefix(what).unwrap_or_else(|| panic!("{line}")));
        (instant, rest.to_owned())
    }

    /// Waits until it tells of the loss, and returns when it knew and what its deadline was.
    pub(crate) fn lost(&self) -> (LeaseInstant, LeaseInstant) {
        let (told, rest) = self.told("lost");
        (told, instant(&rest).0)
    }
}

/// The instant with which a text begins, and the rest.
fn instant(text: &str) -> (LeaseInstant, &str) {
    let text = text.trim_start();
    let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
    (LeaseInstant(number.parse().unwrap()), rest)
}

/// Waits in this process for a permit, and tells when it came; it is given back at once.
pub(crate) fn next(node: &str, gate: &str, book: &Book, name: &str) -> LeaseInstant {
    block_on(async {
        let permit = Client::connect(node).await.unwrap().gate(gate).acquire().await.unwrap();
        let now = LeaseInstant::now();
        drop(book.enter(&permit, name));
        permit.release().await.unwrap();
        now
    })
}

/// A gate is made, so that all can ask for it.
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
