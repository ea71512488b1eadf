//! Nodes with certificates made on the spot, clients that show one or another, and HTTP by hand.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kgate_client::{Address, Client, Credentials, Error};
use kgate_node::{Config, Node};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// A deadline that is long enough for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// A folder that goes when it is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "kgate-security-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Reads a configuration.
    pub(crate) fn config(&self, text: &str) -> Config {
        Config::read(&self.write("node.toml", text)).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a certificate is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Node,
    Client,
}

pub(crate) struct Authority {
    name: &'static str,
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: String,
}

impl Authority {
    pub(crate) fn new(name: &'static str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { name, issuer: Issuer::new(params, key), certificate }
    }

    pub(crate) fn ca(&self, folder: &Folder) -> PathBuf {
        folder.write(&format!("{}-ca.pem", self.name), &self.certificate)
    }

    /// A certificate and its key.
    pub(crate) fn files(
        &self,
        folder: &Folder,
        names: &[&str],
        purpose: Use,
        expired: bool,
    ) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let file = format!("{}-{}", self.name, names[0].replace('*', "star"));
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if purpose == Use::Node {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if expired {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        (
            folder.write(&format!("{file}.pem"), &certificate),
            folder.write(&format!("{file}.key"), &key.serialize_pem()),
        )
    }
}

/// What a client of that name shows.
pub(crate) fn client(ca: &Authority, folder: &Folder, name: &str) -> Credentials {
    let (certificate, key) =
        ca.files(folder, &[&format!("client-{name}.farm")], Use::Client, false);
    Credentials {
        authority: Some(ca.ca(folder)),
        certificate: Some(certificate),
        key: Some(key),
        ..Credentials::default()
    }
}

/// A single node with TLS, whose certificate is valid for the address 127.0.0.1.
pub(crate) async fn node(ca: &Authority, folder: &Folder, more: &str) -> Node {
    let (certificate, key) = ca.files(folder, &["node-0.farm", "127.0.0.1"], Use::Node, false);
    node_with(&certificate, &key, &ca.ca(folder), folder, more).await
}

pub(crate) async fn node_with(
    certificate: &Path,
    key: &Path,
    ca: &Path,
    folder: &Folder,
    more: &str,
) -> Node {
    let socket = format!("unix:{}", folder.0.join("node.sock").display());
    let text = format!(
        "cluster = \"farm\"\nid = 0\nnodes = [\"127.0.0.1:0\"]\napi = [\"https://127.0.0.1:0\", {socket:?}]\n{more}\n\
         [tls]\ncertificate = {certificate:?}\nkey = {key:?}\nauthority = {ca:?}\n"
    );
    Node::start(folder.config(&text)).await.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn at(node: &Node, credentials: &Credentials) -> Address {
    node.api()[0].parse::<Address>().unwrap().with(credentials.clone())
}

pub(crate) async fn connect(node: &Node, credentials: &Credentials) -> Result<Client, Error> {
    in_time("a session", Client::connect(at(node, credentials))).await
}

/// What `connect` failed with.
pub(crate) async fn refused(node: &Node, credentials: &Credentials) -> String {
    match connect(node, credentials).await {
        Ok(_) => panic!("it was let in"),
        Err(error) => error.to_string(),
    }
}

/// TLS by hand, with what a client shows.
pub(crate) async fn tls(
    node: &Node,
    credentials: &Credentials,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(credentials.authority.as_ref().unwrap()).unwrap())
        .unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_root_certificates(roots);
    let config = match (&credentials.certificate, &credentials.key) {
        (Some(chain), Some(key)) => {
            let chain = vec![CertificateDer::from_pem_file(chain).unwrap()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
                .unwrap()
        }
        _ => builder.with_no_client_auth(),
    };
    let stream = TcpStream::connect(node.api()[0].trim_start_matches("https://")).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// `GET` by hand: the whole answer. The end of a connection that is cut is an end too.
pub(crate) async fn get(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    head: &str,
) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n{head}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = in_time("an answer", stream.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}

/// The value of `kgate_refused_total` with that reason.
pub(crate) fn count(metrics: &str, reason: &str) -> u64 {
    let line = format!("kgate_refused_total{{reason=\"{reason}\"}} ");
    let found = metrics.lines().find_map(|text| text.strip_prefix(&line));
    found.unwrap_or_else(|| panic!("no {reason} in {metrics}")).parse().unwrap()
}
