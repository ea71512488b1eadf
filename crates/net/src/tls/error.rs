//! Why a TLS handshake failed.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Why a TLS handshake failed, as seen by one side. "It" in the messages is the other side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificate of the other side is valid for other names.
    #[error("its certificate is not valid for the name {0}")]
    WrongName(String),
    /// The other side claims to be a node, and its certificate is valid for other names.
    #[error("it claims to be {node}, and its certificate is not valid for the name {name}")]
    WrongNode {
        /// The node that it claims to be.
        node: kgate_core::NodeId,
        /// The name that the certificate of that node has.
        name: String,
    },
    /// Another authority signed the certificate of the other side.
    #[error("its certificate is not signed by the authority that this node trusts (`authority`)")]
    UnknownAuthority,
    /// The certificate of the other side is not valid for another reason.
    #[error("its certificate is not valid: {0}")]
    InvalidCertificate(String),
    /// The other side presented no certificate.
    #[error("it presented no certificate")]
    NoCertificate,
    /// The other side does not speak TLS.
    #[error("it does not speak TLS: is it a node with plain links?")]
    NotTls,
    /// The other side rejected this side's certificate, with this alert.
    #[error("it does not accept this node's certificate ({0}): are both of one authority?")]
    Rejected(String),
    /// Any other error of TLS or of the connection.
    #[error("{0}")]
    Other(String),
}

impl TlsError {
    /// The meaning of an error of a TLS connection. `expected` is the name that the other side's
    /// certificate should have, if this side knows it.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the enums of rustls are not exhaustive, and their own texts say enough"
    )]
    pub fn from_io(error: &io::Error, expected: Option<&str>) -> Self {
        let Some(inner) = tls_error(error) else { return Self::Other(error.to_string()) };
        match inner {
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => Self::WrongName(expected.unwrap_or("of the node").to_owned()),
            // A bad signature: an authority of the same name, with another key.
            Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => Self::UnknownAuthority,
            Error::InvalidCertificate(other) => Self::InvalidCertificate(other.to_string()),
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::InvalidMessage(_) => Self::NotTls,
            Error::AlertReceived(
                alert @ (AlertDescription::UnknownCA
                | AlertDescription::DecryptError
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateRequired
                | AlertDescription::AccessDenied),
            ) => Self::Rejected(format!("{alert:?}")),
            other => Self::Other(other.to_string()),
        }
    }
}

/// The error of TLS inside an error of a connection, if there is one.
pub(super) fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}
