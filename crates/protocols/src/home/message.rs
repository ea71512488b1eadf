//! The two messages: versioned snapshots of all that one side has to say to the other. Their text
//! in traces is short, without zeros and defaults.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use kgate_core::{Fence, Incarnation, LogIndex, NodeId, Refusal, Term};
use serde::{Deserialize, Serialize};

use super::closing::Closing;
use super::grant::Grant;
use super::pass::Next;
use super::relay::Path;
use crate::slots::SlotSet;

/// What both messages begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// The term in which the message counts.
    pub term: Term,
    /// The sender's incarnation.
    pub from: Incarnation,
    /// The receiver's incarnation.
    pub to: Incarnation,
    /// The last log entry that the sender has applied.
    pub index: LogIndex,
    /// Where it comes from and goes to, if it takes a relay (H19).
    pub path: Option<Path>,
}

/// A waiting request of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Wait {
    /// Names the request at its member.
    pub ticket: u64,
    /// The number of slots.
    pub weight: u32,
    /// The term in which it was made.
    pub term: Term,
    /// The member's logical clock when it was made.
    pub clock: u64,
}

/// Slots under the grant by which a member has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Held {
    /// The slots.
    pub slots: SlotSet,
    /// The grant, with the attempt by which they came here.
    pub grant: Grant,
}

/// A client of another node asks to go on at the sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AdoptionRequest {
    /// The slots, and their grant with the number of this attempt.
    pub held: Held,
    /// The node by which the client holds them.
    pub from: NodeId,
    /// That node's incarnation.
    pub incarnation: Incarnation,
}

/// All that a member has to say. Answered by an [`Assignment`] if what is written down has changed,
/// or if the report asks for an adoption; on links that lose messages, repeated until it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report {
    /// The sender and the receiver.
    pub head: Head,
    /// Greater for each later report of this term that says something else.
    pub version: u64,
    /// The version of the newest assignment that the member has taken in.
    pub seen: u64,
    /// The version of the newest report of which the member knows that the home has it.
    pub acked: u64,
    /// The requests that wait; none without a lease.
    pub waits: Vec<Wait>,
    /// Everything that it has, in use or cached.
    pub holds: Vec<Held>,
    /// What it had by an older term, and its client has returned in this one.
    pub freed: Vec<Held>,
    /// The adoptions that its clients ask for.
    pub asks: Vec<AdoptionRequest>,
    /// The table of the term before, if the sender was its home.
    pub closing: Option<Box<Closing>>,
}

/// A line of an assignment: slots that the home has written down for the member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Line {
    /// The request that it was granted to; `None` if the member had it before this term, or adopts
    /// it.
    pub ticket: Option<u64>,
    /// The slots.
    pub held: Held,
    /// Whether the member had these slots last, and may expect to need them again.
    pub keep: bool,
    /// What is to be passed on when its client has returned them (H20).
    pub next: Option<Next>,
}

/// All that the home has to say to a member. Answered by a [`Report`] if the member does not take
/// what it lists, or has said nothing yet in this term.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Assignment {
    /// The sender and the receiver.
    pub head: Head,
    /// Greater for each later assignment to this member, in this term, that says something else.
    pub version: u64,
    /// The version of the newest report of the member that the home has.
    pub acked: u64,
    /// The version of the newest assignment of which the home knows that the member has it.
    pub seen: u64,
    /// The greatest clock that the home has heard of.
    pub clock: u64,
    /// Whether others wait for what the member has.
    pub recall: bool,
    /// The number of slots, as far as the home knows.
    pub k: u32,
    /// Everything that is written down for this member.
    pub lines: Vec<Line>,
}

/// The holder of the slot hands it over (H20). Not answered: the home sends the same line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pass {
    /// The sender and the receiver.
    pub head: Head,
    /// The grant, as the home numbered it.
    pub line: Line,
    /// The number of slots, as far as the sender knows.
    pub k: u32,
}

