//! From three PEM files to the two sides of TLS. Whatever is wrong is said with the file that it is
//! wrong in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NotLoaded {
    /// A file is not there, or not PEM, or holds something else.
    #[error("{path}: {error}; `kgate certs new` makes the files of a cluster for development")]
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// The certificate is another node's.
    #[error(
        "{path}: this certificate does not tolerate the name {name}: it is of another node, or of another cluster ({error})"
    )]
    Name {
        /// Which one.
        path: PathBuf,
        /// What it should tolerate.
        name: String,
        /// What it tolerates.
        error: String,
    },
    /// The files do not go together.
    #[error("{chain} and {key} do not go together: {error}")]
    Together {
        /// The certificate.
        chain: PathBuf,
        /// The key.
        key: PathBuf,
        /// Why not.
        error: String,
    },
}

/// Both sides of TLS for the node of that name.
pub(super) fn load(
    chain: &Path,
    key: &Path,
    ca: &Path,
    name: &str,
) -> Result<(ClientConfig, ServerConfig), NotLoaded> {
    let (certificates, private, roots) = read(chain, key, ca)?;
    super::tolerates(&certificates[0], name).map_err(|error| NotLoaded::Name {
        path: chain.into(),
        name: name.into(),
        error: error.to_string(),
    })?;
    both_sides(certificates, private, roots).map_err(|error| apart(chain, key, &error))
}

/// What the three files hold.
pub(super) type Read = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, RootCertStore);

pub(super) fn read(chain: &Path, key: &Path, ca: &Path) -> Result<Read, NotLoaded> {
    let certificates = certificates(chain)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| file(key, &error))?;
    let mut roots = RootCertStore::empty();
    for root in self::certificates(ca)? {
        let added = roots.add(root);
        added.map_err(|error| NotLoaded::File { path: ca.into(), error: error.to_string() })?;
    }
    Ok((certificates, private, roots))
}

/// A certificate and a key that are not of each other.
pub(super) fn apart(chain: &Path, key: &Path, error: &rustls::Error) -> NotLoaded {
    NotLoaded::Together { chain: chain.into(), key: key.into(), error: error.to_string() }
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NotLoaded> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| file(path, &error))?;
    if read.is_empty() {
        return Err(file(path, &pem::Error::NoItemsFound));
    }
    Ok(read)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "not our enum, and it says itself what is wrong"
)]
fn file(path: &Path, error: &pem::Error) -> NotLoaded {
    let error = match error {
        pem::Error::NoItemsFound => "it holds no certificate or key in PEM form".to_owned(),
        pem::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    };
    NotLoaded::File { path: path.into(), error }
}
