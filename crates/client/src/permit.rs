//! A permit and the ways in which it ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::client_message::Message as ClientMessage;
use kgate_api::v1::server_message::Message as ServerMessage;
use tokio::sync::{oneshot, watch};

use crate::durable::{nanoseconds, random_secret};
use crate::session::Command;
use crate::{Error, LeaseInstant, Shared};

/// A grant of the node, as the session hands it to its client.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) request_id: u64,
    pub(crate) slots: Vec<u32>,
    pub(crate) slot_names: Vec<String>,
    pub(crate) fence: Option<u128>,
    pub(crate) k: u32,
    pub(crate) lock_files: Vec<String>,
    pub(crate) reentry_key: String,
    /// Why the permit is no longer valid, once it is not.
    pub(crate) lost: watch::Receiver<Option<LostReason>>,
}

/// Why a permit is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// The session was not renewed in time: the node was unreachable, or this process was
    /// suspended.
    #[error("expired: the node did not renew the session in time")]
    Expired,
    /// The node revoked the permit, for example because it lost its lease or an operator evicted
    /// it. The text is the node's.
    #[error("revoked by the node: {0}")]
    Revoked(String),
    /// The node does not know the session any more. The text says why.
    #[error("session lost: {0}")]
    SessionLost(String),
}

/// A permit of a gate. Dropping it releases it.
///
/// A permit is valid until [`remaining`](Self::remaining) is zero or the node revokes it; then
/// [`lost`](Self::lost) returns. The holder must stop its protected work at that moment. The slot
/// is freed when the holder releases the permit, or when its session has certainly expired.
pub struct Permit {
    shared: Arc<Shared>,
    gate: String,
    grant: Grant,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("gate", &self.gate)
            .field("slots", &self.grant.slots)
            .field("fence", &self.fence_hex())
            .field("k", &self.grant.k)
            .finish()
    }
}

/// Whether a client is the first to use a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once {
    /// It is: it may go on.
    First,
    /// Another client has used the key, described for people.
    UsedBy(String),
}

/// The interval at which [`Permit::lost`] reads the lease clock. The clock of timers stops while
/// the machine is suspended; the lease clock does not.
const CLOCK_INTERVAL: Duration = Duration::from_millis(100);

impl Permit {
    pub(crate) fn new(shared: Arc<Shared>, gate: String, grant: Grant) -> Self {
        Self { shared, gate, grant }
    }

    /// The name of the gate.
    pub fn gate(&self) -> &str {
        &self.gate
    }

    /// The slots of the permit, each below k; empty if the gate's protocol does not number slots.
    pub fn slots(&self) -> &[u32] {
        &self.grant.slots
    }

    /// The names of the slots; empty if the gate's slots have no names.
    pub fn slot_names(&self) -> &[String] {
        &self.grant.slot_names
    }

    /// The fence: greater than the fence of every earlier holder of any of these slots. None if
    /// the gate's protocol has no fences. See [`Fences`](crate::Fences).
    pub fn fence(&self) -> Option<u128> {
        self.grant.fence
    }

    /// The fence as 32 hexadecimal digits, which sort like the numbers.
    pub fn fence_hex(&self) -> Option<String> {
        self.grant.fence.map(|fence| format!("{fence:032x}"))
    }

    /// The gate's k at the time of the grant.
    pub fn k(&self) -> u32 {
        self.grant.k
    }

    /// The ID of the node that granted the permit.
    pub fn node(&self) -> u32 {
        self.shared.session.node
    }

    /// Proves to [`Client::reenter`](crate::Client::reenter) that a process was started under this
    /// permit. It neither renews nor releases the permit. None if the node gave no key.
    pub fn reentry_key(&self) -> Option<&str> {
        Some(self.grant.reentry_key.as_str()).filter(|key| !key.is_empty())
    }

    /// How long the permit is valid from now on if the node is not heard again. Without limit
    /// (centuries) if the node binds permits to processes instead of time.
    pub fn remaining(&self) -> Duration {
        if self.grant.lost.borrow().is_some() {
            return Duration::ZERO;
        }
        self.shared.session.valid_until.borrow().after(LeaseInstant::now())
    }

