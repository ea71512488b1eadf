//! Accepts the connections of clients: TCP, TLS and Unix sockets, with gRPC and HTTP on each, and
//! frames on Unix sockets.
//!
//! Unidentified connections are bounded: at most [`HANDSHAKES_MAX`] are in their handshake, one
//! more closes the oldest, and a handshake takes at most
//! [`HANDSHAKE_TIMEOUT`](super::handshake::HANDSHAKE_TIMEOUT). Only identified connections count
//! towards `connections_max`.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Request, header};
use axum::response::IntoResponse;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::access::{AccessControl, Reason, error};
use super::authorisation::Identity;
use super::error::ApiError;
use super::grpc::is_grpc;
use super::handshake::{Established, HANDSHAKE_TIMEOUT, Incoming, Socket};
use super::limits::{Bucket, Kind};
use super::unix_socket::UnixSocket;
use super::{CoreHandle, app, frames};
use crate::config::Config;
use crate::holder_tree::Peer;
use crate::shell::{End, ended, now};

/// Maximum number of concurrent handshakes; one more closes the oldest.
const HANDSHAKES_MAX: usize = 256;
/// Maximum time to receive the head of a request, or a frame; also the idle timeout of an HTTP/1
/// connection, and of a client that does not read its frames.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval and timeout of HTTP/2 pings to remote clients.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Maximum size of a request's head.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Maximum time for a message of gRPC to arrive, from its first byte.
pub(super) const MESSAGE_TIMEOUT: Duration = HEAD_TIMEOUT;
/// Maximum number of requests at a time on one connection of HTTP/2, and the bytes of bodies that
/// it may send before they are read: of one request, and of all. They bound the memory of a
/// connection.
const STREAMS_MAX: u32 = 64;
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Pause after a failed accept, for example because no file descriptor was free.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

const ALL: &str =
    "acquire, see and operate every gate; restrict this with [[allow]] in the configuration";

/// A socket on which clients connect.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener, TlsAcceptor),
    Unix(UnixSocket),
}

impl Listener {
    /// Listens at `HOST:PORT`, `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`. For
    /// the path of an inherited socket that one is used.
    pub(crate) async fn open(
        address: &str,
        config: &Config,
        access: &AccessControl,
        inherited: &mut Option<UnixListener>,
    ) -> io::Result<Self> {
        if let Some(path) = address.strip_prefix("unix:") {
            let socket = UnixSocket::open(path.into(), config, inherited).await?;
            return Ok(Self::Unix(socket));
        }
        if let Some(address) = address.strip_prefix("https://") {
            let missing = || {
                error(
                    "https needs certificates: set certificate, key and authority in [tls] or \
                     [api_tls] (`kgate certs new` makes them)",
                )
            };
            let files = config.api_tls.as_ref().or(config.tls.as_ref()).ok_or_else(missing)?;
            let acceptor = kgate_net::acceptor(
                &files.certificate,
                &files.key,
                &files.authority,
                access.client_certificate(),
            );
            let acceptor = acceptor.map_err(|wrong| error(wrong.to_string()))?;
            let listener = TcpListener::bind(address).await?;
            if !listener.local_addr()?.ip().is_loopback() && access.policy.is_empty() {
                tracing::warn!(
                    address,
                    "every client with a certificate of this authority may {ALL}"
                );
            }
            return Ok(Self::Tls(listener, acceptor));
        }
        let listener =
            TcpListener::bind(address.strip_prefix("http://").unwrap_or(address)).await?;
        let beyond = !listener.local_addr()?.ip().is_loopback();
        if beyond && !config.plain_api {
            return Err(error(format!(
                "refusing a cleartext API that other machines can reach: use https://{address} with [tls], \
                 or set plain_api = true if the network itself is protected"
            )));
        }
        if beyond && access.policy.is_empty() {
            tracing::warn!(address, "every client that can reach this address may {ALL}");
        }
        Ok(Self::Tcp(listener))
    }

    /// What tells other nodes that this one listens here. To be kept until this node has ended.
    pub(crate) fn take_lock(&mut self) -> Option<File> {
        match self {
            Self::Unix(socket) => socket.lock.take(),
            Self::Tcp(_) | Self::Tls(..) => None,
        }
    }

