//! The messages, and their text in traces and diagrams: short, without zeros and defaults.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use kgate_core::{Incarnation, NodeId, ViewId};
use serde::{Deserialize, Serialize};

use super::ranges::Ranges;
use super::slot_set::SlotSet;
use super::stamp::{Clock, Stamp};

/// The sender of a message: its incarnation, and the last view that it has installed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// The sender's view.
    pub view: ViewId,
}

/// The request that a message is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct About {
    /// The request's stamp, which names its process.
    pub stamp: Stamp,
    /// The incarnation of that process at the request.
    pub incarnation: Incarnation,
}

/// How far a request is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Not at all; the answer goes to the requester.
    Yourself,
    /// To the first member of each of the clusters 1 .. h.
    Clusters(u8),
}

/// A snapshot of one process for one request. A snapshot with a greater version replaces it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report {
    /// The process.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The version: the number of changes until the snapshot.
    pub version: u64,
    /// The slots of its grants that are older than the request.
    pub holds: SlotSet,
    /// Whether it waits with an older request.
    pub ahead: bool,
    /// Whether some of the slots are only cached: it returns them when the request is repeated.
    pub idle: bool,
}

impl Report {
    /// Whether this process is no obstacle to the request: then it never will be one.
    pub(super) fn is_empty(&self) -> bool {
        !self.ahead && self.holds.is_empty()
    }
}

/// Answers of several processes to one request.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Answers {
    /// The processes that are no obstacle.
    pub empty: Ranges,
    /// The others.
    pub reports: Vec<Report>,
}

impl Answers {
    /// The answer of one process.
    pub(super) fn of(report: Report) -> Self {
        let mut answers = Self::default();
        answers.add(report);
        answers
    }

    /// The answer of one process that is no obstacle.
    pub(super) fn nothing_of(node: NodeId) -> Self {
        let mut answers = Self::default();
        answers.empty.insert_one(node);
        answers
    }

    fn add(&mut self, report: Report) {
        if report.is_empty() {
            self.empty.insert_one(report.node)
        } else {
            self.reports.push(report)
        }
    }

    /// Removes ids from `nodes` on.
    pub(super) fn cut(&mut self, nodes: u32) {
        self.empty.cut(nodes);
        self.reports.retain(|report| report.node.0 < nodes);
    }

    /// Adds the answers of another message.
    pub(super) fn extend(&mut self, other: Self) {
        self.empty.extend(&other.empty);
        self.reports.extend(other.reports);
    }
}

/// A message of `slots`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SlotsMessage {
    /// A request. Answered by `Agg`, at once unless the answer is deferred. When repeated, it also
    /// asks for the slots that the receiver only caches.
    Request {
        /// The sender.
        head: Head,
        /// The request.
        about: About,
        /// The number of slots requested.
        weight: u32,
        /// The processes to forward it to.
        scope: Scope,
    },
    /// Answers, combined on their way back; empty from a relay that has nothing more to report.
    Agg {
        /// The sender.
        head: Head,
        /// The request that they answer.
        about: About,
        /// The answers.
        answers: Box<Answers>,
    },
    /// A report has changed.
    Update {
        /// The sender.
        head: Head,
        /// The request that the report is about.
        about: About,
        /// The new report.
        report: Box<Report>,
    },
    /// The sender is back (without a log only). Answered by `Welcome`.
    Join {
        /// The sender's incarnation.
        incarnation: Incarnation,
        /// The first or the second round.
        round: u8,
    },
    /// The answer to `Join`.
    Welcome {
        /// The sender.
        head: Head,
        /// The incarnation that is welcome.
        incarnation: Incarnation,
        /// The round that this answers.
        round: u8,
        /// The sender's clock.
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

/// The sender's incarnation and view, at the end of a message.
impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.incarnation > Incarnation::default() {
            write!(f, ", from incarnation {}", self.incarnation.0)?;
        }
        if self.view > ViewId::default() {
            write!(f, ", in view {}", self.view.0)?;
        }
        Ok(())
    }
}

/// `1@p0`, `2/1@p0 (incarnation 2)`.
impl fmt::Debug for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.stamp)?;
        if self.incarnation > Incarnation::default() {
            write!(f, " (incarnation {})", self.incarnation.0)
        } else {
            Ok(())
        }
    }
}

