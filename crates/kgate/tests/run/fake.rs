//! A keeper that does what the environment and a pipe tell it, and writes down what it was asked to
//! do.
//!
//! `FAKE_ANSWER`: grant, occupied, no-quorum, conflict, silence. `FAKE_LEASE_MS`: how long a
//! renewal counts (else for ever); it renews four times as often. `FAKE_CONTROL`: a named pipe;
//! `lost` tells of the loss, `silence` stops renewing, `grant` grants. `FAKE_LOG`: lines `asked
//! ..`, `granted`, `released WHO`, with whether the lock on `FAKE_MARKER` was free by then.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::run::keeper::{Granted, Keeper, Mail, News, Refusal, RefusalKind, Wish};
use crate::run::lease_clock::LeaseInstant;
use crate::run::margins::Margins;
use crate::scene::is_free;

#[derive(Default)]
struct Fake {
    mail: Option<Mail>,
    orders: Option<Sender<String>>,
}

pub(crate) fn open() -> Box<dyn Keeper> {
    Box::new(Fake::default())
}

impl Keeper for Fake {
    fn ask(&mut self, wish: &Wish, mail: Mail) {
        // Both ways, so that it neither waits for a writer nor ends with the first; before anybody
        // hears that we are there.
        let open =
            |path| File::options().read(true).write(true).open(path).expect("the control pipe");
        let control = variable("FAKE_CONTROL").map(open);
        log(&format!("asked {} {:?} {}", wish.gate, wish.k, wish.permits));
        if let Some(path) = variable("FAKE_COMMAND") {
            std::fs::write(path, &wish.command).expect("what people are told");
        }
        self.mail = Some(mail.clone());
        let (orders, inbox) = channel();
        self.orders = Some(orders.clone());
        if let Some(pipe) = control {
            let orders = orders.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let _gone = orders.send(line);
                }
            });
        }
        let wish = wish.clone();
        std::thread::spawn(move || {
            let lease = variable("FAKE_LEASE_MS")
                .map(|ms| Duration::from_millis(ms.parse().expect("a number")));
            let renew = |at: LeaseInstant| {
                mail.post(News::Renewed(lease.map_or(LeaseInstant::FOR_EVER, |lease| at + lease)));
            };
            renew(LeaseInstant::now());
            answer(&variable("FAKE_ANSWER").unwrap_or("grant".to_owned()), &wish, &mail);
            let mut renews = lease.is_some();
            loop {
                let pause =
                    if renews { lease.unwrap_or_default() / 4 } else { Duration::from_secs(3600) };
                match inbox.recv_timeout(pause).as_deref() {
                    Ok("lost") => mail.post(News::Lost("the test says so".to_owned())),
                    Ok("silence") => {
                        renews = false;
                        log("silent");
                    }
                    Ok(other) => answer(other, &wish, &mail),
                    Err(RecvTimeoutError::Timeout) if renews => renew(LeaseInstant::now()),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
    }

    fn release(&mut self) {
        log(&format!("released by guard, {}", marker()));
        self.mail.as_ref().expect("asked before").post(News::Released);
    }

    fn release_for_the_dead(&mut self, ticket: &[u8], _limit: Duration) {
        log(&format!("released by front with {}, {}", String::from_utf8_lossy(ticket), marker()));
    }
}

fn answer(what: &str, wish: &Wish, mail: &Mail) {
    let refuse =
        |kind, text: &str| mail.post(News::Refused(Refusal { kind, text: text.to_owned() }));
    match what {
        "grant" => {
            log("granted");
            mail.post(News::Granted(Granted {
                slots: (0..wish.permits).map(|slot| 2 * slot).collect(),
                fence: 0xfeed << 64 | 7,
                k: wish.k.unwrap_or(3),
                node: "fake-node".to_owned(),
                margins: Margins::fitting(wish.grace, Margins::KILL, None)
                    .expect("no lease, no limit"),
                ticket: b"ticket".to_vec(),
                inherited: Vec::new(),
            }));
        }
        "occupied" => refuse(RefusalKind::Occupied, "all slots are taken"),
        "no-quorum" => refuse(RefusalKind::NoQuorum, "no quorum"),
        "conflict" => refuse(RefusalKind::KConflict, "k is 5, set by somebody"),
        "silence" => {}
        other => panic!("the fake does not know {other}"),
    }
}

/// Whether anybody of the tree lived when it was told.
fn marker() -> &'static str {
    match variable("FAKE_MARKER").map(PathBuf::from) {
        Some(marker) if marker.exists() && !is_free(&marker) => "marker HELD",
        Some(_) | None => "marker free",
    }
}

fn log(line: &str) {
    if let Some(path) = variable("FAKE_LOG") {
        // A test that failed may have taken the folder away.
        if let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(path) {
            let _gone = writeln!(file, "{line}");
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
