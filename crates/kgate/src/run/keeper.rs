//! The interface between `kgate run` and the side that holds the permit.
//!
//! `kgate run` does no networking. It calls a [`Keeper`], which works on threads of its own and
//! sends every [`KeeperEvent`] through the [`EventSender`] that it was given. The keeper can never
//! block the guard, whose main thread waits for nothing but its descriptors.
//!
//! Rules of a keeper: only `Renewed` makes a permit valid (LEASES S2: a grant does not), so it
//! comes before `Granted`. After `Lost` or `Refused` only `Released` follows. Every call of
//! `release` is answered by `Released`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use kgate_node::core::Note;
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use super::lease_clock::LeaseInstant;
use super::margins::Margins;
use super::waiting::WaitReport;
use super::wanted::WantedSlots;
use crate::credentials::CredentialArgs;

/// Requests, holds and releases a permit at a node.
pub(crate) trait Keeper {
    /// Prepares what needs no request, while the front parses the command line. It may start
    /// threads: the guard calls it after its last fork, and at most once.
    fn prepare(&mut self) {}

    /// Sends the request and returns at once. The result comes as events.
    fn acquire(&mut self, request: &AcquireRequest, events: EventSender);

    /// Releases the permit or withdraws the request, and returns at once; [`KeeperEvent::Released`]
    /// confirms it. Called only when the whole process tree is gone (LEASES S4).
    fn release(&mut self);

    /// Releases the permit of a process that has died, by its token. The tree is gone. Waits at
    /// most `limit`.
    fn release_orphaned(&mut self, token: &[u8], limit: Duration);
}

/// Creates a keeper: each process of `kgate run` that needs one creates its own.
pub(crate) type OpenKeeper = fn() -> Box<dyn Keeper>;

/// A request for a permit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AcquireRequest {
    pub(crate) gate: String,
    /// The node to contact; if none, the one of this machine or user.
    pub(crate) node: Option<String>,
    /// Credentials for the node.
    pub(crate) credentials: CredentialArgs,
    /// The command, shown by `kgate status`.
    pub(crate) command: String,
    /// The slots that the gate must have; a new gate gets them.
    pub(crate) slots: WantedSlots,
    /// What the request says of itself.
    pub(crate) note: Note,
    /// The key that the command uses, after the grant and before it starts.
    pub(crate) once: Option<Once>,
    pub(crate) weight: Weight,
    pub(crate) wait: Wait,
    /// Whether the command gets a control group of its own.
    pub(crate) cgroup: UseCgroup,
    /// The directory of that control group, once the guard has created it.
    pub(crate) control_group: Option<PathBuf>,
    /// Time from TERM to KILL; a grace that does not fit into the node's lease is refused (LEASES
    /// section 1). If none, as much of the default as fits.
    pub(crate) grace: Option<Duration>,
    /// Whether [`KeeperEvent::Waiting`] is shown to somebody.
    pub(crate) reports_wait: bool,
}

/// A key that is used at most once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Once {
    pub(crate) key: String,
    pub(crate) ttl: Duration,
}

/// How many slots to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Weight {
    Slots(u32),
    /// All slots that the gate has at the time of the grant.
    All,
}

/// Whether a command gets a control group (cgroup v2) of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum UseCgroup {
    /// No control group
    Off,
    /// A control group where this user may create one
    Auto,
    /// A control group, or the command is not run
    Require,
}

/// How long to wait for the permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wait {
    ForEver,
    /// The guard withdraws the request after this time; the keeper has no timer.
    AtMost(Duration),
    /// Not at all: without free slots the keeper refuses.
    No,
}

/// A granted permit.
#[derive(Debug)]
pub(crate) struct Granted {
    /// In ascending order, at least one.
    pub(crate) slots: Vec<u32>,
    /// Their names; empty if they have none.
    pub(crate) slot_names: Vec<String>,
    pub(crate) fence: u128,
    pub(crate) k: u32,
    pub(crate) node: String,
    /// Further variables of CMD's environment.
    pub(crate) variables: Vec<(String, String)>,
    /// When the tree is stopped before the deadline, as the node's lease allows.
    pub(crate) margins: Margins,
    /// Token to release the permit if the process that holds it is gone. Empty if that is not
    /// possible.
    pub(crate) release_token: Vec<u8>,
    /// Who ends CMD if front and guard are frozen together.
    pub(crate) third_killer: ThirdKiller,
    /// Descriptors that CMD inherits: on one machine the locks of its slots (LEASES section 6).
    pub(crate) inherited: Vec<OwnedFd>,
}

/// Who ends CMD at the deadline if front and guard are frozen together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ThirdKiller {
    /// The node, on the same machine.
    Node,
    /// Nobody, for this reason.
    Absent(String),
    /// The permit has no deadline: its slots are free when no process of CMD is left.
    NotNeeded,
}

/// Why the request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    /// What failed, why, and what to do.
    pub(crate) message: String,
}

/// The kind of a refusal, which has its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// No free slots with `-n`, or timed out.
    Busy,
    /// No quorum or no node.
    Unavailable,
    /// The gate has another k.
    Conflict,
    /// The request is invalid.
    Usage,
    /// The key of `--once` is used: there is nothing to do.
    Done,
    /// The keeper failed.
    Internal,
}

/// What a keeper reports.
#[derive(Debug)]
pub(crate) enum KeeperEvent {
    /// The session is valid until then. The latest instant of all events counts.
    Renewed(LeaseInstant),
    /// What the request waits for; only before `Granted`, and only if the request asks for it.
    Waiting(WaitReport),
    Granted(Granted),
    Refused(Refusal),
    /// The permit is lost or will not be renewed, for this reason. TERM is due at once.
    Lost(String),
    /// Nothing is held or requested any more.
    Released,
}

/// The sending side of the event channel, for any thread.
#[derive(Clone, Debug)]
pub(crate) struct EventSender {
    sender: Sender<KeeperEvent>,
    wakeup: Arc<OwnedFd>,
}

/// The receiving side of the event channel.
#[derive(Debug)]
pub(crate) struct EventReceiver {
    receiver: Receiver<KeeperEvent>,
    wakeup: Arc<OwnedFd>,
}

/// A channel of events with a descriptor to poll.
pub(crate) fn event_channel() -> io::Result<(EventSender, EventReceiver)> {
    let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    Ok((EventSender { sender, wakeup: wakeup.clone() }, EventReceiver { receiver, wakeup }))
}

impl EventSender {
    /// Sends an event. It is dropped if the receiver is gone.
    pub(crate) fn send(&self, event: KeeperEvent) {
        if self.sender.send(event).is_ok() {
            let _counted = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
        }
    }
}

impl EventReceiver {
    /// Takes all events in order. The wakeup is cleared first, so that a later event sets it again.
    pub(crate) fn take(&self) -> Vec<KeeperEvent> {
        let _count = rustix::io::read(&self.wakeup, &mut [0; 8]);
        self.receiver.try_iter().collect()
    }
}

impl AsFd for EventReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}
