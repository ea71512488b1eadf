//! The keeper of `kgate run`: acquires a permit at a node and holds it.
//!
//! It works on its own thread, with its own session. On one machine, where permits are bound to
//! processes and not to time, it also locks the files of its slots. CMD inherits the locks, so a
//! slot is free only when all processes of the tree are gone.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use kgate_client::{
    Address, Client, Error, ErrorKind, Lease, LeaseInstant, Permit, Process, SessionToken,
};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::credentials::CredentialArgs;
use crate::run::keeper::{
    AcquireRequest, EventSender, Granted, Keeper, KeeperEvent, Refusal, RefusalKind, Wait,
};
use crate::run::margins::Margins;

/// A keeper without a request.
pub(crate) fn open() -> Box<dyn Keeper> {
    Box::new(NodeKeeper { release: None })
}

struct NodeKeeper {
    release: Option<mpsc::UnboundedSender<()>>,
}

impl Keeper for NodeKeeper {
    fn acquire(&mut self, request: &AcquireRequest, events: EventSender) {
        let (release, released) = mpsc::unbounded_channel();
        self.release = Some(release);
        let request = request.clone();
        let own_events = events.clone();
        let spawned =
            std::thread::Builder::new().name("keeper".into()).spawn(move || match runtime() {
                Ok(runtime) => runtime.block_on(hold(&request, &events, released)),
                Err(error) => refuse(&events, error.to_string()),
            });
        if let Err(error) = spawned {
            refuse(&own_events, error.to_string());
        }
    }

    fn release(&mut self) {
        if let Some(release) = &self.release {
            let _ = release.send(());
        }
    }

    fn release_orphaned(&mut self, token: &[u8], limit: Duration) {
        let Some((session, place)) = token.split_at_checked(SessionToken::LEN) else { return };
        let (Some(session), Ok(place)) =
            (SessionToken::from_bytes(session), serde_json::from_slice::<Place>(place))
        else {
            return;
        };
        let Ok(address) = place.credentials.at(&place.node) else { return };
        if let Ok(runtime) = runtime() {
            // Without an answer the session expires at the node.
            let _ = runtime.block_on(async {
                tokio::time::timeout(limit, Client::end_session(address, session)).await
            });
        }
    }
}