/// What clients of the home may have (H21). Answered by [`Noted`]; on links that lose messages,
/// repeated until it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Note {
    /// The sender, which is home, and the receiver, which is its witness.
    pub head: Head,
    /// The period in which they are.
    pub period: Term,
    /// Greater for each later note of this period.
    pub version: u64,
    /// The slots.
    pub slots: SlotSet,
}

/// The witness has a note.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Noted {
    /// The sender and the receiver.
    pub head: Head,
    /// The period of the note.
    pub period: Term,
    /// The version of the note.
    pub version: u64,
}

/// A message of `home`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HomeMessage {
    /// From a member to the home.
    Report(Box<Report>),
    /// From the home to a member.
    Assignment(Box<Assignment>),
    /// From a holder to the next one.
    Pass(Box<Pass>),
    /// From the home to its witness.
    Note(Box<Note>),
    /// From the witness to the home.
    Noted(Box<Noted>),
}

impl kgate_core::Message for HomeMessage {
    const KINDS: usize = 5;
    fn kind(&self) -> usize {
        match self {
            Self::Report(_) => 0,
            Self::Assignment(_) => 1,
            Self::Pass(_) => 2,
            Self::Note(_) => 3,
            Self::Noted(_) => 4,
        }
    }
    fn kind_name(kind: usize) -> &'static str {
        ["report", "assignment", "pass", "note", "noted"][kind]
    }
}

impl HomeMessage {
    pub(super) fn head(&self) -> Head {
        match self {
            Self::Report(report) => report.head,
            Self::Assignment(assignment) => assignment.head,
            Self::Pass(pass) => pass.head,
            Self::Note(note) => note.head,
            Self::Noted(noted) => noted.head,
        }
    }

    pub(super) fn head_mut(&mut self) -> &mut Head {
        match self {
            Self::Report(report) => &mut report.head,
            Self::Assignment(assignment) => &mut assignment.head,
            Self::Pass(pass) => &mut pass.head,
            Self::Note(note) => &mut note.head,
            Self::Noted(noted) => &mut noted.head,
        }
    }

    /// The process that has made this message, which has come from `neighbour`.
    pub(super) fn origin(&self, neighbour: NodeId) -> NodeId {
        self.head().path.map_or(neighbour, |path| path.from)
    }

    /// What decides which of two messages of one sender and kind is newer.
    pub(super) fn age(&self) -> (Incarnation, Term, u64) {
        let Head { from, term, .. } = self.head();
        let (term, version) = match self {
            Self::Report(report) => (term, report.version),
            Self::Assignment(assignment) => (term, assignment.version),
            Self::Pass(pass) => (term, pass.line.held.grant.number),
            Self::Note(note) => (note.period, note.version),
            Self::Noted(noted) => (noted.period, noted.version),
        };
        (from, term, version)
    }

    /// Checks bytes from the network: every content is either possible or refused.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::Report(report) => report.check(),
            Self::Assignment(assignment) => assignment.check(),
            Self::Pass(pass) => pass.check(),
            Self::Note(note) => {
                sound(note.slots.is_sound(), "slots out of order")?;
                sound(note.period >= note.head.term, "a period before its term")
            }
            Self::Noted(noted) => {
                sound(noted.period >= noted.head.term, "a period before its term")
            }
        }
    }
}

fn sound(it_is: bool, why: &'static str) -> Result<(), Refusal> {
    if it_is { Ok(()) } else { Err(Refusal::Malformed(why)) }
}

impl Held {
    fn check(&self, last: Term) -> Result<(), Refusal> {
        sound(self.slots.is_sound() && !self.slots.is_empty(), "slots out of order")?;
        sound(self.grant.term <= last && self.grant.number < Fence::TICKS, "no such grant")
    }
}

