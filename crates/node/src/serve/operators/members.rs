//! Members and voters.

use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::{ErrorCode, MemberRole, MemberState};
use kgate_control::log::{ProposeError, VoterWarning};
use kgate_control::membership::Member;
use kgate_control::state::{Applied, ClusterState, Command, DirectoryEntry};
use kgate_core::{Incarnation, NodeId};

use super::{Answer, ApiError, Operator, listed, number, numbers};
use crate::token::{JoinToken, MEMBERS_MAX};

/// Time on top of W for two commits, one of them perhaps after an election.
const COMMIT_TIME: Duration = Duration::from_secs(10);

impl Operator {
    /// The directory of the cluster; without a quorum, this node's copy of it with a warning.
    pub(super) async fn members(&self) -> Answer<v1::MembersReply> {
        let (cluster_state, stale) = match self.read().await {
            Ok(cluster_state) => (cluster_state, String::new()),
            Err(ApiError { code: ErrorCode::NoQuorum, message: why }) => {
                (self.log.cluster_state().as_ref().clone(), why)
            }
            Err(other) => return Err(other),
        };
        let report = self.core.query_status(Some(String::new())).await?;
        let leader = self.log.status().borrow().leader;
        let members = cluster_state.directory.iter().map(|(node, listed)| {
            let member = cluster_state.membership.get(*node);
            v1::Member {
                node: node.0,
                name: listed.name.clone(),
                address: listed.address.clone(),
                incarnation: member.map(|member| member.incarnation.0),
                state: state(listed, member).into(),
                role: role(&cluster_state, *node, leader).into(),
                since_index: member.and(listed.last).map_or(0, |last| last.at),
                reachable: report.seen.iter().any(|(who, _)| who.node == *node),
            }
        });
        let members = members.collect();
        Ok(v1::MembersReply {
            members,
            applied_index: cluster_state.applied,
            stale_reason: stale,
            leader: leader.map(|leader| leader.0),
        })
    }

    /// Adds a node to the directory; idempotent.
    pub(super) async fn add(&self, request: v1::AddMemberRequest) -> Answer<v1::AddMemberReply> {
        let v1::AddMemberRequest { name, address } = request;
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !has_port {
            return Err(ApiError::bad_request(format!(
                "invalid address `{address}`: write HOST:PORT, as other nodes reach the new one"
            )));
        }
        check_new_member(&self.read().await?, &name, &address)?;
        let admit = Command::RegisterNode { node: None, name, address, store: None };
        let Applied::Registered(node) = self.propose(admit).await? else {
            return Err(ApiError::unexpected_reply());
        };
        let cluster_state = self.read().await?;
        let cluster = cluster_state.cluster.as_ref().ok_or_else(ApiError::stopped)?;
        // The voters first: the new node must reach one of them.
        let mut others: Vec<(NodeId, &DirectoryEntry)> = cluster_state
            .directory
            .iter()
            .filter(|(other, _)| **other != node)
            .map(|(id, it)| (*id, it))
            .collect();
        others.sort_by_key(|(other, _)| (!cluster_state.voters.has(*other), *other));
        others.truncate(MEMBERS_MAX);
        let token = JoinToken {
            cluster_id: cluster.id.0,
            cluster: self.core.access.cluster.clone(),
            node: node.0,
            members: others
                .into_iter()
                .map(|(other, listed)| (other.0, listed.address.clone()))
                .collect(),
        };
        Ok(v1::AddMemberReply { node: node.0, token: token.to_string() })
    }

    /// A node votes from now on.
    pub(super) async fn promote(&self, text: &str) -> Answer<v1::OperationReply> {
        let node = self.node(&self.read().await?, text)?;
        let came = self.log.promote(node).await;
        self.voted(came, format!("node {} is a voter now", node.0)).await
    }

    /// Makes a voter a non-voting member.
    pub(super) async fn demote(&self, text: &str) -> Answer<v1::OperationReply> {
        let node = self.node(&self.read().await?, text)?;
        let came = self.log.demote(node).await;
        self.voted(came, format!("node {} is a non-voting follower now", node.0)).await
    }

    async fn voted(
        &self,
        came: Result<Option<VoterWarning>, ProposeError>,
        text: String,
    ) -> Answer<v1::OperationReply> {
        match came {
            Ok(warning) => {
                let voters: Vec<NodeId> = self.log.voters_appended().all().into_iter().collect();
                let text = format!("{text}; the voters are nodes {}", numbers(&voters));
                let warning = warning.map_or_else(String::new, |warning| warning.to_string());
                Ok(v1::OperationReply { message: text, warning })
            }
            Err(why) => Err(self.failed(why).await),
        }
    }

