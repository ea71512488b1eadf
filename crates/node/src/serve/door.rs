//! Where clients come in: TCP, TLS, Unix sockets; gRPC and HTTP by each.
//!
//! Strangers are bounded before anything is known of them: so many may be at their greeting at
//! once, one more closes the oldest, and none takes longer than
//! [`HANDSHAKE`](super::tls::HANDSHAKE). Only who has greeted takes a place among the connections.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::authorisation::Identity;
use super::guard::{Guard, Reason, error};
use super::limits::{Bucket, Kind};
use super::tls::{Caller, Socket};
use super::{Desk, app};
use crate::config::Config;
use crate::shell::{End, ended, now};

/// So many may be at their greeting at once; one more closes the oldest.
const GREETING: usize = 256;
/// The head of a request must be there within this; so long may a connection of HTTP/1 be idle too.
const HEAD: Duration = Duration::from_secs(30);
/// A remote client of HTTP/2 is asked so often whether it is there, and has as long to answer.
const PING: Duration = Duration::from_secs(20);
/// The most bytes of a request's head.
const HEAD_BYTES: u32 = 32 << 10;
/// After an accept that has failed (no descriptors left): there may be some again.
const PAUSE: Duration = Duration::from_millis(100);

const ALL: &str =
    "acquire, see and operate every gate: [[allow]] in the configuration says who may what";

/// Where clients ask.
pub(crate) enum Door {
    Tcp(TcpListener),
    Tls(TcpListener, TlsAcceptor),
    Unix(UnixListener, PathBuf),
}

impl Door {
    /// Opens `HOST:PORT`, `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`. A socket that a
    /// node left behind is taken over; one in use is not.
    pub(crate) async fn open(address: &str, config: &Config, guard: &Guard) -> io::Result<Self> {
        if let Some(path) = address.strip_prefix("unix:") {
            return Self::open_unix(path.into()).await;
        }
        if let Some(address) = address.strip_prefix("https://") {
            let missing = || {
                error(
                    "https needs certificates: give [tls] or [api_tls] with certificate, key and authority (`kgate certs new` makes them)",
                )
            };
            let files = config.api_tls.as_ref().or(config.tls.as_ref()).ok_or_else(missing)?;
            let acceptor = kgate_net::acceptor(
                &files.certificate,
                &files.key,
                &files.authority,
                guard.callers(),
            );
            let acceptor = acceptor.map_err(|wrong| error(wrong.to_string()))?;
            let listener = TcpListener::bind(address).await?;
            if !listener.local_addr()?.ip().is_loopback() && guard.policy.is_empty() {
                tracing::warn!(address, "everybody with a certificate of this authority may {ALL}");
            }
            return Ok(Self::Tls(listener, acceptor));
        }
        let listener =
            TcpListener::bind(address.strip_prefix("http://").unwrap_or(address)).await?;
        let beyond = !listener.local_addr()?.ip().is_loopback();
        if beyond && !config.plain_api {
            return Err(error(format!(
                "it can be reached from other machines and would be plain: anybody on the network could read and change what clients say. \
                 Write https://{address} and give [tls], or plain_api = true if the network protects it"
            )));
        }
        if beyond && guard.policy.is_empty() {
            tracing::warn!(address, "everybody who can reach this address may {ALL}");
        }
        Ok(Self::Tcp(listener))
    }

    async fn open_unix(path: PathBuf) -> io::Result<Self> {
        if std::fs::symlink_metadata(&path).is_ok_and(|file| file.file_type().is_socket()) {
            if tokio::net::UnixStream::connect(&path).await.is_ok() {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "another node serves this socket",
                ));
            }
            std::fs::remove_file(&path)?;
        }
        Ok(Self::Unix(UnixListener::bind(&path)?, path))
    }

    /// How clients write it.
    pub(crate) fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("http://{}", listener.local_addr()?)),
            Self::Tls(listener, _) => Ok(format!("https://{}", listener.local_addr()?)),
            Self::Unix(_, path) => Ok(format!("unix:{}", path.display())),
        }
    }

    async fn accept(&self) -> io::Result<Caller> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok(Caller::Plain(stream, from.ip().to_canonical()))
            }
            Self::Tls(listener, acceptor) => {
                let (stream, from) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok(Caller::Tls(stream, from.ip().to_canonical(), acceptor.clone()))
            }
            Self::Unix(listener, _) => Ok(Caller::Unix(listener.accept().await?.0)),
        }
    }

    /// Serves clients until the node stops.
    pub(crate) async fn serve(self, desk: Desk, mut end: watch::Receiver<End>) {
        let guard = desk.guard.clone();
        let app = app(desk);
        let mut greeting: VecDeque<AbortHandle> = VecDeque::new();
        let mut grumbles = Bucket::default();
        loop {
            let caller = tokio::select! {
                biased;
                _ = ended(&mut end) => break,
                caller = self.accept() => caller,
            };
            let caller = match caller {
                Ok(caller) => caller,
                Err(error) => {
                    if grumbles.take(now(), 1, 5).is_ok() {
                        tracing::error!(%error, "cannot take a client's connection");
                    }
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            greeting.retain(|task| !task.is_finished());
            if greeting.len() >= GREETING
                && let Some(oldest) = greeting.pop_front()
            {
                oldest.abort();
                guard.refuse(Reason::Handshake, String::new());
            }
            let task = tokio::spawn(greet(caller, guard.clone(), app.clone(), end.clone()));
            greeting.push_back(task.abort_handle());
        }
        if let Self::Unix(_, path) = &self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Finds out who it is, and lets it in if there is a place.
async fn greet(caller: Caller, guard: Arc<Guard>, app: Router, end: watch::Receiver<End>) {
    let (place, is_remote) = (caller.place(), caller.is_remote());
    let turned_away = |refusal: &str| tracing::debug!(from = place, "turned away: {refusal}");
    let (stream, who) = match caller.greet(&guard.cluster).await {
        Ok(greeted) => greeted,
        Err(why) => return turned_away(&guard.refuse(Reason::Handshake, why).message),
    };
    let Ok(taken) = guard.places.clone().try_acquire_owned() else {
        let text = "this node has its most connections (connections_max)".into();
        return turned_away(&guard.refuse(Reason::Connections, text).message);
    };
    let counted = match guard.enter(&who, Kind::Connection) {
        Ok(counted) => counted,
        Err(refusal) => return turned_away(&refusal.message),
    };
    // A task of its own: the one that greets may be cut off.
    tokio::spawn(async move {
        converse(stream, Known { app, who }, is_remote, end).await;
        drop((taken, counted));
    });
}

/// HTTP/1 or HTTP/2, until either side has enough.
async fn converse(
    stream: Box<dyn Socket>,
    app: Known,
    is_remote: bool,
    mut end: watch::Receiver<End>,
) {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_headers(64);
    http.http2().timer(TokioTimer::new()).max_header_list_size(HEAD_BYTES);
    if is_remote {
        http.http2().keep_alive_interval(PING).keep_alive_timeout(PING);
    }
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
        tracing::debug!(error, "a client's connection has ended");
    }
}

/// The API for one connection: each of its requests tolerates who is at the other end.
#[derive(Clone)]
struct Known {
    app: Router,
    who: Identity,
}

impl<B> Service<Request<B>> for Known
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = <Router as Service<Request<B>>>::Response;
    type Error = <Router as Service<Request<B>>>::Error;
    type Future = <Router as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        <Router as Service<Request<B>>>::poll_ready(&mut self.app, context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.who.clone());
        self.app.call(request)
    }
}