    /// The address in the form that clients use.
    pub(crate) fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("http://{}", listener.local_addr()?)),
            Self::Tls(listener, _) => Ok(format!("https://{}", listener.local_addr()?)),
            Self::Unix(socket) => Ok(format!("unix:{}", socket.path.display())),
        }
    }

    async fn accept(&self) -> io::Result<Incoming> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok(Incoming::Plain(stream, from.ip().to_canonical()))
            }
            Self::Tls(listener, acceptor) => {
                let (stream, from) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok(Incoming::Tls(stream, from.ip().to_canonical(), acceptor.clone()))
            }
            Self::Unix(socket) => Ok(Incoming::Unix(socket.accept().await?)),
        }
    }

    /// Accepts clients until the node stops.
    pub(crate) async fn serve(self, core: CoreHandle, mut end: watch::Receiver<End>) {
        let app = app(core.clone());
        let access = &core.access;
        let mut handshakes: VecDeque<AbortHandle> = VecDeque::new();
        let mut log_budget = Bucket::default();
        loop {
            let caller = tokio::select! {
                biased;
                _ = ended(&mut end) => break,
                caller = self.accept() => caller,
            };
            let caller = match caller {
                Ok(caller) => caller,
                Err(error) => {
                    if log_budget.take(now(), 1, 5).is_ok() {
                        tracing::error!(%error, "cannot accept a connection of a client");
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            handshakes.retain(|task| !task.is_finished());
            if handshakes.len() >= HANDSHAKES_MAX
                && let Some(oldest) = handshakes.pop_front()
            {
                oldest.abort();
                access.refuse(Reason::Handshake, String::new());
            }
            let task = tokio::spawn(connect(caller, core.clone(), app.clone(), end.clone()));
            handshakes.push_back(task.abort_handle());
        }
    }
}

/// Identifies the client, and serves it within the limits.
async fn connect(caller: Incoming, core: CoreHandle, app: Router, mut end: watch::Receiver<End>) {
    let access = core.access.clone();
    let (place, is_remote, peer) = (caller.place(), caller.is_remote(), caller.peer());
    let log_refusal = |refusal: &str| tracing::debug!(from = place, "refused: {refusal}");
    let (stream, who) = match caller.handshake(&access.cluster).await {
        Ok(established) => established,
        Err(error) => {
            return log_refusal(&access.refuse(Reason::Handshake, error.to_string()).message);
        }
    };
    let taken = access.connections.clone().try_acquire_owned().map_err(|_| {
        let text = "this node has reached connections_max: retry later, or raise it";
        access.refuse(Reason::Connections, text.into())
    });
    let counted = taken.and_then(|taken| Ok((taken, access.reserve(&who, Kind::Connection)?)));
    let counted = match counted {
        Ok(counted) => counted,
        Err(refusal) => {
            log_refusal(&refusal.message);
            // In the task of the handshake, whose number is bounded.
            let told = timeout(HANDSHAKE_TIMEOUT, refuse(stream, refusal, end));
            return drop(told.await);
        }
    };
    // A task of its own: the task of the handshake may be aborted.
    tokio::spawn(async move {
        match stream {
            Established::Http(stream) => serve_http(stream, app, who, peer, is_remote, end).await,
            Established::Unix(stream) => {
                let begun = tokio::select! {
                    begun = speaks_frames(&stream) => begun,
                    _ = ended(&mut end) => None,
                };
                match begun {
                    Some(true) => {
                        frames::serve(stream, &core, &who, peer, HEAD_TIMEOUT, &mut end).await
                    }
                    Some(false) => {
                        serve_http(Box::new(stream), app, who, peer, is_remote, end).await;
                    }
                    None => {}
                }
            }
        }
        drop(counted);
    });
}

/// Tells a client why it is not served, in answer to its first request.
async fn refuse(stream: Established, refusal: ApiError, end: watch::Receiver<End>) {
    let stream: Box<dyn Socket> = match stream {
        Established::Http(stream) => stream,
        Established::Unix(stream) => match speaks_frames(&stream).await {
            Some(true) => return frames::refuse(stream, refusal, HANDSHAKE_TIMEOUT).await,
            Some(false) => Box::new(stream),
            None => return,
        },
    };
    let answer = move |request: axum::extract::Request| {
        let refusal = refusal.clone();
        async move {
            let mut response = match is_grpc(request.headers()) {
                true => tonic::Status::from(refusal).into_http(),
                false => refusal.into_response(),
            };
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    };
    let nobody = Identity::Anonymous(std::net::Ipv4Addr::UNSPECIFIED.into());
    serve_http(stream, Router::new().fallback(answer), nobody, None, false, end).await;
}

/// Whether the first byte of a connection is that of frames. None if it has none in time. The byte
/// is not taken.
async fn speaks_frames(stream: &UnixStream) -> Option<bool> {
    let peek = || {
        let mut byte = [0];
        let (_, read) = rustix::net::recv(stream, &mut byte, RecvFlags::PEEK)?;
        Ok((read == 1).then(|| byte == kgate_api::frames::MAGIC[..1]))
    };
    let peeked = tokio::time::timeout(HEAD_TIMEOUT, stream.async_io(Interest::READABLE, peek));
    peeked.await.ok()?.ok()?
}

/// Serves HTTP/1 or HTTP/2 until either side closes the connection.
async fn serve_http(
    stream: Box<dyn Socket>,
    app: Router,
    who: Identity,
    peer: Option<Peer>,
    is_remote: bool,
    mut end: watch::Receiver<End>,
) {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_headers(64);
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    if is_remote {
        http.http2().keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_INTERVAL);
    }
    let app = app.map_request(move |request| identified(request, &who, peer));
    let mut connection =
        pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app)));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = ended(&mut end) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "connection of a client failed");
    }
}

/// Adds the identity of the client, and its process on a Unix socket, to a request.
fn identified<B>(mut request: Request<B>, who: &Identity, peer: Option<Peer>) -> Request<B> {
    request.extensions_mut().insert(who.clone());
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    request
}
