//! Credentials of every command that contacts a node: one set of flags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use kgate_client::{Address, Credentials, Error};
use serde::{Deserialize, Serialize};

/// Files for TLS, and a token file.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct CredentialArgs {
    /// Certificate of the authority that signed the node's certificate, for https
    #[arg(long, value_name = "FILE", help_heading = "Credentials")]
    pub(crate) ca: Option<PathBuf>,
    /// Certificate of this client
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "Credentials")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Credentials")]
    pub(crate) key: Option<PathBuf>,
    /// File with the token of this client
    #[arg(long, value_name = "FILE", help_heading = "Credentials")]
    pub(crate) token_file: Option<PathBuf>,
    /// Name that the node's certificate must have [default: the host of its address]
    #[arg(long, value_name = "NAME", help_heading = "Credentials")]
    pub(crate) tls_name: Option<String>,
}

impl CredentialArgs {
    /// The same with absolute paths, for a process in another directory.
    pub(crate) fn absolute(&self) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let of = |path: &Option<PathBuf>| path.as_ref().map(absolute);
        Self {
            ca: of(&self.ca),
            cert: of(&self.cert),
            key: of(&self.key),
            token_file: of(&self.token_file),
            tls_name: self.tls_name.clone(),
        }
    }

    /// The flags of a command line.
    pub(crate) fn flags(&self) -> Vec<OsString> {
        let file =
            |path: &Option<PathBuf>| path.as_deref().map(Path::as_os_str).map(OsString::from);
        let flags = [
            ("--ca", file(&self.ca)),
            ("--cert", file(&self.cert)),
            ("--key", file(&self.key)),
            ("--token-file", file(&self.token_file)),
            ("--tls-name", self.tls_name.clone().map(OsString::from)),
        ];
        flags
            .into_iter()
            .filter_map(|(flag, value)| Some([flag.into(), value?]))
            .flatten()
            .collect()
    }

    /// The address of a node, with these credentials.
    pub(crate) fn at(&self, address: &str) -> Result<Address, Error> {
        let Self { ca, cert, key, token_file, tls_name } = self.clone();
        let credentials = Credentials {
            authority: ca,
            certificate: cert,
            key,
            token_file,
            server_name: tls_name,
        };
        Ok(address.parse::<Address>()?.with(credentials))
    }
}