/// The node of a permit: the second part of a release token.
#[derive(Debug, Deserialize, Serialize)]
struct Place {
    node: String,
    credentials: CredentialArgs,
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Reports an internal error.
fn refuse(events: &EventSender, message: String) {
    events.send(KeeperEvent::Refused(Refusal { kind: RefusalKind::Internal, message }));
}

/// Acquires, holds and releases the permit, and reports every step as an event.
async fn hold(
    request: &AcquireRequest,
    events: &EventSender,
    mut release: mpsc::UnboundedReceiver<()>,
) {
    let acquired = tokio::select! {
        acquired = acquire(request) => acquired,
        _ = release.recv() => return events.send(KeeperEvent::Released),
    };
    let acquired = match acquired {
        Ok(acquired) => acquired,
        Err(refusal) => {
            events.send(KeeperEvent::Refused(refusal));
            release.recv().await;
            return events.send(KeeperEvent::Released);
        }
    };
    let mut until = acquired.client.valid_until();
    events.send(KeeperEvent::Renewed(*until.borrow_and_update()));
    match granted(&acquired) {
        Ok(granted) => events.send(KeeperEvent::Granted(granted)),
        Err(error) => refuse(events, format!("{error:#}")),
    }
    let mut lost_reported = false;
    loop {
        tokio::select! {
            _ = release.recv() => break,
            reason = acquired.permit.lost(), if !lost_reported => {
                events.send(KeeperEvent::Lost(reason.to_string()));
                lost_reported = true;
            }
            changed = until.changed(), if !lost_reported => {
                if changed.is_ok() {
                    events.send(KeeperEvent::Renewed(*until.borrow_and_update()));
                }
            }
        }
    }
    let _ = acquired.permit.release().await;
    events.send(KeeperEvent::Released);
}

/// A permit with the session that holds it.
struct Acquired {
    client: Client,
    place: Place,
    permit: Permit,
    margins: Margins,
}

async fn acquire(request: &AcquireRequest) -> Result<Acquired, Refusal> {
    let no_node = || Refusal {
        kind: RefusalKind::Unavailable,
        message: "no node: name one with --node".into(),
    };
    let node = request.node.clone().ok_or_else(no_node)?;
    let place = Place { node, credentials: request.credentials.clone() };
    let address = place.credentials.at(&place.node).map_err(refusal)?;
    let process = Process::new(rustix::process::getppid().map_or(0, pid), request.command.as_str());
    let client = Client::connect_as(address, process).await.map_err(refusal)?;
    let margins = margins_in(client.lease(), request.grace)?;
    let needs = margins.grace + margins.kill;
    let mut gate = client.gate(&request.gate).weight(request.weight).min_remaining(needs);
    if let Some(k) = request.k {
        gate = gate.k(k);
    }
    let permit = match request.wait {
        Wait::No => gate.try_acquire().await.map_err(refusal)?,
        Wait::ForEver | Wait::AtMost(_) => Some(gate.acquire().await.map_err(refusal)?),
    };
    let message = || {
        format!(
            "no free slots at gate `{}`, or a node does not answer: see kgate explain {}",
            request.gate, request.gate
        )
    };
    let permit = permit.ok_or_else(|| Refusal { kind: RefusalKind::Busy, message: message() })?;
    Ok(Acquired { client, place, permit, margins })
}

fn pid(pid: rustix::process::Pid) -> u32 {
    u32::try_from(pid.as_raw_pid()).unwrap_or(0)
}

/// LEASES section 1: the margins that fit into the node's lease. With a requested grace that does
/// not fit, KILL would come too late.
fn margins_in(lease: Lease, requested: Option<Duration>) -> Result<Margins, Refusal> {
    let Lease { length, stop_max: max, .. } = lease;
    let kill = lease.kill.unwrap_or(Margins::KILL);
    Margins::fitting(requested, kill, max).ok_or_else(|| {
        let (length, max) = (length.unwrap_or(Duration::MAX), max.unwrap_or(Duration::MAX));
        let grace = requested.map_or_else(
            || "no grace fits".into(),
            |grace| {
                format!(
                    "--grace {grace:?} does not \
             fit"
                )
            },
        );
        let advice = match max.checked_sub(kill) {
            Some(fits) => format!(
                "use --grace {}ms or less, or configure a longer lease in [timing] of the nodes",
                fits.as_millis()
            ),
            None => "configure a longer lease in [timing] of the nodes".to_owned(),
        };
        let message = format!(
            "{grace}: the node's lease is {length:?}, of which {:?} are for renewals and {kill:?} \
             for \
             KILL; {advice}",
            length.saturating_sub(max)
        );
        Refusal { kind: RefusalKind::Usage, message }
    })
}

fn refusal(error: Error) -> Refusal {
    let message = error.to_string();
    let kind = match error.kind() {
        ErrorKind::Unreachable | ErrorKind::NodeGone | ErrorKind::NoQuorum => {
            RefusalKind::Unavailable
        }
        ErrorKind::Busy | ErrorKind::LimitExceeded | ErrorKind::TimedOut => RefusalKind::Busy,
        ErrorKind::Conflict => RefusalKind::Conflict,
        ErrorKind::InvalidAddress
        | ErrorKind::BadRequest
        | ErrorKind::TooLarge
        | ErrorKind::GateNotFound
        | ErrorKind::NodeNotFound => RefusalKind::Usage,
        ErrorKind::Credentials
        | ErrorKind::SessionNotFound
        | ErrorKind::PermitNotFound
        | ErrorKind::Unauthenticated
        | ErrorKind::PermissionDenied
        | ErrorKind::Protocol
        | _ => RefusalKind::Internal,
    };
    Refusal { kind, message }
}

fn granted(acquired: &Acquired) -> anyhow::Result<Granted> {
    let Acquired { client, place, permit, margins } = acquired;
    let mut release_token = client.session_token().to_bytes().to_vec();
    release_token.extend(serde_json::to_vec(place)?);
    let slots = if permit.slots().is_empty() { vec![0] } else { permit.slots().to_vec() };
    let address: Option<Address> = place.node.parse().ok();
    let inherited = match address.as_ref().and_then(Address::socket) {
        Some(socket) if *client.valid_until().borrow() == LeaseInstant::FOR_EVER => {
            let folder = socket.parent().unwrap_or(Path::new("/"));
            let locks = slots.iter().map(|slot| lock(folder, permit.gate(), *slot));
            let locks = locks.collect::<anyhow::Result<_>>()?;
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
        release_token,
        inherited,
    })
}

/// Locks the file of a slot. It is free, or the node would not have granted the slot.
fn lock(folder: &Path, gate: &str, slot: u32) -> anyhow::Result<OwnedFd> {
    let file = kgate_node::lock_slot(folder, gate, slot).with_context(|| {
        format!(
            "cannot lock the file of slot {slot} of gate {gate} below {}: another process may hold \
             it",
            folder.display()
        )
    })?;
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

    /// LEASES section 1: a grace that fits into the node's lease is used, one that is a millisecond
    /// longer is refused with the numbers; the default grace shrinks.
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
        assert_eq!(refused.kind, RefusalKind::Usage);
        for part in [
            "--grace 221ms does not fit",
            "lease is 700ms",
            "400ms are for renewals",
            "80ms for KILL",
            "--grace 220ms or less",
        ] {
            assert!(refused.message.contains(part), "{part}: {}", refused.message);
        }
        for requested in [None, Some(ms(0))] {
            let none = margins_in(lease(700, 200, 250), requested).unwrap_err();
            assert_eq!(none.kind, RefusalKind::Usage);
            assert!(!none.message.contains("or less"), "{}", none.message);
        }
        let endless =
            Lease { length: None, stop_max: None, kill: None, renew_every: Duration::ZERO };
        assert_eq!(
            margins_in(endless, Some(ms(1_000_000))).map(|margins| margins.kill),
            Ok(Margins::KILL)
        );
    }

    /// Each refusal of a node has its kind.
    #[test]
    fn refusals_of_a_node_have_their_kinds() {
        let refused = |kind, text: &str| refusal(Error::new(kind, text));
        let no_quorum = refused(ErrorKind::NoQuorum, "no quorum: p1 and p2 do not answer");
        assert_eq!(no_quorum.kind, RefusalKind::Unavailable);
        assert!(no_quorum.message.contains("no quorum"));
        assert_eq!(refused(ErrorKind::Conflict, "").kind, RefusalKind::Conflict);
        assert_eq!(refused(ErrorKind::Busy, "").kind, RefusalKind::Busy);
    }
}
