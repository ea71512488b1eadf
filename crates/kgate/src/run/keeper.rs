//! Who holds a permit for us and says until when it surely counts.
//!
//! The machinery of `kgate run` knows no network. It asks a [`Keeper`] and is told by post what
//! became of it: a keeper works on threads of its own and puts [`News`] into the [`Mail`] that it
//! was given. So nothing of it can hold up the guard, whose main thread must never wait for
//! anything but its descriptors.
//!
//! Laws of a keeper: `Renewed` is the only news that makes a permit count (LEASES S2: a grant does
//! not), so it comes before `Granted`; after `Lost` or `Refused` nothing more comes but `Released`;
//! `release` is always answered by `Released`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use super::lease_clock::LeaseInstant;
use super::margins::Margins;
use crate::credentials::CredentialArgs;

/// The side that asks a node.
pub(crate) trait Keeper {
    /// Begins to ask and returns at once. What happens comes by mail.
    fn ask(&mut self, wish: &Wish, mail: Mail);

    /// Gives the permit back, or takes the request back, and returns at once; [`News::Released`]
    /// says that it is done. Called only when the whole process tree is gone (LEASES S4).
    fn release(&mut self);

    /// Gives back what another process held that died, by its ticket; the tree is gone. Waits, but
    /// not longer than `limit`.
    fn release_for_the_dead(&mut self, ticket: &[u8], limit: Duration);
}

/// Makes a keeper. A function, since each process of `kgate run` makes its own if it needs one.
pub(crate) type OpenKeeper = fn() -> Box<dyn Keeper>;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) gate: String,
    /// The node that is asked; whichever is there, if none.
    pub(crate) node: Option<String>,
    /// How it is shown who asks.
    pub(crate) credentials: CredentialArgs,
    /// What is run, for people.
    pub(crate) command: String,
    /// The k that the gate must have, or gets if it is new.
    pub(crate) k: Option<u32>,
    /// How many slots.
    pub(crate) permits: u32,
    pub(crate) wait: Wait,
    /// From TERM to KILL; what does not fit into the node's lease is refused (LEASES section 1). As
    /// much as fits of the usual, if none.
    pub(crate) grace: Option<Duration>,
}

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wait {
    ForEver,
    /// The guard takes the request back then; the keeper need not count.
    AtMost(Duration),
    /// Only a slot that is free: the keeper refuses otherwise.
    No,
}

/// What was got.
#[derive(Debug)]
pub(crate) struct Granted {
    /// In growing order, at least one.
    pub(crate) slots: Vec<u32>,
    pub(crate) fence: u128,
    pub(crate) k: u32,
    pub(crate) node: String,
    /// How long before the deadline the tree is stopped, as the node's lease admits it.
    pub(crate) margins: Margins,
    /// By which the permit can be given back if the process that holds it is gone. Empty if there
    /// is no such way.
    pub(crate) ticket: Vec<u8>,
    /// Descriptors that CMD inherits: on one machine the locks of its slots (LEASES section 6).
    pub(crate) inherited: Vec<OwnedFd>,
}

/// Why nothing was got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    /// What was wrong, why, what to do.
    pub(crate) text: String,
}

/// Each has its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// All slots are taken, and nobody was to wait, or the wait is over.
    Occupied,
    /// No node answers, or no quorum stands behind it.
    NoQuorum,
    /// The gate has another k.
    KConflict,
    /// What was asked for cannot be.
    Misuse,
    /// The keeper itself failed.
    Broken,
}

/// What a keeper has to tell.
#[derive(Debug)]
pub(crate) enum News {
    /// The session counts until then, if it counted before; the greatest so far is meant.
    Renewed(LeaseInstant),
    Granted(Granted),
    Refused(Refusal),
    /// The permit is gone or will not be renewed. Brings the TERM forward.
    Lost(String),
    /// Nothing is held or asked for any more.
    Released,
}

/// Where news are put. From any thread.
#[derive(Clone, Debug)]
pub(crate) struct Mail {
    sender: Sender<News>,
    bell: Arc<OwnedFd>,
}

/// Where they are taken out.
#[derive(Debug)]
pub(crate) struct MailBox {
    receiver: Receiver<News>,
    bell: Arc<OwnedFd>,
}

pub(crate) fn mail() -> io::Result<(Mail, MailBox)> {
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    Ok((Mail { sender, bell: bell.clone() }, MailBox { receiver, bell }))
}

impl Mail {
    /// Nobody may be there to read it any more: then it does not matter.
    pub(crate) fn post(&self, news: News) {
        if self.sender.send(news).is_ok() {
            let _counted = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }
}

impl MailBox {
    /// All that came, in its order. The bell is silenced first: what comes later rings again.
    pub(crate) fn take(&self) -> Vec<News> {
        let _count = rustix::io::read(&self.bell, &mut [0; 8]);
        self.receiver.try_iter().collect()
    }
}

impl AsFd for MailBox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
