//! A scripted node: real gRPC, and the test itself answers each stream of a client.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use kgate_api::v1::client_message::Message as Said;
use kgate_api::v1::gates_server::{Gates, GatesServer};
use kgate_api::v1::server_message::Message as Say;
use kgate_api::v1::{
    ClientMessage, Granted, Hello, Renewed, ServerMessage, StatusReply, StatusRequest, Welcome,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// Long enough for a busy machine; whoever waits for it fails.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait)
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// A node. Dropped, it is gone with all its streams.
pub struct Node {
    pub address: SocketAddr,
    streams: mpsc::UnboundedReceiver<Line>,
    task: JoinHandle<()>,
}

/// One stream of a client.
pub struct Line {
    said: Streaming<ClientMessage>,
    tells: mpsc::Sender<Result<ServerMessage, Status>>,
}

struct Api(mpsc::UnboundedSender<Line>);

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Gates for Api {
    type SessionStream = Boxed<ServerMessage>;
    type WatchStream = Boxed<StatusReply>;

    async fn session(
        &self,
        request: Request<Streaming<ClientMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (tells, told) = mpsc::channel(64);
        let _ = self.0.send(Line { said: request.into_inner(), tells });
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
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

    /// At that address, once it is free.
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

    /// The next stream of a client, and its first word.
    pub async fn line(&mut self) -> (Line, Hello) {
        let mut line = in_time("a stream", self.streams.recv()).await.expect("the node runs");
        let Said::Hello(hello) = line.next().await else { panic!("the first word is no greeting") };
        (line, hello)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Line {
    pub async fn next(&mut self) -> Said {
        let said = in_time("a word of the client", self.said.next()).await;
        said.expect("the client is there").expect("a line").message.expect("a word")
    }

    /// The next word that is no renewal; those are answered with so many milliseconds.
    pub async fn word(&mut self, valid_for_ms: u64) -> Said {
        loop {
            let said = self.next().await;
            let Said::Renew(renew) = said else { return said };
            self.renewed(renew.sequence, valid_for_ms).await;
        }
    }

    pub async fn say(&self, tell: Say) {
        let _ = self.tells.send(Ok(ServerMessage { message: Some(tell) })).await;
    }

    pub async fn renewed(&self, sequence: u64, valid_for_ms: u64) {
        self.say(Say::Renewed(Renewed { sequence, valid_for_ns: Some(valid_for_ms * 1_000_000) }))
            .await;
    }

    pub async fn grant(&self, number: u64) {
        self.say(Say::Granted(Granted {
            request_id: number,
            slots: vec![0],
            fence: None,
            k: 1,
            ..Granted::default()
        }))
        .await;
    }
}

/// Session 7, with a lease of a second that is renewed all 20 ms, of which so much is left.
pub fn welcome(valid_for_ms: u64, holds: Vec<u64>) -> Say {
    Say::Welcome(Welcome {
        session_id: 7,
        secret: vec![9; 16],
        node: 0,
        valid_for_ns: Some(valid_for_ms * 1_000_000),
        held_request_ids: holds,
        lease_ns: Some(1_000_000_000),
        renew_every_ns: Some(20_000_000),
        stop_max_ns: Some(600_000_000),
        kill_ns: Some(100_000_000),
    })
}
