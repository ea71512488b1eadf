//! Identifies the client of a new connection: by its TLS certificate, as the user of a Unix socket,
//! or only by its address.

use std::net::IpAddr;
use std::time::Duration;

use kgate_net::{TlsError, client_identity, dns_names};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;

use super::authorisation::{Identity, LocalUser};
use crate::holder_tree::Peer;

/// Maximum time until a new connection has completed TLS and sent its first byte.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for a refused client to read the TLS alert.
const ALERT_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a client could not be identified.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("timed out: no valid handshake within {HANDSHAKE_TIMEOUT:?}")]
    TimedOut,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the client certificate has no DNS name client-NAME.CLUSTER, only {0:?}")]
    NoClientName(Vec<String>),
}

/// A byte stream to a client: plain, TLS or Unix.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A connection whose client is identified.
pub(super) enum Established {
    /// Speaks HTTP.
    Http(Box<dyn Socket>),
    /// Its first byte tells whether it speaks HTTP or frames.
    Unix(UnixStream),
}

/// A connection that was accepted, before its handshake.
pub(super) enum Incoming {
    Plain(TcpStream, IpAddr),
    Tls(TcpStream, IpAddr, TlsAcceptor),
    Unix(UnixStream),
}

impl Incoming {
    /// The address of the client, for the log.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Plain(_, address) | Self::Tls(_, address, _) => address.to_string(),
            Self::Unix(_) => "the Unix socket".into(),
        }
    }

    /// Whether the client may be on another machine, where a connection can die silently.
    pub(super) fn is_remote(&self) -> bool {
        !matches!(self, Self::Unix(_))
    }

    /// The process at the other end of a Unix socket.
    pub(super) fn peer(&self) -> Option<Peer> {
        match self {
            Self::Plain(..) | Self::Tls(..) => None,
            Self::Unix(stream) => {
                let peer = stream.peer_cred().ok()?;
                Some(Peer { pid: peer.pid(), user: peer.uid() })
            }
        }
    }

    /// Identifies the client. Where only its address is known, waits for its first byte.
    pub(super) async fn handshake(
        self,
        cluster: &str,
    ) -> Result<(Established, Identity), HandshakeError> {
        tokio::time::timeout(HANDSHAKE_TIMEOUT, self.identify(cluster))
            .await
            .unwrap_or(Err(HandshakeError::TimedOut))
    }

    async fn identify(self, cluster: &str) -> Result<(Established, Identity), HandshakeError> {
        match self {
            Self::Plain(stream, address) => {
                stream.readable().await?;
                Ok((Established::Http(Box::new(stream)), Identity::Anonymous(address)))
            }
            Self::Unix(stream) => {
                // The kernel knows the user at once, so a silent connection counts for it.
                let peer = stream.peer_cred()?;
                let local = LocalUser { user: peer.uid(), group: peer.gid() };
                Ok((Established::Unix(stream), Identity::User(local)))
            }
            Self::Tls(stream, address, acceptor) => {
                let stream = match acceptor.accept(stream).into_fallible().await {
                    Ok(stream) => stream,
                    Err((error, stream)) => {
                        drain(stream).await;
                        return Err(TlsError::from_io(&error, None).into());
                    }
                };
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let who = match shown {
                    None => Identity::Anonymous(address),
                    Some(certificate) => {
                        let names = dns_names(certificate);
                        let client = client_identity(&names, cluster);
                        Identity::Certificate(client.ok_or(HandshakeError::NoClientName(names))?)
                    }
                };
                Ok((Established::Http(Box::new(stream)), who))
            }
        }
    }
}

/// Lets a refused client read the TLS alert: if the socket were closed with unread input, the reset
/// would discard the alert.
async fn drain(mut stream: TcpStream) {
    let drained = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut (&mut stream).take(64 << 10), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(ALERT_TIMEOUT, drained).await;
}
