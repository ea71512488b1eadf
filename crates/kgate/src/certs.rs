//! `kgate certs`: the certificates of a cluster, for development.
//!
//! A new authority signs a certificate for each node, with the name `node-<id>.<cluster>` by which
//! links identify the node, and one for each client. In production use your own authority: kgate
//! needs only these names. No file is ever overwritten: an overwritten key may be the only copy.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use kgate_core::NodeId;
use kgate_net::{check_cluster, client_name, node_name};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::Serialize;

use crate::{Failure, Outcome};

const HELP: &str = "\
Writes into the directory: ca.pem and ca.key, the authority; node-<id>.pem and node-<id>.key for \
the nodes 0 .. N-1; client-<name>.pem and client-<name>.key for each --client. Only the owner can \
read keys. If one of the files exists, nothing is written.

The certificate of node 2 of the cluster farm has the name node-2.farm, and a link accepts no \
other certificate for node 2. Copy ca.pem, node-2.pem and node-2.key to the machine of node 2. \
Never copy ca.key. The certificate of a client is not valid for a node. Clients that connect to \
https://HOST:PORT expect HOST in the node's certificate: add it with --host. The certificates do \
not expire and cannot be revoked, so use them for development only. In production let your own \
authority sign the same names, for TLS server and TLS client use.

Exit codes: 0: success; 2: usage error, or a file exists; 125: internal error.

Examples:
  Three nodes and one client:
    kgate certs new --dir certs --cluster farm --nodes 3 --host 10.0.0.1,10.0.0.2,10.0.0.3 \
    --client alice
  One more client, later:
    kgate certs client bob --dir certs --cluster farm
  Print a certificate:
    openssl x509 -in certs/node-0.pem -noout -text";

#[derive(Debug, Args)]
pub(crate) struct CertsArgs {
    #[command(subcommand)]
    command: CertsCommand,
}

#[derive(Debug, Subcommand)]
enum CertsCommand {
    /// Make an authority and a certificate for each node and client
    #[command(after_long_help = HELP)]
    New(NewArgs),
    /// Make a certificate for another client, signed by the authority of `certs new`
    Client(ClientArgs),
    /// Make a certificate for another node, signed by the authority of `certs new`
    Node(NodeArgs),
}

#[derive(Debug, Args)]
struct ClientArgs {
    /// Name of the client: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    more: MoreArgs,
}

#[derive(Debug, Args)]
struct NodeArgs {
    /// Id of the node
    #[arg(value_name = "ID")]
    id: u32,
    /// Host name or address that clients connect to
    #[arg(long = "host", value_name = "HOST", value_delimiter = ',')]
    hosts: Vec<String>,
    #[command(flatten)]
    more: MoreArgs,
}

#[derive(Debug, Args)]
struct MoreArgs {
    /// Directory of ca.pem and ca.key, and of the new files
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Name of the cluster
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Print the written files as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct NewArgs {
    /// Directory of the files; created if necessary
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Name of the cluster: lower-case letters, digits and hyphens
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Number of nodes: their ids are 0 .. N-1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: u32,
    /// Host names or addresses that clients connect to, in the order of the node ids
    #[arg(long = "host", value_name = "HOST", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Name of a client that gets a certificate; repeat for several clients
    #[arg(long = "client", value_name = "NAME", value_delimiter = ',')]
    clients: Vec<String>,
    /// Print the written files as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CertsArgs) -> Outcome {
    match &args.command {
        CertsCommand::New(args) => new(args),
        CertsCommand::Client(args) => {
            check_client(&args.name)?;
            more(&args.more, CertificateRequest::client(&args.name, &args.more.cluster))
        }
        CertsCommand::Node(args) => more(
            &args.more,
            CertificateRequest::node(args.id, &args.more.cluster, args.hosts.clone()),
        ),
    }
}

/// A written certificate and its key.
#[derive(Debug, Serialize)]
struct Written {
    name: String,
    chain: PathBuf,
    key: PathBuf,
}

/// A certificate to make.
#[derive(Debug)]
struct CertificateRequest {
    file: String,
    /// The first one identifies the node or client.
    names: Vec<String>,
    uses: Vec<ExtendedKeyUsagePurpose>,
}

impl CertificateRequest {
    /// For both uses of TLS: of two nodes one dials and the other accepts.
    fn node(id: u32, cluster: &str, hosts: Vec<String>) -> Self {
        let names = [node_name(NodeId(id), cluster)].into_iter().chain(hosts).collect();
        let uses = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Self { file: format!("node-{id}"), names, uses }
    }

    /// For TLS client use only: not valid for a node.
    fn client(name: &str, cluster: &str) -> Self {
        let uses = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Self { file: format!("client-{name}"), names: vec![client_name(name, cluster)], uses }
    }
}

fn check_client(name: &str) -> Result<(), Failure> {
    let rule = "use 1 to 63 lower-case letters, digits and hyphens, with no hyphen at either end";
    let wrong = |_| Failure::Usage(format!("invalid client name {name:?}: {rule}"));
    check_cluster(name).map_err(wrong)
}

fn new(args: &NewArgs) -> Outcome {
    let cluster = &args.cluster;
    check_cluster(cluster).map_err(|error| Failure::Usage(error.to_string()))?;
    args.clients.iter().try_for_each(|client| check_client(client))?;
    if !args.hosts.is_empty() && args.hosts.len() != args.nodes as usize {
        let text = format!(
            "{} hosts for {} nodes: give one --host for each node",
            args.hosts.len(),
            args.nodes
        );
        return Err(Failure::Usage(text));
    }
    let host = |id: u32| args.hosts.get(id as usize).cloned().into_iter().collect();
    let nodes = (0..args.nodes).map(|id| CertificateRequest::node(id, cluster, host(id)));
    let wanted: Vec<_> = nodes
        .chain(args.clients.iter().map(|client| CertificateRequest::client(client, cluster)))
        .collect();
    let files = std::iter::once("ca").chain(wanted.iter().map(|wanted| wanted.file.as_str()));
    refuse_to_overwrite(&args.dir, files)?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&args.dir);
    made.with_context(|| format!("cannot create the directory {}", args.dir.display()))?;

