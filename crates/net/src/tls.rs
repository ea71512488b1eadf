//! Identity of the other side, by certificate.
//!
//! With TLS both sides present a certificate of the same authority, and the certificate of a node
//! is valid for the name `node-<id>.<cluster>`. The dialling node expects the name of the node that
//! it dials; the accepting node compares the name with the handshake. So the key of one node allows
//! to act as that node only. Wildcards do not match: `*.<cluster>` is no node. The certificate of a
//! client is valid for `client-<name>.<cluster>`, which no link accepts. Plain TCP has no
//! identities. It is for one machine, unless it is allowed explicitly.
//!
//! `serving.rs` has the part of the same files that the API of a node needs.
//!
//! TLS 1.3 only, by rustls with `ring`. No session is ever resumed, since nodes seldom dial.

mod error;
mod files;
mod serving;

use std::path::PathBuf;
use std::sync::Arc;

use kgate_core::NodeId;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

pub use error::TlsError;
pub use files::TlsFileError;
pub use serving::{ClientCertificate, acceptor, client_identity, dns_names};

/// Protection of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// None: refused unless every address is a loopback address.
    Plain {
        /// The operator allows plain links explicitly, so other machines are allowed too.
        is_explicit: bool,
    },
    /// Mutual TLS, from PEM files.
    Tls {
        /// This node's certificate, and the intermediate ones if there are any.
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

/// A connection with or without TLS.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// This node's certificate and its trust, ready for use.
pub(crate) enum TlsContext {
    Plain,
    Tls { connector: TlsConnector, acceptor: TlsAcceptor },
}

impl TlsContext {
    /// Reads the files, and checks that they belong to this node.
    pub(crate) fn load(
        security: &Security,
        me: NodeId,
        cluster: &str,
    ) -> Result<Self, TlsFileError> {
        let Security::Tls { chain, key, ca } = security else { return Ok(Self::Plain) };
        let (client, server) = files::load(chain, key, ca, &node_name(me, cluster))?;
        Ok(Self::Tls { connector: Arc::new(client).into(), acceptor: Arc::new(server).into() })
    }

    /// The dialling side of a connection to that node.
    pub(crate) async fn dial(
        &self,
        stream: TcpStream,
        peer: NodeId,
        cluster: &str,
    ) -> Result<Box<dyn Socket>, TlsError> {
        let connector = match self {
            Self::Plain => return Ok(Box::new(stream)),
            Self::Tls { connector, .. } => connector,
        };
        let name = node_name(peer, cluster);
        let expected = ServerName::try_from(name.clone())
            .map_err(|error| TlsError::Other(error.to_string()))?;
        let stream = connector
            .connect(expected, stream)
            .await
            .map_err(|error| TlsError::from_io(&error, Some(&name)))?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        if certificate.is_some_and(|certificate| verify_name(certificate, &name).is_ok()) {
            Ok(Box::new(stream))
        } else {
            Err(TlsError::WrongName(name))
        }
    }

    /// The accepting side of a connection.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(Box<dyn Socket>, PeerIdentity), TlsError> {
        let acceptor = match self {
            Self::Plain => return Ok((Box::new(stream), PeerIdentity::Unverified)),
            Self::Tls { acceptor, .. } => acceptor,
        };
        let stream =
            acceptor.accept(stream).await.map_err(|error| TlsError::from_io(&error, None))?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.ok_or(TlsError::NoCertificate)?.clone().into_owned();
        Ok((Box::new(stream), PeerIdentity::Certificate(certificate)))
    }

    /// The meaning of an error of a read after the dialling side's part of the handshake: only then
    /// does that side learn that its own certificate was rejected.
    pub(crate) fn rejection(&self, error: &std::io::Error) -> Option<TlsError> {
        match self {
            Self::Plain => None,
            Self::Tls { .. } => error::tls_error(error).map(|_| TlsError::from_io(error, None)),
        }
    }
}

/// The identity of the side that dialled.
pub(crate) enum PeerIdentity {
    /// The link is plain, so any process may claim to be any node.
    Unverified,
    Certificate(CertificateDer<'static>),
}

impl PeerIdentity {
    /// Checks whether the other side may act as that node.
    pub(crate) fn check(&self, node: NodeId, cluster: &str) -> Result<(), TlsError> {
        let Self::Certificate(certificate) = self else { return Ok(()) };
        let name = node_name(node, cluster);
        verify_name(certificate, &name).map_err(|_| TlsError::WrongNode { node, name })
    }
}

/// Checks that a certificate is valid for a name as it is written: a wildcard such as `*.farm`
/// stands for no node.
fn verify_name(der: &CertificateDer<'_>, name: &str) -> Result<(), rustls::Error> {
    let general = |message| rustls::Error::General(message);
    let expected = ServerName::try_from(name).map_err(|error| general(error.to_string()))?;
    verify_server_name(&ParsedCertificate::try_from(der)?, &expected)?;
    let names = dns_names(der);
    if names.iter().any(|dns_name| dns_name.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(general(format!("its names are {names:?}, and a wildcard is not accepted")))
}
