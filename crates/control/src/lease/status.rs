//! How a node stands with its voters, for people.

use std::fmt;

use kgate_core::{NodeId, Span};

use super::message::Refusal;

/// How a node stands with its voters. Shown as one line that says what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// Whether this incarnation is a member, as far as this node has applied the log.
    pub member: bool,
    /// The entry by which it is suspected.
    pub suspected: Option<u64>,
    /// What is left of the lease; none if it has lapsed. Endless while this node's own vote is
    /// enough.
    pub left: Option<Span>,
    /// The clock has jumped, and no quorum has answered since.
    pub doubt: bool,
    /// The entry that this node should have applied long ago (N6).
    pub behind: Option<u64>,
    /// The voters that have answered within the length of a lease.
    pub answering: Vec<NodeId>,
    /// The others, and why not.
    pub missing: Vec<(NodeId, MissingShare)>,
}

/// Why a voter's share is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingShare {
    /// It says nothing.
    Silent,
    /// It says why.
    Refusal(Refusal),
    /// It has another store than before: it has forgotten what it promised (R4).
    OtherStore,
}

impl fmt::Display for MissingShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingShare::Silent => write!(f, "does not answer"),
            MissingShare::Refusal(Refusal::Suspected(at)) => {
                write!(f, "suspects this node since entry {at}")
            }
            MissingShare::Refusal(Refusal::NotMember) => {
                write!(f, "does not know this node as a member")
            }
            MissingShare::Refusal(Refusal::Behind) => write!(f, "is behind in the log"),
            MissingShare::Refusal(Refusal::NotVoter(_)) => write!(f, "does not vote any more"),
            MissingShare::OtherStore => write!(f, "has lost its store: replace it"),
        }
    }
}

impl fmt::Display for LeaseStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.member, self.left) {
            (false, _) => write!(f, "not a member")?,
            (true, Some(Span(u64::MAX))) => write!(f, "own vote, endless lease")?,
            (true, Some(left)) => write!(
                f,
                "lease for {}.{:03} s",
                left.0 / 1_000_000_000,
                left.0 / 1_000_000 % 1000
            )?,
            (true, None) => write!(f, "no lease")?,
        }
        if let Some(at) = self.suspected {
            write!(f, ", suspected by entry {at}")?;
        }
        if self.doubt {
            write!(f, ", in doubt since its clock jumped")?;
        }
        if let Some(index) = self.behind {
            write!(f, ", behind entry {index}")?;
        }
        write!(
            f,
            "; {} of {} voters answer",
            self.answering.len(),
            self.answering.len() + self.missing.len()
        )?;
        for (node, why) in &self.missing {
            write!(f, ", {node} {why}")?;
        }
        Ok(())
    }
}