    let (authority, ca) = authority(cluster, &args.dir)?;
    let written = wanted.iter().map(|wanted| signed(&authority, &args.dir, wanted));
    let written = written.collect::<anyhow::Result<Vec<_>>>()?;
    report(cluster, &ca, &written, args.json)
}

/// Makes another certificate of an existing authority.
fn more(args: &MoreArgs, wanted: CertificateRequest) -> Outcome {
    let MoreArgs { dir, cluster, json } = args;
    check_cluster(cluster).map_err(|error| Failure::Usage(error.to_string()))?;
    refuse_to_overwrite(dir, std::iter::once(wanted.file.as_str()))?;
    let (chain, private) = (certificate_path(dir, "ca"), key_path(dir, "ca"));
    let read =
        |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    let key = KeyPair::from_pem(&read(&private)?).with_context(|| private.display().to_string())?;
    let (params, name) = authority_params(cluster);
    // The certificate and the key of the authority must belong together and to this cluster, or no
    // node would accept what is signed here.
    let certificate = pem_bytes(&read(&chain)?);
    let has = |part: &[u8]| certificate.windows(part.len()).any(|window| window == part);
    if !has(name.as_bytes()) || !has(key.public_key_raw()) {
        return Err(Failure::Usage(format!(
            "{} is not the authority of the cluster {cluster} with the key {}: `kgate certs new` \
             makes both",
            chain.display(),
            private.display()
        )));
    }
    let written = signed(&Issuer::new(params, key), dir, &wanted)?;
    report(cluster, &Written { name, chain, key: private }, &[written], *json)
}

/// The bytes of the first certificate of a PEM file; empty if there is none.
fn pem_bytes(text: &str) -> Vec<u8> {
    use rustls::pki_types::pem::PemObject;
    rustls::pki_types::CertificateDer::from_pem_slice(text.as_bytes())
        .map(|certificate| certificate.to_vec())
        .unwrap_or_default()
}

fn report(cluster: &str, ca: &Written, written: &[Written], json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    if json {
        let report = serde_json::json!({ "cluster": cluster, "ca": ca, "certificates": written });
        writeln!(out, "{report}")?;
    } else {
        for Written { name, chain, key } in std::iter::once(ca).chain(written) {
            writeln!(out, "{}  {}  {name}", chain.display(), key.display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks all paths before the first file is written, so that an error leaves no files behind.
fn refuse_to_overwrite<'f>(
    dir: &Path,
    files: impl Iterator<Item = &'f str>,
) -> Result<(), Failure> {
    let paths = files.flat_map(|file| [certificate_path(dir, file), key_path(dir, file)]);
    let mut present = paths.filter(|path| path.symlink_metadata().is_ok());
    match present.next() {
        None => Ok(()),
        Some(path) => Err(Failure::Usage(format!(
            "{} exists, so nothing was written: choose another directory, or move the old files \
             away if no node needs them",
            path.display()
        ))),
    }
}

fn authority(cluster: &str, dir: &Path) -> anyhow::Result<(Issuer<'static, KeyPair>, Written)> {
    let (params, name) = authority_params(cluster);
    let key = KeyPair::generate()?;
    let written = write(dir, "ca", name, &params.self_signed(&key)?.pem(), &key)?;
    Ok((Issuer::new(params, key), written))
}

fn authority_params(cluster: &str) -> (CertificateParams, String) {
    let name = format!("kgate development authority of {cluster}");
    let mut params = named(CertificateParams::default(), &name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params, name)
}

fn signed(
    authority: &Issuer<'static, KeyPair>,
    dir: &Path,
    CertificateRequest { file, names, uses }: &CertificateRequest,
) -> anyhow::Result<Written> {
    let name = names[0].clone();
    let mut params = named(CertificateParams::new(names.clone())?, &name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = uses.clone();
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    write(dir, file, name, &params.signed_by(&key, authority)?.pem(), &key)
}

fn named(mut params: CertificateParams, name: &str) -> CertificateParams {
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn write(
    dir: &Path,
    file: &str,
    name: String,
    certificate: &str,
    key: &KeyPair,
) -> anyhow::Result<Written> {
    let [chain, private] = [certificate_path(dir, file), key_path(dir, file)];
    write_new(&private, 0o600, &key.serialize_pem())?;
    write_new(&chain, 0o644, certificate)?;
    Ok(Written { name, chain, key: private })
}

fn write_new(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| path.display().to_string())
}

fn certificate_path(dir: &Path, file: &str) -> PathBuf {
    dir.join(format!("{file}.pem"))
}

fn key_path(dir: &Path, file: &str) -> PathBuf {
    dir.join(format!("{file}.key"))
}
