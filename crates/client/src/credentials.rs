//! How a client shows who it is, and knows its node: files for TLS, and a token.

use std::fmt;
use std::path::{Path, PathBuf};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::Error;

/// How a client shows who it is. Files are read anew for each connection, so that new ones count
/// without a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The certificate of the authority that signs the certificates of nodes; needed for
    /// `https://`.
    pub authority: Option<PathBuf>,
    /// The certificate of this client.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// A file with a token.
    pub token_file: Option<PathBuf>,
    /// The name that the node's certificate must tolerate; the host of its address, if none.
    pub server_name: Option<String>,
}

impl Credentials {
    /// The token as a header, if there is one.
    pub(crate) fn bearer(&self) -> Result<Bearer, Error> {
        let Some(path) = &self.token_file else { return Ok(Bearer(None)) };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(path, error.to_string()))?;
        let token = text.trim();
        let fits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        let header =
            fits.then(|| format!("Bearer {token}").parse::<MetadataValue<Ascii>>().ok()).flatten();
        let text = "it does not hold a token: one line of visible ASCII characters without spaces";
        let mut header = header.ok_or_else(|| wrong(path, text.into()))?;
        header.set_sensitive(true);
        Ok(Bearer(Some(header)))
    }
}

pub(crate) fn wrong(path: &Path, why: String) -> Error {
    Error::Credentials(format!("{}: {why}", path.display()))
}

/// Puts the token into every request. It is shown to nobody else.
#[derive(Clone)]
pub(crate) struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    pub(crate) fn is_there(&self) -> bool {
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

    /// A token is one word of a file; what is none is refused with the file, and no way of looking
    /// at it shows it.
    #[test]
    fn tokens() {
        let path = std::env::temp_dir().join(format!("kgate-token-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Credentials { token_file: Some(path.clone()), ..Credentials::default() }.bearer()
        };
        let bearer = read("hidden\n").unwrap();
        assert!(
            bearer.is_there() && !format!("{bearer:?} {:?}", bearer.0).contains("hidden"),
            "{bearer:?}"
        );
        for text in ["", "\n", "two words", "caf\u{e9}"] {
            let error = read(text).unwrap_err().to_string();
            assert!(
                error.contains("kgate-token-") && error.contains("does not hold a token"),
                "{error}"
            );
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read_missing(&path).contains("No such file"));
    }

    fn read_missing(path: &Path) -> String {
        let credentials = Credentials { token_file: Some(path.into()), ..Credentials::default() };
        credentials.bearer().unwrap_err().to_string()
    }
}
