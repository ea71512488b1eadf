//! Who takes part and who votes.

use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::{ErrorCode, MemberRole, MemberState};
use kgate_control::log::{ProposeError, VoterWarning};
use kgate_control::membership::Member;
use kgate_control::state::{Applied, ClusterState, Command, DirectoryEntry};
use kgate_core::{Incarnation, NodeId};

use super::{Answer, ApiError, Operator, number, numbers};
use crate::token::{JoinToken, MEMBERS_MAX};

/// On top of W, for the voters to agree twice, once perhaps after an election.
const AGREE: Duration = Duration::from_secs(10);

impl Operator {
    /// All who may take part. Without a quorum, as far as is known here.
    pub(super) async fn members(&self) -> Answer<v1::MembersReply> {
        let (cluster_state, stale) = match self.read().await {
            Ok(cluster_state) => (cluster_state, String::new()),
            Err(ApiError { code: ErrorCode::NoQuorum, message: why }) => {
                (self.log.cluster_state().as_ref().clone(), why)
            }
            Err(other) => return Err(other),
        };
        let report = self.desk.look(Some(String::new())).await.ok_or_else(ApiError::stopped)?;
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

    /// A node may take part. Said again, the same token.
    pub(super) async fn add(&self, wish: v1::AddMemberRequest) -> Answer<v1::AddMemberReply> {
        let v1::AddMemberRequest { name, address } = wish;
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !has_port {
            return Err(ApiError::bad_request(format!(
                "`{address}` is no address for other nodes: write HOST:PORT"
            )));
        }
        check_newcomer(&self.read().await?, &name, &address).map_err(ApiError::bad_request)?;
        let admit = Command::RegisterNode { node: None, name, address, store: None };
        let node = match self.log.propose(admit).await {
            Ok(Applied::Registered(node)) => node,
            Ok(_) => return Err(ApiError::unexpected_reply()),
            Err(why) => return Err(self.failed(why).await),
        };
        let cluster_state = self.read().await?;
        let cluster = cluster_state.cluster.as_ref().ok_or_else(ApiError::stopped)?;
        // The voters first: the newcomer must hear one of them.
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
            cluster: self.desk.guard.cluster.clone(),
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
        self.voted(came, format!("node {} votes", node.0)).await
    }

    /// A node does not vote any more.
    pub(super) async fn demote(&self, text: &str) -> Answer<v1::OperationReply> {
        let node = self.node(&self.read().await?, text)?;
        let came = self.log.demote(node).await;
        self.voted(came, format!("node {} does not vote; it goes on as a follower", node.0)).await
    }

    async fn voted(
        &self,
        came: Result<Option<VoterWarning>, ProposeError>,
        text: String,
    ) -> Answer<v1::OperationReply> {
        match came {
            Ok(warning) => {
                let voters: Vec<NodeId> = self.log.voters_appended().all().into_iter().collect();
                let text = format!("{text}; the voters are node {}", numbers(&voters));
                let warning = warning.map_or_else(String::new, |warning| warning.to_string());
                Ok(v1::OperationReply { message: text, warning })
            }
            Err(why) => Err(self.failed(why).await),
        }
    }

    /// Evicts the present incarnation of a node, on the same road as a suspicion (rule E6).
    pub(super) async fn evict(&self, text: &str, dry_run: bool) -> Answer<v1::OperationReply> {
        let cluster_state = self.read().await?;
        let node = self.node(&cluster_state, text)?;
        let Some(member) = cluster_state.membership.get(node) else {
            return Err(ApiError::bad_request(format!(
                "node {} takes no part now: there is nothing to evict",
                node.0
            )));
        };
        let consequences = self.consequences(node, member).await;
        if dry_run {
            return Ok(v1::OperationReply { message: consequences, warning: String::new() });
        }
        self.condemn(node, member, false).await?;
        let text = format!(
            "incarnation {} of node {} is evicted; what it held is free. If it is alive, it comes back as a later one, with nothing",
            member.incarnation.0, node.0
        );
        Ok(v1::OperationReply { message: text, warning: String::new() })
    }

    /// Takes a node off the directory; if it takes part, it is evicted first.
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
            self.condemn(node, member, true).await?;
            done.push(format!(
                "incarnation {} of node {} was evicted",
                member.incarnation.0, node.0
            ));
        }
        if let Err(why) = self.log.propose(Command::RemoveNode { node }).await {
            return Err(self.failed(why).await);
        }
        done.push(format!(
            "node {} is no member any more, and its number is not used again",
            node.0
        ));
        Ok(v1::OperationReply { message: done.join("; "), warning: String::new() })
    }

    /// Has an incarnation evicted, and waits until it is: never less than W from its last answer.
    async fn condemn(&self, node: NodeId, member: &Member, for_good: bool) -> Answer<()> {
        let incarnation = member.incarnation;
        let author = self.author.clone();
        let condemn = Command::ForceEvict { node, incarnation, author, for_good };
        if let Err(why) = self.log.propose(condemn).await {
            return Err(self.failed(why).await);
        }
        let most = Duration::from_nanos(member.terms.wait().0) + AGREE;
        if self.until(most, |cluster_state| is_gone(cluster_state, node, incarnation)).await {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorCode::TimedOut,
            format!(
                "node {} is not evicted after {} s: it will be when more than half of the voters have waited; ask again, or see `kgate members list`",
                node.0,
                most.as_secs()
            ),
        ))
    }

    /// What an eviction would do, in sentences.
    async fn consequences(&self, node: NodeId, member: &Member) -> String {
        let wait = Duration::from_nanos(member.terms.wait().0).as_secs_f64();
        let mut text = format!(
            "incarnation {} of node {} is told to stop and gets no further lease; {wait:.1} s after its last answer from a voter at the latest, what it holds is free.",
            member.incarnation.0, node.0
        );
        let report = self.desk.look(None).await;
        let said = report.iter().flat_map(|report| &report.seen).find(|(who, _)| who.node == node);
        match said {
            None => text.push_str(" It does not answer: who holds permits there is not known."),
            Some((_, gates)) => {
                let mut holders = 0;
                for gate in gates {
                    for holder in &gate.holders {
                        holders += 1;
                        let slots: Vec<String> = holder.slots.iter().map(u32::to_string).collect();
                        let process = &holder.process;
                        text.push_str(&format!(
                            "\n  {} slot {}: pid {} {}@{} is stopped ({})",
                            gate.name,
                            slots.join(", "),
                            process.pid,
                            process.user,
                            process.host,
                            process.command
                        ));
                    }
                }
                if holders == 0 {
                    text.push_str(" Nobody holds a permit there.");
                }
            }
        }
        text
    }
}

