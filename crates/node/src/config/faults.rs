//! Which faults a node tolerates, and what it needs for that.

use kgate_core::NodeId;
use kgate_protocols::registry;
use serde::Deserialize;

use super::{BadConfig, Config, lease};
use crate::core::Definition;

/// Which faults a node tolerates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Faults {
    /// Delays, partitions, pauses, crashes and restarts: an agreed log defines the membership, and
    /// no node grants without a lease (LEASES).
    Lease,
    /// Crashes only, as in the papers: a silent node counts as dead. Unsafe where a network may
    /// partition.
    CrashStop,
}

/// The nodes that vote.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum VotersConfig {
    /// The first so many nodes of the list.
    Count(u32),
    /// The nodes with these ids.
    List(Vec<u32>),
}

/// The most voters: each entry of the log goes to all of them.
const VOTERS_MAX: usize = 7;
/// The most voters by default: two of them may fail.
const VOTERS_USUAL: usize = 5;

impl Config {
    /// The configured mode; by default leases, if the node stores data or has other nodes.
    pub(crate) fn faults(&self) -> Result<Faults, BadConfig> {
        // Slots bound to processes by file locks need no clock (LEASES section 6).
        let wants = !self.bound_to_processes()
            && (self.data.is_some() || self.nodes.len() > 1 || self.join.is_some());
        match self.faults {
            Some(Faults::CrashStop) => self.can_do_without_log().map(|()| Faults::CrashStop),
            Some(Faults::Lease) => self.can_lease().map(|()| Faults::Lease),
            None if wants => self.can_lease().map(|()| Faults::Lease),
            None => self.can_do_without_log().map(|()| Faults::CrashStop),
        }
    }

    /// Checks that no protocol needs an agreed log.
    fn can_do_without_log(&self) -> Result<(), BadConfig> {
        let check = |protocol: &str| {
            // An unknown protocol is reported elsewhere.
            let entry = registry::entry(protocol).ok();
            entry.map_or(Ok(()), Definition::check_without_log)
        };
        for gate in &self.gates {
            check(&gate.protocol)
                .map_err(|error| wrong(&format!("gate `{}`: {error}", gate.name)))?;
        }
        let new = if self.new_gates { check(&self.protocol) } else { Ok(()) };
        new.map_err(|error| wrong(&format!("protocol of new gates: {error}")))
    }

    pub(crate) fn bound_to_processes(&self) -> bool {
        self.slot_files.is_some() || self.lease_ms == 0
    }

    /// Checks that the configuration has what leases need.
    fn can_lease(&self) -> Result<(), BadConfig> {
        let or = "or set faults = \"crash-stop\", which is unsafe if the network may partition";
        if self.bound_to_processes() {
            return Err(wrong(
                "slot_files and lease_ms = 0 bind permits to processes of one machine and need no \
                 leases: set faults = \"crash-stop\"",
            ));
        }
        if self.data.is_none() {
            return Err(wrong(&format!(
                "leases need a folder for data that must survive a restart: set \
                 data = \"/var/lib/kgate\", {or}"
            )));
        }
        if self.lease_ms != lease() {
            return Err(wrong(
                "lease_ms applies only to faults = \"crash-stop\": with leases set lease in \
                 [timing], for example lease = \"4s\"",
            ));
        }
        let is_guarded = |name: &str| registry::entry(name).is_ok_and(|entry| entry.slots);
        if let Some(gate) = self.gates.iter().find(|gate| !is_guarded(&gate.protocol)) {
            let known = registry::entry(&gate.protocol).map(drop);
            known.map_err(|error| wrong(&format!("gate `{}`: {error}", gate.name)))?;
            return Err(wrong(&format!(
                "gate `{}` uses {}, but leases support slots and home only: omit its protocol, \
                 {or}",
                gate.name, gate.protocol
            )));
        }
        if self.new_gates && !is_guarded(&self.protocol) {
            registry::entry(&self.protocol).map_err(|error| wrong(&error.to_string()))?;
            return Err(wrong(&format!(
                "clients may create gates that use {}, but leases support slots and home only: \
                 omit protocol, {or}",
                self.protocol
            )));
        }
        self.timing()?;
        self.voters().map(drop)
    }

    /// The voters, in the order of ids; the greatest odd number of nodes up to five if it does not
    /// say.
    pub(crate) fn voters(&self) -> Result<Vec<NodeId>, BadConfig> {
        let nodes = self.nodes.len();
        let most = nodes.min(VOTERS_USUAL);
        let mut ids = match &self.voters {
            None if nodes == 0 => return Ok(Vec::new()),
            None => first(most - usize::from(most.is_multiple_of(2))),
            Some(VotersConfig::Count(count)) => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                if count == 0 || count > nodes.min(VOTERS_MAX) {
                    return Err(wrong(&format!(
                        "voters = {count}: at least 1 and at most {} of these {nodes} nodes can \
                         vote; 3 or 5 is usual",
                        nodes.min(VOTERS_MAX)
                    )));
                }
                first(count)
            }
            Some(VotersConfig::List(ids)) => ids.iter().copied().map(NodeId).collect(),
        };
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(&format!("voters names node {} twice: name each once", pair[0].0)));
        }
        if let Some(id) = ids.iter().find(|id| id.index() >= nodes) {
            return Err(wrong(&format!(
                "voters names node {}, and the list has {nodes} nodes: ids count from 0",
                id.0
            )));
        }
        if ids.is_empty() || ids.len() > VOTERS_MAX {
            return Err(wrong(&format!(
                "voters names {} nodes: at least 1 and at most {VOTERS_MAX} can vote; 3 or 5 is \
                 usual",
                ids.len()
            )));
        }
        Ok(ids)
    }

    /// What people should know about their choice of voters (LEASES section 6).
    pub fn about_voters(&self) -> Option<String> {
        let voters = self.voters().ok()?.len();
        match voters {
            2 => Some(
                "two voters: if either fails, nothing is granted and holders stop. One voter and \
                 one follower tolerate more; three voters tolerate one failure"
                    .into(),
            ),
            even if even > 0 && even % 2 == 0 => Some(format!(
                "{even} voters tolerate no more losses than {}: an odd number is better",
                even - 1
            )),
            _ => None,
        }
    }
}