    /// Evicts the current incarnation of a node, in the same way as a suspected one (rule E6).
    pub(super) async fn evict(&self, text: &str, dry_run: bool) -> Answer<v1::OperationReply> {
        let cluster_state = self.read().await?;
        let node = self.node(&cluster_state, text)?;
        let Some(member) = cluster_state.membership.get(node) else {
            return Err(ApiError::bad_request(format!(
                "node {} is not a member: there is nothing to evict",
                node.0
            )));
        };
        let consequences = self.consequences(node, member).await;
        if dry_run {
            return Ok(v1::OperationReply { message: consequences, warning: String::new() });
        }
        self.evict_incarnation(node, member, false).await?;
        let text = format!(
            "incarnation {} of node {} is evicted and its slots are free; if the node is alive, \
            it returns as a later incarnation that holds nothing",
            member.incarnation.0, node.0
        );
        Ok(v1::OperationReply { message: text, warning: String::new() })
    }

    /// Removes a node from the directory; a member is evicted first.
    pub(super) async fn remove(&self, text: &str) -> Answer<v1::OperationReply> {
        let cluster_state = self.read().await?;
        let node = self.node(&cluster_state, text)?;
        if cluster_state.voters.has(node) {
            return Err(ApiError::bad_request(format!(
                "node {0} votes: `kgate members demote {0}` first, and see that enough others vote",
                node.0
            )));
        }
        let mut done = Vec::new();
        if let Some(member) = cluster_state.membership.get(node) {
            self.evict_incarnation(node, member, true).await?;
            done.push(format!(
                "incarnation {} of node {} was evicted",
                member.incarnation.0, node.0
            ));
        }
        self.propose(Command::RemoveNode { node }).await?;
        done.push(format!("node {} is removed, and its ID is not reused", node.0));
        Ok(v1::OperationReply { message: done.join("; "), warning: String::new() })
    }

    /// Evicts an incarnation and waits until it is gone: at least W from its last answer.
    async fn evict_incarnation(&self, node: NodeId, member: &Member, for_good: bool) -> Answer<()> {
        let incarnation = member.incarnation;
        let author = self.author.clone();
        self.propose(Command::ForceEvict { node, incarnation, author, for_good }).await?;
        let most = Duration::from_nanos(member.terms.wait().0) + COMMIT_TIME;
        if self.until(most, |cluster_state| is_gone(cluster_state, node, incarnation)).await {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorCode::TimedOut,
            format!(
                "timed out: node {} is not evicted after {} s; the eviction continues and needs a \
                majority of the voters: retry, or see `kgate members list`",
                node.0,
                most.as_secs()
            ),
        ))
    }

    /// The consequences of an eviction, for people.
    async fn consequences(&self, node: NodeId, member: &Member) -> String {
        let wait = Duration::from_nanos(member.terms.wait().0).as_secs_f64();
        let mut text = format!(
            "incarnation {} of node {} is told to stop and gets no further lease; its slots are \
            free {wait:.1} s after its last answer from a voter at the latest.",
            member.incarnation.0, node.0
        );
        let report = self.core.query_status(None).await;
        let said = report.iter().flat_map(|report| &report.seen).find(|(who, _)| who.node == node);
        match said {
            None => text.push_str(" The node does not answer: its holders are unknown."),
            Some((_, gates)) => {
                let mut holders = 0;
                for gate in gates {
                    for holder in &gate.holders {
                        holders += 1;
                        text.push_str(&format!(
                            "\n  {} slot {}: will be stopped: {}",
                            kgate_api::printable(&gate.name),
                            listed(holder.slots.iter().copied()),
                            holder.process
                        ));
                    }
                }
                if holders == 0 {
                    text.push_str(" It has no holders.");
                }
            }
        }
        text
    }
}

/// Maximum length of a node's name, in bytes.
const NAME_MAX: usize = 64;

/// Why a node cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidMember {
    #[error(
        "the name {name} is taken by node {0} at {address}; use another name, or `kgate members \
        remove {0}` first if the new node replaces it", .node.0
    )]
    NameTaken { name: String, node: NodeId, address: String },
    #[error(
        "{address} is the address of node {0} ({name}); use the address of the new node, or \
        `kgate members remove {0}` first if the new node replaces it", .node.0
    )]
    AddressTaken { address: String, node: NodeId, name: String },
    #[error(
        "invalid node name `{}`: use 1 to {NAME_MAX} letters, digits, `-`, `_` and `.`, for \
        example db-4", .0.escape_debug()
    )]
    BadName(String),
    #[error("the name `{0}` looks like a node ID, which the log assigns; use a name like db-4")]
    NameIsId(String),
}

