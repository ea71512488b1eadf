//! From a connection to somebody: TLS and its certificate, the user at a Unix socket, or just an
//! address.

use std::net::IpAddr;
use std::time::Duration;

use kgate_net::{TlsError, client_identity, dns_names};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;

use super::authorisation::Identity;

/// A connection that has not shown who it is, or said its first word, for so long is closed.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(5);

/// So long whoever was refused may take to read why.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A connection, whatever protects it.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A connection that was just taken.
pub(super) enum Caller {
    Plain(TcpStream, IpAddr),
    Tls(TcpStream, IpAddr, TlsAcceptor),
    Unix(UnixStream),
}

impl Caller {
    /// Where it is, for the log.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Plain(_, address) | Self::Tls(_, address, _) => address.to_string(),
            Self::Unix(_) => "the Unix socket".into(),
        }
    }

    /// Whether it may be far away, where connections die in silence.
    pub(super) fn is_remote(&self) -> bool {
        !matches!(self, Self::Unix(_))
    }

    /// Waits until it has shown who it is and says something, but not for ever. The error is for
    /// people.
    pub(super) async fn greet(self, cluster: &str) -> Result<(Box<dyn Socket>, Identity), String> {
        let greeted = tokio::time::timeout(HANDSHAKE, self.show(cluster)).await;
        greeted.unwrap_or_else(|_| Err(format!("it said nothing sensible within {HANDSHAKE:?}")))
    }

    async fn show(self, cluster: &str) -> Result<(Box<dyn Socket>, Identity), String> {
        match self {
            Self::Plain(stream, address) => {
                stream.readable().await.map_err(|error| error.to_string())?;
                Ok((Box::new(stream), Identity::Stranger(address)))
            }
            Self::Unix(stream) => {
                stream.readable().await.map_err(|error| error.to_string())?;
                let user = stream.peer_cred().map_err(|error| error.to_string())?.uid();
                Ok((Box::new(stream), Identity::User(user)))
            }
            Self::Tls(stream, address, acceptor) => {
                let stream = match acceptor.accept(stream).into_fallible().await {
                    Ok(stream) => stream,
                    Err((error, stream)) => {
                        let_read(stream).await;
                        return Err(TlsError::from_io(&error, None).to_string());
                    }
                };
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let who = match shown {
                    None => Identity::Stranger(address),
                    Some(certificate) => {
                        let names = dns_names(certificate);
                        let who = client_identity(&names, cluster).ok_or_else(|| {
                            format!(
                                "its certificate tolerates no DNS name by which it can be known, but {names:?}"
                            )
                        })?;
                        Identity::Certificate(who)
                    }
                };
                Ok((Box::new(stream), who))
            }
        }
    }
}

/// Lets whoever was refused read why: closed at once, with words of its own unread, the connection
/// would be reset and take ours along.
async fn let_read(mut stream: TcpStream) {
    let drained = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut (&mut stream).take(64 << 10), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(LAST_WORDS, drained).await;
}
