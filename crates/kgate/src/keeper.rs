//! The keeper of `kgate run`: asks a node, and holds what it is granted.
//!
//! It works on a thread of its own, with a session of its own. On one machine, where permits are bound to processes and not to time, it also locks the files of
//! its slots; CMD inherits the locks, so a slot is free only when all of them are gone.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use kgate_client::{Address, Client, Error, LeaseInstant, Permit, Ticket, api};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::credentials::CredentialArgs;
use crate::run::keeper::{Granted, Keeper, Mail, News, Refusal, RefusalKind, Wait, Wish};

/// So much must be left of what a node promises beyond grace and kill: two renewals may be lost, and what is on its way takes a while.
const RENEWALS: Duration = Duration::from_millis(2_000);

/// A keeper of a node, not yet asked.
pub(crate) fn open() -> Box<dyn Keeper> {
    Box::new(NodeKeeper { release: None })
}

struct NodeKeeper {
    release: Option<mpsc::UnboundedSender<()>>,
}

impl Keeper for NodeKeeper {
    fn ask(&mut self, wish: &Wish, mail: Mail) {
        let (release, released) = mpsc::unbounded_channel();
        self.release = Some(release);
        let wish = wish.clone();
        let post = mail.clone();
        let begun = std::thread::Builder::new().name("keeper".into()).spawn(move || match runtime() {
            Ok(runtime) => runtime.block_on(keep(&wish, &mail, released)),
            Err(error) => refuse(&mail, RefusalKind::Broken, error.to_string()),
        });
        if let Err(error) = begun {
            refuse(&post, RefusalKind::Broken, error.to_string());
        }
    }

    fn release(&mut self) {
        if let Some(release) = &self.release {
            let _ = release.send(());
        }
    }

    fn release_for_the_dead(&mut self, ticket: &[u8], limit: Duration) {
        let Some((ticket, place)) = ticket.split_at_checked(24) else { return };
        let (Some(ticket), Ok(place)) = (Ticket::from_bytes(ticket), serde_json::from_slice::<Place>(place))
        else {
            return;
        };
        let Ok(address) = place.credentials.at(&place.node) else { return };
        if let Ok(runtime) = runtime() {
            // If nobody answers, the node finds out by itself when the session's time has passed.
            let _ =
                runtime.block_on(async { tokio::time::timeout(limit, Client::end(address, ticket)).await });
        }
    }
}

