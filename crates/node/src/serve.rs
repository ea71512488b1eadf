//! The API of a node: gRPC and HTTP on the same ports and Unix sockets, and sessions in frames on
//! Unix sockets.
//!
//! - `listener.rs`: accepts connections; `unix_socket.rs`: a Unix socket, its place and its mode;
//!   `handshake.rs`: identifies clients by their connection;
//! - `access.rs`: identifies clients by their token and checks what they may do;
//!   `authorisation.rs`: the `[[allow]]` list; `limits.rs`: quotas; `client_stream.rs`: both for
//!   one stream; `unfinished.rs`: messages that do not arrive;
//! - `session.rs`: a session stream, which `grpc.rs` and `frames.rs` carry;
//! - `grpc.rs`, `http.rs`: the two forms of the API; `durable.rs`: durable permits over HTTP;
//!   `wanted.rs`: the slots that a request names; `reentry.rs`: work that runs under a permit
//!   already; `status.rs`: the status of all nodes in one reply; `operators/`: members, evictions,
//!   k;
//! - `error.rs`: the one error type, with its status in gRPC and HTTP.

pub(crate) mod access;
pub mod authorisation;
mod client_stream;
mod durable;
mod error;
mod frames;
mod grpc;
mod handshake;
mod http;
pub mod limits;
mod listener;
mod operators;
mod reentry;
mod session;
mod status;
mod unfinished;
mod unix_socket;
mod wanted;

pub(crate) use access::AccessControl;
pub(crate) use listener::Listener;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kgate_api::v1;
use kgate_api::v1::gates_server::GatesServer;
use kgate_api::v1::operators_server::OperatorsServer;
use kgate_control::log::Log;
use kgate_control::timing::Timing;
use tokio::sync::{mpsc, oneshot, watch};

use crate::core::{Call, CallReply, ClientId, ServerMessage, StatusReport};
use crate::holder_tree::Peer;
use crate::shell::{Command, UNREAD};
use authorisation::{Identity, Privilege};
use error::ApiError;

/// What [`CoreHandle::open`] returns.
type Stream = (ClientId, mpsc::WeakSender<ServerMessage>, mpsc::Receiver<ServerMessage>);

/// A handle to the task that runs the core, for the tasks that serve clients.
#[derive(Clone, Debug)]
pub(crate) struct CoreHandle {
    commands: mpsc::Sender<Command>,
    streams: Arc<AtomicU64>,
    processes: Arc<Mutex<BTreeMap<ClientId, Peer>>>,
    pub(crate) changes: watch::Receiver<u64>,
    pub(crate) node: u32,
    pub(crate) nodes: u32,
    pub(crate) access: Arc<AccessControl>,
    /// The durations of the leases, if the node has leases.
    pub(crate) timing: Option<Timing>,
}

impl CoreHandle {
    pub(crate) fn new(
        commands: mpsc::Sender<Command>,
        changes: watch::Receiver<u64>,
        node: u32,
        nodes: u32,
        access: Arc<AccessControl>,
        timing: Option<Timing>,
    ) -> Self {
        let (streams, processes) = (Arc::default(), Arc::default());
        Self { commands, streams, processes, changes, node, nodes, access, timing }
    }

    /// Opens a stream at the core: its ID, a sender for replies that do not come from the core, and
    /// the replies. The sender is weak, because the core ends a stream by dropping its own sender.
    async fn open(&self, peer: Option<Peer>) -> Result<Stream, ApiError> {
        let client = ClientId(self.streams.fetch_add(1, Ordering::Relaxed));
        if let Some(peer) = peer {
            self.processes().insert(client, peer);
        }
        let (tells, told) = mpsc::channel(UNREAD);
        let also = tells.downgrade();
        let is_open = self.send(Command::Open(client, tells)).await;
        is_open.then_some((client, also, told)).ok_or_else(ApiError::stopped)
    }

    /// The stream has ended.
    async fn close(&self, client: ClientId) {
        self.processes().remove(&client);
        self.send(Command::Gone(client)).await;
    }

    /// The processes of the streams by Unix sockets.
    fn processes(&self) -> MutexGuard<'_, BTreeMap<ClientId, Peer>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command to the core; false if the node has stopped.
    async fn send(&self, command: Command) -> bool {
        self.commands.send(command).await.is_ok()
    }

    /// Asks the core.
    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ApiError> {
        let (answer, answered) = oneshot::channel();
        self.send(command(answer)).await;
        answered.await.map_err(|_| ApiError::stopped())
    }

    async fn call(&self, call: Call) -> Result<CallReply, ApiError> {
        let reply = self.ask(|answer| Command::Call(call, answer)).await?;
        reply.map_err(|(code, message)| ApiError::new(code, message))
    }

    async fn query_status(&self, gate: Option<String>) -> Result<StatusReport, ApiError> {
        self.ask(|answer| Command::Status(gate, answer)).await
    }

    /// The status of one gate or of all, restricted to what `who` may see.
    async fn status(
        &self,
        who: &Identity,
        gate: Option<String>,
    ) -> Result<v1::StatusReply, ApiError> {
        let may_see = |gate: &str| self.access.policy.authorise(who, Privilege::See(gate)).is_ok();
        Ok(status::reply(self.query_status(gate).await?, self, may_see))
    }

    /// Passes the status to `tell` now and whenever it changes, until `tell` returns false.
    async fn watch<F: Future<Output = bool>>(
        &self,
        who: &Identity,
        gate: Option<String>,
        tell: impl Fn(v1::StatusReply) -> F,
    ) {
        let mut changes = self.changes.clone();
        let mut last: Option<v1::StatusReply> = None;
        self.send(Command::Watch(true)).await;
        loop {
            changes.mark_unchanged();
            let Ok(reply) = self.status(who, gate.clone()).await else { return };
            if last.as_ref().is_none_or(|last| !status::same(last, &reply)) {
                last = Some(reply.clone());
                if !tell(reply).await {
                    break;
                }
            }
            // A client that has gone is noticed at the next change at the latest.
            if changes.changed().await.is_err() {
                return;
            }
        }
        self.send(Command::Watch(false)).await;
    }

    /// The replicated log of this node; none if it has no log or has stopped.
    async fn log(&self) -> Option<Log> {
        self.ask(Command::Log).await.ok().flatten()
    }

    /// Why this node can grant nothing now; none if it is ready.
    async fn unready(&self) -> Option<String> {
        let unready = self.ask(Command::Unready).await;
        unready.unwrap_or_else(|_| Some("the node has stopped".to_owned()))
    }

    async fn metrics(&self) -> Result<String, ApiError> {
        Ok(self.ask(Command::Numbers).await? + &self.access.metrics())
    }
}

/// The whole API, behind access control.
fn app(core: CoreHandle) -> axum::Router {
    let access = core.access.clone();
    let api =
        GatesServer::new(grpc::Api(core.clone())).max_decoding_message_size(access.message_bytes());
    let operators = OperatorsServer::new(grpc::Api(core.clone()))
        .max_decoding_message_size(access.message_bytes());
    let app = tonic::service::Routes::new(api).add_service(operators).into_axum_router();
    let app = app.merge(http::routes(core.clone())).merge(operators::http::routes(core));
    // The default reply of gRPC to an unknown path is 200 with an empty body, which curl takes for
    // success.
    app.fallback(http::not_found)
        .layer(axum::middleware::from_fn_with_state(access, access::identify))
}