fn first(count: usize) -> Vec<NodeId> {
    (0..).map(NodeId).take(count).collect()
}

fn wrong(text: &str) -> BadConfig {
    BadConfig::Invalid(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "id = 0\nnodes = [\"a:1\", \"b:1\", \"c:1\"]\n";

    fn read(text: &str) -> Config {
        toml::from_str(text).expect("a configuration")
    }

    fn faults(text: &str) -> Result<Faults, String> {
        read(text).faults().map_err(|error| error.to_string())
    }

    /// Leases wherever a restart or another node matters; crash-stop only by name, or where slots
    /// are bound to processes.
    #[test]
    fn leases_are_the_default() {
        let alone = "id = 0\nnodes = [\"a:1\"]\n";
        assert_eq!(faults(&format!("{THREE}data = \"d\"")), Ok(Faults::Lease));
        assert_eq!(faults(&format!("{alone}data = \"d\"")), Ok(Faults::Lease));
        assert_eq!(faults(alone), Ok(Faults::CrashStop), "nothing of it survives anyway");
        assert_eq!(
            faults(&format!("{alone}data = \"d\"\nlease_ms = 0\nslot_files = \"s\"")),
            Ok(Faults::CrashStop)
        );
        assert_eq!(faults(&format!("{THREE}faults = \"crash-stop\"")), Ok(Faults::CrashStop));
        assert_eq!(faults(&format!("{THREE}faults = \"lease\"\ndata = \"d\"")), Ok(Faults::Lease));
        assert!(toml::from_str::<Config>(&format!("{THREE}faults = \"none\"")).is_err());
    }

    /// What is missing for leases is named, with what to do.
    #[test]
    fn what_leases_need() {
        let why = |text: &str| faults(&format!("{THREE}{text}")).unwrap_err();
        let no_data = why("");
        assert!(
            no_data.contains("set data =") && no_data.contains("faults = \"crash-stop\""),
            "{no_data}"
        );
        let gate = "[[gate]]\nname = \"g\"\nk = 1\nprotocol = \"tree-token\"\n";
        assert!(why(&format!("data = \"d\"\n{gate}")).contains("gate `g` uses tree-token"));
        // A misspelt protocol is reported as such, before the hint at crash-stop.
        let slip = why(&format!("data = \"d\"\n{}", gate.replace("tree-token", "nope")));
        assert!(slip.contains("gate `g`: unknown protocol") && !slip.contains("leases"), "{slip}");
        assert!(why("data = \"d\"\nprotocol = \"nope\"").contains("unknown protocol"));
        assert!(
            why("data = \"d\"\nprotocol = \"tree-token\"")
                .contains("clients may create gates that use tree-token")
        );
        let home = gate.replace("tree-token", "home");
        assert_eq!(faults(&format!("{THREE}data = \"d\"\n{home}")), Ok(Faults::Lease));
        let no_log = why(&format!("faults = \"crash-stop\"\n{home}"));
        assert!(no_log.starts_with("gate `g`: `home` follows the agreed log"), "{no_log}");
        assert!(
            why("faults = \"crash-stop\"\nprotocol = \"home\"").contains("protocol of new gates")
        );
        assert!(why("data = \"d\"\nlease_ms = 900").contains("[timing]"));
        assert!(why("data = \"d\"\nfaults = \"lease\"\nlease_ms = 0").contains("of one machine"));
        assert!(why("data = \"d\"\nvoters = 4").contains("at most 3"));
        assert!(why("data = \"d\"\n[timing]\nlease = \"1s\"").contains("raise lease"));
    }

    /// A number of first nodes, or a list; an odd number by default, and a warning about even
    /// ones.
    #[test]
    fn who_votes() {
        let nodes = |count: usize| format!("id = 0\nnodes = {:?}\n", vec!["a:1"; count]);
        let voters = |count, text: &str| {
            let ids = read(&format!("{}{text}", nodes(count))).voters();
            ids.map(|ids| ids.iter().map(|id| id.0).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        for (count, usual) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (100, 5)] {
            assert_eq!(voters(count, "").map(|ids| ids.len()), Ok(usual), "of {count}");
        }
        assert_eq!(voters(5, "voters = 3"), Ok(vec![0, 1, 2]));
        assert_eq!(voters(5, "voters = [4, 0, 2]"), Ok(vec![0, 2, 4]));
        for bad in ["voters = 0", "voters = 8", "voters = []", "voters = [9]", "voters = [1, 1]"] {
            assert!(voters(9, bad).is_err(), "{bad}");
        }
        let about = |text: &str| read(&format!("{}{text}", nodes(5))).about_voters();
        assert_eq!((about(""), about("voters = 1")), (None, None));
        assert!(about("voters = 2").is_some_and(|text| text.contains("one follower")));
        assert!(about("voters = 4").is_some_and(|text| text.contains("no more losses than 3")));
    }
}
