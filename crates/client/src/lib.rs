//! The Rust client of kgate, a distributed semaphore: at most k holders per gate, across all
//! machines of a cluster.
//!
//! # A first permit
//!
//! A *gate* is a semaphore with a name and `k` slots. A *permit* is the right to use one of the
//! slots. [`Client::local`] finds the node of this machine; [`Client::connect`] takes addresses.
//!
//! ```no_run
//! # async fn example() -> Result<(), kgate_client::Error> {
//! use kgate_client::Client;
//!
//! let client = Client::connect("http://127.0.0.1:7400").await?;
//! let permit = client.gate("gpu").k(3).acquire().await?;
//! println!("slot {:?}, fence {:?}", permit.slots(), permit.fence_hex());
//! permit.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A dropped [`Permit`] is released, and a dropped `acquire` future is cancelled. So
//! `tokio::time::timeout` and `select!` work as with any other future; [`Gate::timeout`] and
//! [`Gate::try_acquire`] are there for convenience.
//!
//! # When a permit ends early
//!
//! A permit can be lost: the node is unreachable for longer than its lease, an operator evicts it,
//! or this process was suspended. Its slot may then be granted to another holder. The holder must
//! stop at that moment:
//!
//! ```no_run
//! # async fn train() {}
//! # async fn example(permit: kgate_client::Permit) -> Result<(), kgate_client::Error> {
//! tokio::select! {
//!     () = train() => {}
//!     reason = permit.lost() => eprintln!("stopping: {reason}"),
//! }
//! permit.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Work that needs time to stop asks for it with [`Gate::min_remaining`]. A resource that must not
//! depend on timing at all checks the *fence* of each access: see [`Fences`].
//!
//! # Sessions
//!
//! A [`Client`] has one session with one node. A background task renews the session; its permits
//! are valid for a limited time, measured from the instant at which the last answered renewal was
//! *sent*. When the connection is lost the task reconnects and resumes the session: permits stay
//! valid, and waiting requests are sent again. Clones of a client share its session; the session
//! ends when the last clone and the last permit are dropped.
//!
//! # Several nodes
//!
//! Give the addresses of several nodes, in order of preference. The client connects to the first
//! one that accepts it.
//!
//! ```no_run
//! # async fn example() -> Result<(), kgate_client::Error> {
//! # use kgate_client::Client;
//! let client = Client::connect(["db-0.example:7400", "db-1.example:7400"]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # TLS and tokens
//!
//! A node on another machine is asked over TLS, with a certificate, a token or both:
//!
//! ```no_run
//! # async fn example() -> Result<(), kgate_client::Error> {
//! use kgate_client::{Address, Client, Credentials};
//!
//! let credentials = Credentials {
//!     authority: Some("ca.pem".into()),
//!     certificate: Some("client-alice.pem".into()),
//!     key: Some("client-alice.key".into()),
//!     ..Credentials::default()
//! };
//! let node: Address = "https://node-0.example:7400".parse()?;
//! let client = Client::connect(node.with(credentials)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! Every operation returns [`Error`]. Its [`kind`](Error::kind) is for programs, its text for
//! people:
//!
//! ```no_run
//! # async fn example(client: kgate_client::Client) -> Result<(), kgate_client::Error> {
//! use kgate_client::ErrorKind;
//!
//! match client.gate("gpu").acquire().await {
//!     Ok(permit) => permit.release().await?,
//!     Err(error) if error.kind() == ErrorKind::NoQuorum => eprintln!("retry later: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # More
//!
//! - [`Client::durable`]: permits that survive the end of their process and the failure of their
//!   node;
//! - [`Client::status`], [`Client::watch`], [`Gate::status`]: holders and queues;
//! - [`Admin`]: members, evictions, another k;
//! - [`blocking`]: the same client without `async`.
#![forbid(unsafe_code)]

