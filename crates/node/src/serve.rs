//! The API of a node: gRPC and HTTP on the same ports and Unix sockets.

mod grpc;
mod http;
mod report;

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::serve::ListenerExt;
use kgate_api::v1;
use kgate_api::v1::gates_server::GatesServer;
use kgate_control::timing::Timing;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, oneshot, watch};

use crate::core::{ClientId, Report, Tell};
use crate::shell::{Command, UNREAD, stopped};

/// A way to the core, for everybody who serves clients.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    commands: mpsc::Sender<Command>,
    streams: Arc<AtomicU64>,
    pub(crate) changes: watch::Receiver<u64>,
    pub(crate) node: u32,
    pub(crate) nodes: u32,
    /// What clients are told about their leases, where there are such.
    pub(crate) timing: Option<Timing>,
}

impl Desk {
    pub(crate) fn new(
        commands: mpsc::Sender<Command>,
        changes: watch::Receiver<u64>,
        node: u32,
        nodes: u32,
        timing: Option<Timing>,
    ) -> Self {
        Self { commands, streams: Arc::default(), changes, node, nodes, timing }
    }

    /// A new stream: its name, and what it is told.
    async fn open(&self) -> Option<(ClientId, mpsc::Receiver<Tell>)> {
        let client = ClientId(self.streams.fetch_add(1, Ordering::Relaxed));
        let (tells, told) = mpsc::channel(UNREAD);
        self.send(Command::Open(client, tells)).await.then_some((client, told))
    }

    /// False if the node has stopped.
    async fn send(&self, command: Command) -> bool {
        self.commands.send(command).await.is_ok()
    }

    async fn look(&self, gate: Option<String>) -> Option<Report> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Look(gate, answer)).await;
        answered.await.ok()
    }

    /// Hands over what is to be seen whenever it has changed, until `tell` says that nobody wants it any more.
    async fn watch<F: Future<Output = bool>>(
        &self,
        gate: Option<String>,
        tell: impl Fn(v1::StatusReply) -> F,
    ) {
        let mut changes = self.changes.clone();
        let mut last: Option<v1::StatusReply> = None;
        self.send(Command::Watch(true)).await;
        loop {
            changes.mark_unchanged();
            let Some(seen) = self.look(gate.clone()).await else { return };
            let reply = report::of(seen, self);
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

    async fn numbers(&self) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Numbers(answer)).await;
        answered.await.ok()
    }
}

/// Where clients ask.
#[derive(Debug)]
pub(crate) enum Door {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Door {
    /// Opens `HOST:PORT` or `unix:PATH`. A socket that a node left behind is taken over; one in use is not.
    pub(crate) async fn open(address: &str) -> io::Result<Self> {
        let Some(path) = address.strip_prefix("unix:") else {
            return Ok(Self::Tcp(TcpListener::bind(address).await?));
        };
        let path = PathBuf::from(path);
        if std::fs::symlink_metadata(&path).is_ok_and(|file| file.file_type().is_socket()) {
            if tokio::net::UnixStream::connect(&path).await.is_ok() {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another node serves this socket"));
            }
            std::fs::remove_file(&path)?;
        }
        Ok(Self::Unix(UnixListener::bind(&path)?, path))
    }

    /// How clients write it.
    pub(crate) fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("http://{}", listener.local_addr()?)),
            Self::Unix(_, path) => Ok(format!("unix:{}", path.display())),
        }
    }

    /// Serves clients until the node stops.
    pub(crate) async fn serve(self, desk: Desk, mut stop: watch::Receiver<bool>) {
        let api = tonic::service::Routes::new(GatesServer::new(grpc::Api(desk.clone())));
        let app = api.into_axum_router().merge(http::routes(desk));
        let stopped = async move { stopped(&mut stop).await };
        let served = match self {
            Self::Tcp(listener) => {
                let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
                axum::serve(listener, app).with_graceful_shutdown(stopped).await
            }
            Self::Unix(listener, path) => {
                let served = axum::serve(listener, app).with_graceful_shutdown(stopped).await;
                let _ = std::fs::remove_file(path);
                served
            }
        };
        if let Err(error) = served {
            tracing::error!(%error, "the API has failed");
        }
    }
}
