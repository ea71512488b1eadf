//! What neighbours in the tree say to each other.
//!
//! The paper's messages between processes are these five; those that an actor sends to itself are
//! calls here.

use alloc::boxed::Box;

use kgate_core::{Carried, kinds};
use serde::{Deserialize, Serialize};

use super::place::Revision;
use crate::collections::NodeList;

/// Which incarnations of two neighbours a message belongs to. What it counts is counted from the
/// beginning of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Incarnations {
    /// The sender's.
    pub mine: u32,
    /// The receiver's, as the sender knows it; 0 if it does not.
    pub yours: u32,
}

/// On which side of the edge between sender and receiver a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    /// With the sender, or behind it; or lost behind it, and the sender will find out.
    Mine,
    /// With the receiver, or behind it.
    Yours,
    /// The sender asks itself whether it is lost or with the receiver or another such neighbour.
    Open,
}

/// What a process says of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Said {
    /// Where it is.
    pub side: Side,
    /// How old that knowledge is.
    pub revision: Revision,
}

/// All that a process tells a neighbour when either comes back, or when they become neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Statement {
    /// Whether it has been reached by INITIALIZE.
    pub initialized: bool,
    /// Whom it knows to be lost for good.
    pub lost: NodeList,
    /// Where each token is.
    pub tokens: Box<[Said]>,
}

/// The messages of the tree algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TreeTokenMessage {
    /// All tokens are on the sender's side. Passed on to the other neighbours; nobody answers.
    Initialize,
    /// The paper's RequestToken: send me tokens. Answered by so many TOKEN, sooner or later.
    Request {
        /// Counted in these incarnations.
        incarnations: Incarnations,
        /// How many the sender has asked the receiver for, this one included.
        asks: u64,
    },
    /// The paper's SendToken: the token itself. Nobody answers.
    Token {
        /// Which one.
        slot: u32,
        /// How far it has come; if the receiver knows it to have come as far, this is an old copy.
        revision: Revision,
        /// Counted in these incarnations.
        incarnations: Incarnations,
        /// How many of the receiver's asks the sender has served, this one included.
        served: u64,
        /// Whom the sender knows to be lost for good, so that who has a token knows at least as
        /// many as its epoch.
        lost: NodeList,
    },
    /// I am back, or new as your neighbour. Answered by ADVISE.
    Restart {
        /// The sender's incarnation.
        incarnation: u32,
        /// What it has on stable storage.
        statement: Statement,
    },
    /// The answer to RESTART.
    Advise {
        /// Counted in these incarnations.
        incarnations: Incarnations,
        /// How many tokens the sender asks of the receiver (the paper's `asked`).
        asks: u64,
        /// How many the receiver has asked for, as the sender knows (the paper's "X is in Y's
        /// `REQUEST_Q`").
        heard: u64,
        /// Where the tokens are, and the rest (the paper's `holder`).
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
