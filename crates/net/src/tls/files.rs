//! From three PEM files to the two sides of TLS. Each error names the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Why the files for TLS cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFileError {
    /// A file is missing, is not PEM, or holds something else.
    #[error("{path}: {error}; `kgate certs new` makes the files of a cluster for development")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        error: String,
    },
    /// The certificate belongs to another node.
    #[error(
        "{path}: this certificate is not valid for the name {name}: it belongs to another node, or \
         to another cluster ({error})"
    )]
    Name {
        /// Path of the file.
        path: PathBuf,
        /// Name that the certificate should have.
        name: String,
        /// The cause.
        error: String,
    },
    /// The key does not belong to the certificate.
    #[error("{chain} and {key} do not belong together: {error}")]
    KeyMismatch {
        /// Path of the certificate.
        chain: PathBuf,
        /// Path of the key.
        key: PathBuf,
        /// The cause.
        error: String,
    },
}

/// Loads both sides of TLS for the node of that name.
pub(super) fn load(
    chain: &Path,
    key: &Path,
    ca: &Path,
    name: &str,
) -> Result<(ClientConfig, ServerConfig), TlsFileError> {
    let (certificates, private, roots) = read(chain, key, ca)?;
    super::verify_name(&certificates[0], name).map_err(|error| TlsFileError::Name {
        path: chain.into(),
        name: name.into(),
        error: error.to_string(),
    })?;
    both_sides(certificates, private, roots).map_err(|error| key_mismatch(chain, key, &error))
}

/// Content of the three files: certificates, key, trusted authorities.
pub(super) type Loaded = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, RootCertStore);

pub(super) fn read(chain: &Path, key: &Path, ca: &Path) -> Result<Loaded, TlsFileError> {
    let certificates = certificates(chain)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| file(key, &error))?;
    let mut roots = RootCertStore::empty();
    for root in self::certificates(ca)? {
        let added = roots.add(root);
        added.map_err(|error| TlsFileError::File { path: ca.into(), error: error.to_string() })?;
    }
    Ok((certificates, private, roots))
}

/// The error of a certificate and a key that do not belong together.
pub(super) fn key_mismatch(chain: &Path, key: &Path, error: &rustls::Error) -> TlsFileError {
    TlsFileError::KeyMismatch { chain: chain.into(), key: key.into(), error: error.to_string() }
}

fn both_sides(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: RootCertStore,
) -> Result<(ClientConfig, ServerConfig), rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let roots = Arc::new(roots);
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
    let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates.clone(), key.clone_key())?;
    server.send_tls13_tickets = 0;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates, key)?;
    client.resumption = rustls::client::Resumption::disabled();
    Ok((client, server))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| file(path, &error))?;
    if read.is_empty() {
        return Err(file(path, &pem::Error::NoItemsFound));
    }
    Ok(read)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum of rustls is not exhaustive, and its own texts say enough"
)]
fn file(path: &Path, error: &pem::Error) -> TlsFileError {
    let error = match error {
        pem::Error::NoItemsFound => "it holds no certificate or key in PEM form".to_owned(),
        pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    };
    TlsFileError::File { path: path.into(), error }
}
