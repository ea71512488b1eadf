//! TLS for the API of a node: the server side, and the identity of a client.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use tokio_rustls::TlsAcceptor;

use super::files::{TlsFileError, key_mismatch, read};

/// Whether clients must present a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// A client without a certificate of the authority is refused.
    Required,
    /// A client may present none, since it may have a token. A wrong certificate is refused.
    Optional,
}

/// The server side for HTTP/1.1 and HTTP/2, from PEM files: this side's certificate and key, and
/// the authority of the clients.
pub fn acceptor(
    chain: &Path,
    key: &Path,
    ca: &Path,
    client: ClientCertificate,
) -> Result<TlsAcceptor, TlsFileError> {
    let (certificates, private, roots) = read(chain, key, ca)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = match client {
        ClientCertificate::Required => verifier.build(),
        ClientCertificate::Optional => verifier.allow_unauthenticated().build(),
    };
    let verifier = verifier
        .map_err(|error| TlsFileError::File { path: ca.into(), error: error.to_string() })?;
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .and_then(|builder| {
            builder.with_client_cert_verifier(verifier).with_single_cert(certificates, private)
        })
        .map_err(|error| key_mismatch(chain, key, &error))?;
    // No session resumption: each connection presents its certificate.
    server.send_tls13_tickets = 0;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(server).into())
}

/// The DNS names of a certificate. They have a meaning only if the certificate was verified.
pub fn dns_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let parsed = webpki::EndEntityCert::try_from(certificate);
    parsed.map(|parsed| parsed.valid_dns_names().map(str::to_owned).collect()).unwrap_or_default()
}

/// The identity of a client by the names in its certificate: the NAME of `client-NAME.<cluster>`,
/// or else the first complete name with a dot in it, so that a company's authority needs no names
/// of kgate. A NAME has no dot, so the two kinds cannot be confused.
pub fn client_identity(names: &[String], cluster: &str) -> Option<String> {
    let ours = |name: &String| {
        let client = name.strip_prefix("client-")?.strip_suffix(cluster)?.strip_suffix('.')?;
        (!client.is_empty() && !client.contains('.')).then(|| client.to_owned())
    };
    names.iter().find_map(ours).or_else(|| names.iter().find(|name| name.contains('.')).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's identity is the name that `kgate certs` gave it; any other certificate counts by
    /// its complete name, also one of another cluster.
    #[test]
    fn identity_of_a_client() {
        let of = |names: &[&str]| {
            client_identity(
                &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(),
                "farm",
            )
        };
        assert_eq!(of(&["client-ci-7.farm"]).as_deref(), Some("ci-7"));
        assert_eq!(of(&["host.example", "client-ci-7.farm"]).as_deref(), Some("ci-7"));
        assert_eq!(of(&["client-ci-7.other"]).as_deref(), Some("client-ci-7.other"));
        assert_eq!(of(&["client-a.b.farm"]).as_deref(), Some("client-a.b.farm"));
        assert_eq!(of(&["client-.farm"]).as_deref(), Some("client-.farm"));
        assert_eq!(of(&["alice"]), None, "it could be confused with client-alice.farm");
        assert_eq!(of(&[]), None);
    }
}
