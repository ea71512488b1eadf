//! The keeper of `kgate run`: asks a node, and holds what it is granted.
//!
//! It works on a thread of its own, with a session of its own. On one machine, where permits are
//! bound to processes and not to time, it also locks the files of its slots; CMD inherits the
//! locks, so a slot is free only when all of them are gone.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use kgate_client::{
    Address, Client, Error, ErrorKind, Lease, LeaseInstant, Permit, Process, SessionToken,
};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::credentials::CredentialArgs;
use crate::run::keeper::{Granted, Keeper, Mail, News, Refusal, RefusalKind, Wait, Wish};
use crate::run::margins::Margins;

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
        let begun =
            std::thread::Builder::new().name("keeper".into()).spawn(move || match runtime() {
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
        let Some((ticket, place)) = ticket.split_at_checked(SessionToken::LEN) else { return };
        let (Some(ticket), Ok(place)) =
            (SessionToken::from_bytes(ticket), serde_json::from_slice::<Place>(place))
        else {
            return;
        };
        let Ok(address) = place.credentials.at(&place.node) else { return };
        if let Ok(runtime) = runtime() {
            // If nobody answers, the node finds out by itself when the session's time has passed.
            let _ = runtime.block_on(async {
                tokio::time::timeout(limit, Client::end_session(address, ticket)).await
            });
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
    let asked = match asked {
        Ok(got) => got,
        Err(refusal) => {
            mail.post(News::Refused(refusal));
            release.recv().await;
            return mail.post(News::Released);
        }
    };
    let mut until = asked.client.valid_until();
    mail.post(News::Renewed(*until.borrow_and_update()));
    match granted(&asked) {
        Ok(granted) => mail.post(News::Granted(granted)),
        Err(text) => refuse(mail, RefusalKind::Broken, text),
    }
    let mut told = false;
    loop {
        tokio::select! {
            _ = release.recv() => break,
            why = asked.permit.lost(), if !told => {
                mail.post(News::Lost(why.to_string()));
                told = true;
            }
            changed = until.changed(), if !told => {
                if changed.is_ok() {
                    mail.post(News::Renewed(*until.borrow_and_update()));
                }
            }
        }
    }
    let _ = asked.permit.release().await;
    mail.post(News::Released);
}

/// What came of a wish.
struct Asked {
    client: Client,
    place: Place,
    permit: Permit,
    margins: Margins,
}

async fn ask(wish: &Wish) -> Result<Asked, Refusal> {
    let nowhere = || Refusal {
        kind: RefusalKind::NoQuorum,
        text: "no node to ask: name one with --node".into(),
    };
    let node = wish.node.clone().ok_or_else(nowhere)?;
    let place = Place { node, credentials: wish.credentials.clone() };
    let address = place.credentials.at(&place.node).map_err(refusal)?;
    let process = Process::new(rustix::process::getppid().map_or(0, pid), wish.command.as_str());
    let client = Client::connect_as(address, process).await.map_err(refusal)?;
    let margins = margins_in(client.lease(), wish.grace)?;
    let needs = margins.grace + margins.kill;
    let mut gate = client.gate(&wish.gate).weight(wish.permits).min_remaining(needs);
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
    Ok(Asked { client, place, permit, margins })
}

fn pid(pid: rustix::process::Pid) -> u32 {
    u32::try_from(pid.as_raw_pid()).unwrap_or(0)
}

/// LEASES section 1: what the node's lease leaves to whoever must stop in time. A grace that was
/// asked for and does not fit would kill too late.
fn margins_in(lease: Lease, wished: Option<Duration>) -> Result<Margins, Refusal> {
    let Lease { length, stop_max: most, .. } = lease;
    let kill = lease.kill.unwrap_or(Margins::KILL);
    Margins::fitting(wished, kill, most).ok_or_else(|| {
        let (length, most) = (length.unwrap_or(Duration::MAX), most.unwrap_or(Duration::MAX));
        let grace = wished.map_or_else(|| "no grace fits".into(), |grace| format!("--grace {grace:?} does not fit"));
        let advice = match most.checked_sub(kill) {
            Some(fits) => format!(
                "give --grace {}ms or less, or ask for a longer lease in [timing] of the nodes",
                fits.as_millis()
            ),
            None => "no grace does: ask for a longer lease in [timing] of the nodes".to_owned(),
        };
        let text = format!(
            "{grace}: the node's lease is {length:?}, of which {:?} are for renewals and {kill:?} to kill what is left; {advice}",
            length.saturating_sub(most)
        );
        Refusal { kind: RefusalKind::Misuse, text }
    })
}

fn refusal(error: Error) -> Refusal {
    let text = error.to_string();
    let kind = match error.kind() {
        ErrorKind::Unreachable | ErrorKind::NodeGone | ErrorKind::NoQuorum => RefusalKind::NoQuorum,
        ErrorKind::Busy | ErrorKind::LimitExceeded | ErrorKind::TimedOut => RefusalKind::Occupied,
        ErrorKind::Conflict => RefusalKind::KConflict,
        ErrorKind::InvalidAddress
        | ErrorKind::BadRequest
        | ErrorKind::TooLarge
        | ErrorKind::GateNotFound
        | ErrorKind::NodeNotFound => RefusalKind::Misuse,
        _ => RefusalKind::Broken,
    };
    Refusal { kind, text }
}

fn granted(asked: &Asked) -> Result<Granted, String> {
    let Asked { client, place, permit, margins } = asked;
    let mut ticket = client.session_token().to_bytes().to_vec();
    ticket.extend(serde_json::to_vec(place).map_err(|error| error.to_string())?);
    let slots = if permit.slots().is_empty() { vec![0] } else { permit.slots().to_vec() };
    let address: Option<Address> = place.node.parse().ok();
    let inherited = match address.as_ref().and_then(Address::socket) {
        Some(socket) if *client.valid_until().borrow() == LeaseInstant::FOR_EVER => {
            let folder = socket.parent().unwrap_or(Path::new("/"));
            let locks = slots.iter().map(|slot| lock(folder, permit.gate(), *slot));
            let locks = locks.collect::<Result<_, _>>()?;
            permit.bind_to_lock();
            locks
        }
        Some(_) | None => Vec::new(),
    };
    Ok(Granted {
        slots,
        fence: permit.fence().unwrap_or(0),
        k: permit.k(),
        node: permit.node().to_string(),
        margins: *margins,
        ticket,
        inherited,
    })
}

/// Locks the file of a slot. It is free, or the node would not have granted it.
fn lock(folder: &Path, gate: &str, slot: u32) -> Result<OwnedFd, String> {
    let file = kgate_node::lock_slot(folder, gate, slot)
        .map_err(|error| format!("cannot lock the file of slot {slot} of {gate}, below {}: {error}; does somebody have it who should not?", folder.display()))?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(length: u64, stop_max: u64, kill: u64) -> Lease {
        let ms = Duration::from_millis;
        Lease {
            length: Some(ms(length)),
            renew_every: ms(500),
            stop_max: Some(ms(stop_max)),
            kill: Some(ms(kill)),
        }
    }

    /// LEASES section 1: a grace that fits into the node's lease is taken, one that is a
    /// millisecond longer is refused with the numbers; the usual one shrinks.
    #[test]
    fn a_grace_must_fit_into_the_lease() {
        let ms = Duration::from_millis;
        let (default, fast) = (lease(4000, 1600, 250), lease(700, 300, 80));
        assert_eq!(
            margins_in(default, Some(ms(1350))),
            Ok(Margins { grace: ms(1350), kill: ms(250) })
        );
        assert_eq!(margins_in(default, None), Ok(Margins { grace: ms(1000), kill: ms(250) }));
        assert_eq!(margins_in(fast, None), Ok(Margins { grace: ms(220), kill: ms(80) }));
        let refused = margins_in(fast, Some(ms(221))).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Misuse);
        for part in [
            "--grace 221ms does not fit",
            "lease is 700ms",
            "400ms are for renewals",
            "80ms to kill",
            "--grace 220ms or less",
        ] {
            assert!(refused.text.contains(part), "{part}: {}", refused.text);
        }
        for wished in [None, Some(ms(0))] {
            let none = margins_in(lease(700, 200, 250), wished).unwrap_err();
            assert!(none.text.contains("no grace does"), "{}", none.text);
        }
        let endless =
            Lease { length: None, stop_max: None, kill: None, renew_every: Duration::ZERO };
        assert_eq!(
            margins_in(endless, Some(ms(1_000_000))).map(|margins| margins.kill),
            Ok(Margins::KILL)
        );
    }

    /// Each refusal of a node has its kind; without a quorum the text says so.
    #[test]
    fn no_quorum_is_told() {
        let refused = |kind, text: &str| refusal(Error::new(kind, text));
        let no_quorum = refused(ErrorKind::NoQuorum, "no quorum: p1 and p2 do not answer");
        assert_eq!(no_quorum.kind, RefusalKind::NoQuorum);
        assert!(no_quorum.text.contains("no quorum"));
        assert_eq!(refused(ErrorKind::Conflict, "").kind, RefusalKind::KConflict);
        assert_eq!(refused(ErrorKind::Busy, "").kind, RefusalKind::Occupied);
    }
}
