//! One stream to a node, opened by the handshake `Hello` / `Welcome`, and the token of its session.
//!
//! By a Unix socket it consists of frames, which cost a command that runs for a millisecond less
//! than HTTP/2 does. By TCP, and where the client has a token, it is gRPC.

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::client_message::Message as ClientMessage;
use kgate_api::v1::server_message::Message as ServerMessage;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::frame_stream::{FrameStream, StreamEnd};
use crate::transport::{CONNECT_TIMEOUT, Services};
use crate::{Address, Addresses, Error, ErrorKind, LeaseInstant};

/// Capacity of the queue of outgoing messages of gRPC.
const OUTGOING: usize = 256;

/// The ID and secret of a session. They suffice to resume the session or to end it, so `Debug`
/// does not show the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionToken {
    pub(crate) session_id: u64,
    pub(crate) secret: u128,
}

impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionToken {{ session_id: {}, secret: *** }}", self.session_id)
    }
}

impl SessionToken {
    /// The length of [`Self::to_bytes`].
    pub const LEN: usize = 24;

    /// The token as bytes, to store it.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.session_id.to_be_bytes());
        bytes[8..].copy_from_slice(&self.secret.to_be_bytes());
        bytes
    }

    /// The token that [`Self::to_bytes`] wrote; none if the bytes are not a token.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (session_id, secret) = bytes.split_first_chunk::<8>()?;
        let secret = u128::from_be_bytes(secret.try_into().ok()?);
        Some(Self { session_id: u64::from_be_bytes(*session_id), secret })
    }

    fn of(welcome: &v1::Welcome) -> Result<Self, Error> {
        let secret = welcome.secret.as_slice().try_into().map(u128::from_be_bytes);
        let secret = secret.map_err(|_| Error::unexpected("a welcome without a secret"))?;
        Ok(Self { session_id: welcome.session_id, secret })
    }
}

/// An open stream.
pub(crate) enum Connection {
    Frames(FrameStream),
    Grpc { outgoing: mpsc::Sender<v1::ClientMessage>, incoming: Streaming<v1::ServerMessage> },
}

/// A stream and its first message.
type Handshake<'a> = Pin<
    Box<dyn Future<Output = Result<(Connection, Option<v1::ServerMessage>), Error>> + Send + 'a>,
>;

/// A stream whose handshake has succeeded.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) token: SessionToken,
    pub(crate) welcome: v1::Welcome,
    /// When `Hello` was sent: the validity of the session counts from then (S1).
    pub(crate) sent: LeaseInstant,
}

