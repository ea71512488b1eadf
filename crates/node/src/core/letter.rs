//! What nodes say to each other: a letter is what a frame of a link carries.
//!
//! Messages of protocols are opaque here. The first byte says which letter it is; everything is bounded by the link's frame.

use serde::{Deserialize, Serialize};

use super::catalogue::Definition;
use super::view::{GateView, Who};

/// A gate, by the number that all nodes know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GateId(pub u32);

/// A letter from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Letter {
    /// A message of a gate's protocol.
    Gate(GateId, Vec<u8>),
    /// A message of the detector.
    Detector(Vec<u8>),
    /// The gates of my configuration: yours must be the same.
    Fixed(Vec<Definition>),
    /// Do you know a gate of that name, and what is the last number that you know? Answered by `Known`.
    Collect {
        /// Names the question.
        round: u64,
        /// The gate's name.
        name: String,
    },
    /// The answer to `Collect`.
    Known {
        /// Which question.
        round: u64,
        /// The gate, if it is known.
        definition: Option<Definition>,
        /// The greatest number of a gate that is known.
        last: GateId,
    },
    /// There is this gate. Answered by `Defined`.
    Define {
        /// Names the announcement.
        round: u64,
        /// The gate.
        definition: Definition,
    },
    /// The answer to `Define`.
    Defined {
        /// Which announcement.
        round: u64,
    },
    /// You speak of a gate that I do not know: define it. Answered by `Define`.
    WhatIs(GateId),
    /// What do you see of that gate? Answered by `Seen`.
    Look {
        /// Names the question.
        question: u64,
        /// Its name; all gates, if none.
        gate: Option<String>,
    },
    /// The answer to `Look`.
    Seen {
        /// Which question.
        question: u64,
        /// What is to be seen.
        gates: Vec<GateView>,
        /// Who looked, where.
        who: Who,
    },
    /// Whether somebody watches here: then I want to know of changes.
    Watch(bool),
    /// Something has changed here.
    Changed,
    /// This node stops now, after its last grant was given back: it takes part no more.
    Leaving,
    /// I hold you for crashed: stop.
    HeldForCrashed,
    /// I have met everybody: crashes can be looked for as far as I am concerned.
    MetAll,
}

impl Letter {
    /// As bytes.
    pub fn bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("letters can be written")
    }

    /// From bytes; none if they are no letter.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (letter, rest) = postcard::take_from_bytes(bytes).ok()?;
        rest.is_empty().then_some(letter)
    }
}
