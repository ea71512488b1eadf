//! A schedule: what happens next, step by step, in words that a person can write and a program can
//! read.
//!
//! The explorer prints its counterexamples in these words, a scenario is written in them, and the
//! simulator plays them. A message is named by its kind and its place among those of that kind in
//! its channel; a timer by how it is printed.
//!
//! | step | text |
//! |---|---|
//! | a client asks | `p0 asks`, `p0 asks for 2` |
//! | a client that waits gives up | `p0 gives up` |
//! | a client comes out | `p0 comes out`, of several inside `p0 comes out 2` (the second that went in) |
//! | a message arrives | `p0 -> p1: reply`, `p0 -> p1: reply 2` (the second one on its way) |
//! | a message is lost | `p0 -> p1: reply lost`, `p0 -> p1: reply 2 lost` |
//! | a message is doubled: its copy is on its way too, as the last | `p0 -> p1: reply doubled` |
//! | a timer runs out | `p0: Refresh runs out` |
//! | a process crashes, comes back | `p0 crashes`, `p0 is back` |
//! | a process learns of that | `p0 learns that p1 has crashed`, `p0 learns that p1 is back` |
//! | the gate gets another k | `p0 sets k to 3` |

use std::fmt;
use std::str::FromStr;

use kgate_core::NodeId;

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A client wants in.
    Ask {
        /// At which process.
        node: NodeId,
        /// How many units it wants.
        weight: u32,
    },
    /// A client that waits gives up.
    Withdraw(NodeId),
    /// A client comes out; of several inside, the one that went in first.
    Release(NodeId),
    /// One of several clients inside comes out.
    ReleaseOne {
        /// Of which process.
        node: NodeId,
        /// Which of those inside, in the order in which they went in, from 1 on.
        which: usize,
    },
    /// Something happens to a message on its way.
    Message {
        /// From whom.
        from: NodeId,
        /// To whom.
        to: NodeId,
        /// The name of its kind.
        kind: String,
        /// Which of that kind in its channel, from 1 on.
        which: usize,
        /// What happens to it.
        fate: Fate,
    },
    /// A timer runs out.
    Expire {
        /// Whose.
        node: NodeId,
        /// The timer as it is printed.
        timer: String,
    },
    /// A process crashes.
    Crash(NodeId),
    /// A process comes back.
    Restart(NodeId),
    /// A process learns of a crash.
    Tell {
        /// Who learns.
        node: NodeId,
        /// Of whose crash.
        of: NodeId,
    },
    /// A process learns that another is back.
    Welcome {
        /// Who learns.
        node: NodeId,
        /// Of whose return.
        of: NodeId,
    },
    /// A process learns that the gate has another k.
    Resize {
        /// Who learns.
        node: NodeId,
        /// The new k.
        k: u32,
    },
}

/// What happens to a message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It arrives.
    Arrives,
    /// It is lost.
    Lost,
    /// A copy of it is on its way too.
    Doubled,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { node, weight: 1 } => write!(f, "{node} asks"),
            Self::Ask { node, weight } => write!(f, "{node} asks for {weight}"),
            Self::Withdraw(node) => write!(f, "{node} gives up"),
            Self::Release(node) | Self::ReleaseOne { node, which: 1 } => {
                write!(f, "{node} comes out")
            }
            Self::ReleaseOne { node, which } => write!(f, "{node} comes out {which}"),
            Self::Message { from, to, kind, which, fate } => {
                write!(f, "{from} -> {to}: {kind}")?;
                if *which != 1 {
                    write!(f, " {which}")?;
                }
                f.write_str(match fate {
                    Fate::Arrives => "",
                    Fate::Lost => " lost",
                    Fate::Doubled => " doubled",
                })
            }
            Self::Expire { node, timer } => write!(f, "{node}: {timer} runs out"),
            Self::Crash(node) => write!(f, "{node} crashes"),
            Self::Restart(node) => write!(f, "{node} is back"),
            Self::Tell { node, of } => write!(f, "{node} learns that {of} has crashed"),
            Self::Welcome { node, of } => write!(f, "{node} learns that {of} is back"),
            Self::Resize { node, k } => write!(f, "{node} sets k to {k}"),
        }
    }
}

