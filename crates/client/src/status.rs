//! The status of gates, as a node collects it from all nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use kgate_api::v1;
use tokio_stream::{Stream, StreamExt};

use crate::transport::Services;
use crate::{Addresses, Error, Process};

/// The status of the cluster and its gates at one moment.
///
/// A node that does not answer, or is suspected, may have holders that are not listed: see
/// [`incomplete_nodes`](Self::incomplete_nodes).
#[derive(Clone, Debug, PartialEq)]
pub struct Status(v1::StatusReply);

impl Status {
    /// Reads the status of one gate, or of all, without a session.
    pub async fn fetch<A>(addresses: A, gate: Option<&str>) -> Result<Self, Error>
    where
        A: TryInto<Addresses>,
        Error: From<A::Error>,
    {
        let mut services = Services::connect_any(&addresses.try_into()?).await?;
        let request = v1::StatusRequest { gate: gate.map(str::to_owned) };
        let reply = services.gates.status(request).await;
        reply.map(|reply| Self(reply.into_inner())).map_err(|status| services.error(&status))
    }

    /// Reads the status now, and again whenever it changes, without a session.
    pub async fn watch<A>(
        addresses: A,
        gate: Option<&str>,
    ) -> Result<impl Stream<Item = Result<Self, Error>> + use<A>, Error>
    where
        A: TryInto<Addresses>,
        Error: From<A::Error>,
    {
        let mut services = Services::connect_any(&addresses.try_into()?).await?;
        let request = v1::StatusRequest { gate: gate.map(str::to_owned) };
        let replies = services.gates.watch(request).await;
        let replies = replies.map_err(|status| services.error(&status))?.into_inner();
        Ok(replies.map(move |reply| reply.map(Self).map_err(|status| services.error(&status))))
    }

    /// The ID of the node that answered.
    pub fn node(&self) -> u32 {
        self.0.node
    }

    /// The number of nodes.
    pub fn node_count(&self) -> u32 {
        self.0.nodes
    }

    /// The gates, by name.
    pub fn gates(&self) -> impl Iterator<Item = GateStatus<'_>> {
        self.0.gates.iter().map(|gate| GateStatus { reply: &self.0, gate })
    }

    /// The gate of this name, if it exists and this client may see it.
    pub fn gate(&self, name: &str) -> Option<GateStatus<'_>> {
        self.gates().find(|gate| gate.name() == name)
    }

    /// The number of gates that are left out because the status would be too large to be sent.
    pub fn omitted_gates(&self) -> u32 {
        self.0.omitted_gates
    }

    /// Nodes that did not answer in time.
    pub fn unreachable(&self) -> &[u32] {
        &self.0.unreachable
    }

    /// Nodes that are permanently excluded because a node declared them dead.
    pub fn declared_dead(&self) -> &[u32] {
        &self.0.declared_dead
    }

    /// Nodes that may have holders and waiting requests that this status does not list:
    /// unreachable and suspected ones.
    pub fn incomplete_nodes(&self) -> Vec<u32> {
        kgate_api::unknown(&self.0)
    }

    /// The lease of each node that answered; empty if the nodes have no leases.
    pub fn leases(&self) -> impl Iterator<Item = NodeLease<'_>> {
        self.0.node_statuses.iter().map(NodeLease)
    }

    /// The same status for a terminal: control characters and invisible ones, which clients may
    /// have put into names and command lines, are replaced by their escapes.
    pub fn printable(&self) -> Self {
        Self(kgate_api::printable_status(&self.0))
    }

    /// The status as JSON, in the form of `GET /v1/status`. It has no control characters, so it can
    /// be shown on a terminal.
    pub fn to_json(&self) -> String {
        kgate_api::json::printable(&kgate_api::json::status(&self.0))
    }
}

/// The lease of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLease<'a>(&'a v1::NodeStatus);

impl NodeLease<'_> {
    /// The ID of the node.
    pub fn node(&self) -> u32 {
        self.0.node
    }

    /// How long the node may grant permits without hearing from the voters; zero without a lease.
    pub fn remaining(&self) -> Duration {
        Duration::from_nanos(self.0.lease_left_ns)
    }

    /// Why the node has no lease and grants nothing; none if it has a lease.
    pub fn missing_reason(&self) -> Option<&str> {
        Some(self.0.no_lease_reason.as_str()).filter(|reason| !reason.is_empty())
    }

    /// The leader of the replicated log, if the node knows one.
    pub fn leader(&self) -> Option<u32> {
        self.0.leader
    }
}

/// The status of one gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateStatus<'a> {
    reply: &'a v1::StatusReply,
    gate: &'a v1::GateStatus,
}

