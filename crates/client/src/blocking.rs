//! The client without `async`.
//!
//! A background thread renews the session. The functions of this module block the calling thread:
//! do not call them, nor drop these values, in asynchronous code.
//!
//! ```no_run
//! use kgate_client::blocking::Client;
//!
//! let client = Client::local()?;
//! let permit = client.gate("gpu").k(3).acquire()?;
//! println!("slot {:?}", permit.slots());
//! permit.release()?;
//! # Ok::<(), kgate_client::Error>(())
//! ```

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::transport::CONNECT_TIMEOUT;
use crate::{
    Address, Addresses, DurableToken, Error, ErrorKind, LostReason, Process, SessionToken, Status,
};

/// The thread of a session. Dropped with the last handle, it lets the session tell its node.
#[derive(Debug)]
struct Worker {
    runtime: Runtime,
    /// Closed when the session has ended.
    session: watch::Receiver<SessionToken>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let session = &mut self.session;
        let ended = async { while session.changed().await.is_ok() {} };
        let _ = self.runtime.block_on(async { tokio::time::timeout(CONNECT_TIMEOUT, ended).await });
    }
}

/// A session with a node. See [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    // Dropped before the worker, which waits for the end of the session.
    client: crate::Client,
    worker: Arc<Worker>,
}

impl Client {
    /// Opens a session with the first node that accepts it. See [`crate::Client::connect`].
    pub fn connect<A>(addresses: A) -> Result<Self, Error>
    where
        A: TryInto<Addresses>,
        Error: From<A::Error>,
    {
        let addresses: Addresses = addresses.try_into()?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| {
            let message = format!("cannot start the thread of the session: {error}");
            Error::new(ErrorKind::Unreachable, message)
        })?;
        let client = runtime.block_on(crate::Client::connect::<Addresses>(addresses))?;
        let session = client.shared.session.token.clone();
        Ok(Self { client, worker: Arc::new(Worker { runtime, session }) })
    }

    /// Opens a session with the node of this machine. See [`crate::Client::local`].
    pub fn local() -> Result<Self, Error> {
        Self::connect(Address::local()?)
    }

    /// A gate, to acquire permits.
    pub fn gate(&self, name: impl Into<String>) -> Gate {
        Gate { gate: self.client.gate(name), worker: self.worker.clone() }
    }

    /// A gate, to acquire durable permits.
    pub fn durable(&self, name: impl Into<String>) -> DurableGate {
        DurableGate { gate: self.client.durable(name), worker: self.worker.clone() }
    }

    /// Renews a durable permit. Returns its TTL. See [`crate::Client::renew`].
    pub fn renew(&self, token: DurableToken) -> Result<Option<Duration>, Error> {
        self.worker.runtime.block_on(self.client.renew(token))
    }

    /// Releases a durable permit. False if it was not held any more. See
    /// [`crate::Client::release`].
    pub fn release(&self, token: DurableToken) -> Result<bool, Error> {
        self.worker.runtime.block_on(self.client.release(token))
    }

    /// The status of all gates that this client may see.
    pub fn status(&self) -> Result<Status, Error> {
        self.worker.runtime.block_on(self.client.status())
    }
}

/// Options that the gates here share with those of the crate's root.
macro_rules! options {
    ($gate:literal: $($name:ident($type:ty)),+) => {$(
        #[doc = concat!("See [`crate::", $gate, "::", stringify!($name), "`].")]
        pub fn $name(self, $name: $type) -> Self {
            Self { gate: self.gate.$name($name), ..self }
        }
    )+};
}

/// A gate and the options of a request. See [`crate::Gate`].
#[derive(Clone, Debug)]
#[must_use = "a gate does nothing until `acquire` or `try_acquire` is called"]
pub struct Gate {
    gate: crate::Gate,
    worker: Arc<Worker>,
}

impl Gate {
    options!(
        "Gate": weight(u32), k(u32), timeout(Duration), min_remaining(Duration), process(Process)
    );

    /// See [`crate::Gate::exclusive`].
    pub fn exclusive(self) -> Self {
        Self { gate: self.gate.exclusive(), ..self }
    }

    /// Waits for a permit.
    pub fn acquire(self) -> Result<Permit, Error> {
        let permit = self.worker.runtime.block_on(self.gate.acquire())?;
        Ok(Permit { permit, worker: self.worker })
    }

    /// Returns a permit if one is free now, and none if all are in use.
    pub fn try_acquire(self) -> Result<Option<Permit>, Error> {
        let permit = self.worker.runtime.block_on(self.gate.try_acquire())?;
        Ok(permit.map(|permit| Permit { permit, worker: self.worker }))
    }
}

/// A gate and the options of a request for a durable permit. See [`crate::DurableGate`].
#[derive(Clone, Debug)]
#[must_use = "a gate does nothing until `acquire` or `try_acquire` is called"]
pub struct DurableGate {
    gate: crate::DurableGate,
    worker: Arc<Worker>,
}

impl DurableGate {
    options!(
        "DurableGate":
        weight(u32), k(u32), ttl(Duration), timeout(Duration), secret(u128), process(Process)
    );

    /// See [`crate::DurableGate::hold`].
    pub fn hold(self) -> Self {
        Self { gate: self.gate.hold(), ..self }
    }

    /// Waits for a permit.
    pub fn acquire(self) -> Result<DurablePermit, Error> {
        let permit = self.worker.runtime.block_on(self.gate.acquire())?;
        Ok(DurablePermit { permit, worker: self.worker })
    }

    /// Returns a permit if one is free now, and none if all are in use.
    pub fn try_acquire(self) -> Result<Option<DurablePermit>, Error> {
        let permit = self.worker.runtime.block_on(self.gate.try_acquire())?;
        Ok(permit.map(|permit| DurablePermit { permit, worker: self.worker }))
    }
}

/// A permit. Dropping it releases it. It has the methods of [`crate::Permit`] that do not wait.
#[derive(Debug)]
pub struct Permit {
    permit: crate::Permit,
    worker: Arc<Worker>,
}

impl Deref for Permit {
    type Target = crate::Permit;

    fn deref(&self) -> &crate::Permit {
        &self.permit
    }
}

impl Permit {
    /// Waits until the permit is no longer valid and returns the reason.
    pub fn wait_lost(&self) -> LostReason {
        self.worker.runtime.block_on(self.permit.lost())
    }

    /// Releases the permit and waits until the node confirms it.
    pub fn release(self) -> Result<(), Error> {
        self.worker.runtime.block_on(self.permit.release())
    }
}

/// A durable permit. Dropping it does **not** release it. It has the methods of
/// [`crate::DurablePermit`] that do not wait.
#[derive(Clone, Debug)]
pub struct DurablePermit {
    permit: crate::DurablePermit,
    worker: Arc<Worker>,
}

impl Deref for DurablePermit {
    type Target = crate::DurablePermit;

    fn deref(&self) -> &crate::DurablePermit {
        &self.permit
    }
}

impl DurablePermit {
    /// Renews the permit. Returns its TTL.
    pub fn renew(&self) -> Result<Option<Duration>, Error> {
        self.worker.runtime.block_on(self.permit.renew())
    }

    /// Releases the permit. False if it was not held any more.
    pub fn release(self) -> Result<bool, Error> {
        self.worker.runtime.block_on(self.permit.release())
    }
}
