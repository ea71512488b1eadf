//! Operators' commands: members, voters, evictions, gates.

use std::time::Duration;

use kgate_api::v1;
use tonic::Response;

use crate::status::Policy;
use crate::transport::Services;
use crate::{Addresses, Error};

/// A connection to a node for operators. It opens no session.
///
/// Nodes are named by their ID or their name. All changes are committed to the replicated log,
/// whichever node is asked, and repeating a command is harmless.
///
/// ```no_run
/// # async fn example() -> Result<(), kgate_client::Error> {
/// use kgate_client::Admin;
///
/// let mut admin = Admin::connect("unix:/run/kgate/node.sock").await?;
/// let joined = admin.add_member("db-4", "db-4.example:7401").await?;
/// println!("start node {} with join = {:?}", joined.node, joined.token);
/// let change = admin.set_gate("gpu").k(4).send().await?;
/// println!("k was {}", change.previous_k);
/// # Ok(())
/// # }
/// ```
pub struct Admin {
    services: Services,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// What was done, or would be done, for people.
    pub message: String,
    /// What the operator should know, if anything.
    pub warning: Option<String>,
}

/// A node that may join the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Joined {
    /// The ID of the node.
    pub node: u32,
    /// The value of `join` in the configuration of the node.
    pub token: String,
}

/// The members of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Members(v1::MembersReply);

impl Members {
    /// The members, by ID.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Member<'_>> {
        self.0.members.iter().map(Member)
    }

    /// The member with this ID.
    pub fn get(&self, node: u32) -> Option<Member<'_>> {
        self.iter().find(|member| member.node() == node)
    }

    /// The leader of the replicated log, if the node that answered knows one.
    pub fn leader(&self) -> Option<u32> {
        self.0.leader
    }

    /// The index of the last log entry on which this list is based.
    pub fn applied_index(&self) -> u64 {
        self.0.applied_index
    }

    /// Why this list may be out of date; none if it is current.
    pub fn stale_reason(&self) -> Option<&str> {
        Some(self.0.stale_reason.as_str()).filter(|reason| !reason.is_empty())
    }

    /// The list as JSON, in the form of `GET /v1/members`.
    pub fn to_json(&self) -> String {
        kgate_api::json::members(&self.0).to_string()
    }
}

/// A node in the directory of the cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member<'a>(&'a v1::Member);

impl<'a> Member<'a> {
    /// The ID of the node.
    pub fn node(&self) -> u32 {
        self.0.node
    }

    /// The name of the node.
    pub fn name(&self) -> &'a str {
        &self.0.name
    }

    /// `HOST:PORT` at which other nodes reach it.
    pub fn address(&self) -> &'a str {
        &self.0.address
    }

    /// The incarnation that is a member, if one is.
    pub fn incarnation(&self) -> Option<u32> {
        self.0.incarnation
    }

    /// The state of the node.
    pub fn state(&self) -> MemberState {
        match self.0.state() {
            v1::MemberState::Unspecified | v1::MemberState::Pending => MemberState::Pending,
            v1::MemberState::Active => MemberState::Active,
            v1::MemberState::Suspected => MemberState::Suspected,
            v1::MemberState::Evicting => MemberState::Evicting,
            v1::MemberState::Gone => MemberState::Gone,
        }
    }

    /// The role of the node in the replicated log, if it follows the log.
    pub fn role(&self) -> Option<MemberRole> {
        match self.0.role() {
            v1::MemberRole::Unspecified => None,
            v1::MemberRole::Leader => Some(MemberRole::Leader),
            v1::MemberRole::Voter => Some(MemberRole::Voter),
            v1::MemberRole::Follower => Some(MemberRole::Follower),
        }
    }

    /// The index of the log entry that admitted the current incarnation, if one is a member.
    pub fn since_index(&self) -> Option<u64> {
        Some(self.0.since_index).filter(|index| *index > 0)
    }

    /// Whether the node that answered reached this one.
    pub fn is_reachable(&self) -> bool {
        self.0.reachable
    }
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// The current incarnation is a member.
    Active,
    /// The node was silent; it is evicted when its lease has certainly expired.
    Suspected,
    /// An operator evicts it.
    Evicting,
    /// It was a member, and is not any more.
    Gone,
    /// It was added, and has not joined yet.
    Pending,
}