impl Connection {
    /// Opens a new session at the first node that accepts it; otherwise returns the error of the
    /// last one.
    pub(crate) async fn open_any(
        addresses: &Addresses,
        hello: &v1::Hello,
    ) -> Result<(Address, Opened), Error> {
        let mut last = Error::new(ErrorKind::InvalidAddress, "no address given");
        for address in addresses.iter() {
            match Self::open(address, hello, None).await {
                Ok(opened) => return Ok((address.clone(), opened)),
                // Another node would give the same answer to anything but these.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::NodeGone) =>
                {
                    last = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Opens a stream, and a new session or that of `token`.
    pub(crate) async fn open(
        address: &Address,
        hello: &v1::Hello,
        token: Option<SessionToken>,
    ) -> Result<Opened, Error> {
        let mut hello = hello.clone();
        if let Some(SessionToken { session_id, secret }) = token {
            (hello.session_id, hello.secret) = (Some(session_id), secret.to_be_bytes().to_vec());
        }
        let handshake = Self::handshake(address, hello);
        tokio::time::timeout(CONNECT_TIMEOUT, handshake).await.unwrap_or_else(|_| {
            let cause = format!("timed out: no answer within {CONNECT_TIMEOUT:?}");
            Err(Error::unreachable(address, &cause))
        })
    }

    async fn handshake(address: &Address, hello: v1::Hello) -> Result<Opened, Error> {
        let sent = LeaseInstant::now();
        let hello = message(ClientMessage::Hello(hello.into()));
        let (connection, first) = match address.frame_socket() {
            Some(socket) => Self::by_frames(address, socket, &hello).await?,
            None => Self::by_grpc(address, hello).await?,
        };
        let closed = || Error::unreachable(address, "connection closed");
        match first.and_then(|first| first.message) {
            Some(ServerMessage::Welcome(welcome)) => {
                let token = SessionToken::of(&welcome)?;
                Ok(Opened { connection, token, welcome, sent })
            }
            Some(ServerMessage::Closed(v1::Closed { code, message })) => {
                Err(Error::sent(code, message))
            }
            Some(_) => Err(Error::unexpected("a message other than Welcome")),
            None => Err(closed()),
        }
    }

    /// Sends the first message, and waits for the answer.
    async fn by_frames(
        address: &Address,
        socket: &Path,
        hello: &v1::ClientMessage,
    ) -> Result<(Self, Option<v1::ServerMessage>), Error> {
        let connected = FrameStream::connect(socket).await;
        let unreachable = |error: std::io::Error| Error::unreachable(address, &error.to_string());
        let mut stream = connected.map_err(unreachable)?;
        stream.send(hello);
        let first = stream.receive().await.map_err(|end| match end {
            StreamEnd::Io(error) => unreachable(error),
            StreamEnd::Frames(_) | StreamEnd::NotRead => {
                Error::new(ErrorKind::Protocol, format!("{address}: {end}"))
            }
        })?;
        Ok((Self::Frames(stream), first))
    }

    /// Sends the first message, and waits for the answer. Boxed, as [`Services::connect`] is.
    #[inline(never)]
    fn by_grpc(address: &Address, hello: v1::ClientMessage) -> Handshake<'_> {
        Box::pin(async move {
            let mut services = Services::connect(address).await?;
            let (outgoing, queued) = mpsc::channel(OUTGOING);
            let closed = |_| Error::unreachable(address, "connection closed");
            outgoing.send(hello).await.map_err(closed)?;
            let stream = services.gates.session(ReceiverStream::new(queued)).await;
            let mut incoming = stream.map_err(|status| services.error(&status))?.into_inner();
            let first = incoming.message().await.map_err(|status| services.error(&status))?;
            Ok((Self::Grpc { outgoing, incoming }, first))
        })
    }

    /// Queues a message. A closed connection is noticed by [`Self::receive`].
    pub(crate) async fn send(&mut self, content: ClientMessage) {
        match self {
            Self::Frames(stream) => stream.send(&message(content)),
            Self::Grpc { outgoing, .. } => drop(outgoing.send(message(content)).await),
        }
    }

    /// The next message; the error says why the stream has ended.
    pub(crate) async fn receive(&mut self) -> Result<ServerMessage, String> {
        loop {
            let message = match self {
                Self::Frames(stream) => stream.receive().await.map_err(|end| end.to_string())?,
                Self::Grpc { incoming, .. } => {
                    incoming.message().await.map_err(|status| status.message().to_owned())?
                }
            };
            match message {
                Some(v1::ServerMessage { message: Some(message) }) => return Ok(message),
                // A message of a later version of the API.
                Some(v1::ServerMessage { message: None }) => {}
                None => return Err("the node closed the stream".into()),
            }
        }
    }
}

fn message(content: ClientMessage) -> v1::ClientMessage {
    v1::ClientMessage { message: Some(content) }
}

/// Until when a message that was sent at `sent` makes the session valid.
pub(crate) fn valid_until(sent: LeaseInstant, valid_for_ns: Option<u64>) -> LeaseInstant {
    valid_for_ns.map_or(LeaseInstant::FOR_EVER, |span| sent + Duration::from_nanos(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token survives the way through bytes; other bytes are refused; `Debug` hides the secret.
    #[test]
    fn tokens_are_stored_as_bytes() {
        let token = SessionToken { session_id: 7, secret: u128::MAX - 3 };
        assert_eq!(SessionToken::from_bytes(&token.to_bytes()), Some(token));
        assert_eq!(SessionToken::from_bytes(&[]), None);
        assert_eq!(SessionToken::from_bytes(&[0; SessionToken::LEN + 1]), None);
        assert_eq!(format!("{token:?}"), "SessionToken { session_id: 7, secret: *** }");
    }
}