/// Where a permit is held, written behind its ticket.
#[derive(Debug, Deserialize, Serialize)]
struct Place {
    node: String,
    credentials: CredentialArgs,
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn refuse(mail: &Mail, kind: RefusalKind, text: String) {
    mail.post(News::Refused(Refusal { kind, text }));
}

/// Asks, holds and gives back; all that happens goes by mail.
async fn keep(wish: &Wish, mail: &Mail, mut release: mpsc::UnboundedReceiver<()>) {
    let asked = tokio::select! {
        asked = ask(wish) => asked,
        _ = release.recv() => return mail.post(News::Released),
    };
    let (client, place, permit) = match asked {
        Ok(got) => got,
        Err(refusal) => {
            mail.post(News::Refused(refusal));
            release.recv().await;
            return mail.post(News::Released);
        }
    };
    let mut until = client.until();
    mail.post(News::Renewed(*until.borrow_and_update()));
    match granted(&client, &place, &permit) {
        Ok(granted) => mail.post(News::Granted(granted)),
        Err(text) => refuse(mail, RefusalKind::Broken, text),
    }
    let mut told = false;
    loop {
        tokio::select! {
            _ = release.recv() => break,
            why = permit.lost(), if !told => {
                mail.post(News::Lost(why));
                told = true;
            }
            changed = until.changed(), if !told => {
                if changed.is_ok() {
                    mail.post(News::Renewed(*until.borrow_and_update()));
                }
            }
        }
    }
    permit.release().await;
    mail.post(News::Released);
}

async fn ask(wish: &Wish) -> Result<(Client, Place, Permit), Refusal> {
    let nowhere =
        || Refusal { kind: RefusalKind::NoQuorum, text: "no node to ask: name one with --node".into() };
    let node = wish.node.clone().ok_or_else(nowhere)?;
    let place = Place { node, credentials: wish.credentials.clone() };
    let address = place.credentials.at(&place.node).map_err(refusal)?;
    let process = kgate_client::process(rustix::process::getppid().map_or(0, pid), &wish.command);
    let client = Client::connect_for(address, process).await.map_err(refusal)?;
    check_margins(wish, *client.until().borrow())?;
    let mut gate = client.gate(&wish.gate).permits(wish.permits);
    if let Some(k) = wish.k {
        gate = gate.k(k);
    }
    let permit = match wish.wait {
        Wait::No => gate.try_acquire().await.map_err(refusal)?,
        Wait::ForEver | Wait::AtMost(_) => Some(gate.acquire().await.map_err(refusal)?),
    };
    let text = || {
        format!(
            "all permits of `{}` are in use, or a node does not answer: kgate explain {}",
            wish.gate, wish.gate
        )
    };
    let permit = permit.ok_or_else(|| Refusal { kind: RefusalKind::Occupied, text: text() })?;
    Ok((client, place, permit))
}

fn pid(pid: rustix::process::Pid) -> u32 {
    u32::try_from(pid.as_raw_pid()).unwrap_or(0)
}

/// A grace that does not fit into what the node promises would kill too late.
fn check_margins(wish: &Wish, until: LeaseInstant) -> Result<(), Refusal> {
    let promised = until.after(LeaseInstant::now());
    let needed = wish.margins.grace + wish.margins.kill + RENEWALS;
    if until == LeaseInstant::FOR_EVER || needed <= promised + Duration::from_millis(500) {
        return Ok(());
    }
    let text = format!(
        "--grace {:?} does not fit: the node promises a permit for {promised:?} at a time, of which {:?} are needed to kill what is left and {RENEWALS:?} for renewals",
        wish.margins.grace, wish.margins.kill
    );
    Err(Refusal { kind: RefusalKind::Misuse, text })
}

fn refusal(error: Error) -> Refusal {
    let text = error.to_string();
    let kind = match &error {
        Error::NoNode { .. } => RefusalKind::NoQuorum,
        Error::TimedOut(_) => RefusalKind::Occupied,
        Error::Address(_) => RefusalKind::Misuse,
        Error::Credentials(_) => RefusalKind::Broken,
        Error::Refused(refusal) => match refusal.why {
            api::Why::Busy | api::Why::Full => RefusalKind::Occupied,
            api::Why::Conflict => RefusalKind::KConflict,
            api::Why::BadRequest | api::Why::TooLarge | api::Why::NoGate => RefusalKind::Misuse,
            api::Why::NoNode => RefusalKind::NoQuorum,
            api::Why::NoSession | api::Why::Forbidden | api::Why::Unknown => RefusalKind::Broken,
        },
    };
    Refusal { kind, text }
}

fn granted(client: &Client, place: &Place, permit: &Permit) -> Result<Granted, String> {
    let mut ticket = client.ticket().to_bytes().to_vec();
    ticket.extend(serde_json::to_vec(place).map_err(|error| error.to_string())?);
    let slots = if permit.slots().is_empty() { vec![0] } else { permit.slots().to_vec() };
    let address: Option<Address> = place.node.parse().ok();
    let inherited = match address.as_ref().and_then(Address::socket) {
        Some(socket) if *client.until().borrow() == LeaseInstant::FOR_EVER => {
            let folder = socket.parent().unwrap_or(Path::new("/"));
            let locks = slots.iter().map(|slot| lock(folder, permit.gate(), *slot));
            let locks = locks.collect::<Result<_, _>>()?;
            permit.bind();
            locks
        }
        Some(_) | None => Vec::new(),
    };
    Ok(Granted {
        slots,
        fence: permit.fence().unwrap_or(0),
        k: permit.k(),
        node: permit.node().to_string(),
        ticket,
        inherited,
    })
}

/// Locks the file of a slot. It is free, or the node would not have granted it.
fn lock(folder: &Path, gate: &str, slot: u32) -> Result<OwnedFd, String> {
    let path = kgate_node::slot_file(folder, gate, slot);
    let failed = |why: String| format!("cannot lock {}: {why}", path.display());
    let file =
        File::options().create(true).append(true).open(&path).map_err(|error| failed(error.to_string()))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|error| failed(format!("{error}; somebody has it who should not")))?;
    Ok(file.into())
}
