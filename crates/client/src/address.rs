//! Where a node is, and how one gets there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use kgate_api::v1::gates_client::GatesClient;
use kgate_api::v1::operators_client::OperatorsClient;
use tokio::net::{TcpStream, UnixStream};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::credentials::{Bearer, Credentials};
use crate::line::Note;
use crate::tls::Tls;
use crate::{Error, Refusal};
use kgate_api::v1;

/// The API of a node.
pub(crate) struct Api {
    pub(crate) gates: GatesClient<InterceptedService<Channel, Bearer>>,
    pub(crate) operators: OperatorsClient<InterceptedService<Channel, Bearer>>,
    place: String,
    note: Note,
}

impl Api {
    /// What a node's answer means that is none.
    pub(crate) fn said_no(&self, status: &tonic::Status) -> Error {
        said_no(&self.place, &self.note, status)
    }
}

/// Where a node is, and how one shows there who one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    place: Place,
    credentials: Credentials,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    Tcp { uri: String, host: String, port: u16, tls: bool },
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Address(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(wrong());
            }
            return Ok(Self {
                place: Place::Unix(path.into()),
                credentials: Credentials::default(),
            });
        }
        let uri = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let endpoint = Endpoint::from_shared(uri.clone()).map_err(|_| wrong())?;
        let tls = match endpoint.uri().scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let (host, port) = (endpoint.uri().host().ok_or_else(wrong)?, endpoint.uri().port_u16());
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let place = Place::Tcp { uri, host, port: port.ok_or_else(wrong)?, tls };
        Ok(Self { place, credentials: Credentials::default() })
    }
}

impl TryFrom<&str> for Address {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<&String> for Address {
    type Error = Error;

