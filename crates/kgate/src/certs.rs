//! `kgate certs`: the certificates of a cluster, for development.
//!
//! A new authority signs a certificate for each node, with the name `node-<id>.<cluster>` to which
//! links bind the node's id, and one for each client. A cluster of a company has an authority of
//! its own: kgate needs nothing of it but these names. Nothing is ever overwritten: a key that is
//! lost may be the only one.

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
Writes into the folder: ca.pem and ca.key, the authority; node-<id>.pem and node-<id>.key for the nodes 0 .. N-1; \
client-<name>.pem and client-<name>.key for each --client. Keys can be read by their owner only. A file that is there already \
is never overwritten: then nothing is written at all.

The certificate of node 2 of the cluster farm tolerates the name node-2.farm, and a link takes no other for node 2. All three of \
ca.pem, node-2.pem and node-2.key go to the machine of node 2; ca.key goes nowhere. A client's certificate is for clients only: nothing \
takes it for a node. Clients that ask by https://HOST:PORT want HOST in the node's certificate too: --host gives it. The certificates do not expire and cannot be \
revoked, which is why they are for development: elsewhere let your own authority sign the same names, for both TLS server and \
TLS client use.

Examples:
  Three nodes and one client:
    kgate certs new --dir certs --cluster farm --nodes 3 --host 10.0.0.1,10.0.0.2,10.0.0.3 --client alice
  One more client, later:
    kgate certs client bob --dir certs --cluster farm
  Look at one:
    openssl x509 -in certs/node-0.pem -noout -text";

#[derive(Debug, Args)]
pub(crate) struct CertsArgs {
    #[command(subcommand)]
    command: CertsCommand,
}

#[derive(Debug, Subcommand)]
enum CertsCommand {
    /// Make an authority for development, and a certificate for each node and client
    #[command(after_long_help = HELP)]
    New(NewArgs),
    /// Make a certificate for one more client, by the authority that `certs new` made
    Client(ClientArgs),
    /// Make a certificate for one more node, by the authority that `certs new` made
    Node(NodeArgs),
}

#[derive(Debug, Args)]
struct ClientArgs {
    /// The name of the client: small letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    more: MoreArgs,
}

#[derive(Debug, Args)]
struct NodeArgs {
    /// The id of the node
    #[arg(value_name = "ID")]
    id: u32,
    /// A host name or address by which clients ask it
    #[arg(long = "host", value_name = "HOST", env = "KGATE_OPT_HOST", value_delimiter = ',')]
    hosts: Vec<String>,
    #[command(flatten)]
    more: MoreArgs,
}

#[derive(Debug, Args)]
struct MoreArgs {
    /// Where ca.pem and ca.key are, and where the new files go
    #[arg(long, value_name = "DIR", env = "KGATE_OPT_DIR")]
    dir: PathBuf,
    /// The name of the cluster
    #[arg(long, value_name = "NAME", env = "KGATE_OPT_CLUSTER")]
    cluster: String,
    /// Print what was written as JSON
    #[arg(long, env = "KGATE_OPT_JSON", value_parser = clap::builder::BoolishValueParser::new())]
    json: bool,
}

#[derive(Debug, Args)]
struct NewArgs {
    /// Where the files go; made if it is not there
    #[arg(long, value_name = "DIR", env = "KGATE_OPT_DIR")]
    dir: PathBuf,
    /// The name of the cluster: small letters, digits and hyphens
    #[arg(long, value_name = "NAME", env = "KGATE_OPT_CLUSTER")]
    cluster: String,
    /// How many nodes it has: their ids are 0 .. N-1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), env = "KGATE_OPT_NODES")]
    nodes: u32,
    /// The hosts by which clients ask the nodes, in the order of their ids: names or addresses
    #[arg(long = "host", value_name = "HOST", env = "KGATE_OPT_HOST", value_delimiter = ',')]
    hosts: Vec<String>,
    /// A client that gets a certificate too; may be given several times
    #[arg(long = "client", value_name = "NAME", env = "KGATE_OPT_CLIENT", value_delimiter = ',')]
    clients: Vec<String>,
    /// Print what was written as JSON
    #[arg(long, env = "KGATE_OPT_JSON", value_parser = clap::builder::BoolishValueParser::new())]
    json: bool,
}

pub(crate) fn run(args: &CertsArgs) -> Outcome {
    match &args.command {
        CertsCommand::New(args) => new(args),
        CertsCommand::Client(args) => {
            check_client(&args.name)?;
            more(&args.more, Wanted::client(&args.name, &args.more.cluster))
        }
        CertsCommand::Node(args) => {
            more(&args.more, Wanted::node(args.id, &args.more.cluster, args.hosts.clone()))
        }
    }
}