impl From<InvalidMember> for ApiError {
    fn from(invalid: InvalidMember) -> Self {
        Self::bad_request(invalid.to_string())
    }
}

/// Checks that a node of that name and address can be added, or was: adding it is idempotent.
fn check_new_member(
    cluster_state: &ClusterState,
    name: &str,
    address: &str,
) -> Result<(), InvalidMember> {
    if let Some(node) = cluster_state.node(name) {
        let known = &cluster_state.directory[&node].address;
        if known == address {
            return Ok(());
        }
        let (name, address) = (name.to_owned(), known.clone());
        return Err(InvalidMember::NameTaken { name, node, address });
    }
    let same_address = |(_, entry): &(&NodeId, &DirectoryEntry)| entry.address == address;
    if let Some((node, entry)) = cluster_state.directory.iter().find(same_address) {
        let (address, name) = (address.to_owned(), entry.name.clone());
        return Err(InvalidMember::AddressTaken { address, node: *node, name });
    }
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_valid) {
        return Err(InvalidMember::BadName(name.chars().take(NAME_MAX).collect()));
    }
    if number(name).is_some() {
        return Err(InvalidMember::NameIsId(name.to_owned()));
    }
    Ok(())
}

fn is_gone(cluster_state: &ClusterState, node: NodeId, incarnation: Incarnation) -> bool {
    cluster_state.membership.incarnation(node, incarnation).is_none()
}

fn state(listed: &DirectoryEntry, member: Option<&Member>) -> MemberState {
    match member {
        Some(member)
            if listed
                .forced_eviction
                .as_ref()
                .is_some_and(|it| it.incarnation == member.incarnation) =>
        {
            MemberState::Evicting
        }
        Some(member) if member.suspected.is_some() => MemberState::Suspected,
        Some(_) => MemberState::Active,
        None if listed.last.is_some() => MemberState::Gone,
        None => MemberState::Pending,
    }
}

fn role(cluster_state: &ClusterState, node: NodeId, leader: Option<NodeId>) -> MemberRole {
    match node {
        node if leader == Some(node) => MemberRole::Leader,
        node if cluster_state.voters.has(node) => MemberRole::Voter,
        node if cluster_state.learners.contains(&node) => MemberRole::Follower,
        _ => MemberRole::Unspecified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name or an address denotes one node: a new node gets no name that looks like an ID or is
    /// taken, and no address of another node. Repeating an addition is allowed.
    #[test]
    fn names_and_addresses_are_unique() {
        let mut cluster_state = ClusterState::default();
        for (node, name) in [(0, "node-0"), (4, "db-4")] {
            let entry = DirectoryEntry {
                name: name.into(),
                address: format!("10.0.0.{node}:7401"),
                ..DirectoryEntry::default()
            };
            cluster_state.directory.insert(NodeId(node), entry);
        }
        let check = |name: &str, address: &str| check_new_member(&cluster_state, name, address);
        for valid in ["db-5", "rack_2.left", "node-x", "5b"] {
            assert_eq!(check(valid, "10.0.0.5:7401"), Ok(()));
        }
        assert_eq!(check("db-4", "10.0.0.4:7401"), Ok(()), "repeated");
        assert_eq!(check("node-0", "10.0.0.0:7401"), Ok(()), "repeated");
        for id in ["2", "node-5"] {
            let error = InvalidMember::NameIsId(id.into());
            assert_eq!(check(id, "10.0.0.5:7401"), Err(error));
        }
        let long = "x".repeat(65);
        for name in ["+2", "", "bad name", "a/b", "caf\u{e9}", "a\nb", long.as_str()] {
            let error = check(name, "10.0.0.5:7401").unwrap_err();
            assert!(matches!(error, InvalidMember::BadName(_)), "{name}: {error}");
            assert!(!error.to_string().contains('\n'), "{error:?}");
        }
        let taken = |name: &str, node: u32| InvalidMember::NameTaken {
            name: name.into(),
            node: NodeId(node),
            address: format!("10.0.0.{node}:7401"),
        };
        assert_eq!(check("node-0", "10.0.0.5:7401"), Err(taken("node-0", 0)));
        assert_eq!(check("db-4", "10.0.0.0:7401"), Err(taken("db-4", 4)));
        let (address, node) = ("10.0.0.0:7401".to_owned(), NodeId(0));
        let error = InvalidMember::AddressTaken { address, node, name: "node-0".into() };
        assert_eq!(check("db-5", "10.0.0.0:7401"), Err(error));
    }
}
