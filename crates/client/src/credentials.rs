//! Credentials: files for TLS, and a token.

use std::fmt;
use std::path::{Path, PathBuf};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::{Error, ErrorKind};

/// How a client proves its identity and verifies its node.
///
/// Files are read again for each connection, so that renewed files take effect without a restart.
///
/// ```
/// use kgate_client::Credentials;
///
/// let credentials = Credentials {
///     authority: Some("ca.pem".into()),
///     token_file: Some("token".into()),
///     ..Credentials::default()
/// };
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The certificate of the authority that signs the nodes' certificates; required for
    /// `https://`.
    pub authority: Option<PathBuf>,
    /// The certificate of this client, in PEM form.
    pub certificate: Option<PathBuf>,
    /// The private key of `certificate`.
    pub key: Option<PathBuf>,
    /// A file that holds a token.
    pub token_file: Option<PathBuf>,
    /// The name in the node's certificate; the host of its address, if absent.
    pub server_name: Option<String>,
}

impl Credentials {
    /// The token as a header, if there is a token.
    pub(crate) fn bearer(&self) -> Result<Bearer, Error> {
        let Some(path) = &self.token_file else { return Ok(Bearer(None)) };
        let text =
            std::fs::read_to_string(path).map_err(|error| bad_file(path, error.to_string()))?;
        let token = text.trim();
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        let header =
            is_token.then(|| format!("Bearer {token}").parse::<MetadataValue<Ascii>>().ok());
        let message = "not a token: write one line of visible ASCII characters without spaces";
        let mut header = header.flatten().ok_or_else(|| bad_file(path, message))?;
        header.set_sensitive(true);
        Ok(Bearer(Some(header)))
    }
}

pub(crate) fn bad_file(path: &Path, reason: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Credentials, format!("cannot use the file {}: {reason}", path.display()))
}

/// Adds the token to each request. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    pub(crate) fn is_present(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Bearer ***" } else { "no token" })
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token is one word in a file. Anything else is refused with the file's name, and `Debug`
    /// never shows the token.
    #[test]
    fn tokens() {
        let path = std::env::temp_dir().join(format!("kgate-token-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Credentials { token_file: Some(path.clone()), ..Credentials::default() }.bearer()
        };
        let bearer = read("hidden\n").unwrap();
        assert!(
            bearer.is_present() && !format!("{bearer:?} {:?}", bearer.0).contains("hidden"),
            "{bearer:?}"
        );
        for text in ["", "\n", "two words", "caf\u{e9}"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("kgate-token-") && error.contains("not a token"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read_missing(&path).contains("No such file"));
    }

    fn read_missing(path: &Path) -> String {
        let credentials = Credentials { token_file: Some(path.into()), ..Credentials::default() };
        credentials.bearer().unwrap_err().to_string()
    }
}
