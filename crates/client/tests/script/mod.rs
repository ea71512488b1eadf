//! A scripted node: real gRPC, and the test itself answers each stream of a client.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use kgate_api::v1::client_message::Message as FromClient;
use kgate_api::v1::gates_server::{Gates, GatesServer};
use kgate_api::v1::server_message::Message as FromServer;
use kgate_api::v1::{
    ClientMessage, Granted, Hello, ReenterReply, ReenterRequest, Renewed, ServerMessage,
    StatusReply, StatusRequest, Welcome,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// The longest wait of a test: long enough for a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait)
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// A node. Dropping it closes all its streams.
pub struct Node {
    pub address: SocketAddr,
    streams: mpsc::UnboundedReceiver<ClientStream>,
    task: JoinHandle<()>,
}

/// One stream of a client.
pub struct ClientStream {
    received: Streaming<ClientMessage>,
    sender: mpsc::Sender<Result<ServerMessage, Status>>,
}

struct Api(mpsc::UnboundedSender<ClientStream>);

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Gates for Api {
    type SessionStream = Boxed<ServerMessage>;
    type WatchStream = Boxed<StatusReply>;

    async fn session(
        &self,
        request: Request<Streaming<ClientMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (sender, sent) = mpsc::channel(64);
        let _ = self.0.send(ClientStream { received: request.into_inner(), sender });
        Ok(Response::new(Box::pin(ReceiverStream::new(sent))))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn reenter(&self, _: Request<ReenterRequest>) -> Result<Response<ReenterReply>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn watch(
        &self,
        _: Request<StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("not in this script"))
    }
}

impl Node {
    pub async fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap()).await
    }

    /// Starts at a fixed address, once it is free.
    pub async fn at(address: SocketAddr) -> Self {
        let bind = async {
            loop {
                match TcpListener::bind(address).await {
                    Ok(listener) => return listener,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        let listener = in_time("the address", bind).await;
        let address = listener.local_addr().unwrap();
        let (lines, streams) = mpsc::unbounded_channel();
        let app = tonic::service::Routes::new(GatesServer::new(Api(lines))).into_axum_router();
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, streams, task }
    }

    /// The next stream of a client, and its first message.
    pub async fn stream(&mut self) -> (ClientStream, Hello) {
        let mut stream = in_time("a stream", self.streams.recv()).await.expect("the node runs");
        let FromClient::Hello(hello) = stream.next().await else {
            panic!("the first message is no handshake")
        };
        (stream, hello)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ClientStream {
    pub async fn next(&mut self) -> FromClient {
        let message = in_time("a message of the client", self.received.next()).await;
        message.expect("the client is connected").expect("no error").message.expect("a kind")
    }

    /// The next message that is no renewal. Renewals before it are answered with `valid_for_ms`.
    pub async fn next_request(&mut self, valid_for_ms: u64) -> FromClient {
        loop {
            let message = self.next().await;
            let FromClient::Renew(renew) = message else { return message };
            self.renewed(renew.sequence, valid_for_ms).await;
        }
    }

    pub async fn send(&self, message: FromServer) {
        let _ = self.sender.send(Ok(ServerMessage { message: Some(message) })).await;
    }

    pub async fn renewed(&self, sequence: u64, valid_for_ms: u64) {
        self.send(FromServer::Renewed(Renewed {
            sequence,
            valid_for_ns: Some(valid_for_ms * 1_000_000),
        }))
        .await;
    }

    pub async fn grant(&self, number: u64) {
        self.send(FromServer::Granted(Granted {
            request_id: number,
            slots: vec![0],
            fence: None,
            k: 1,
            ..Granted::default()
        }))
        .await;
    }
}

/// Session 7: its lease lasts one second, of which `valid_for_ms` are left, and is renewed every
/// 20 ms.
pub fn welcome(valid_for_ms: u64, holds: Vec<u64>) -> FromServer {
    FromServer::Welcome(Welcome {
        session_id: 7,
        secret: vec![9; 16],
        node: 0,
        valid_for_ns: Some(valid_for_ms * 1_000_000),
        held_request_ids: holds,
        lease_ns: Some(1_000_000_000),
        renew_every_ns: Some(20_000_000),
        stop_max_ns: Some(600_000_000),
        kill_ns: Some(100_000_000),
        ..Welcome::default()
    })
}