/// The longest name of a node that is added.
const NAME_MAX: usize = 64;

/// Whether a node of that name and address can be added, or was: said again, it is the same node.
/// What is wrong, in words.
fn check_newcomer(cluster_state: &ClusterState, name: &str, address: &str) -> Result<(), String> {
    let known = cluster_state.node(name);
    if let Some(node) = known.filter(|node| cluster_state.directory[node].address != address) {
        return Err(format!(
            "the name {name} is taken: it is node {0} at {1}; take another, or `kgate members remove {0}` first if this one replaces it",
            node.0, cluster_state.directory[&node].address
        ));
    }
    if known.is_some() {
        return Ok(());
    }
    if let Some((node, listed)) =
        cluster_state.directory.iter().find(|(_, listed)| listed.address == address)
    {
        return Err(format!(
            "{address} is the address of node {0} ({1}): give that of the new node, or `kgate members remove {0}` first if this one replaces it",
            node.0, listed.name
        ));
    }
    let is_plain = |message: char| message.is_ascii_alphanumeric() || "-_.".contains(message);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_plain) {
        return Err(format!(
            "`{}` is no name of a node: it has 1 to {NAME_MAX} bytes of letters, digits, `-`, `_` and `.`, as in db-4",
            name.chars().take(NAME_MAX).collect::<String>().escape_debug()
        ));
    }
    if number(name).is_some() {
        return Err(format!(
            "`{name}` reads as the number of a node, and the log gives those: take a name with something else in it, as db-4"
        ));
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

    /// Whoever names a node means that one: a newcomer gets no name that reads as a number or is
    /// taken, and no address of another. Each is said in its own words; the same name and address
    /// again are the same node.
    #[test]
    fn names_and_addresses_of_newcomers() {
        let mut cluster_state = ClusterState::default();
        for (node, name) in [(0, "node-0"), (4, "db-4")] {
            let listed = DirectoryEntry {
                name: name.into(),
                address: format!("10.0.0.{node}:7401"),
                ..DirectoryEntry::default()
            };
            cluster_state.directory.insert(NodeId(node), listed);
        }
        let says = |name: &str, address: &str| check_newcomer(&cluster_state, name, address);
        for fine in ["db-5", "rack_2.left", "node-x", "5b"] {
            assert_eq!(says(fine, "10.0.0.5:7401"), Ok(()));
        }
        assert_eq!(says("db-4", "10.0.0.4:7401"), Ok(()), "again");
        assert_eq!(says("node-0", "10.0.0.0:7401"), Ok(()), "again");
        let long = "x".repeat(65);
        for (name, address, wanted) in [
            ("2", "10.0.0.5:7401", "reads as the number"),
            ("node-5", "10.0.0.5:7401", "reads as the number"),
            ("+2", "10.0.0.5:7401", "is no name of a node"),
            ("", "10.0.0.5:7401", "is no name of a node"),
            ("bad name", "10.0.0.5:7401", "is no name of a node"),
            ("a/b", "10.0.0.5:7401", "is no name of a node"),
            ("café", "10.0.0.5:7401", "is no name of a node"),
            ("a\nb", "10.0.0.5:7401", "a\\nb"),
            (long.as_str(), "10.0.0.5:7401", "1 to 64 bytes"),
            ("node-0", "10.0.0.5:7401", "is taken: it is node 0 at 10.0.0.0:7401"),
            ("db-4", "10.0.0.0:7401", "is taken: it is node 4"),
            ("db-5", "10.0.0.0:7401", "is the address of node 0 (node-0)"),
        ] {
            let why = says(name, address).unwrap_err();
            assert!(why.contains(wanted), "{name} {address}: {why}");
        }
    }
}