mod address;
mod admin;
pub mod blocking;
mod connection;
mod credentials;
mod durable;
mod error;
mod fences;
mod frame_stream;
mod gate;
mod lease;
pub mod local;
mod permit;
mod permit_table;
mod process;
mod reentry;
mod session;
mod status;
mod tls;
mod tls_stream;
mod transport;

pub use address::{Address, Addresses};
pub use admin::{
    Admin, GateChange, Joined, Member, MemberRole, MemberState, Members, Operation, PermitSelector,
    SetGate,
};
pub use connection::SessionToken;
pub use credentials::Credentials;
pub use durable::{DurableGate, DurablePermit, DurableToken};
pub use error::{Error, ErrorKind};
pub use fences::{Fences, StaleFence};
pub use gate::Gate;
pub use kgate_api::LeaseInstant;
pub use lease::Lease;
pub use permit::{LostReason, Once, Permit};
pub use process::{GuardedProcesses, Process};
pub use reentry::Reentry;
pub use status::{ClientStatus, DurablePermitStatus, GateStatus, NodeLease, Policy, Status};

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kgate_api::v1;
use local::Rendezvous;
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;

use session::{Command, Session, View};

/// A session with a node. Clones share the session; it ends when the last clone and the last permit
/// are dropped.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    addresses: Addresses,
    commands: mpsc::UnboundedSender<Command>,
    session: View,
    /// The number of requests so far.
    requests: AtomicU64,
}

impl Client {
    /// Opens a session with the first node that accepts it. See [`Address`] for the forms of an
    /// address.
    ///
    /// The session belongs to a background task of the current tokio runtime.
    pub async fn connect<A>(addresses: A) -> Result<Self, Error>
    where
        A: TryInto<Addresses>,
        Error: From<A::Error>,
    {
        Self::connect_as(addresses, Process::current()).await
    }

    /// As [`connect`](Self::connect), with the description of another process: `kgate status` shows
    /// it as the holder.
    pub async fn connect_as<A>(addresses: A, process: Process) -> Result<Self, Error>
    where
        A: TryInto<Addresses>,
        Error: From<A::Error>,
    {
        Self::open(addresses.try_into()?, process, None).await
    }

    /// As [`connect_as`](Self::connect_as), for a process whose work is done by its descendants and
    /// by those of its parent. A node on this machine, connected by a Unix socket, kills all of
    /// them if the session is not renewed in time, even if both processes are frozen.
    /// [`guarded`](Self::guarded) tells whether the node can.
    pub async fn connect_guarded<A>(
        addresses: A,
        process: Process,
        guarded: GuardedProcesses,
    ) -> Result<Self, Error>
    where
        A: TryInto<Addresses>,
        Error: From<A::Error>,
    {
        Self::open(addresses.try_into()?, process, Some(guarded)).await
    }

    async fn open(
        addresses: Addresses,
        process: Process,
        guarded: Option<GuardedProcesses>,
    ) -> Result<Self, Error> {
        let mut hello = v1::Hello { process: Some(process.to_message()), ..v1::Hello::default() };
        if let Some(GuardedProcesses { front_pid, control_group }) = guarded {
            hello.front_pid = Some(front_pid);
            let group = control_group.map(|path| path.display().to_string());
            hello.control_group = group.unwrap_or_default();
        }
        let (commands, received) = mpsc::unbounded_channel();
        let (session, view) = Session::open(&addresses, hello, received).await?;
        tokio::spawn(session.run());
        let requests = AtomicU64::new(0);
        Ok(Self { shared: Arc::new(Shared { addresses, commands, session: view, requests }) })
    }