/// `p1 v3 ahead holds {0} cached`; `clear` if it is no obstacle.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.node)?;
        if self.incarnation > Incarnation::default() {
            write!(f, " (incarnation {})", self.incarnation.0)?;
        }
        write!(f, " v{}", self.version)?;
        if self.is_empty() {
            f.write_str(" clear")?;
        }
        if self.ahead {
            f.write_str(" ahead")?;
        }
        if !self.holds.is_empty() {
            write!(f, " holds {:?}", self.holds)?;
        }
        if self.idle { f.write_str(" cached") } else { Ok(()) }
    }
}

/// `p1-p3 clear, p4 v1 ahead`; `nothing` from a relay that has nothing more to report.
impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        if self.empty.iter().next().is_some() {
            write!(f, "{:?} clear", self.empty)?;
            between = ", ";
        }
        for report in &self.reports {
            write!(f, "{between}{report:?}")?;
            between = ", ";
        }
        if between.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}

/// `Request 1@p0 w1`; on the tree `h2`: to be forwarded to clusters 1 and 2.
impl fmt::Debug for SlotsMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { head, about, weight, scope } => {
                write!(f, "Request {about:?} w{weight}")?;
                if let Scope::Clusters(height) = scope {
                    write!(f, " h{height}")?;
                }
                write!(f, "{head:?}")
            }
            Self::Agg { head, about, answers } => write!(f, "Agg {about:?}: {answers:?}{head:?}"),
            Self::Update { head, about, report } => {
                write!(f, "Update {about:?}: {report:?}{head:?}")
            }
            Self::Join { incarnation, round } => {
                write!(f, "Join incarnation {} round {round}", incarnation.0)
            }
            Self::Welcome { head, incarnation, round, clock } => {
                write!(
                    f,
                    "Welcome incarnation {} round {round} clock {clock:?}{head:?}",
                    incarnation.0
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn report(node: u32, ahead: bool, holds: Option<SlotSet>) -> Report {
        let holds = holds.unwrap_or_default();
        Report {
            node: NodeId(node),
            incarnation: Incarnation(0),
            version: 2,
            holds,
            ahead,
            idle: false,
        }
    }

    /// The text of messages in traces: everything that is not a default is written.
    #[test]
    fn in_traces() {
        let head = Head { incarnation: Incarnation(0), view: ViewId(0) };
        let about = About {
            stamp: Stamp { clock: Clock { view: ViewId(0), ticks: 1 }, node: NodeId(0) },
            incarnation: Incarnation(0),
        };
        let request = |head, scope| SlotsMessage::Request { head, about, weight: 2, scope };
        assert_eq!(format!("{:?}", request(head, Scope::Yourself)), "Request 1@p0 w2");
        let later = Head { incarnation: Incarnation(1), view: ViewId(3) };
        let down = format!("{:?}", request(later, Scope::Clusters(2)));
        assert_eq!(down, "Request 1@p0 w2 h2, from incarnation 1, in view 3");
        let agg = |answers| {
            format!("{:?}", SlotsMessage::Agg { head, about, answers: Box::new(answers) })
        };
        assert_eq!(agg(Answers::default()), "Agg 1@p0: nothing");
        let mut answers = Answers::of(report(2, false, None));
        answers.extend(Answers::of(report(3, false, None)));
        answers.extend(Answers::of(report(5, true, SlotSet::lowest(1, 1, &[]))));
        assert_eq!(agg(answers), "Agg 1@p0: p2-p3 clear, p5 v2 ahead holds {0}");
        let mut kept = report(1, false, SlotSet::lowest(2, 2, &[]));
        (kept.incarnation, kept.idle) = (Incarnation(4), true);
        let about = About {
            stamp: Stamp { clock: Clock { view: ViewId(4), ticks: 7 }, ..about.stamp },
            incarnation: Incarnation(3),
        };
        let update = SlotsMessage::Update { head, about, report: Box::new(kept) };
        assert_eq!(
            format!("{update:?}"),
            "Update 4/7@p0 (incarnation 3): p1 (incarnation 4) v2 holds {0, 1} cached"
        );
        let welcome = SlotsMessage::Welcome {
            head,
            incarnation: Incarnation(1),
            round: 2,
            clock: about.stamp.clock,
        };
        assert_eq!(format!("{welcome:?}"), "Welcome incarnation 1 round 2 clock 4/7");
        assert_eq!(format!("{:?}", report(1, false, None)), "p1 v2 clear");
    }
}
