//! What processes say to each other.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kgate_core::NodeId;
use serde::{Deserialize, Serialize};

use super::ranges::Ranges;
use super::slot_set::SlotSet;
use super::stamp::{Clock, Stamp};

/// Who speaks: which life of the sender, and the last view that it has installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// Which life.
    pub life: u32,
    /// Its view.
    pub view: u32,
}

/// Whose request a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct About {
    /// Its stamp, which names its process.
    pub stamp: Stamp,
    /// Which life of that process asked.
    pub life: u32,
}

/// How far a request is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Not at all, and the answer goes to whoever asks.
    Yourself,
    /// To the first member of each of the clusters 1 .. h.
    Clusters(u8),
}

/// What one process says of a request: a snapshot. A later one, of a greater version, replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report {
    /// Who says so.
    pub node: NodeId,
    /// In which life.
    pub life: u32,
    /// How often it had changed when it said so.
    pub version: u64,
    /// Slots of its grants that are older than the request.
    pub holds: SlotSet,
    /// Whether it has asked before, and that is not decided.
    pub ahead: bool,
    /// Whether some of the slots are only kept: it gives them back if it is asked again.
    pub idle: bool,
}

impl Report {
    /// Whether nothing of this process stands in the request's way: then nothing ever will.
    pub(super) fn is_empty(&self) -> bool {
        !self.ahead && self.holds.is_empty()
    }
}

/// Answers of several processes to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Answers {
    /// Those in whose way nothing is.
    pub empty: Ranges,
    /// The others.
    pub reports: Vec<Report>,
}

impl Answers {
    /// Of one process.
    pub(super) fn of(report: Report) -> Self {
        let mut answers = Self::default();
        answers.add(report);
        answers
    }

    fn add(&mut self, report: Report) {
        if report.is_empty() { self.empty.insert_one(report.node) } else { self.reports.push(report) }
    }

    /// Puts those of another one to them.
    pub(super) fn extend(&mut self, other: Self) {
        self.empty.extend(&other.empty);
        self.reports.extend(other.reports);
    }
}

/// A message of `slots`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SlotsMessage {
    /// May I? Answered by `Agg`, at once unless the answer is put off. Asked once more, it means: I need what you keep.
    Request {
        /// Who speaks.
        head: Head,
        /// Whose request it is.
        about: About,
        /// How many units it wants.
        weight: u32,
        /// To whom it is to be passed on.
        scope: Scope,
    },
    /// Answers, put together on their way back; none of a relay that has nothing to say any more.
    Agg {
        /// Who speaks.
        head: Head,
        /// Whose request they answer.
        about: About,
        /// What they say.
        answers: Box<Answers>,
    },
    /// What I said has changed.
    Update {
        /// Who speaks.
        head: Head,
        /// Whose request it is about.
        about: About,
        /// What I say now.
        report: Box<Report>,
    },
    /// I am back (without a log only). Answered by `Welcome`.
    Join {
        /// In which life.
        life: u32,
        /// The first or the second round.
        round: u8,
    },
    /// The answer to `Join`.
    Welcome {
        /// Who speaks.
        head: Head,
        /// Which life is welcome.
        life: u32,
        /// In which round.
        round: u8,
        /// The answerer's clock.
        clock: Clock,
    },
}

kgate_core::kinds!(SlotsMessage {
    Request => "request",
    Agg => "agg",
    Update => "update",
    Join => "join",
    Welcome => "welcome",
});
