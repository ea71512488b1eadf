//! Connections to nodes: TCP, TLS or a Unix socket, with gRPC on top.

use std::pin::Pin;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use kgate_api::v1;
use kgate_api::v1::gates_client::GatesClient;
use kgate_api::v1::operators_client::OperatorsClient;
use tokio::net::{TcpStream, UnixStream};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::address::{Address, Addresses, Place};
use crate::credentials::Bearer;
use crate::tls::Tls;
use crate::tls_stream::TlsFailure;
use crate::{Error, ErrorKind};

/// Maximum time to connect, and to answer the first message of a stream.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A node from which nothing has come for this time is sent a ping, and has the same time to answer
/// it. So a call without a time limit of its own fails after twice this time at a node that
/// is frozen or whose machine is gone.
const PING_AFTER: Duration = Duration::from_secs(5);

/// How the library says that a ping was not answered.
const KEEP_ALIVE_TIMED_OUT: &str = "operation timed out";

/// The gRPC services of one node.
pub(crate) struct Services {
    pub(crate) gates: GatesClient<InterceptedService<Channel, Bearer>>,
    pub(crate) operators: OperatorsClient<InterceptedService<Channel, Bearer>>,
    place: String,
    tls_failure: TlsFailure,
}

impl Services {
    /// Connects to the first node that accepts a connection; otherwise returns the error of the
    /// last one.
    pub(crate) async fn connect_any(addresses: &Addresses) -> Result<Self, Error> {
        let mut result = Err(Error::new(ErrorKind::InvalidAddress, "no address given"));
        for address in addresses.iter() {
            result = Self::connect_with(address, KeepAlive::On).await;
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Connects for the stream of a session, which notices by itself that its node is silent. The
    /// future is boxed: it has tens of kilobytes, which each future around it would have too, also
    /// where it is never polled.
    #[inline(never)]
    pub(crate) fn connect(
        address: &Address,
    ) -> Pin<Box<dyn Future<Output = Result<Self, Error>> + Send + '_>> {
        Box::pin(Self::connect_with(address, KeepAlive::Off))
    }

    async fn connect_with(address: &Address, keep_alive: KeepAlive) -> Result<Self, Error> {
        let endpoint = |uri: &str| endpoint(uri, keep_alive);
        let bearer = address.credentials.bearer()?;
        if bearer.is_present() && address.is_cleartext() {
            return Err(Error::new(
                ErrorKind::Credentials,
                format!("refusing to send a token in cleartext to {address}: use https://"),
            ));
        }
        let tls_failure = TlsFailure::default();
        let connected = match &address.place {
            Place::Tcp { uri, tls: false, .. } => endpoint(uri).tcp_nodelay(true).connect().await,
            Place::Tcp { uri, host, port, tls: true } => {
                let mut tls = Some(Tls::load(&address.credentials, host)?);
                let (host, port, failure) = (host.clone(), *port, tls_failure.clone());
                // The channel connects once; this crate reconnects by itself.
                let connector = tower::service_fn(move |_| {
                    let (tls, host, failure) = (tls.take(), host.clone(), failure.clone());
                    async move {
                        let closed = || std::io::Error::other("connection closed");
                        let tls = tls.ok_or_else(closed)?;
                        let stream = TcpStream::connect((host.as_str(), port)).await?;
                        stream.set_nodelay(true)?;
                        tls.handshake(stream, failure).await.map(TokioIo::new)
                    }
                });
                endpoint(uri).connect_with_connector(connector).await
            }
            Place::Unix(path) => {
                let path = path.clone();
                let connector = tower::service_fn(move |_| {
                    let path = path.clone();
                    async move { UnixStream::connect(path).await.map(TokioIo::new) }
                });
                // gRPC needs a host name; the connector ignores it.
                endpoint("http://local").connect_with_connector(connector).await
            }
        };
        let channel =
            connected.map_err(|error| Error::unreachable(address, &root_cause(&error)))?;
        Ok(Self {
            operators: OperatorsClient::with_interceptor(channel.clone(), bearer.clone()),
            gates: GatesClient::with_interceptor(channel, bearer),
            place: address.to_string(),
            tls_failure,
        })
    }

    /// The error that a gRPC status means.
    pub(crate) fn error(&self, status: &tonic::Status) -> Error {
        error_of(&self.place, &self.tls_failure, status)
    }
}

/// Whether a silent node is sent pings.
#[derive(Clone, Copy)]
enum KeepAlive {
    On,
    Off,
}

fn endpoint(uri: &str, keep_alive: KeepAlive) -> Endpoint {
    let endpoint = Endpoint::from_shared(uri.to_owned())
        .expect("an address holds a valid URI")
        .connect_timeout(CONNECT_TIMEOUT);
    match keep_alive {
        KeepAlive::On => {
            endpoint.http2_keep_alive_interval(PING_AFTER).keep_alive_timeout(PING_AFTER)
        }
        KeepAlive::Off => endpoint,
    }
}

fn error_of(place: &str, tls_failure: &TlsFailure, status: &tonic::Status) -> Error {
    let message = tls_failure.get().unwrap_or_else(|| status.message().to_owned());
    if let Some(code) = v1::ErrorCode::of_grpc_status(status) {
        return Error::new(ErrorKind::of(code), message);
    }
    // A kgate node sends its code with each error. Without one, gRPC or the transport failed.
    let kind = match status.code() {
        tonic::Code::Unavailable
        | tonic::Code::Unknown
        | tonic::Code::Internal
        | tonic::Code::Cancelled => {
            return Error::unreachable(place, &describe(place, message, status));
        }
        tonic::Code::Unauthenticated => ErrorKind::Unauthenticated,
        tonic::Code::PermissionDenied => ErrorKind::PermissionDenied,
        tonic::Code::ResourceExhausted => ErrorKind::LimitExceeded,
        tonic::Code::DeadlineExceeded => ErrorKind::TimedOut,
        tonic::Code::InvalidArgument | tonic::Code::OutOfRange => ErrorKind::BadRequest,
        tonic::Code::Ok
        | tonic::Code::Aborted
        | tonic::Code::FailedPrecondition
        | tonic::Code::NotFound
        | tonic::Code::AlreadyExists
        | tonic::Code::Unimplemented
        | tonic::Code::DataLoss => ErrorKind::Protocol,
    };
    Error::new(kind, message)
}

/// Describes an error of the transport. The library cannot know that the port is wrong; this
/// function suggests what to check.
fn describe(place: &str, message: String, status: &tonic::Status) -> String {
    if root_cause(status) == KEEP_ALIVE_TIMED_OUT {
        return format!(
            "it accepts connections and has not answered within {:?}: it is stopped, frozen or \
             overloaded; nothing was answered, and the request may still take effect",
            2 * PING_AFTER
        );
    }
    if message != "transport error" && !message.starts_with("h2 protocol error") {
        return message;
    }
    let cause = root_cause(status);
    // The library's own name for itself as a cause says nothing.
    let cause = if cause.contains(&message) { message } else { cause };
    let scheme = if place.starts_with("http://") { ", and does it need https://?" } else { "?" };
    format!(
        "unexpected answer ({cause}). Is this the port for clients (`api`), not the one for other \
        nodes (`nodes`){scheme}"
    )
}

/// The message of the innermost error.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of the transport suggests what to check; a message of a node stays as it is.
    #[test]
    fn transport_errors_suggest_what_to_check() {
        let described = |place: &str, message: &str| {
            describe(place, message.into(), &tonic::Status::unknown(message))
        };
        for message in ["transport error", "h2 protocol error: http2 error"] {
            let text = described("http://127.0.0.1:7401", message);
            assert!(text.contains("(`nodes`)") && text.contains("https://"), "{text}");
            assert!(!described("https://127.0.0.1:7401", message).contains("need https"));
        }
        assert_eq!(described("http://a:1", "this node is stopping"), "this node is stopping");
    }

    /// The code that a node sends decides the kind, not the status of gRPC.
    #[test]
    fn the_code_of_the_node_decides_the_kind() {
        let kind =
            |status: &tonic::Status| error_of("http://a:1", &TlsFailure::default(), status).kind();
        let sent = v1::ErrorCode::GateNotFound.grpc_status("no gate `gpu`");
        assert_eq!(kind(&sent), ErrorKind::GateNotFound);
        assert_eq!(kind(&tonic::Status::not_found("no route")), ErrorKind::Protocol);
        assert_eq!(kind(&tonic::Status::unavailable("refused")), ErrorKind::Unreachable);
    }
}
