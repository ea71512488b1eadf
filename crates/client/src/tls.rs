//! TLS to a node: reads the files, does the handshake, and describes what went wrong.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error as TlsError, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::credentials::{Credentials, bad_file};
use crate::tls_stream::{TlsFailure, TlsStream};
use crate::{Error, ErrorKind};

/// A TLS client, ready for one handshake.
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Reads the files of `credentials`.
    pub(crate) fn load(credentials: &Credentials, host: &str) -> Result<Self, Error> {
        let missing = "https needs the certificate of the authority that signs the nodes' \
        certificates: name the file (kgate: --ca)";
        let ca = credentials.authority.as_deref().ok_or_else(|| credentials_error(missing))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(ca)? {
            roots.add(root).map_err(|error| bad_file(ca, error))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| credentials_error(error.to_string()))?
            .with_root_certificates(roots);
        let mut config = match (&credentials.certificate, &credentials.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(chain), Some(key)) => {
                let private = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| bad_file(key, pem_error(&error)))?;
                let mismatch = |error: TlsError| {
                    bad_file(chain, format!("does not match the key {}: {error}", key.display()))
                };
                builder.with_client_auth_cert(certificates(chain)?, private).map_err(mismatch)?
            }
            (Some(_), None) | (None, Some(_)) => {
                let text = "a certificate needs its key and a key its certificate: name both \
                (kgate: --cert and --key)";
                return Err(credentials_error(text));
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        let name = credentials.server_name.as_deref().unwrap_or(host);
        let invalid =
            |_| credentials_error(format!("`{name}` is not a valid server name in a certificate"));
        let name = ServerName::try_from(name.to_owned()).map_err(invalid)?;
        Ok(Self { connector: Arc::new(config).into(), name })
    }

    /// Does the handshake. The error describes what TLS rejected.
    pub(crate) async fn handshake(
        self,
        stream: TcpStream,
        failure: TlsFailure,
    ) -> io::Result<TlsStream> {
        let server_name = self.name.to_str().into_owned();
        match self.connector.connect(self.name, stream).await {
            Ok(stream) => Ok(TlsStream { stream, server_name, failure }),
            Err(error) => {
                let text = describe(&error, &server_name).unwrap_or_else(|| error.to_string());
                Err(io::Error::other(text))
            }
        }
    }
}

fn credentials_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Credentials, message)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| bad_file(path, pem_error(&error)))?;
    if read.is_empty() {
        return Err(bad_file(path, pem_error(&pem::Error::NoItemsFound)));
    }
    Ok(read)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum whose Display describes the error"
)]
fn pem_error(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "no certificate or key in PEM form found".to_owned(),
        pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// Describes a TLS error for people; none if the error is not from TLS.
pub(crate) fn describe(error: &(dyn std::error::Error + 'static), name: &str) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<TlsError>() {
            return Some(describe_tls(tls, name));
        }
        // An `io::Error` does not name what it wraps as its source.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum whose Display describes the error"
)]
fn describe_tls(error: &TlsError, name: &str) -> String {
    match error {
        TlsError::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "the node's certificate is not signed by the authority that this client trusts (--ca)"
            .into(),
        TlsError::InvalidCertificate(CertificateError::NotValidForNameContext {
            presented,
            ..
        }) => format!(
            "the node's certificate is not valid for the name {name}, only for {}: use such an \
            address, or pass the name with --tls-name",
            presented.join(", ")
        ),
        TlsError::InvalidCertificate(CertificateError::NotValidForName) => {
            format!(
                "the node's certificate is not valid for the name {name}: pass its name with \
                --tls-name"
            )
        }
        TlsError::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the node's certificate has expired, or this machine's clock is wrong".into(),
        TlsError::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "the node's certificate is a client's, not a node's".into(),
        TlsError::InvalidCertificate(other) => {
            format!("the node's certificate is not valid: {other}")
        }
        TlsError::InvalidMessage(_) => {
            "the port does not speak TLS: use http:// instead of https://?".into()
        }
        TlsError::AlertReceived(AlertDescription::CertificateRequired) => {
            "the node requires a client certificate: pass --cert and --key".into()
        }
        TlsError::AlertReceived(AlertDescription::CertificateExpired) => {
            "the node rejected this client's certificate: it has expired".into()
        }
        TlsError::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::DecryptError
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRevoked
            | AlertDescription::AccessDenied),
        ) => format!(
            "the node rejected this client's certificate ({alert:?}): is it signed by another \
            authority?"
        ),
        other => other.to_string(),
    }
}
