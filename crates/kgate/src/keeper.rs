//! The keeper of `kgate run`: acquires a permit at a node and holds it.
//!
//! It works on its own thread, which starts before there is a request, and with its own session. On
//! one machine, where permits are bound to processes and not to time, it also locks the files of
//! its slots. CMD inherits the locks, so a slot is free only when all processes of the tree are
//! gone.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use kgate_client::{
    Address, Client, Error, ErrorKind, GuardedProcesses, Lease, Once, Permit, Process,
    SessionToken, local,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::credentials::CredentialArgs;
use crate::nested;
use crate::run::INHERITED_MAX;
use crate::run::keeper::{
    AcquireRequest, EventSender, Granted, Keeper, KeeperEvent, Refusal, RefusalKind, ThirdKiller,
    Wait, Weight,
};
use crate::run::margins::Margins;
use crate::runtime::runtime;
use crate::waiting;

/// How often a permit is acquired whose lock cannot be taken.
const LOCK_ATTEMPTS: u32 = 5;

/// A keeper without a request.
pub(crate) fn open() -> Box<dyn Keeper> {
    Box::new(NodeKeeper::default())
}

#[derive(Default)]
struct NodeKeeper {
    /// The thread, once it is started.
    thread: Option<io::Result<Thread>>,
}

/// The way to the thread.
struct Thread {
    requests: mpsc::UnboundedSender<(AcquireRequest, EventSender)>,
    release: mpsc::UnboundedSender<()>,
}

impl Thread {
    fn start() -> io::Result<Self> {
        let (requests, mut requested) = mpsc::unbounded_channel::<(AcquireRequest, EventSender)>();
        let (release, released) = mpsc::unbounded_channel();
        let main = move || {
            let mut asked = None;
            let served = catch_unwind(AssertUnwindSafe(|| -> io::Result<()> {
                runtime()?.block_on(async {
                    if let Some((request, events)) = requested.recv().await {
                        asked = Some(events.clone());
                        // Boxed: on its way into the runtime it would be copied several times,
                        // each time to pages of the stack that were not touched before.
                        Box::pin(hold(&request, &events, released)).await;
                    }
                });
                Ok(())
            }));
            // Otherwise the guard would wait for ever. tokio panics without a free descriptor.
            let failure = match served {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(_panic) => {
                    "the thread that asks the node has panicked (above it says why): if \
                                no file could be opened, raise `ulimit -n`"
                        .to_owned()
                }
            };
            let events = asked.or_else(|| requested.blocking_recv().map(|(_, events)| events));
            if let Some(events) = events {
                refuse(&events, failure);
            }
        };
        std::thread::Builder::new().name("keeper".into()).spawn(main)?;
        Ok(Self { requests, release })
    }
}

impl Keeper for NodeKeeper {
    fn prepare(&mut self) {
        self.thread.get_or_insert_with(Thread::start);
    }

    fn acquire(&mut self, request: &AcquireRequest, events: EventSender) {
        match self.thread.get_or_insert_with(Thread::start) {
            Ok(thread) => drop(thread.requests.send((request.clone(), events))),
            Err(error) => refuse(&events, error.to_string()),
        }
    }

