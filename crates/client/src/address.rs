//! Addresses of nodes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tonic::transport::Endpoint;

use crate::credentials::Credentials;
use crate::{Error, ErrorKind, local};

/// The address of a node, with the credentials to use there.
///
/// `HOST:PORT` and `http://HOST:PORT` are plain TCP, `https://HOST:PORT` is TLS, `unix:PATH` is a
/// Unix socket.
///
/// ```
/// use kgate_client::{Address, Credentials};
///
/// let credentials = Credentials { authority: Some("ca.pem".into()), ..Default::default() };
/// let address: Address = "https://node-0.example:7400".parse()?;
/// let address = address.with(credentials);
/// assert_eq!(address.to_string(), "https://node-0.example:7400");
/// # Ok::<(), kgate_client::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) place: Place,
    pub(crate) credentials: Credentials,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    Tcp { uri: String, host: String, port: u16, tls: bool },
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || {
            let message = format!(
                "invalid address `{text}`: write https://HOST:PORT, http://HOST:PORT or unix:PATH"
            );
            Error::new(ErrorKind::InvalidAddress, message)
        };
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(invalid());
            }
            return Ok(Self::unix(path));
        }
        let uri = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let endpoint = Endpoint::from_shared(uri.clone()).map_err(|_| invalid())?;
        let tls = match endpoint.uri().scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(invalid()),
        };
        let (host, port) = (endpoint.uri().host().ok_or_else(invalid)?, endpoint.uri().port_u16());
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let place = Place::Tcp { uri, host, port: port.ok_or_else(invalid)?, tls };
        Ok(Self { place, credentials: Credentials::default() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp { uri, .. } => f.write_str(uri),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// The address of a Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self { place: Place::Unix(path.into()), credentials: Credentials::default() }
    }

    /// The node of this machine (`/run/kgate/node.sock`) if there is one, else the node of this
    /// user, which `kgate run` starts. An error if the machine's node does not accept connections,
    /// or if this user can have no node.
    pub fn local() -> Result<Self, Error> {
        let found = local::rendezvous();
        let found = found.map_err(|error| Error::new(ErrorKind::Unreachable, error.to_string()))?;
        Ok(Self::unix(found.socket()))
    }

    /// The same address with other credentials.
    pub fn with(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// The path of a Unix socket; none for TCP.
    pub fn socket(&self) -> Option<&Path> {
        match &self.place {
            Place::Unix(path) => Some(path),
            Place::Tcp { .. } => None,
        }
    }

    /// The Unix socket at which a session consists of frames; none where it is gRPC. A token is a
    /// header of HTTP, which frames do not have.
    pub(crate) fn frame_socket(&self) -> Option<&Path> {
        self.socket().filter(|_| self.credentials.token_file.is_none())
    }

    /// Whether others on the network could read what is sent to this address.
    pub(crate) fn is_cleartext(&self) -> bool {
        match &self.place {
            Place::Unix(_) | Place::Tcp { tls: true, .. } => false,
            Place::Tcp { host, .. } => {
                let is_loopback =
                    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
                host != "localhost" && !is_loopback
            }
        }
    }
}

/// One or more addresses of the nodes of one cluster, in order of preference.
///
/// A client connects to the first node that accepts it. Every function that takes `impl
/// TryInto<Addresses>` accepts a `&str`, a `String`, an [`Address`], and arrays, slices and vectors
/// of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(Vec<Address>);

impl Addresses {
    /// The addresses in order of preference.
    pub fn iter(&self) -> impl Iterator<Item = &Address> {
        self.0.iter()
    }

    fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, Error> {
        let all: Vec<Address> =
            texts.iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>()?;
        Self::try_from(all)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(Address::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

impl From<Address> for Addresses {
    fn from(address: Address) -> Self {
        Self(vec![address])
    }
}

impl From<&Address> for Addresses {
    fn from(address: &Address) -> Self {
        address.clone().into()
    }
}

impl From<&Addresses> for Addresses {
    fn from(addresses: &Addresses) -> Self {
        addresses.clone()
    }
}

impl TryFrom<Vec<Address>> for Addresses {
    type Error = Error;

    fn try_from(addresses: Vec<Address>) -> Result<Self, Error> {
        if addresses.is_empty() {
            return Err(Error::new(ErrorKind::InvalidAddress, "no address given"));
        }
        Ok(Self(addresses))
    }
}

macro_rules! try_from_text {
    ($($text:ty),+) => {$(
        impl TryFrom<$text> for Addresses {
            type Error = Error;

            fn try_from(text: $text) -> Result<Self, Error> {
                Self::parse(&[text])
            }
        }
    )+};
}

try_from_text!(&str, String, &String);

impl<T: AsRef<str>, const N: usize> TryFrom<[T; N]> for Addresses {
    type Error = Error;

    fn try_from(texts: [T; N]) -> Result<Self, Error> {
        Self::parse(&texts)
    }
}

impl<T: AsRef<str>> TryFrom<&[T]> for Addresses {
    type Error = Error;

    fn try_from(texts: &[T]) -> Result<Self, Error> {
        Self::parse(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address is parsed with and without its scheme; anything else is refused.
    #[test]
    fn addresses_are_parsed() {
        let parse = |text: &str| text.parse::<Address>().map(|address| address.to_string());
        assert_eq!(parse("http://a:1"), Ok("http://a:1".into()));
        assert_eq!(parse("https://[::1]:1"), Ok("https://[::1]:1".into()));
        assert_eq!(parse("127.0.0.1:7400"), Ok("http://127.0.0.1:7400".into()));
        assert_eq!(parse("unix:/run/k"), Ok("unix:/run/k".into()));
        for invalid in ["", "unix:", "http://a", "https://a", "ftp://a:1", "a b:1"] {
            let error = parse(invalid).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidAddress, "{invalid}");
        }
    }

    /// Several addresses keep their order; an empty list is refused.
    #[test]
    fn lists_of_addresses_are_parsed() {
        let addresses = Addresses::try_from(["a:1", "unix:/b"]).unwrap();
        assert_eq!(addresses.to_string(), "http://a:1, unix:/b");
        let error = Addresses::try_from([""; 0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidAddress);
    }

    /// A session consists of frames by a Unix socket, unless there is a token.
    #[test]
    fn frames_are_for_unix_sockets_without_a_token() {
        let socket = |address: &Address| address.frame_socket().map(Path::to_owned);
        let local = Address::unix("/a");
        assert_eq!(socket(&local), Some("/a".into()));
        let token_file = Some("token".into());
        let with = local.with(Credentials { token_file, ..Credentials::default() });
        assert_eq!(socket(&with), None);
        assert_eq!(socket(&"127.0.0.1:1".parse().unwrap()), None);
    }

    /// A token is sent only where nobody else on the network can read it.
    #[test]
    fn cleartext_addresses_are_known() {
        let is_cleartext = |text: &str| text.parse::<Address>().unwrap().is_cleartext();
        for address in ["http://10.0.0.1:1", "db.example:1", "http://localhost.evil:1"] {
            assert!(is_cleartext(address), "{address}");
        }
        for address in
            ["https://10.0.0.1:1", "127.0.0.1:1", "http://[::1]:1", "localhost:1", "unix:/a"]
        {
            assert!(!is_cleartext(address), "{address}");
        }
    }
}