/// The role of a member in the replicated log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberRole {
    /// It leads the log. A leader is a voter.
    Leader,
    /// It votes.
    Voter,
    /// It follows the log without a vote.
    Follower,
}

macro_rules! display_name {
    ($($type:ident { $($variant:ident => $name:literal),+ $(,)? })+) => {$(
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $(Self::$variant => $name),+ })
            }
        }
    )+};
}

display_name! {
    MemberState {
        Active => "active",
        Suspected => "suspected",
        Evicting => "evicting",
        Gone => "gone",
        Pending => "pending",
    }
    MemberRole { Leader => "leader", Voter => "voter", Follower => "follower" }
}

/// The result of changing a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GateChange {
    /// The new k.
    pub k: u32,
    /// The k before.
    pub previous_k: u32,
    /// The index of the log entry that changed the gate.
    pub log_index: u64,
    /// No node holds a slot at or above k any more. Until then up to `previous_k` slots may be
    /// held.
    pub drained: bool,
    /// What is still missing, for people: one sentence per node or holder.
    pub draining: Vec<String>,
}

impl GateChange {
    /// The result as JSON, in the form of `POST /v1/set/NAME`.
    pub fn to_json(&self) -> String {
        let Self { k, previous_k, log_index, drained, draining } = self.clone();
        let reply = v1::SetGateReply { k, log_index, previous_k, drained, draining };
        kgate_api::json::set(&reply).to_string()
    }
}

/// A change of a gate, before it is sent.
#[derive(Debug)]
#[must_use = "a change does nothing until `send` is called"]
pub struct SetGate<'a> {
    admin: &'a mut Admin,
    request: v1::SetGateRequest,
}

impl SetGate<'_> {
    /// The new k; 0 closes the gate. Default: unchanged.
    pub fn k(mut self, k: u32) -> Self {
        (self.request.k, self.request.keep_k) = (k, false);
        self
    }

    /// The new k by an expression that the node resolves for its machine: `cores`, `cores/2` or
    /// `mem/8GiB`.
    pub fn k_expression(mut self, expression: &str) -> Self {
        expression.clone_into(&mut self.request.k_expression);
        self
    }

    /// The new names of the slots, in order; k is their number.
    pub fn names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.request.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// The slots lose their names. Without it a gate with names accepts no other k than their
    /// number and 0.
    pub fn no_names(mut self) -> Self {
        self.request.no_names = true;
        self
    }

    /// The new policy. Default: unchanged.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.request.policy = policy.to_message().into();
        self
    }

    /// Maximum time to wait until no slot at or above the new k is held. Default: one hour.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
        self
    }

    /// Return when the change is committed, even if slots at or above the new k are still held.
    pub fn no_wait(mut self) -> Self {
        self.request.no_wait = true;
        self
    }

    /// Commits the change.
    pub async fn send(self) -> Result<GateChange, Error> {
        let reply = self.admin.services.operators.set_gate(self.request).await;
        let v1::SetGateReply { k, log_index, previous_k, drained, draining } =
            self.admin.services.reply(reply)?;
        Ok(GateChange { k, previous_k, log_index, drained, draining })
    }
}

/// Permits to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitSelector {
    /// A durable permit, by its ID.
    Id(u64),
    /// A permit, by its gate, and a slot if the gate has several permits.
    Gate(String, Option<u32>),
    /// All permits of a session, by its node and its ID there.
    Session(u32, u64),
}

impl Services {
    fn reply<T>(&self, reply: Result<Response<T>, tonic::Status>) -> Result<T, Error> {
        reply.map(Response::into_inner).map_err(|status| self.error(&status))
    }

