//! The Rust client of a kgate node.
//!
//! ```no_run
//! # async fn example() -> Result<(), kgate_client::Error> {
//! use kgate_client::Client;
//!
//! let client = Client::connect("http://127.0.0.1:7400").await?;
//! let permit = client.gate("gpu").k(3).acquire().await?;
//! println!("slot {:?}, fence {:?}", permit.slots(), permit.fence());
//! tokio::select! {
//!     () = async { /* the work */ } => {}
//!     why = permit.lost() => eprintln!("stop: {why}"),
//! }
//! permit.release().await;
//! # Ok(())
//! # }
//! ```
//!
//! A node elsewhere is asked by TLS, with a certificate, a token or both:
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
//! A [`Client`] has one session with one node. It tells the node again and again that it is alive,
//! and knows until when its permits surely count: from when it *sent* its last word that was
//! answered. A permit that is dropped is given back; a wait that is dropped is taken back. When the
//! connection is cut the session goes on by another one, and nobody notices unless it takes too
//! long.
#![forbid(unsafe_code)]

mod address;
mod credentials;
mod error;
mod fences;
mod gate;
mod hand;
mod kept;
mod lease;
mod line;
mod operators;
mod permit;
mod session;
mod status;
mod tls;

pub use address::Address;
pub use credentials::Credentials;
pub use error::{Error, Refusal};
pub use fences::{Fences, Stale};
pub use gate::Gate;
pub use kept::{Kept, KeptWish};
pub use kgate_api::LeaseInstant;
pub use kgate_api::v1 as api;
pub use lease::Lease;
pub use operators::Operators;
pub use permit::Permit;
pub use session::Ticket;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use kgate_api::v1;
use tokio::sync::{mpsc, watch};

use session::{Command, Session};

/// A session with a node. Clones share it; it ends when the last of them and of its permits is
/// gone.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: Address,
    commands: mpsc::UnboundedSender<Command>,
    until: watch::Receiver<LeaseInstant>,
    node: u32,
    ticket: watch::Receiver<Ticket>,
    lease: watch::Receiver<Lease>,
    /// How many requests there were.
    requests: AtomicU64,
}

impl Client {
    /// Begins a session with the node at `address`: `https://HOST:PORT`, `http://HOST:PORT` or
    /// `unix:PATH`; or an [`Address`] with [`Credentials`].
    pub async fn connect<A>(address: A) -> Result<Self, Error>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        Self::connect_for(address, this_process()).await
    }

    /// The same, on behalf of another process: what people are shown.
    pub async fn connect_for<A>(address: A, process: v1::Process) -> Result<Self, Error>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let address: Address = address.try_into()?;
        let (commands, received) = mpsc::unbounded_channel();
        let (session, opened) = Session::open(address.clone(), process, received, None).await?;
        tokio::spawn(session.run());
        let shared = Shared {
            address,
            commands,
            until: opened.until,
            node: opened.node,
            ticket: opened.ticket,
            lease: opened.lease,
            requests: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Ends a session whose process is dead, by its ticket: all that it held is freed. Only after
    /// whatever it did is over.
    pub async fn end<A>(address: A, ticket: Ticket) -> Result<(), Error>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let address: Address = address.try_into()?;
        let (commands, received) = mpsc::unbounded_channel();
        let (session, _) =
            Session::open(address, v1::Process::default(), received, Some(ticket)).await?;
        let _ = commands.send(Command::Bye);
        session.run().await;
        Ok(())
    }

    /// A gate, by its name.
    pub fn gate(&self, name: impl Into<String>) -> Gate {
        Gate::new(self.shared.clone(), name.into())
    }

    /// The node's number.
    pub fn node(&self) -> u32 {
        self.shared.node
    }

    /// Until when the permits of this session surely count, as of now; it changes with every answer
    /// of the node.
    pub fn until(&self) -> watch::Receiver<LeaseInstant> {
        self.shared.until.clone()
    }

    /// What the node promises: for how long permits count, and how long whoever holds one may take
    /// to stop.
    pub fn lease(&self) -> Lease {
        *self.shared.lease.borrow()
    }

    /// By which somebody else can end this session if this process dies.
    pub fn ticket(&self) -> Ticket {
        *self.shared.ticket.borrow()
    }
}

/// This process, as people are shown it.
pub fn this_process() -> v1::Process {
    let command: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    process(std::process::id(), &command.join(" "))
}

/// A process of this machine and user.
pub fn process(pid: u32, command: &str) -> v1::Process {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let user =
        std::env::var("USER").unwrap_or_else(|_| rustix::process::getuid().as_raw().to_string());
    v1::Process { pid, host, user, command: command.to_owned() }
}