    /// Uses a key of the gate. The first client to use it may do once what the key names; for the
    /// `ttl`, from one second to one year, all others are told. The key is used even if this client
    /// then does nothing. After an error it is not known whether the key is used: do not go on.
    pub async fn mark_once(&self, key: &str, ttl: Duration) -> Result<Once, Error> {
        let (permit_request_id, key) = (self.grant.request_id, key.to_owned());
        let (ttl_ns, token) = (nanoseconds(ttl), random_secret()?);
        let mark = |request_id| {
            let mark = v1::MarkOnce { request_id, permit_request_id, key, ttl_ns, token };
            ClientMessage::MarkOnce(mark)
        };
        let ServerMessage::OnceMarked(v1::OnceMarked { first, used_by, .. }) =
            self.shared.call_durable(mark).await?
        else {
            return Err(Error::unexpected("not a marked key"));
        };
        Ok(if first { Once::First } else { Once::UsedBy(used_by) })
    }

    /// The files to lock, one per slot, relative to the folder of the node's socket; empty unless
    /// the node binds permits to processes (`slot_files` in the configuration). See
    /// [`local::lock_file`](crate::local::lock_file) and [`bind_to_lock`](Self::bind_to_lock).
    pub fn lock_files(&self) -> &[String] {
        &self.grant.lock_files
    }

    /// Declares that the holder has locked the slot's file on this machine. From now on the permit
    /// is valid as long as the lock is held, whatever happens to the node. Only for nodes that
    /// check such locks.
    pub fn bind_to_lock(&self) {
        let _ = self.shared.commands.send(Command::BindToLock(self.grant.request_id));
    }

    /// Whether the permit is no longer valid.
    pub fn is_lost(&self) -> bool {
        self.grant.lost.borrow().is_some() || self.has_expired()
    }

    /// The session's validity has ended, even if its task has not noticed yet.
    fn has_expired(&self) -> bool {
        *self.shared.session.valid_until.borrow() <= LeaseInstant::now()
    }

    /// Waits until the permit is no longer valid and returns the reason. The holder must stop its
    /// protected work, and then release or drop the permit.
    ///
    /// The future may be dropped and polled anew at any time (it is cancel safe).
    pub async fn lost(&self) -> LostReason {
        let (mut lost, mut valid_until) =
            (self.grant.lost.clone(), self.shared.session.valid_until.clone());
        loop {
            let left = valid_until.borrow_and_update().after(LeaseInstant::now());
            if left.is_zero() {
                return lost.borrow().clone().unwrap_or(LostReason::Expired);
            }
            // The session may be reconnecting when the validity ends: do not wait for it.
            tokio::select! {
                reason = lost.wait_for(Option::is_some) => {
                    let ended = || LostReason::SessionLost("the session has ended".into());
                    return reason.ok().and_then(|reason| reason.clone()).unwrap_or_else(ended);
                }
                Ok(()) = valid_until.changed() => {}
                () = tokio::time::sleep(left.min(CLOCK_INTERVAL)) => {}
            }
        }
    }

    /// Releases the permit and waits until the node confirms it.
    ///
    /// Release is idempotent, and it succeeds even if the permit was lost before. An error means
    /// that the node could not be told: it frees the slots when the session expires.
    pub async fn release(self) -> Result<(), Error> {
        let (done, confirmed) = oneshot::channel();
        let release = Command::Release(self.grant.request_id, Some(done));
        let unreachable = || {
            let cause = "the session has ended; the slots are freed when it expires";
            Error::unreachable(&self.shared.addresses, cause)
        };
        self.shared.commands.send(release).map_err(|_| unreachable())?;
        confirmed.await.map_err(|_| unreachable())
        // `drop` sends a second release, which has no effect.
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let _ = self.shared.commands.send(Command::Release(self.grant.request_id, None));
    }
}
