//! Who takes part and who votes.

use std::time::Duration;

use kgate_api::v1;
use kgate_control::log::NotDone;
use kgate_control::roll::Member;
use kgate_control::state::{Command, Done, Listed, Picture};
use kgate_core::{Incarnation, NodeId};

use super::{Answer, Failed, Operator, numbers};
use crate::token::{JoinToken, MEMBERS_MAX};

/// On top of W, for the voters to agree twice, once perhaps after an election.
const AGREE: Duration = Duration::from_secs(10);

impl Operator {
    /// All who may take part. Without a quorum, as far as is known here.
    pub(super) async fn members(&self) -> Answer<v1::MembersReply> {
        let (picture, stale) = match self.read().await {
            Ok(picture) => (picture, String::new()),
            Err(Failed::NoQuorum(why)) => (self.log.picture().as_ref().clone(), why),
            Err(other) => return Err(other),
        };
        let report = self.desk.look(Some(String::new())).await.ok_or(Failed::Stopped)?;
        let leader = self.log.status().borrow().leader;
        let members = picture.directory.iter().map(|(node, listed)| {
            let member = picture.roll.get(*node);
            v1::Member {
                node: node.0,
                name: listed.name.clone(),
                address: listed.address.clone(),
                incarnation: member.map(|member| member.incarnation.0),
                standing: standing(listed, member).to_owned(),
                role: role(&picture, *node, leader).to_owned(),
                since_entry: member.and(listed.last).map_or(0, |last| last.at),
                answers: report.seen.iter().any(|(who, _)| who.node == *node),
            }
        });
        let members = members.collect();
        Ok(v1::MembersReply {
            members,
            applied: picture.applied,
            stale,
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
            return Err(Failed::Wrong(format!("`{address}` is no address for other nodes: write HOST:PORT")));
        }
        let admit = Command::Admit { node: None, name, address, store: None };
        let node = match self.log.propose(admit).await {
            Ok(Done::Admitted(node)) => node,
            Ok(_) => return Err(Failed::Wrong("the log answered something else".to_owned())),
            Err(why) => return Err(self.failed(why).await),
        };
        let picture = self.read().await?;
        let cluster = picture.cluster.as_ref().ok_or(Failed::Stopped)?;
        // The voters first: the newcomer must hear one of them.
        let mut others: Vec<(NodeId, &Listed)> =
            picture.directory.iter().filter(|(other, _)| **other != node).map(|(id, it)| (*id, it)).collect();
        others.sort_by_key(|(other, _)| (!picture.voters.has(*other), *other));
        others.truncate(MEMBERS_MAX);
        let token = JoinToken {
            cluster_id: cluster.id.0,
            cluster: self.desk.guard.cluster.clone(),
            node: node.0,
            members: others.into_iter().map(|(other, listed)| (other.0, listed.address.clone())).collect(),
        };
        Ok(v1::AddMemberReply { node: node.0, token: token.to_string() })
    }

    /// A node votes from now on.
    pub(super) async fn promote(&self, text: &str) -> Answer<v1::DoneReply> {
        let node = self.node(&self.read().await?, text)?;
        let came = self.log.promote(node).await;
        self.voted(came, format!("node {} votes", node.0)).await
    }

    /// A node does not vote any more.
    pub(super) async fn demote(&self, text: &str) -> Answer<v1::DoneReply> {
        let node = self.node(&self.read().await?, text)?;
        let came = self.log.demote(node).await;
        self.voted(came, format!("node {} does not vote; it goes on as a follower", node.0)).await
    }

    async fn voted(&self, came: Result<Option<String>, NotDone>, text: String) -> Answer<v1::DoneReply> {
        match came {
            Ok(warning) => {
                let voters: Vec<NodeId> = self.log.voters_appended().all().into_iter().collect();
                let text = format!("{text}; the voters are node {}", numbers(&voters));
                Ok(v1::DoneReply { text, warning: warning.unwrap_or_default() })
            }
            Err(why) => Err(self.failed(why).await),
        }
    }

    /// Evicts the present life of a node, on the same road as a suspicion (rule E6).
    pub(super) async fn evict(&self, text: &str, only_say: bool) -> Answer<v1::DoneReply> {
        let picture = self.read().await?;
        let node = self.node(&picture, text)?;
        let Some(member) = picture.roll.get(node) else {
            return Err(Failed::Wrong(format!(
                "node {} takes no part now: there is nothing to evict",
                node.0
            )));
        };
        let consequences = self.consequences(node, member).await;
        if only_say {
            return Ok(v1::DoneReply { text: consequences, warning: String::new() });
        }
        self.condemn(node, member, false).await?;
        let text = format!(
            "incarnation {} of node {} is evicted; what it held is free. If it lives, it comes back as a later one, with nothing",
            member.incarnation.0, node.0
        );
        Ok(v1::DoneReply { text, warning: String::new() })
    }

    /// Takes a node off the directory; if it takes part, it is evicted first.
    pub(super) async fn remove(&self, text: &str) -> Answer<v1::DoneReply> {
        let picture = self.read().await?;
        let node = self.node(&picture, text)?;
        if picture.voters.has(node) {
            return Err(Failed::Wrong(format!(
                "node {0} votes: `kgate members demote {0}` first, and see that enough others vote",
                node.0
            )));
        }
        let mut done = Vec::new();
        if let Some(member) = picture.roll.get(node) {
            self.condemn(node, member, true).await?;
            done.push(format!("incarnation {} of node {} was evicted", member.incarnation.0, node.0));
        }
        if let Err(why) = self.log.propose(Command::Remove { node }).await {
            return Err(self.failed(why).await);
        }
        done.push(format!("node {} is no member any more, and its number is not used again", node.0));
        Ok(v1::DoneReply { text: done.join("; "), warning: String::new() })
    }

    /// Has a life evicted, and waits until it is: never less than W from its last answer.
    async fn condemn(&self, node: NodeId, member: &Member, for_good: bool) -> Answer<()> {
        let incarnation = member.incarnation;
        let author = self.author.clone();
        let condemn = Command::Condemn { node, incarnation, author, for_good };
        if let Err(why) = self.log.propose(condemn).await {
            return Err(self.failed(why).await);
        }
        let most = Duration::from_nanos(member.terms.wait().0) + AGREE;
        if self.until(most, |picture| is_gone(picture, node, incarnation)).await {
            return Ok(());
        }
        Err(Failed::NotYet(format!(
            "node {} is not evicted after {} s: it will be when more than half of the voters have waited; ask again, or see `kgate members list`",
            node.0,
            most.as_secs()
        )))
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

fn is_gone(picture: &Picture, node: NodeId, incarnation: Incarnation) -> bool {
    picture.roll.life(node, incarnation).is_none()
}

fn standing(listed: &Listed, member: Option<&Member>) -> &'static str {
    match member {
        Some(member) if listed.condemned.as_ref().is_some_and(|it| it.incarnation == member.incarnation) => {
            "evicting"
        }
        Some(member) if member.suspected.is_some() => "suspected",
        Some(_) => "member",
        None if listed.last.is_some() => "gone",
        None => "awaited",
    }
}

fn role(picture: &Picture, node: NodeId, leader: Option<NodeId>) -> &'static str {
    match node {
        node if leader == Some(node) => "leader",
        node if picture.voters.has(node) => "voter",
        node if picture.learners.contains(&node) => "follower",
        _ => "",
    }
}
