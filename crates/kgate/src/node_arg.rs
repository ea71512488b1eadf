//! `--node` and `--private`: one pair of flags for all commands that contact a node.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

/// The value of `--node` for a node of this user alone.
pub(crate) const PRIVATE: &str = "private";

/// The node that a command line names.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeArg {
    /// The node to contact: HOST:PORT, https://HOST:PORT, unix:PATH, `private` (see --private) or
    /// private:DIR (the same with the folder DIR) [default: the node of this machine if there is
    /// one, else the node of this user, which `kgate run` starts]
    #[arg(long, value_name = "ADDR")]
    node: Option<String>,
    /// Use a node of this user alone, also where the machine has one: permits of other users do not
    /// count there
    #[arg(long)]
    private: bool,
}

impl NodeArg {
    /// The node at that address.
    pub(crate) fn at(address: String) -> Self {
        Self { node: Some(address), private: false }
    }

    /// Refuses --private beside another node on the command line. A node that the environment names
    /// gives way.
    pub(crate) fn check(given: &ArgMatches) -> Result<(), &'static str> {
        let is_typed = |id: &str| {
            given.try_contains_id(id).is_ok()
                && given.value_source(id) == Some(ValueSource::CommandLine)
        };
        if is_typed("private") && is_typed("node") {
            return Err("--private and --node contradict each other: give one of them");
        }
        given.subcommand().map_or(Ok(()), |(_, given)| Self::check(given))
    }

    /// The named node; none for the default.
    pub(crate) fn named(&self) -> Option<&str> {
        if self.private { Some(PRIVATE) } else { self.node.as_deref() }
    }
}
