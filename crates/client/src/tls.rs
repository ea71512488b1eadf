//! TLS to a node: files to a connection, and what went wrong in words.

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

use crate::Error;
use crate::credentials::{Credentials, wrong};
use crate::line::{Note, Noting};

/// Both ways of being wrong: files, and the other side.
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Reads the files.
    pub(crate) fn load(credentials: &Credentials, host: &str) -> Result<Self, Error> {
        let missing = "https needs the certificate of the authority that nodes are trusted by: name the file (kgate: --ca)";
        let ca =
            credentials.authority.as_deref().ok_or_else(|| Error::Credentials(missing.into()))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(ca)? {
            roots.add(root).map_err(|error| wrong(ca, error.to_string()))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| Error::Credentials(error.to_string()))?
            .with_root_certificates(roots);
        let mut config = match (&credentials.certificate, &credentials.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(chain), Some(key)) => {
                let private = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| wrong(key, text_of(&error)))?;
                let apart = |error: TlsError| {
                    wrong(chain, format!("it does not go with {}: {error}", key.display()))
                };
                builder.with_client_auth_cert(certificates(chain)?, private).map_err(apart)?
            }
            (Some(_), None) | (None, Some(_)) => {
                let text =
                    "a certificate and its key go together: name both (kgate: --cert and --key)";
                return Err(Error::Credentials(text.into()));
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        let name = credentials.server_name.as_deref().unwrap_or(host);
        let no_name = |_| Error::Credentials(format!("`{name}` cannot be a name in a certificate"));
        let name = ServerName::try_from(name.to_owned()).map_err(no_name)?;
        Ok(Self { connector: Arc::new(config).into(), name })
    }

    /// As the dialler. The error is a text.
    pub(crate) async fn greet(self, stream: TcpStream, note: Note) -> io::Result<Noting> {
        let name = self.name.to_str().into_owned();
        match self.connector.connect(self.name, stream).await {
            Ok(stream) => Ok(Noting { stream, name, note }),
            Err(error) => {
                Err(io::Error::other(meaning(&error, &name).unwrap_or_else(|| error.to_string())))
            }
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| wrong(path, text_of(&error)))?;
    if read.is_empty() {
        return Err(wrong(path, text_of(&pem::Error::NoItemsFound)));
    }
    Ok(read)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "not our enum, and it says itself what is wrong"
)]
fn text_of(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "it holds no certificate or key in PEM form".to_owned(),
        pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// What an error of TLS means, for people; none if it is of something else.
pub(crate) fn meaning(error: &(dyn std::error::Error + 'static), name: &str) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<TlsError>() {
            return Some(said(tls, name));
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
    reason = "not our enum, and it says itself what is wrong"
)]
fn said(error: &TlsError, name: &str) -> String {
    match error {
        TlsError::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "its certificate is not of the authority that this client trusts (--ca)".into(),
        TlsError::InvalidCertificate(CertificateError::NotValidForNameContext {
            presented,
            ..
        }) => format!(
            "its certificate does not tolerate the name {name} but {}: ask it by such a name, or say which is meant (--tls-name)",
            presented.join(", ")
        ),
        TlsError::InvalidCertificate(CertificateError::NotValidForName) => {
            format!(
                "its certificate does not tolerate the name {name}: say which is meant (--tls-name)"
            )
        }
        TlsError::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "its certificate has expired, or the clock of this machine is wrong".into(),
        TlsError::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "its certificate is of a client, not of a node".into(),
        TlsError::InvalidCertificate(other) => format!("its certificate is not valid: {other}"),
        TlsError::InvalidMessage(_) => {
            "it does not speak TLS there: is it http:// instead of https://?".into()
        }
        TlsError::AlertReceived(AlertDescription::CertificateRequired) => {
            "it wants the certificate of a client (--cert and --key)".into()
        }
        TlsError::AlertReceived(AlertDescription::CertificateExpired) => {
            "it does not accept this client's certificate: that has expired".into()
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
            "it does not accept this client's certificate ({alert:?}): is it of another authority?"
        ),
        other => other.to_string(),
    }
}
