//! TLS for clients: the called side, and the names that a caller has shown.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use tokio_rustls::TlsAcceptor;

use super::files::{NotLoaded, apart, read};
use super::text;

/// What callers must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// A certificate of the authority, or nothing is said to them.
    MustShow,
    /// A certificate of the authority or none, since they may be known by something else; a wrong
    /// one is refused all the same.
    MayShow,
}

/// The called side for HTTP/1.1 and HTTP/2, from PEM files: this side's certificate and key, and
/// the authority of the callers.
pub fn acceptor(
    chain: &Path,
    key: &Path,
    ca: &Path,
    callers: Callers,
) -> Result<TlsAcceptor, NotLoaded> {
    let (certificates, private, roots) = read(chain, key, ca)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = match callers {
        Callers::MustShow => verifier.build(),
        Callers::MayShow => verifier.allow_unauthenticated().build(),
    };
    let verifier =
        verifier.map_err(|error| NotLoaded::File { path: ca.into(), error: error.to_string() })?;
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .and_then(|builder| {
            builder.with_client_cert_verifier(verifier).with_single_cert(certificates, private)
        })
        .map_err(|error| apart(chain, key, &error))?;
    // Nobody goes on with a former connection: each shows anew who it is.
    server.send_tls13_tickets = 0;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(server).into())
}

/// The DNS names that a certificate tolerates. Only of one that was verified do they mean anything.
pub fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let parsed = webpki::EndEntityCert::try_from(certificate);
    parsed.map(|parsed| parsed.valid_dns_names().map(str::to_owned).collect()).unwrap_or_default()
}

/// Who a client is by the names in its certificate: the NAME of `client-NAME.<cluster>`; else the
/// first name with a dot in it, whole, so that an authority of a company needs no names of ours. A
/// NAME has no dot, so the two are never mixed up.
pub fn client_of(names: &[String], cluster: &str) -> Option<String> {
    let ours = |name: &String| {
        let client = name.strip_prefix("client-")?.strip_suffix(cluster)?.strip_suffix('.')?;
        (!client.is_empty() && !client.contains('.')).then(|| client.to_owned())
    };
    names.iter().find_map(ours).or_else(|| names.iter().find(|name| name.contains('.')).cloned())
}

/// What an error of TLS means, for people.
pub fn what_tls_says(error: &io::Error) -> String {
    text::of(error, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a client is what `kgate certs` gave it; any other certificate counts by its
    /// whole name; a name of another cluster is not ours.
    #[test]
    fn who_a_client_is() {
        let of = |names: &[&str]| {
            client_of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), "farm")
        };
        assert_eq!(of(&["client-ci-7.farm"]).as_deref(), Some("ci-7"));
        assert_eq!(of(&["host.example", "client-ci-7.farm"]).as_deref(), Some("ci-7"));
        assert_eq!(of(&["client-ci-7.other"]).as_deref(), Some("client-ci-7.other"));
        assert_eq!(of(&["client-a.b.farm"]).as_deref(), Some("client-a.b.farm"));
        assert_eq!(of(&["client-.farm"]).as_deref(), Some("client-.farm"));
        assert_eq!(of(&["alice"]), None, "it could be mistaken for client-alice.farm");
        assert_eq!(of(&[]), None);
    }
}
