//! Where a node is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint};

use crate::Error;

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `http://HOST:PORT`.
    Tcp(String),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Address(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(path.into())) };
        }
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let endpoint = Endpoint::from_shared(with_scheme.clone()).map_err(|_| wrong())?;
        let complete = endpoint.uri().scheme_str() == Some("http") && endpoint.uri().port().is_some();
        if complete { Ok(Self::Tcp(with_scheme)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(uri) => f.write_str(uri),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// Connects, or says why not.
    pub(crate) async fn connect(&self, within: Duration) -> Result<Channel, Error> {
        let connected = match self {
            Self::Tcp(uri) => {
                let endpoint = Endpoint::from_shared(uri.clone()).expect("it was looked at");
                endpoint.tcp_nodelay(true).connect_timeout(within).connect().await
            }
            Self::Unix(path) => {
                let path = path.clone();
                let dial = tower::service_fn(move |_| {
                    let path = path.clone();
                    async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
                });
                // A name must be there, and is never looked up.
                Endpoint::from_static("http://local")
                    .connect_timeout(within)
                    .connect_with_connector(dial)
                    .await
            }
        };
        connected.map_err(|error| Error::NoNode { address: self.to_string(), why: innermost(&error) })
    }
}

/// What really happened: the words of the innermost error.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is an address, with and without its scheme, and what is not.
    #[test]
    fn addresses() {
        let read = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(read("http://a:1"), Ok("http://a:1".into()));
        assert_eq!(read("127.0.0.1:7400"), Ok("http://127.0.0.1:7400".into()));
        assert_eq!(read("unix:/run/k"), Ok("unix:/run/k".into()));
        for wrong in ["", "unix:", "http://a", "ftp://a:1", "a b:1"] {
            assert_eq!(read(wrong), Err(Error::Address(wrong.into())), "{wrong}");
        }
    }
}
