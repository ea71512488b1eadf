//! The API of a node: gRPC and HTTP on the same ports and Unix sockets.
//!
//! - `door.rs`: where clients come in; `tls.rs`: who they are by their connection;
//! - `guard.rs`: who they are by their token, and what they may; `authorisation.rs`: the list;
//!   `limits.rs`: how much; `visit.rs`: the same for a stream;
//! - `grpc.rs`, `http.rs`: what they ask; `permits.rs`: permits that the log holds; `report.rs`:
//!   what they are shown; `operators/`: members, evictions, k.

pub mod authorisation;
mod door;
mod error;
mod grpc;
pub(crate) mod guard;
mod http;
pub mod limits;
mod operators;
mod permits;
mod report;
mod tls;
mod visit;

pub(crate) use door::Door;
pub(crate) use guard::Guard;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kgate_api::v1;
use kgate_api::v1::gates_server::GatesServer;
use kgate_api::v1::operators_server::OperatorsServer;
use kgate_control::log::Log;
use kgate_control::timing::Timing;
use tokio::sync::{mpsc, oneshot, watch};

use crate::core::{ClientId, ServerMessage, StatusReport};
use crate::shell::{Command, UNREAD};
use authorisation::{Identity, Need};

/// A way to the core, for everybody who serves clients.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    commands: mpsc::Sender<Command>,
    streams: Arc<AtomicU64>,
    pub(crate) changes: watch::Receiver<u64>,
    pub(crate) node: u32,
    pub(crate) nodes: u32,
    pub(crate) guard: Arc<Guard>,
    /// What clients are told about their leases, where there are such.
    pub(crate) timing: Option<Timing>,
}

impl Desk {
    pub(crate) fn new(
        commands: mpsc::Sender<Command>,
        changes: watch::Receiver<u64>,
        node: u32,
        nodes: u32,
        guard: Arc<Guard>,
        timing: Option<Timing>,
    ) -> Self {
        Self { commands, streams: Arc::default(), changes, node, nodes, guard, timing }
    }

    /// A new stream: its name, a way to tell it something, and what it is told. The way is weak:
    /// the core ends a stream by dropping its own.
    async fn open(
        &self,
    ) -> Option<(ClientId, mpsc::WeakSender<ServerMessage>, mpsc::Receiver<ServerMessage>)> {
        let client = ClientId(self.streams.fetch_add(1, Ordering::Relaxed));
        let (tells, told) = mpsc::channel(UNREAD);
        let also = tells.downgrade();
        self.send(Command::Open(client, tells)).await.then_some((client, also, told))
    }

    /// False if the node has stopped.
    async fn send(&self, command: Command) -> bool {
        self.commands.send(command).await.is_ok()
    }

    async fn look(&self, gate: Option<String>) -> Option<StatusReport> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Status(gate, answer)).await;
        answered.await.ok()
    }

    /// What somebody may see of a gate, or of all.
    async fn show(&self, who: &Identity, gate: Option<String>) -> Option<v1::StatusReply> {
        let mut reply = report::of(self.look(gate).await?, self);
        reply.gates.retain(|gate| self.guard.policy.authorise(who, Need::See(&gate.name)).is_ok());
        Some(reply)
    }

    /// Hands over what is to be seen whenever it has changed, until `tell` says that nobody wants
    /// it any more.
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
            let Some(reply) = self.show(who, gate.clone()).await else { return };
            if last.as_ref().is_none_or(|last| !report::same(last, &reply)) {
                last = Some(reply.clone());
                if !tell(reply).await {
                    break;
                }
            }
            // Whoever has gone is noticed by the next change at the latest.
            if changes.changed().await.is_err() {
                return;
            }
        }
        self.send(Command::Watch(false)).await;
    }

    /// The log of this node; none, where there is none or the node has stopped.
    async fn log(&self) -> Option<Log> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Log(answer)).await;
        answered.await.ok().flatten()
    }

    /// Why this node can grant nothing now, if it cannot.
    async fn unready(&self) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Unready(answer)).await;
        answered.await.unwrap_or_else(|_| Some("it has stopped".to_owned()))
    }

    async fn numbers(&self) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Numbers(answer)).await;
        answered.await.ok().map(|text| text + &self.guard.numbers())
    }
}

/// All that clients can ask, behind the guard.
fn app(desk: Desk) -> axum::Router {
    let guard = desk.guard.clone();
    let api =
        GatesServer::new(grpc::Api(desk.clone())).max_decoding_message_size(guard.message_bytes());
    let operators = OperatorsServer::new(grpc::Api(desk.clone()))
        .max_decoding_message_size(guard.message_bytes());
    let app = tonic::service::Routes::new(api).add_service(operators).into_axum_router();
    let app = app.merge(http::routes(desk.clone())).merge(operators::http::routes(desk));
    // gRPC's own answer to a path that is not there is 200 with an empty body, which curl takes for
    // success.
    app.fallback(http::nowhere).layer(axum::middleware::from_fn_with_state(guard, guard::identify))
}
