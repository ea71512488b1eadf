//! What processes say to each other, and how that is written in traces and pictures: short, and
//! what is 0 or usual is left out.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use kgate_core::{Incarnation, NodeId, ViewId};
use serde::{Deserialize, Serialize};

use super::ranges::Ranges;
use super::slot_set::SlotSet;
use super::stamp::{Clock, Stamp};

/// Who speaks: which incarnation of the sender, and the last view that it has installed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// Which incarnation.
    pub incarnation: Incarnation,
    /// Its view.
    pub view: ViewId,
}

/// Whose request a message is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct About {
    /// Its stamp, which names its process.
    pub stamp: Stamp,
    /// Which incarnation of that process asked.
    pub incarnation: Incarnation,
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
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report {
    /// Who says so.
    pub node: NodeId,
    /// In which incarnation.
    pub incarnation: Incarnation,
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
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

    /// Of one process in whose way nothing is.
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

    /// Leaves out ids from `nodes` on.
    pub(super) fn cut(&mut self, nodes: u32) {
        self.empty.cut(nodes);
        self.reports.retain(|report| report.node.0 < nodes);
    }

    /// Puts those of another one to them.
    pub(super) fn extend(&mut self, other: Self) {
        self.empty.extend(&other.empty);
        self.reports.extend(other.reports);
    }
}

/// A message of `slots`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SlotsMessage {
    /// May I? Answered by `Agg`, at once unless the answer is put off. Asked once more, it means: I
    /// need what you keep.
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
        /// In which incarnation.
        incarnation: Incarnation,
        /// The first or the second round.
        round: u8,
    },
    /// The answer to `Join`.
    Welcome {
        /// Who speaks.
        head: Head,
        /// Which incarnation is welcome.
        incarnation: Incarnation,
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

/// The sender's incarnation and view, as the end of a message.
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

/// `p1 v3 ahead holds {0} kept`; `clear` if nothing stands in the way.
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
        if self.idle { f.write_str(" kept") } else { Ok(()) }
    }
}

/// `p1-p3 clear, p4 v1 ahead`; `nothing` of a relay that has nothing to say any more.
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

/// `Request 1@p0 w1`; on the tree `h2`: to be passed on to clusters 1 and 2.
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

    /// How messages stand in traces: everything that is not usual is told.
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
            "Update 4/7@p0 (incarnation 3): p1 (incarnation 4) v2 holds {0, 1} kept"
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