impl<'a> GateStatus<'a> {
    /// The name of the gate.
    pub fn name(&self) -> &'a str {
        &self.gate.name
    }

    /// The number of slots.
    pub fn k(&self) -> u32 {
        self.gate.k
    }

    /// The expression that k comes from, if it was not given as a number.
    pub fn k_expression(&self) -> Option<&'a str> {
        Some(self.gate.k_expression.as_str()).filter(|expression| !expression.is_empty())
    }

    /// The names of the slots, in order; empty if they have none.
    pub fn names(&self) -> &'a [String] {
        &self.gate.names
    }

    /// What k comes from, for people: ` (cores/2)`, ` (names a, b)`; empty for a number.
    pub fn k_origin(&self) -> String {
        kgate_api::k_origin(self.gate)
    }

    /// The name of the protocol that guards the gate.
    pub fn protocol(&self) -> &'a str {
        &self.gate.protocol
    }

    /// Who set k last.
    pub fn updated_by(&self) -> &'a str {
        &self.gate.updated_by
    }

    /// What happens to the slots of a holder that does not answer; none if the node has no
    /// policies.
    pub fn policy(&self) -> Option<Policy> {
        Policy::of(self.gate.policy())
    }

    /// A slot with its name, if it has one: `1 (cuda:1)`.
    pub fn slot_text(&self, slot: u32) -> String {
        kgate_api::slot_text(&self.gate.names, slot)
    }

    /// The holders, by slot.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = ClientStatus<'a>> + use<'a> {
        self.gate.holders.iter().map(ClientStatus)
    }

    /// The queue, in the order in which requests will be served, as far as it is known.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = ClientStatus<'a>> + use<'a> {
        self.gate.waiting.iter().map(ClientStatus)
    }

    /// The durable permits, by slot.
    pub fn durable_permits(
        &self,
    ) -> impl ExactSizeIterator<Item = DurablePermitStatus<'a>> + use<'a> {
        self.gate.durable_permits.iter().map(DurablePermitStatus)
    }

    /// The nodes whose answers the waiting requests need.
    pub fn waiting_for(&self) -> &'a [u32] {
        &self.gate.waiting_for
    }

    /// The number of slots in use; a lower bound if [`Status::incomplete_nodes`] is not empty.
    pub fn slots_in_use(&self) -> u32 {
        kgate_api::taken(self.gate)
    }

    /// The number of waiting requests, with those that are not listed ([`omitted`](Self::omitted)).
    pub fn waiting_count(&self) -> usize {
        kgate_api::waiting(self.gate)
    }

    /// What is left out because the status would be too large to be sent, for people. Counts of
    /// slots and requests include it. None if all holders and waiting requests are listed.
    pub fn omitted(&self) -> Option<String> {
        kgate_api::omitted_text(self.gate)
    }

    /// The expected time until the waiting request at this place (0 is the first) is granted, from
    /// how long the last permits were held. None if too little is known.
    pub fn estimate(&self, place: usize) -> Option<Duration> {
        kgate_api::estimate(self.gate, place).map(Duration::from_nanos)
    }

    /// Why requests wait, for whom, and what would unblock them, in sentences.
    pub fn explain(&self) -> String {
        kgate_api::explain(self.reply, self.gate)
    }
}

/// What happens to the slots of a holder that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// The slots are freed when the holder's node is evicted.
    Lease,
    /// The slots stay taken until the holder releases them or an operator evicts the permit.
    Hold,
}

impl Policy {
    fn of(policy: v1::Policy) -> Option<Self> {
        match policy {
            v1::Policy::Unspecified => None,
            v1::Policy::Lease => Some(Self::Lease),
            v1::Policy::Hold => Some(Self::Hold),
        }
    }

    pub(crate) fn to_message(self) -> v1::Policy {
        match self {
            Self::Lease => v1::Policy::Lease,
            Self::Hold => v1::Policy::Hold,
        }
    }
}

/// A holder or a waiting request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientStatus<'a>(&'a v1::ClientStatus);

impl<'a> ClientStatus<'a> {
    /// The ID of the client's node.
    pub fn node(&self) -> u32 {
        self.0.node
    }

    /// The ID of the client's session at its node; 0 for a request of the node itself.
    pub fn session_id(&self) -> u64 {
        self.0.session_id
    }

    /// The client's description of its process.
    pub fn process(&self) -> Process {
        Process::from_message(self.0.process.clone().unwrap_or_default())
    }

    /// Why the client wants the permit; empty if it did not say.
    pub fn reason(&self) -> &'a str {
        &self.0.reason
    }

    /// The pairs that the client added to its request.
    pub fn meta(&self) -> &'a BTreeMap<String, String> {
        &self.0.meta
    }

    /// Reason and pairs in one line, for people; empty without them.
    pub fn note(&self) -> String {
        kgate_api::note(&self.0.reason, &self.0.meta)
    }

    /// The number of slots of the request.
    pub fn weight(&self) -> u32 {
        self.0.weight
    }

    /// The time since the grant, or since the request.
    pub fn age(&self) -> Duration {
        Duration::from_nanos(self.0.age_ns)
    }

    /// The slots of a holder; empty for a waiting request.
    pub fn slots(&self) -> &'a [u32] {
        &self.0.slots
    }

    /// The fence of a holder, as 32 hexadecimal digits.
    pub fn fence_hex(&self) -> Option<&'a str> {
        self.0.fence.as_deref()
    }

    /// Whether the client's connection is lost. The client may resume its session until it
    /// expires; then its slots are freed.
    pub fn is_disconnected(&self) -> bool {
        self.0.disconnected
    }

    /// Whether the holder's node ends its processes when the session's validity ends, even if the
    /// client is frozen.
    pub fn is_guarded(&self) -> bool {
        self.0.guarded
    }
}

/// A durable permit that is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DurablePermitStatus<'a>(&'a v1::DurablePermitStatus);

impl<'a> DurablePermitStatus<'a> {
    /// The ID of the permit.
    pub fn permit_id(&self) -> u64 {
        self.0.permit_id
    }

    /// The slots of the permit.
    pub fn slots(&self) -> &'a [u32] {
        &self.0.slots
    }

    /// The fence, as 32 hexadecimal digits.
    pub fn fence_hex(&self) -> &'a str {
        &self.0.fence
    }

    /// The holder's own description of itself.
    pub fn holder(&self) -> &'a str {
        &self.0.holder
    }

    /// The ID of the node that granted the permit.
    pub fn node(&self) -> u32 {
        self.0.node
    }

    /// A lower bound of the time since the grant: a node that restarted knows less.
    pub fn age(&self) -> Duration {
        Duration::from_nanos(self.0.age_ns)
    }

    /// The time until the permit expires unless it is renewed; none: it never expires.
    pub fn ttl_left(&self) -> Option<Duration> {
        self.0.ttl_left_ns.map(Duration::from_nanos)
    }
}