    /// Opens a session with the node of this machine, or with the node that `kgate run` started for
    /// this user. See [`Address::local`].
    pub async fn local() -> Result<Self, Error> {
        let unusable = |text: String| Error::new(ErrorKind::Unreachable, text);
        let found = local::rendezvous().map_err(|error| unusable(error.to_string()))?;
        let address = Address::unix(found.socket());
        let way = match found {
            Rendezvous::User(folder) => {
                let locked = tokio::task::spawn_blocking(move || local::keep_running(&folder));
                match locked.await {
                    Ok(Ok(lock)) => Some(lock),
                    Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => None,
                    Ok(Err(error)) => return Err(Error::unreachable(&address, &error.to_string())),
                    Err(error) => return Err(Error::unreachable(&address, &error.to_string())),
                }
            }
            Rendezvous::Machine(_) => None,
        };
        let client = Self::connect(address).await;
        drop(way);
        client
    }

    /// Drops this handle and waits until the session has ended. The session ends when all clones of
    /// the client and all permits are dropped. Without this call a runtime that shuts down may not
    /// tell the node, which then frees the session when it expires.
    pub async fn close(self) {
        let mut session = self.shared.session.token.clone();
        drop(self);
        while session.changed().await.is_ok() {}
    }

    /// Ends the session of another process, and frees its slots. Call it only after that process
    /// and all the work that its permits protected have ended.
    pub async fn end_session(address: Address, token: SessionToken) -> Result<(), Error> {
        Session::end_other(address, token).await
    }

    /// Whether the node ends the processes of this client if they outlive the session; the error
    /// says why it does not. Only for a client of [`connect_guarded`](Self::connect_guarded).
    pub fn guarded(&self) -> Result<(), &str> {
        self.shared.session.guarded.as_ref().copied().map_err(String::as_str)
    }

    /// Asks the node whether this process runs under a permit, whose
    /// [key](Permit::reentry_key) it has. Fails if the permit is not held any more, or if this
    /// process is not a descendant of its holder. Work that has the confirmation needs no permit of
    /// its own, as long as the holder stops its descendants when the permit ends, as `kgate run`
    /// does.
    pub async fn reenter(address: &Address, gate: &str, key: &str) -> Result<Reentry, Error> {
        reentry::confirm(address, gate, key).await
    }

    /// A gate, to acquire permits.
    pub fn gate(&self, name: impl Into<String>) -> Gate {
        Gate::new(self.shared.clone(), name.into())
    }

    /// A gate, to acquire durable permits.
    pub fn durable(&self, name: impl Into<String>) -> DurableGate {
        DurableGate::new(self.shared.clone(), name.into())
    }

    /// Renews a durable permit: its TTL starts again when this request is sent. Returns the TTL.
    pub async fn renew(&self, token: DurableToken) -> Result<Option<Duration>, Error> {
        self.shared.renew_durable(token).await
    }

    /// Releases a durable permit. Release is idempotent; the result is false if the permit was not
    /// held any more, because it had expired, been evicted or been released before.
    pub async fn release(&self, token: DurableToken) -> Result<bool, Error> {
        self.shared.release_durable(token).await
    }

    /// The status of all gates that this client may see.
    pub async fn status(&self) -> Result<Status, Error> {
        Status::fetch(&self.shared.addresses, None).await
    }

    /// The status of all gates now, and again whenever it changes.
    pub async fn watch(&self) -> Result<impl Stream<Item = Result<Status, Error>> + use<>, Error> {
        Status::watch(self.shared.addresses.clone(), None).await
    }

    /// The ID of the node.
    pub fn node(&self) -> u32 {
        self.shared.session.node
    }

    /// Until when the permits of this session are valid. The value changes with each answered
    /// renewal.
    pub fn valid_until(&self) -> watch::Receiver<LeaseInstant> {
        self.shared.session.valid_until.clone()
    }

    /// The durations that the node announced: how long permits are valid, and how much time their
    /// holders have to stop.
    pub fn lease(&self) -> Lease {
        *self.shared.session.lease.borrow()
    }

    /// The token with which another process can [end](Self::end_session) this session if this
    /// process dies.
    pub fn session_token(&self) -> SessionToken {
        *self.shared.session.token.borrow()
    }
}