    fn release(&mut self) {
        if let Some(Ok(thread)) = &self.thread {
            let _ = thread.release.send(());
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
        acquired = acquire_locked(request, events) => acquired,
        _ = release.recv() => return events.send(KeeperEvent::Released),
    };
    let (acquired, granted) = match acquired {
        Ok(acquired) => acquired,
        Err(refusal) => {
            events.send(KeeperEvent::Refused(refusal));
            release.recv().await;
            return events.send(KeeperEvent::Released);
        }
    };
    let mut until = acquired.client.valid_until();
    events.send(KeeperEvent::Renewed(*until.borrow_and_update()));
    events.send(KeeperEvent::Granted(granted));
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

/// Acquires a permit and its locks. A node that restarts between the grant and the lock has ended
/// the grant, and is asked again.
async fn acquire_locked(
    request: &AcquireRequest,
    events: &EventSender,
) -> Result<(Acquired, Granted), Refusal> {
    let mut attempts = LOCK_ATTEMPTS;
    loop {
        let acquired = acquire(request, events).await?;
        attempts -= 1;
        match granted(&acquired) {
            Ok(granted) => {
                let Err(refusal) = use_key(request, &acquired.permit).await else {
                    return Ok((acquired, granted));
                };
                // The node waits for the locks before it confirms the release.
                drop(granted);
                let Acquired { client, permit, .. } = acquired;
                let _expires = permit.release().await;
                client.close().await;
                return Err(refusal);
            }
            Err(error) if attempts == 0 => {
                let message = format!("{error:#}: the node restarts again and again; try again");
                return Err(Refusal { kind: RefusalKind::Unavailable, message });
            }
            Err(_) => {
                let Acquired { client, permit, .. } = acquired;
                drop(permit);
                client.close().await;
            }
        }
    }
}

/// Uses the key of `--once` under the permit. Without it nothing may start.
async fn use_key(request: &AcquireRequest, permit: &Permit) -> Result<(), Refusal> {
    let Some(once) = &request.once else { return Ok(()) };
    let (kind, message) = match permit.mark_once(&once.key, once.ttl).await {
        Ok(Once::First) => return Ok(()),
        Ok(Once::UsedBy(by)) => {
            let (key, gate) = (&once.key, &request.gate);
            let text = format!("not run: key `{key}` of gate `{gate}` was used before, by {by}");
            (RefusalKind::Done, text)
        }
        Err(error) => {
            // The permit was lost meanwhile: another attempt may succeed.
            let is_lost = error.kind() == ErrorKind::PermitNotFound;
            let Refusal { kind, message } = refusal(error);
            let kind = if is_lost { RefusalKind::Unavailable } else { kind };
            (kind, format!("not run, because its key could not be used: {message}"))
        }
    };
    Err(Refusal { kind, message })
}

async fn acquire(request: &AcquireRequest, events: &EventSender) -> Result<Acquired, Refusal> {
    let no_node = || Refusal {
        kind: RefusalKind::Unavailable,
        message: "no node: name one with --node".into(),
    };
    let node = request.node.clone().ok_or_else(no_node)?;
    let place = Place { node, credentials: request.credentials.clone() };
    let address = place.credentials.at(&place.node).map_err(refusal)?;
    let front = rustix::process::getppid().map_or(0, pid);
    let process = match address.socket() {
        Some(_) => Process::without_user(front, request.command.as_str()),
        None => Process::new(front, request.command.as_str()),
    };
    let control_group = request.control_group.clone();
    let guarded = GuardedProcesses { front_pid: front, control_group };
    let client =
        Client::connect_guarded(&address, process.clone(), guarded).await.map_err(refusal)?;
    let inherits = client.lease().length.is_none();
    match (request.weight, request.slots.k()) {
        (Weight::Slots(weight), _) | (Weight::All, Some(weight)) if inherits => {
            check_weight(weight, &request.gate)?;
        }
        (Weight::Slots(_) | Weight::All, _) => {}
    }
    let margins = margins_in(client.lease(), request.grace)?;
    let needs = margins.grace + margins.kill;
    let gate = client.gate(&request.gate).min_remaining(needs);
    let mut gate = match request.weight {
        Weight::Slots(weight) => gate.weight(weight),
        Weight::All => gate.exclusive(),
    };
    gate = request.slots.apply(gate).reason(&request.note.reason);
    for (key, value) in &request.note.meta {
        gate = gate.meta(key, value);
    }
    let permit = match request.wait {
        Wait::No => gate.try_acquire().await.map_err(refusal)?,
        Wait::ForEver | Wait::AtMost(_) => Some(tokio::select! {
            biased;
            permit = gate.acquire() => permit.map_err(refusal)?,
            never = waiting::report(&address, &request.gate, &process, events),
                if request.reports_wait => match never {},
        }),
    };
    let message = || {
        // Where permits are bound to processes, the node is the only one, and has answered.
        let other = if inherits { "" } else { ", or a node does not answer" };
        let gate = &request.gate;
        format!("no free slots at gate `{gate}`{other}: see kgate explain {gate}")
    };
    let permit = permit.ok_or_else(|| Refusal { kind: RefusalKind::Busy, message: message() })?;
    if inherits && request.weight == Weight::All {
        // The gate's k was not known before.
        check_weight(permit.k(), &request.gate)?;
    }
    Ok(Acquired { client, place, permit, margins })
}

/// Where permits are bound to processes, CMD inherits the lock of each slot.
fn check_weight(weight: u32, gate: &str) -> Result<(), Refusal> {
    if usize::try_from(weight).is_ok_and(|weight| weight <= INHERITED_MAX) {
        return Ok(());
    }
    let message = format!(
        "{weight} slots of gate `{gate}`: on a node without a cluster a command inherits the lock \
         of each of its slots, and at most {INHERITED_MAX} can be passed; use fewer slots"
    );
    Err(Refusal { kind: RefusalKind::Usage, message })
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
    let folder = address.as_ref().and_then(Address::socket).and_then(Path::parent);
    let inherited = match folder {
        Some(folder) if !permit.lock_files().is_empty() => {
            let locks = permit.lock_files().iter().map(|file| lock(&folder.join(file)));
            let locks = locks.collect::<anyhow::Result<_>>()?;
            permit.bind_to_lock();
            locks
        }
        Some(_) | None => Vec::new(),
    };
    let variables = nested::variable(permit.gate(), &place.node, permit.reentry_key());
    Ok(Granted {
        variables: variables.into_iter().collect(),
        slots,
        slot_names: permit.slot_names().to_vec(),
        fence: permit.fence().unwrap_or(0),
        k: permit.k(),
        node: permit.node().to_string(),
        third_killer: third_killer(client),
        margins: *margins,
        release_token,
        inherited,
    })
}

/// Whether the node ends CMD if this process and its parent are frozen. A permit that is bound to
/// processes needs that not.
fn third_killer(client: &Client) -> ThirdKiller {
    if client.lease().length.is_none() {
        return ThirdKiller::NotNeeded;
    }
    match client.guarded() {
        Ok(()) => ThirdKiller::Node,
        Err("") => ThirdKiller::Absent("the node is of an older version".to_owned()),
        Err(reason) => ThirdKiller::Absent(reason.to_owned()),
    }
}

/// Locks the file of a slot. It is there and free, or the node has ended the grant meanwhile.
fn lock(file: &Path) -> anyhow::Result<OwnedFd> {
    let locked = local::lock_file(file);
    Ok(locked.with_context(|| format!("cannot lock {}", file.display()))?.into())
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

    /// The future of a holder is small: its bytes are stack that each start of `kgate run` touches
    /// for the first time, and those of gRPC, which is not needed on one machine, are many.
    #[test]
    fn the_future_of_a_holder_is_small() {
        let (events, _) = crate::run::keeper::event_channel().unwrap();
        let request = AcquireRequest {
            gate: String::new(),
            node: None,
            credentials: CredentialArgs::default(),
            command: String::new(),
            slots: crate::run::wanted::WantedSlots::default(),
            note: kgate_node::core::Note::default(),
            once: None,
            weight: Weight::All,
            wait: Wait::ForEver,
            cgroup: crate::run::keeper::UseCgroup::Off,
            control_group: None,
            grace: None,
            reports_wait: true,
        };
        let holds = hold(&request, &events, mpsc::unbounded_channel().1);
        assert!(size_of_val(&holds) < 16 << 10, "{} bytes", size_of_val(&holds));
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