/// A certificate with its key: where they are and which name it tolerates.
#[derive(Debug, Serialize)]
struct Written {
    name: String,
    chain: PathBuf,
    key: PathBuf,
}

/// What a certificate is for.
#[derive(Debug)]
struct Wanted {
    file: String,
    /// The first is the one that it is known by.
    names: Vec<String>,
    uses: Vec<ExtendedKeyUsagePurpose>,
}

impl Wanted {
    /// Both uses of TLS: of two nodes one dials and the other is called.
    fn node(id: u32, cluster: &str, hosts: Vec<String>) -> Self {
        let names = [node_name(NodeId(id), cluster)].into_iter().chain(hosts).collect();
        let uses = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Self { file: format!("node-{id}"), names, uses }
    }

    /// A client only calls: nobody takes it for a node.
    fn client(name: &str, cluster: &str) -> Self {
        let uses = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Self { file: format!("client-{name}"), names: vec![client_name(name, cluster)], uses }
    }
}

fn check_client(name: &str) -> Result<(), Failure> {
    let why = "take 1 to 63 small letters, digits and hyphens, with no hyphen at either end";
    let wrong = |_| Failure::Usage(format!("the client's name {name:?} cannot be used: {why}"));
    check_cluster(name).map_err(wrong)
}

fn new(args: &NewArgs) -> Outcome {
    let cluster = &args.cluster;
    check_cluster(cluster).map_err(|error| Failure::Usage(error.to_string()))?;
    args.clients.iter().try_for_each(|client| check_client(client))?;
    if !args.hosts.is_empty() && args.hosts.len() != args.nodes as usize {
        let text = format!(
            "--host names {} hosts for {} nodes: give one for each",
            args.hosts.len(),
            args.nodes
        );
        return Err(Failure::Usage(text));
    }
    let host = |id: u32| args.hosts.get(id as usize).cloned().into_iter().collect();
    let nodes = (0..args.nodes).map(|id| Wanted::node(id, cluster, host(id)));
    let wanted: Vec<_> =
        nodes.chain(args.clients.iter().map(|client| Wanted::client(client, cluster))).collect();
    let files = std::iter::once("ca").chain(wanted.iter().map(|wanted| wanted.file.as_str()));
    refuse_to_overwrite(&args.dir, files)?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&args.dir);
    made.with_context(|| format!("cannot make the folder {}", args.dir.display()))?;

    let (authority, ca) = authority(cluster, &args.dir)?;
    let written = wanted.iter().map(|wanted| signed(&authority, &args.dir, wanted));
    let written = written.collect::<anyhow::Result<Vec<_>>>()?;
    report(cluster, &ca, &written, args.json)
}

/// One more certificate of an authority that is there.
fn more(args: &MoreArgs, wanted: Wanted) -> Outcome {
    let MoreArgs { dir, cluster, json } = args;
    check_cluster(cluster).map_err(|error| Failure::Usage(error.to_string()))?;
    refuse_to_overwrite(dir, std::iter::once(wanted.file.as_str()))?;
    let (chain, private) = (certificate_path(dir, "ca"), key_path(dir, "ca"));
    let read =
        |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    let key = KeyPair::from_pem(&read(&private)?).with_context(|| private.display().to_string())?;
    let (params, name) = authority_params(cluster);
    // The certificate of the authority must be the one that these files made, or nobody would take
    // what is signed here.
    let certificate = pem_bytes(&read(&chain)?);
    let has = |part: &[u8]| certificate.windows(part.len()).any(|window| window == part);
    if !has(name.as_bytes()) || !has(key.public_key_raw()) {
        return Err(Failure::Usage(format!(
            "{} is not the authority of the cluster {cluster} that has the key {}: `kgate certs new` makes both",
            chain.display(),
            private.display()
        )));
    }
    let written = signed(&Issuer::new(params, key), dir, &wanted)?;
    report(cluster, &Written { name, chain, key: private }, &[written], *json)
}

/// The bytes of the first certificate of a PEM file; none if there is none.
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

/// Before the first file is written, so that a mistake leaves nothing behind.
fn refuse_to_overwrite<'f>(
    dir: &Path,
    files: impl Iterator<Item = &'f str>,
) -> Result<(), Failure> {
    let paths = files.flat_map(|file| [certificate_path(dir, file), key_path(dir, file)]);
    let mut present = paths.filter(|path| path.symlink_metadata().is_ok());
    match present.next() {
        None => Ok(()),
        Some(path) => Err(Failure::Usage(format!(
            "{} is there already, so nothing was written: choose another folder, or move the old files away if no node needs them",
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
    Wanted { file, names, uses }: &Wanted,
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
