//! Who is at the other end, by certificate.
//!
//! With TLS both sides show a certificate of the same authority, and a node's certificate tolerates
//! the name `node-<id>.<cluster>`: the dialler asks for the name of the node that it calls, the
//! called one compares the name with the greeting. So whoever has the key of one node can speak as
//! that node only. A name counts only as it is written: `*.<cluster>` is no node. A client's
//! certificate tolerates `client-<name>.<cluster>`, which no link takes. Plain TCP knows nobody,
//! and is for one machine, or for whoever asks for it by name.
//!
//! `serving.rs` has what the API of a node needs of the same files.
//!
//! TLS 1.3 only, by rustls with `ring`; no session is ever resumed, since each node dials seldom.

mod files;
mod serving;
mod text;

use std::path::PathBuf;
use std::sync::Arc;

use kgate_core::NodeId;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

pub use files::NotLoaded;
pub use serving::{Callers, acceptor, client_of, names, what_tls_says};

/// How links are protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all: refused unless every address is of this machine.
    Plain {
        /// It was asked for by name, so other machines are allowed too.
        asked_for: bool,
    },
    /// Mutual TLS, from PEM files.
    Tls {
        /// This node's certificate, and those between it and the authority if there are any.
        chain: PathBuf,
        /// Its private key.
        key: PathBuf,
        /// The certificate of the authority that all nodes trust.
        ca: PathBuf,
    },
}

/// The name in the certificate of a node.
pub fn node_name(node: NodeId, cluster: &str) -> String {
    format!("node-{}.{cluster}", node.0)
}

/// The name in the certificate of a client.
pub fn client_name(client: &str, cluster: &str) -> String {
    format!("client-{client}.{cluster}")
}

/// A connection, whatever protects it.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// What this node shows and whom it trusts, ready for use.
pub(crate) enum Keys {
    Plain,
    Tls { connector: TlsConnector, acceptor: TlsAcceptor },
}

impl Keys {
    /// Reads the files, and checks that they are this node's own.
    pub(crate) fn load(security: &Security, me: NodeId, cluster: &str) -> Result<Self, NotLoaded> {
        let Security::Tls { chain, key, ca } = security else { return Ok(Self::Plain) };
        let (client, server) = files::load(chain, key, ca, &node_name(me, cluster))?;
        Ok(Self::Tls { connector: Arc::new(client).into(), acceptor: Arc::new(server).into() })
    }

    /// As the dialler, to that node. The error is a text that names the node.
    pub(crate) async fn dial(
        &self,
        stream: TcpStream,
        peer: NodeId,
        cluster: &str,
    ) -> Result<Box<dyn Socket>, String> {
        match self {
            Self::Plain => Ok(Box::new(stream)),
            Self::Tls { connector, .. } => {
                let name = node_name(peer, cluster);
                let asked_for =
                    ServerName::try_from(name.clone()).map_err(|error| error.to_string())?;
                match connector.connect(asked_for, stream).await {
                    Ok(stream) => {
                        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                        let known = shown.is_some_and(|shown| tolerates(shown, &name).is_ok());
                        let text = || {
                            format!(
                                "no link to {peer}: its certificate does not tolerate the name {name}"
                            )
                        };
                        if known { Ok(Box::new(stream)) } else { Err(text()) }
                    }
                    Err(error) => {
                        Err(format!("no link to {peer}: {}", text::of(&error, Some(&name))))
                    }
                }
            }
        }
    }

    /// As the called one. The error is a text about whoever calls.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(Box<dyn Socket>, Shown), String> {
        match self {
            Self::Plain => Ok((Box::new(stream), Shown::Nothing)),
            Self::Tls { acceptor, .. } => {
                let stream =
                    acceptor.accept(stream).await.map_err(|error| text::of(&error, None))?;
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let shown = shown.ok_or("it showed no certificate")?.clone().into_owned();
                Ok((Box::new(stream), Shown::Certificate(shown)))
            }
        }
    }

    /// What an error means that a read gave after the dialler's part of the handshake: only then
    /// does it learn that its own certificate was not accepted.
    pub(crate) fn meaning(&self, error: &std::io::Error) -> Option<String> {
        match self {
            Self::Plain => None,
            Self::Tls { .. } => text::is_of_tls(error).then(|| text::of(error, None)),
        }
    }
}

/// What whoever called has shown.
pub(crate) enum Shown {
    /// The link is plain: anybody may say anything.
    Nothing,
    Certificate(CertificateDer<'static>),
}

impl Shown {
    /// Whether it may speak as that node.
    pub(crate) fn is(&self, node: NodeId, cluster: &str) -> Result<(), String> {
        let Self::Certificate(der) = self else { return Ok(()) };
        let name = node_name(node, cluster);
        tolerates(der, &name).map_err(|_| {
            format!(
                "it says that it is {node}, and its certificate does not tolerate the name {name}"
            )
        })
    }
}

/// Whether a certificate tolerates a name, as it is written: a pattern such as `*.farm` stands for
/// no node.
fn tolerates(der: &CertificateDer<'_>, name: &str) -> Result<(), rustls::Error> {
    let asked_for =
        ServerName::try_from(name).map_err(|error| rustls::Error::General(error.to_string()))?;
    verify_server_name(&ParsedCertificate::try_from(der)?, &asked_for)?;
    if names(der).iter().any(|borne| borne.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(rustls::Error::General(format!("it tolerates {:?}, and a pattern is no name", names(der))))
}
