//! The state of a node's lease, for people.

use std::fmt;

use kgate_core::{NodeId, Span, Time};

use super::context::Context;
use super::holder::{Holder, VoterReply};
use super::message::Refusal;
use super::voter;

/// The state of a node's lease. Displayed as one line that says what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Whether this incarnation is a member, as far as this node has applied the log.
    pub member: bool,
    /// The entry by which it is suspected, if it is.
    pub suspected: Option<u64>,
    /// What is left of the lease; none if it has lapsed. The greatest span if the lease does not
    /// end, because this node's own vote is a quorum.
    pub left: Option<Span>,
    /// The clock has jumped, and no quorum has answered since.
    pub doubt: bool,
    /// The entry that this node should have applied long ago, if there is one (N6).
    pub behind: Option<u64>,
    /// The voters that have answered within the length of a lease.
    pub answering: Vec<NodeId>,
    /// The other voters, and why their shares are missing.
    pub missing: Vec<(NodeId, MissingShare)>,
}

impl LeaseStatus {
    pub(super) fn new(context: &Context, holder: &Holder, now: Time) -> Self {
        let (mut answering, mut missing) = (Vec::new(), Vec::new());
        for (node, reply) in holder.voters(context) {
            match missing_share(context, now, node, reply) {
                None => answering.push(node),
                Some(reason) => missing.push((node, reason)),
            }
        }
        let end = holder.end(context);
        let left = if end == Time::NEVER { Span(u64::MAX) } else { end.since(now) };
        Self {
            member: context.own().is_some(),
            suspected: context.own().and_then(|member| member.suspected),
            left: (now < end).then_some(left),
            doubt: holder.in_doubt(context),
            behind: holder.behind(now),
            answering,
            missing,
        }
    }
}

/// Why the share of that voter is missing; none, if it is not.
fn missing_share(
    context: &Context,
    now: Time,
    node: NodeId,
    reply: Option<&VoterReply>,
) -> Option<MissingShare> {
    if node == context.me && voter::refusal(context, node, context.incarnation).is_none() {
        return None;
    }
    let Some(reply) = reply else { return Some(MissingShare::Silent) };
    let lease = context.own_terms().map_or(context.timing.lease, |terms| terms.lease);
    if reply.answered.is_some_and(|sent| now.since(sent) < lease) {
        return None;
    }
    if reply.other_store {
        return Some(MissingShare::OtherStore);
    }
    let refused = reply.refused.as_ref().filter(|(sent, _)| now.since(*sent) < lease);
    Some(refused.map_or(MissingShare::Silent, |(_, reason)| MissingShare::Refused(reason.clone())))
}

/// Why a voter's share is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingShare {
    /// The voter does not answer.
    Silent,
    /// The voter refuses, and says why.
    Refused(Refusal),
    /// The voter has another store than before: it has forgotten what it promised (R4).
    OtherStore,
}

impl fmt::Display for MissingShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("does not answer"),
            Self::Refused(Refusal::Suspected(at)) => {
                write!(f, "suspects this node since entry {at}")
            }
            Self::Refused(Refusal::NotMember) => f.write_str("does not know this node as a member"),
            Self::Refused(Refusal::Behind) => f.write_str("is behind in the log"),
            Self::Refused(Refusal::NotVoter(_)) => f.write_str("does not vote any more"),
            Self::OtherStore => f.write_str("has lost its store: remove it and add it anew"),
        }
    }
}

impl fmt::Display for LeaseStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.member, self.left) {
            (false, _) => f.write_str("not a member")?,
            (true, Some(Span(u64::MAX))) => f.write_str("endless lease by its own vote")?,
            (true, Some(left)) => {
                let (seconds, milliseconds) = (left.0 / 1_000_000_000, left.0 / 1_000_000 % 1000);
                write!(f, "lease for {seconds}.{milliseconds:03} s")?;
            }
            (true, None) => f.write_str("no lease")?,
        }
        if let Some(at) = self.suspected {
            write!(f, ", suspected by entry {at}")?;
        }
        if self.doubt {
            f.write_str(", in doubt since its clock jumped")?;
        }
        if let Some(index) = self.behind {
            write!(f, ", behind entry {index}")?;
        }
        let answering = self.answering.len();
        write!(f, "; {answering} of {} voters answer", answering + self.missing.len())?;
        for (node, reason) in &self.missing {
            write!(f, ", {node} {reason}")?;
        }
        Ok(())
    }
}