impl Report {
    fn check(&self) -> Result<(), Refusal> {
        let term = self.head.term;
        sound(self.acked <= self.version, "acknowledged before it was sent")?;
        sound(self.waits.is_sorted_by(|a, b| a.ticket < b.ticket), "requests out of order")?;
        let possible =
            |wait: &Wait| wait.weight > 0 && wait.term <= term && wait.clock < Fence::TICKS;
        sound(self.waits.iter().all(possible), "a request that cannot be")?;
        self.holds.iter().try_for_each(|held| held.check(term))?;
        for freed in &self.freed {
            freed.check(term)?;
            sound(freed.grant.term < term, "a grant of this term is not returned as old")?;
        }
        for ask in &self.asks {
            ask.held.check(Term(u32::MAX))?; // The home refuses what it cannot know of.
            sound(ask.held.grant.attempt > 0, "attempts begin with 1")?;
        }
        self.closing.as_ref().map_or(Ok(()), |closing| sound(closing.is_sound(term), "a table"))
    }
}

impl Assignment {
    fn check(&self) -> Result<(), Refusal> {
        sound(self.seen <= self.version, "seen before it was sent")?;
        sound(self.clock < Fence::TICKS, "a clock out of reach")?;
        self.lines.iter().try_for_each(|line| line.check(self.head.term))
    }
}

impl Line {
    fn check(&self, term: Term) -> Result<(), Refusal> {
        let is_fresh = |grant: Grant| (grant.term, grant.attempt) == (term, 0);
        self.held.check(term)?;
        self.next.map_or(Ok(()), |next| {
            sound(is_fresh(next.grant) && next.grant.number < Fence::TICKS, "no such promise")?;
            sound(next.node.0 < Fence::NODES, "no such node")
        })
    }
}

impl Pass {
    fn check(&self) -> Result<(), Refusal> {
        self.line.check(self.head.term)?;
        let Grant { term, attempt, .. } = self.line.held.grant;
        let is_alone = self.line.held.slots.len() == 1 && self.line.next.is_none();
        sound((term, attempt) == (self.head.term, 0) && is_alone, "not what can be passed on")
    }
}

/// Writes the parts of a list between commas, with a name, if there are any.
fn list(f: &mut fmt::Formatter<'_>, name: &str, all: &[impl fmt::Display]) -> fmt::Result {
    for (place, one) in all.iter().enumerate() {
        let between = if place > 0 { "," } else { name };
        write!(f, "{between} {one}")?;
    }
    Ok(())
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} w{}", self.ticket, self.weight)
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {:?}", self.slots, self.grant)
    }
}

impl fmt::Display for AdoptionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.held, self.from)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.held)?;
        if let Some(ticket) = self.ticket {
            write!(f, " for #{ticket}")?;
        }
        if let Some(next) = self.next {
            write!(f, " then {:?} for {} #{}", next.grant, next.node, next.ticket)?;
        }
        if self.keep { f.write_str(" keep") } else { Ok(()) }
    }
}

/// `Report e0 v2 seen 1: waits #1 w1; holds {0} by 0/1`, after its path if it takes a relay.
impl fmt::Debug for HomeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Path { from, to }) = self.head().path {
            write!(f, "{from} to {to}: ")?;
        }
        match self {
            Self::Report(report) => {
                write!(f, "Report e{} v{}", report.head.term.0, report.version)?;
                write!(f, " seen {}:", report.seen)?;
                list(f, " waits", &report.waits)?;
                list(f, " holds", &report.holds)?;
                list(f, " freed", &report.freed)?;
                list(f, " asks", &report.asks)?;
                if report.closing.is_some() { f.write_str(" closing") } else { Ok(()) }
            }
            Self::Assignment(assignment) => {
                write!(f, "Assignment e{} v{}", assignment.head.term.0, assignment.version)?;
                write!(f, " acked {}:", assignment.acked)?;
                list(f, " has", &assignment.lines)?;
                if assignment.recall { f.write_str(" recall") } else { Ok(()) }
            }
            Self::Note(note) => {
                write!(f, "Note e{} v{}: {:?}", note.period.0, note.version, note.slots)
            }
            Self::Noted(noted) => write!(f, "Noted e{} v{}", noted.period.0, noted.version),
            Self::Pass(pass) => write!(f, "Pass e{}: {}", pass.head.term.0, pass.line),
        }
    }
}