/// A line that is no step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no step: write for instance `p0 asks`, `p0 -> p1: reply`, `p0 crashes`, `p1 learns that p0 has crashed`"
)]
pub struct ParseStepError(String);

impl FromStr for Step {
    type Err = ParseStepError;
    fn from_str(text: &str) -> Result<Self, ParseStepError> {
        parse(text).ok_or_else(|| ParseStepError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Step> {
    if let Some((timed, "")) = text.rsplit_once(" runs out") {
        let (node, timer) = timed.split_once(": ")?;
        return Some(Step::Expire { node: id(node)?, timer: timer.to_owned() });
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(match *words.as_slice() {
        [node, "asks"] => Step::Ask { node: id(node)?, weight: 1 },
        [node, "asks", "for", weight] => {
            Step::Ask { node: id(node)?, weight: weight.parse().ok()? }
        }
        [node, "gives", "up"] => Step::Withdraw(id(node)?),
        [node, "comes", "out"] => Step::Release(id(node)?),
        [node, "comes", "out", which] => {
            let which = which.parse().ok().filter(|&which| which > 1)?;
            Step::ReleaseOne { node: id(node)?, which }
        }
        [node, "crashes"] => Step::Crash(id(node)?),
        [node, "is", "back"] => Step::Restart(id(node)?),
        [node, "learns", "that", of, "has", "crashed"] => {
            Step::Tell { node: id(node)?, of: id(of)? }
        }
        [node, "learns", "that", of, "is", "back"] => {
            Step::Welcome { node: id(node)?, of: id(of)? }
        }
        [node, "sets", "k", "to", k] => Step::Resize { node: id(node)?, k: k.parse().ok()? },
        [from, "->", to, kind, ref rest @ ..] => {
            message(id(from)?, id(to.strip_suffix(':')?)?, kind, rest)?
        }
        _ => return None,
    })
}

fn message(from: NodeId, to: NodeId, kind: &str, rest: &[&str]) -> Option<Step> {
    let (which, fate) = match *rest {
        [] => ("1", "arrives"),
        [word @ ("lost" | "doubled")] => ("1", word),
        [which] => (which, "arrives"),
        [which, fate] => (which, fate),
        _ => return None,
    };
    let fate = match fate {
        "arrives" => Fate::Arrives,
        "lost" => Fate::Lost,
        "doubled" => Fate::Doubled,
        _ => return None,
    };
    let which = which.parse().ok().filter(|&which| which > 0)?;
    Some(Step::Message { from, to, kind: kind.to_owned(), which, fate })
}

/// `p7` is process 7.
fn id(word: &str) -> Option<NodeId> {
    word.strip_prefix('p').and_then(|number| number.parse().ok()).map(NodeId)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every form of the table above is read and printed as the same words.
    #[test]
    fn steps_are_read_as_they_are_printed() {
        let all = "p0 asks\np0 asks for 2\np0 gives up\np0 comes out\np0 comes out 2\np0 -> p1: reply\np0 -> p1: reply 2\n\
                   p0 -> p1: reply lost\np0 -> p1: reply 2 lost\np0 -> p1: reply doubled\np0: Refresh runs out\n\
                   p3: Again { of: p1 } runs out\np0 crashes\np0 is back\np0 learns that p1 has crashed\n\
                   p0 learns that p1 is back\np0 sets k to 3";
        for line in all.lines() {
            let step: Step = line.parse().expect(line);
            assert_eq!(step.to_string(), line);
        }
    }

    /// What is no step is refused with the line.
    #[test]
    fn nonsense_is_refused() {
        for line in [
            "",
            "p0",
            "q0 asks",
            "p0 asks for many",
            "p0 -> p1 reply",
            "p0 -> p1: reply 0",
            "p0 comes out 0",
            "p0 -> p1: reply 1 eaten",
        ] {
            assert_eq!(line.parse::<Step>(), Err(ParseStepError(line.into())), "{line}");
        }
    }
}
