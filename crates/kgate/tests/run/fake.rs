//! A keeper that the environment and a pipe control, and that logs its calls.
//!
//! `FAKE_ANSWER`: grant, busy, unavailable, conflict, silence. `FAKE_LEASE_MS`: the lease of a
//! renewal (default: for ever); it renews four times as often. `FAKE_CONTROL`: a named pipe; `lost`
//! reports a loss, `silence` stops renewing, `grant` grants, `waiting` reports a wait. `FAKE_LOG`:
//! lines `requested ..`, `granted`, `released by ..`, with the state of the lock on `FAKE_MARKER`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::fixture::is_free;
use crate::run::keeper::{
    AcquireRequest, EventSender, Granted, Keeper, KeeperEvent, Refusal, RefusalKind, ThirdKiller,
    Weight,
};
use crate::run::lease_clock::LeaseInstant;
use crate::run::margins::Margins;
use crate::run::waiting::{Holder, WaitReport};

#[derive(Default)]
struct Fake {
    events: Option<EventSender>,
    commands: Option<Sender<String>>,
}

pub(crate) fn open() -> Box<dyn Keeper> {
    Box::new(Fake::default())
}

impl Keeper for Fake {
    fn acquire(&mut self, request: &AcquireRequest, events: EventSender) {
        // Opened for reading and writing, so that it neither waits for a writer nor ends with the
        // first one; and before the request is logged.
        let open =
            |path| File::options().read(true).write(true).open(path).expect("the control pipe");
        let control = variable("FAKE_CONTROL").map(open);
        log(&format!("requested {} {:?} {}", request.gate, request.slots.k(), weight(request)));
        if let Some(path) = variable("FAKE_COMMAND") {
            std::fs::write(path, &request.command).expect("written");
        }
        self.events = Some(events.clone());
        let (commands, inbox) = channel();
        self.commands = Some(commands.clone());
        if let Some(pipe) = control {
            let commands = commands.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let _gone = commands.send(line);
                }
            });
        }
        let request = request.clone();
        std::thread::spawn(move || {
            let lease = variable("FAKE_LEASE_MS")
                .map(|ms| Duration::from_millis(ms.parse().expect("a number")));
            let renew = |at: LeaseInstant| {
                events.send(KeeperEvent::Renewed(
                    lease.map_or(LeaseInstant::FOR_EVER, |lease| at + lease),
                ));
            };
            renew(LeaseInstant::now());
            answer(&variable("FAKE_ANSWER").unwrap_or("grant".to_owned()), &request, &events);
            let mut renews = lease.is_some();
            loop {
                let pause =
                    if renews { lease.unwrap_or_default() / 4 } else { Duration::from_secs(3600) };
                match inbox.recv_timeout(pause).as_deref() {
                    Ok("lost") => events.send(KeeperEvent::Lost("by the test".to_owned())),
                    Ok("waiting") => events.send(KeeperEvent::Waiting(waiting())),
                    Ok("silence") => {
                        renews = false;
                        log("silent");
                    }
                    Ok(other) => answer(other, &request, &events),
                    Err(RecvTimeoutError::Timeout) if renews => renew(LeaseInstant::now()),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
    }

    fn release(&mut self) {
        log(&format!("released by guard, {}", marker()));
        self.events.as_ref().expect("requested before").send(KeeperEvent::Released);
    }

    fn release_orphaned(&mut self, token: &[u8], _limit: Duration) {
        log(&format!("released by front with {}, {}", String::from_utf8_lossy(token), marker()));
    }
}

fn answer(what: &str, request: &AcquireRequest, events: &EventSender) {
    let refuse = |kind, message: &str| {
        events.send(KeeperEvent::Refused(Refusal { kind, message: message.to_owned() }));
    };
    match what {
        "grant" => {
            log("granted");
            events.send(KeeperEvent::Granted(Granted {
                slots: (0..weight(request)).map(|slot| 2 * slot).collect(),
                fence: 0xfeed << 64 | 7,
                slot_names: Vec::new(),
                k: request.slots.k().unwrap_or(3),
                node: "fake-node".to_owned(),
                margins: Margins::fitting(request.grace, Margins::KILL, None)
                    .expect("no limit without a lease"),
                variables: Vec::new(),
                release_token: b"token".to_vec(),
                third_killer: ThirdKiller::NotNeeded,
                inherited: Vec::new(),
            }));
        }
        "busy" => refuse(RefusalKind::Busy, "no free slots"),
        "unavailable" => refuse(RefusalKind::Unavailable, "no quorum"),
        "conflict" => refuse(RefusalKind::Conflict, "k is 5, set by somebody"),
        "silence" => {}
        other => panic!("unknown answer {other}"),
    }
}

/// A report of a wait for somebody whose command is hostile and wide.
fn waiting() -> WaitReport {
    let holder = Holder {
        user: "alice".to_owned(),
        pid: 4711,
        command: "./train.sh \x1b]0;title\x07\n漢字".repeat(40),
        age: Duration::from_secs(125),
    };
    WaitReport { holder: Some(holder), place: Some((2, 3)), ..WaitReport::default() }
}

/// The fake gate has three slots.
fn weight(request: &AcquireRequest) -> u32 {
    match request.weight {
        Weight::Slots(weight) => weight,
        Weight::All => request.slots.k().unwrap_or(3),
    }
}

/// Whether a process of the tree still holds the marker.
fn marker() -> &'static str {
    match variable("FAKE_MARKER").map(PathBuf::from) {
        Some(marker) if marker.exists() && !is_free(&marker) => "marker HELD",
        Some(_) | None => "marker free",
    }
}

fn log(line: &str) {
    if let Some(path) = variable("FAKE_LOG") {
        // A failed test may have removed the directory.
        if let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(path) {
            let _gone = writeln!(file, "{line}");
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
