//! A node that is not in the list yet: it joins by a token.

use std::path::PathBuf;

use serde::Deserialize;

use super::{BadConfig, Config};
use crate::token::{BadToken, JoinToken};

/// Longer files have no token in them.
const FILE_MAX: u64 = 16 * 1024;

/// Where a token is: here, or in a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct JoinFrom(pub String);

impl JoinFrom {
    fn is_token(&self) -> bool {
        self.0.trim().starts_with("kgate-join-")
    }

    /// The token.
    pub fn read(&self) -> Result<JoinToken, BadConfig> {
        if self.is_token() {
            return self
                .0
                .parse()
                .map_err(|error: BadToken| BadConfig::Senseless(format!("join: {error}")));
        }
        let path = PathBuf::from(&self.0);
        let unreadable = |error| BadConfig::Unreadable(path.clone(), error);
        if std::fs::metadata(&path).map_err(unreadable)?.len() > FILE_MAX {
            return Err(BadConfig::Senseless(format!("join: {} is too long for a token", self.0)));
        }
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        text.parse().map_err(|error: BadToken| {
            BadConfig::Senseless(format!("join: in {}, {error}", self.0))
        })
    }
}

impl Config {
    /// Either a place in the list of nodes, or a token and an address of its own.
    pub(super) fn check_join(&self) -> Result<(), BadConfig> {
        let wrong = |text: &str| Err(BadConfig::Senseless(text.to_owned()));
        match (&self.join, self.nodes.is_empty()) {
            (None, true) => wrong(
                "no node is named: give the list of all as nodes = [\"HOST:PORT\", ..] with this one's place in it as id, or a token to join a cluster as join",
            ),
            (None, false) if self.address.is_some() => wrong(
                "address is for a node that joins: this one's is in the list of nodes, at its id",
            ),
            (None, false) => Ok(()),
            (Some(_), false) => wrong(
                "nodes and join say different things: a cluster begins with the list of its nodes, and a node that comes later joins by a token; give one of them",
            ),
            (Some(_), true) if self.address.is_none() => wrong(
                "a node that joins says where the others reach it: set address = \"HOST:PORT\"",
            ),
            (Some(_), true) if self.voters.is_some() => wrong(
                "voters is for those who begin a cluster: a node that joins follows, and `kgate members promote` makes it a voter",
            ),
            (Some(from), true) => from.read().map(drop),
        }
    }

    /// The same, with what its token says: its number and its cluster.
    pub(crate) fn with_token(mut self) -> Result<(Self, Option<JoinToken>), BadConfig> {
        let Some(token) = self.join.as_ref().map(JoinFrom::read).transpose()? else {
            return Ok((self, None));
        };
        self.check_join()?;
        (self.id, self.cluster) = (token.node, token.cluster.clone());
        Ok((self, Some(token)))
    }

    /// Where other nodes reach this one.
    pub(crate) fn own_address(&self) -> Option<&String> {
        self.nodes.get(self.id as usize).or(self.address.as_ref())
    }

    /// What people call this node.
    pub fn called(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("node-{}", self.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> JoinToken {
        let members = vec![(0, "10.0.0.1:7401".into())];
        JoinToken { cluster_id: 7, cluster: "fleet".into(), node: 3, members }
    }

    fn check(text: &str) -> Result<(), String> {
        toml::from_str::<Config>(text)
            .expect("a configuration")
            .check_join()
            .map_err(|error| error.to_string())
    }

    /// A list with an id, or a token with an address; never both, never neither.
    #[test]
    fn a_place_or_a_token() {
        let joins = format!("join = \"{}\"\naddress = \"10.0.0.9:7401\"\n", token());
        assert_eq!(check(&joins), Ok(()));
        assert_eq!(check("id = 0\nnodes = [\"a:1\"]"), Ok(()));
        assert!(check("").unwrap_err().contains("no node is named"));
        assert!(
            check(&format!("nodes = [\"a:1\"]\n{joins}")).unwrap_err().contains("give one of them")
        );
        assert!(check(&format!("join = \"{}\"", token())).unwrap_err().contains("set address"));
        assert!(
            check(&format!("{joins}voters = 3")).unwrap_err().contains("kgate members promote")
        );
        assert!(
            check("nodes = [\"a:1\"]\naddress = \"b:1\"")
                .unwrap_err()
                .contains("in the list of nodes")
        );
    }

    /// The token may stand in a file, and what is wrong with it is told with the file's name.
    #[test]
    fn a_token_in_a_file() {
        let path = std::env::temp_dir().join(format!("kgate-join-file-{}", std::process::id()));
        let from = JoinFrom(path.display().to_string());
        assert!(from.read().unwrap_err().to_string().contains("cannot read"));
        std::fs::write(&path, format!("{}\n", token())).unwrap();
        assert_eq!(from.read().unwrap(), token());
        std::fs::write(&path, "kgate-join-1-zz").unwrap();
        let damaged = from.read().unwrap_err().to_string();
        assert!(damaged.contains("damaged") && damaged.contains(&from.0), "{damaged}");
        std::fs::remove_file(&path).unwrap();
    }
}
