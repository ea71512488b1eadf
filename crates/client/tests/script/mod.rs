//! A scripted node: real gRPC or real frames, and the test itself answers each stream of a client.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use kgate_api::frames::{Decoder, encode};

use kgate_api::v1::client_message::Message as FromClient;
use kgate_api::v1::gates_server::{Gates, GatesServer};
use kgate_api::v1::server_message::Message as FromServer;
use kgate_api::v1::{
    ClientMessage, Granted, Hello, ReenterReply, ReenterRequest, Renewed, ServerMessage,
    StatusReply, StatusRequest, Welcome,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// The longest wait of a test: long enough for a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// What carries a session.
#[derive(Clone, Copy, Debug)]
pub enum Framing {
    /// gRPC, by TCP.
    Grpc,
    /// Frames, by a Unix socket.
    Frames,
}

/// Runs a test once with each framing.
pub fn by_each(test: impl AsyncFn(Framing)) {
    for framing in [Framing::Grpc, Framing::Frames] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(framing));
    }
}

pub async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait)
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// A node. Dropping it closes all its streams.
pub struct Node {
    pub address: String,
    streams: mpsc::UnboundedReceiver<ClientStream>,
    task: JoinHandle<()>,
}

/// One stream of a client.
pub struct ClientStream {
    received: Boxed<ClientMessage>,
    sender: mpsc::Sender<ServerMessage>,
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
        let _ = self.0.send(ClientStream { received: Box::pin(request.into_inner()), sender });
        Ok(Response::new(Box::pin(ReceiverStream::new(sent).map(Ok))))
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
    pub async fn start(framing: Framing) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = format!("kgate-client-{}-{number}.sock", std::process::id());
        Self::at(&match framing {
            Framing::Grpc => "http://127.0.0.1:0".to_owned(),
            Framing::Frames => format!("unix:{}", std::env::temp_dir().join(socket).display()),
        })
        .await
    }

    /// Starts at a fixed address, once it is free.
    pub async fn at(address: &str) -> Self {
        let (lines, streams) = mpsc::unbounded_channel();
        if let Some(socket) = address.strip_prefix("unix:") {
            let _ = std::fs::remove_file(socket);
            let listener = UnixListener::bind(Path::new(socket)).unwrap();
            let task = tokio::spawn(serve_frames(listener, lines));
            return Self { address: address.to_owned(), streams, task };
        }
        let address: SocketAddr = address.trim_start_matches("http://").parse().unwrap();
        let bind = async {
            loop {
                match TcpListener::bind(address).await {
                    Ok(listener) => return listener,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        let listener = in_time("the address", bind).await;
        let address = format!("http://{}", listener.local_addr().unwrap());
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
        (stream, *hello)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(socket) = self.address.strip_prefix("unix:") {
            let _ = std::fs::remove_file(socket);
        }
    }
}

async fn serve_frames(listener: UnixListener, streams: mpsc::UnboundedSender<ClientStream>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (sender, sent) = mpsc::channel(64);
        let (received, messages) = mpsc::channel(64);
        tokio::spawn(carry_frames(stream, received, sent));
        let received = Box::pin(ReceiverStream::new(messages));
        let _ = streams.send(ClientStream { received, sender });
    }
}

/// Carries the messages of one stream, until the test drops it or the client goes.
async fn carry_frames(
    stream: UnixStream,
    received: mpsc::Sender<Result<ClientMessage, Status>>,
    mut sent: mpsc::Receiver<ServerMessage>,
) {
    let (mut reader, mut writer) = stream.into_split();
    let read = async {
        let mut decoder = Decoder::new(1 << 20);
        while !decoder.preface().expect("a preface") {
            assert_ne!(reader.read_buf(decoder.room()).await.unwrap_or(0), 0, "no preface");
        }
        loop {
            while let Some(message) = decoder.next().expect("a frame") {
                if received.send(Ok(message)).await.is_err() {
                    return;
                }
            }
            if reader.read_buf(decoder.room()).await.unwrap_or(0) == 0 {
                return;
            }
        }
    };
    let write = async {
        while let Some(message) = sent.recv().await {
            let mut bytes = BytesMut::new();
            encode(&message, &mut bytes);
            if writer.write_all_buf(&mut bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
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
        let _ = self.sender.send(ServerMessage { message: Some(message) }).await;
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
