//! `kgate certs`: the certificates of a cluster, for development.
//!
//! A new authority signs a certificate for each node, with the name `node-<id>.<cluster>` to which links bind the node's
//! id, and one for each client. A cluster of a company has an authority of its own: kgate needs nothing of it but these names.
//! Nothing is ever overwritten: a key that is lost may be the only one.

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

The certificate of node 2 of the cluster farm bears the name node-2.farm, and a link takes no other for node 2. All three of \
ca.pem, node-2.pem and node-2.key go to the machine of node 2; ca.key goes nowhere. The certificates do not expire and cannot be \
revoked, which is why they are for development: elsewhere let your own authority sign the same names, for both TLS server and \
TLS client use.

Examples:
  Three nodes and one client:
    kgate certs new --dir certs --cluster farm --nodes 3 --client alice
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
    }
}

/// A certificate with its key: where they are and which name it bears.
#[derive(Debug, Serialize)]
struct Written {
    name: String,
    chain: PathBuf,
    key: PathBuf,
}

fn new(args: &NewArgs) -> Outcome {
    let cluster = &args.cluster;
    check_cluster(cluster).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(bad) = args.clients.iter().find(|client| check_cluster(client).is_err()) {
        let why = "take 1 to 63 small letters, digits and hyphens, with no hyphen at either end";
        return Err(Failure::Usage(format!("the client's name {bad:?} cannot be used: {why}")));
    }
    let nodes = (0..args.nodes).map(|id| (format!("node-{id}"), node_name(NodeId(id), cluster)));
    let clients =
        args.clients.iter().map(|client| (format!("client-{client}"), client_name(client, cluster)));
    let wanted: Vec<_> = nodes.chain(clients).collect();
    let files = std::iter::once("ca").chain(wanted.iter().map(|(file, _)| file.as_str()));
    refuse_to_overwrite(&args.dir, files)?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&args.dir);
    made.with_context(|| format!("cannot make the folder {}", args.dir.display()))?;

    let (authority, ca) = authority(cluster, &args.dir)?;
    let written = wanted.iter().map(|(file, name)| signed(&authority, &args.dir, file, name));
    let written = written.collect::<anyhow::Result<Vec<_>>>()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let report = serde_json::json!({ "cluster": cluster, "ca": ca, "certificates": written });
        writeln!(out, "{report}")?;
    } else {
        for Written { name, chain, key } in std::iter::once(&ca).chain(&written) {
            writeln!(out, "{}  {}  {name}", chain.display(), key.display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Before the first file is written, so that a mistake leaves nothing behind.
fn refuse_to_overwrite<'f>(dir: &Path, files: impl Iterator<Item = &'f str>) -> Result<(), Failure> {
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
    let name = format!("kgate development authority of {cluster}");
    let mut params = named(CertificateParams::default(), &name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let written = write(dir, "ca", name, &params.self_signed(&key)?.pem(), &key)?;
    Ok((Issuer::new(params, key), written))
}

/// Both uses of TLS: of two nodes one dials and the other is called.
fn signed(
    authority: &Issuer<'static, KeyPair>,
    dir: &Path,
    file: &str,
    name: &str,
) -> anyhow::Result<Written> {
    let mut params = named(CertificateParams::new([name.to_owned()])?, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    write(dir, file, name.to_owned(), &params.signed_by(&key, authority)?.pem(), &key)
}

fn named(mut params: CertificateParams, name: &str) -> CertificateParams {
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn write(dir: &Path, file: &str, name: String, certificate: &str, key: &KeyPair) -> anyhow::Result<Written> {
    let [chain, private] = [certificate_path(dir, file), key_path(dir, file)];
    write_new(&private, 0o600, &key.serialize_pem())?;
    write_new(&chain, 0o644, certificate)?;
    Ok(Written { name, chain, key: private })
}

fn write_new(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| path.display().to_string())
}

fn certificate_path(dir: &Path, file: &str) -> PathBuf {
    dir.join(format!("{file}.pem"))
}

fn key_path(dir: &Path, file: &str) -> PathBuf {
    dir.join(format!("{file}.key"))
}