    fn operation(
        &self,
        reply: Result<Response<v1::OperationReply>, tonic::Status>,
    ) -> Result<Operation, Error> {
        let v1::OperationReply { message, warning } = self.reply(reply)?;
        Ok(Operation { message, warning: Some(warning).filter(|warning| !warning.is_empty()) })
    }
}

impl Admin {
    /// Connects to the first node that accepts a connection.
    pub async fn connect<A>(addresses: A) -> Result<Self, Error>
    where
        A: TryInto<Addresses>,
        Error: From<A::Error>,
    {
        let services = Services::connect_any(&addresses.try_into()?).await?;
        Ok(Self { services })
    }

    /// The members and voters.
    pub async fn members(&mut self) -> Result<Members, Error> {
        let reply = self.services.operators.members(v1::MembersRequest {}).await;
        self.services.reply(reply).map(Members)
    }

    /// Adds a node to the directory. Repeated with the same name and address, it returns the same
    /// token.
    pub async fn add_member(&mut self, name: &str, address: &str) -> Result<Joined, Error> {
        let request = v1::AddMemberRequest { name: name.to_owned(), address: address.to_owned() };
        let reply = self.services.operators.add_member(request).await;
        let v1::AddMemberReply { node, token } = self.services.reply(reply)?;
        Ok(Joined { node, token })
    }

    /// Removes a node from the directory. A member is evicted first, which takes as long as a
    /// lease. A voter is refused: demote it first.
    pub async fn remove_member(&mut self, node: &str) -> Result<Operation, Error> {
        let reply = self.services.operators.remove_member(node_request(node)).await;
        self.services.operation(reply)
    }

    /// Makes a node a voter.
    pub async fn promote(&mut self, node: &str) -> Result<Operation, Error> {
        let reply = self.services.operators.promote(node_request(node)).await;
        self.services.operation(reply)
    }

    /// Makes a voter a non-voting member.
    pub async fn demote(&mut self, node: &str) -> Result<Operation, Error> {
        let reply = self.services.operators.demote(node_request(node)).await;
        self.services.operation(reply)
    }

    /// Evicts the current incarnation of a node: its slots are freed when its lease has certainly
    /// expired, and not before. With `dry_run` it only describes the consequences.
    pub async fn evict(&mut self, node: &str, dry_run: bool) -> Result<Operation, Error> {
        let request = v1::EvictRequest { node: node.to_owned(), dry_run };
        let reply = self.services.operators.evict(request).await;
        self.services.operation(reply)
    }

    /// Evicts a permit. The slots of a durable permit are free at once, even if its holder is
    /// alive. The holder of any other permit is told that the permit is lost; the call returns when
    /// it has stopped and its slots are free. With `dry_run` it only describes the consequences.
    pub async fn evict_permit(
        &mut self,
        permit: &PermitSelector,
        dry_run: bool,
    ) -> Result<Operation, Error> {
        let none = v1::EvictPermitRequest { dry_run, ..Default::default() };
        let request = match permit.clone() {
            PermitSelector::Id(id) => v1::EvictPermitRequest { permit_id: Some(id), ..none },
            PermitSelector::Gate(gate, slot) => v1::EvictPermitRequest { gate, slot, ..none },
            PermitSelector::Session(node, id) => {
                v1::EvictPermitRequest { node, session_id: Some(id), ..none }
            }
        };
        let reply = self.services.operators.evict_permit(request).await;
        self.services.operation(reply)
    }

    /// Changes k or the policy of a gate.
    pub fn set_gate(&mut self, gate: &str) -> SetGate<'_> {
        let gate = gate.to_owned();
        SetGate {
            admin: self,
            request: v1::SetGateRequest { gate, keep_k: true, ..Default::default() },
        }
    }

    /// The durations of the leases and their safety margins, as a table for people.
    pub async fn timing(&mut self) -> Result<String, Error> {
        let reply = self.services.operators.timing(v1::TimingRequest {}).await;
        self.services.reply(reply).map(|reply| reply.text)
    }
}

fn node_request(node: &str) -> v1::NodeRequest {
    v1::NodeRequest { node: node.to_owned() }
}
