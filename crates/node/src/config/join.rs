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
                .map_err(|error: BadToken| BadConfig::Invalid(format!("join: {error}")));
        }
        let path = PathBuf::from(&self.0);
        let unreadable = |error| BadConfig::Unreadable(path.clone(), error);
        if std::fs::metadata(&path).map_err(unreadable)?.len() > FILE_MAX {
            return Err(BadConfig::Invalid(format!("join: {} is too long for a token", self.0)));
        }
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        text.parse()
            .map_err(|error: BadToken| BadConfig::Invalid(format!("join: in {}, {error}", self.0)))
    }
}

impl Config {
    /// Checks that there is either a place in the list of nodes, or a token and an address.
    pub(super) fn check_join(&self) -> Result<(), BadConfig> {
        let wrong = |text: &str| Err(BadConfig::Invalid(text.to_owned()));
        match (&self.join, self.nodes.is_empty()) {
            (None, true) => wrong(
                "no nodes: set nodes = [\"HOST:PORT\", ..] to the addresses of all nodes and id to \
                 this node's place in it, or set join to a join token",
            ),
            (None, false) if self.address.is_some() => wrong(
                "address is for a node that joins: this node's address is in nodes, at its id",
            ),
            (None, false) => Ok(()),
            (Some(_), false) => wrong(
                "nodes and join exclude each other: set nodes for the first nodes of a cluster, \
                 and join for a node that is added later",
            ),
            (Some(_), true) if self.address.is_none() => wrong(
                "join needs the address at which other nodes reach this one: set \
                 address = \"HOST:PORT\"",
            ),
            (Some(_), true) if self.voters.is_some() => wrong(
                "voters is for the first nodes of a cluster: a node that joins is a follower until \
                 `kgate members promote`",
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

    /// The display name of this node.
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
        assert!(check("").unwrap_err().contains("no nodes: set nodes"));
        assert!(
            check(&format!("nodes = [\"a:1\"]\n{joins}"))
                .unwrap_err()
                .contains("exclude each other")
        );
        assert!(check(&format!("join = \"{}\"", token())).unwrap_err().contains("set address"));
        assert!(
            check(&format!("{joins}voters = 3")).unwrap_err().contains("kgate members promote")
        );
        assert!(
            check("nodes = [\"a:1\"]\naddress = \"b:1\"")
                .unwrap_err()
                .contains("is in nodes, at its id")
        );
    }

    /// The token may be in a file, and errors name that file.
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
