//! The messages between neighbours in the tree.
//!
//! The paper's messages between processes are these five; those that an actor sends to itself are
//! calls here.

use alloc::boxed::Box;

use kgate_core::{Carried, kinds};
use serde::{Deserialize, Serialize};

use super::place::Revision;
use crate::collections::NodeList;

/// The incarnations of two neighbours that a message belongs to. Its counts are from the beginning
/// of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Incarnations {
    /// The sender's.
    pub mine: u32,
    /// The receiver's, as the sender knows it; 0 if unknown.
    pub yours: u32,
}

/// The side of the edge between sender and receiver on which a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    /// With the sender, or behind it; or lost behind it, and the sender will find out.
    Mine,
    /// With the receiver, or behind it.
    Yours,
    /// The sender does not know whether it is lost or with the receiver or another such neighbour.
    Open,
}

/// The report of a process about one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Said {
    /// Where it is.
    pub side: Side,
    /// The age of that knowledge.
    pub revision: Revision,
}

/// The report of a process to a neighbour when either recovers, or when they become neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Statement {
    /// Whether INITIALIZE has reached it.
    pub initialized: bool,
    /// The processes that it knows to be lost permanently.
    pub lost: NodeList,
    /// The place of each token.
    pub tokens: Box<[Said]>,
}

/// The messages of the tree algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TreeTokenMessage {
    /// All tokens are on the sender's side. Forwarded to the other neighbours; there is no answer.
    Initialize,
    /// The paper's RequestToken. Answered by that many TOKEN.
    Request {
        /// Counted in these incarnations.
        incarnations: Incarnations,
        /// The number of the sender's requests to the receiver, this one included.
        asks: u64,
    },
    /// The paper's SendToken: the token itself. There is no answer.
    Token {
        /// The token.
        slot: u32,
        /// Its revision; if the receiver knows the same or a later one, this is a stale copy.
        revision: Revision,
        /// Counted in these incarnations.
        incarnations: Incarnations,
        /// The number of the receiver's requests that the sender has served, this one included.
        served: u64,
        /// The processes that the sender knows to be lost permanently, so that the holder of a
        /// token knows of at least as many losses as its epoch.
        lost: NodeList,
    },
    /// The sender has recovered, or is a new neighbour. Answered by ADVISE.
    Restart {
        /// The sender's incarnation.
        incarnation: u32,
        /// The sender's stored state.
        statement: Statement,
    },
    /// The answer to RESTART.
    Advise {
        /// Counted in these incarnations.
        incarnations: Incarnations,
        /// The number of tokens that the sender requests from the receiver (the paper's `asked`).
        asks: u64,
        /// The number that the receiver has requested, as the sender knows (the paper's "X is in
        /// Y's `REQUEST_Q`").
        heard: u64,
        /// The places of the tokens, and the rest (the paper's `holder`).
        statement: Statement,
    },
}

kinds!(TreeTokenMessage {
    Initialize => "initialize",
    Request => "request",
    Token => "token",
    Restart => "restart",
    Advise => "advise",
}, carried TreeTokenMessage::carries);

impl TreeTokenMessage {
    fn carries(&self) -> Option<Carried> {
        match self {
            Self::Token { slot, revision, .. } => Some(Carried::Token(revision.of(*slot))),
            Self::Initialize
            | Self::Request { .. }
            | Self::Restart { .. }
            | Self::Advise { .. } => None,
        }
    }
}