    fn try_from(text: &String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<&Address> for Address {
    fn from(address: &Address) -> Self {
        address.clone()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp { uri, .. } => f.write_str(uri),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// The same with these.
    pub fn with(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// The Unix socket, if it is one.
    pub fn socket(&self) -> Option<&Path> {
        match &self.place {
            Place::Unix(path) => Some(path),
            Place::Tcp { .. } => None,
        }
    }

    /// Connects, or says why not.
    pub(crate) async fn connect(&self, within: Duration) -> Result<Api, Error> {
        let bearer = self.credentials.bearer()?;
        if bearer.is_there() && self.is_open_to_others() {
            return Err(Error::Credentials(format!(
                "a token is not sent in the clear to {self}: anybody on the way could take it; ask by https://"
            )));
        }
        let note = Note::default();
        let connected = match &self.place {
            Place::Tcp { uri, tls: false, .. } => {
                let endpoint = Endpoint::from_shared(uri.clone()).expect("it was looked at");
                endpoint.tcp_nodelay(true).connect_timeout(within).connect().await
            }
            Place::Tcp { uri, host, port, tls: true } => {
                let mut tls = Some(Tls::load(&self.credentials, host)?);
                let (host, port, note) = (host.clone(), *port, note.clone());
                // One connection only: it is this client that dials again.
                let dial = tower::service_fn(move |_| {
                    let (tls, host, note) = (tls.take(), host.clone(), note.clone());
                    async move {
                        let gone = || std::io::Error::other("the connection is cut");
                        let tls = tls.ok_or_else(gone)?;
                        let stream = TcpStream::connect((host.as_str(), port)).await?;
                        stream.set_nodelay(true)?;
                        tls.greet(stream, note).await.map(TokioIo::new)
                    }
                });
                let endpoint = Endpoint::from_shared(uri.clone()).expect("it was looked at");
                endpoint.connect_timeout(within).connect_with_connector(dial).await
            }
            Place::Unix(path) => {
                let path = path.clone();
                let dial = tower::service_fn(move |_| {
                    let path = path.clone();
                    async move { UnixStream::connect(path).await.map(TokioIo::new) }
                });
                // A name must be there, and is never looked up.
                Endpoint::from_static("http://local")
                    .connect_timeout(within)
                    .connect_with_connector(dial)
                    .await
            }
        };
        let no_node = |error| Error::NoNode { address: self.to_string(), why: innermost(&error) };
        let channel = connected.map_err(no_node)?;
        let operators = OperatorsClient::with_interceptor(channel.clone(), bearer.clone());
        let gates = GatesClient::with_interceptor(channel, bearer);
        Ok(Api { gates, operators, place: self.to_string(), note })
    }

    /// Whether somebody on the way could read what is sent there.
    fn is_open_to_others(&self) -> bool {
        match &self.place {
            Place::Unix(_) | Place::Tcp { tls: true, .. } => false,
            Place::Tcp { host, .. } => {
                let here =
                    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
                host != "localhost" && !here
            }
        }
    }
}

fn said_no(place: &str, note: &Note, status: &tonic::Status) -> Error {
    let text = note.read().unwrap_or_else(|| status.message().to_owned());
    if let Some(code) = v1::ErrorCode::of_grpc_status(status) {
        return Error::Refused(Refusal { code, message: text });
    }
    let why = match status.code() {
        tonic::Code::Unavailable
        | tonic::Code::Unknown
        | tonic::Code::Internal
        | tonic::Code::Cancelled => {
            return Error::NoNode {
                address: place.to_owned(),
                why: not_understood(place, text, status),
            };
        }
        tonic::Code::Unauthenticated | tonic::Code::PermissionDenied => {
            v1::ErrorCode::PermissionDenied
        }
        tonic::Code::ResourceExhausted => v1::ErrorCode::LimitExceeded,
        tonic::Code::Aborted => v1::ErrorCode::Conflict,
        tonic::Code::FailedPrecondition => v1::ErrorCode::NoQuorum,
        tonic::Code::NotFound => v1::ErrorCode::Unspecified,
        tonic::Code::DeadlineExceeded => v1::ErrorCode::TimedOut,
        tonic::Code::InvalidArgument => v1::ErrorCode::BadRequest,
        tonic::Code::Ok
        | tonic::Code::AlreadyExists
        | tonic::Code::OutOfRange
        | tonic::Code::Unimplemented
        | tonic::Code::DataLoss => v1::ErrorCode::Unspecified,
    };
    Error::Refused(Refusal { code: why, message: text })
}

/// The other side cut the line, or speaks something else: which port it may be, since the library
/// cannot know.
fn not_understood(place: &str, text: String, status: &tonic::Status) -> String {
    if text != "transport error" && !text.starts_with("h2 protocol error") {
        return text;
    }
    let happened = innermost(status);
    // What this library says of itself tells nobody anything.
    let happened = if happened.contains(&text) { text } else { happened };
    let secure = if place.starts_with("http://") { ", and does it want https://?" } else { "?" };
    format!(
        "it does not answer as a node ({happened}). Is this its port for clients (`api`), not that for other nodes (`nodes`){secure}"
    )
}

/// What really happened: the words of the innermost error.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is an address, with and without its scheme, and what is not.
    #[test]
    fn addresses() {
        let read = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(read("http://a:1"), Ok("http://a:1".into()));
        assert_eq!(read("https://[::1]:1"), Ok("https://[::1]:1".into()));
        assert_eq!(read("127.0.0.1:7400"), Ok("http://127.0.0.1:7400".into()));
        assert_eq!(read("unix:/run/k"), Ok("unix:/run/k".into()));
        for wrong in ["", "unix:", "http://a", "https://a", "ftp://a:1", "a b:1"] {
            assert_eq!(read(wrong), Err(Error::Address(wrong.into())), "{wrong}");
        }
    }

    /// A line that is cut, or not understood, is told with what to look at; words of a node stay as
    /// they are.
    #[test]
    fn what_is_not_understood() {
        let said = |place: &str, text: &str| {
            not_understood(place, text.into(), &tonic::Status::unknown(text))
        };
        for text in ["transport error", "h2 protocol error: http2 error"] {
            let told = said("http://127.0.0.1:7401", text);
            assert!(told.contains("(`nodes`)") && told.contains("https://"), "{told}");
            assert!(!said("https://127.0.0.1:7401", text).contains("want https"));
        }
        assert_eq!(said("http://127.0.0.1:7401", "this node is stopping"), "this node is stopping");
    }

    /// Where others could read what is sent: a token goes nowhere there.
    #[test]
    fn who_could_read_a_token() {
        let open = |text: &str| text.parse::<Address>().unwrap().is_open_to_others();
        for address in ["http://10.0.0.1:1", "db.example:1", "http://localhost.evil:1"] {
            assert!(open(address), "{address}");
        }
        for address in
            ["https://10.0.0.1:1", "127.0.0.1:1", "http://[::1]:1", "localhost:1", "unix:/a"]
        {
            assert!(!open(address), "{address}");
        }
    }
}
