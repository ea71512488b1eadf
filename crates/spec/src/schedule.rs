//! The step language: a schedule as text that people write and programs parse.
//!
//! The model checker prints counterexamples as steps, scenarios are written in steps, and the
//! simulator plays them. A message is identified by its kind and its position among the messages of
//! this kind in its channel, a timer by its printed form.
//!
//! | step | text |
//! |---|---|
//! | a client requests | `p0 requests`, `p0 requests 2` (two slots) |
//! | a waiting client withdraws | `p0 withdraws` |
//! | a client releases | `p0 releases`, of several grants `p0 releases #2` (the second granted) |
//! | a message arrives | `p0 -> p1: reply`, `p0 -> p1: reply 2` (the second one in transit) |
//! | a message is lost | `p0 -> p1: reply lost`, `p0 -> p1: reply 2 lost` |
//! | a message is duplicated (the copy goes to the channel's end) | `p0 -> p1: reply duplicated` |
//! | a timer expires | `p0: Refresh expires` |
//! | a process crashes, recovers | `p0 crashes`, `p0 recovers` |
//! | a process learns of that | `p0 learns that p1 crashed`, `p0 learns that p1 recovered` |
//! | a process learns the new k | `p0 learns that k is 3` |

use std::fmt;
use std::str::FromStr;

use kgate_core::NodeId;

/// One step of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A client issues a request.
    Acquire {
        /// The process of the client.
        node: NodeId,
        /// The number of slots it requests.
        weight: u32,
    },
    /// A waiting client withdraws its request.
    Withdraw(NodeId),
    /// A client releases; of several grants of the process, the oldest.
    Release(NodeId),
    /// A client releases one of several grants.
    ReleaseOne {
        /// The process of the client.
        node: NodeId,
        /// The position of the grant in the order of grants, from 1 on.
        which: usize,
    },
    /// The fate of a message in transit.
    Message {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// The name of its kind.
        kind: String,
        /// The position among the messages of this kind in its channel, from 1 on.
        which: usize,
        /// What happens to it.
        fate: Fate,
    },
    /// A timer expires.
    Expire {
        /// The process of the timer.
        node: NodeId,
        /// The timer as it is printed.
        timer: String,
    },
    /// A process crashes.
    Crash(NodeId),
    /// A process recovers.
    Restart(NodeId),
    /// A process learns of a crash.
    NotifyCrash {
        /// The process that learns.
        node: NodeId,
        /// The process that crashed.
        of: NodeId,
    },
    /// A process learns of a recovery.
    NotifyReturn {
        /// The process that learns.
        node: NodeId,
        /// The process that recovered.
        of: NodeId,
    },
    /// A process learns the new k.
    Resize {
        /// The process that learns.
        node: NodeId,
        /// The new k.
        k: u32,
    },
}

/// What happens to a message in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It arrives.
    Arrives,
    /// It is lost.
    Lost,
    /// It is duplicated: a copy is in transit too.
    Duplicated,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire { node, weight: 1 } => write!(f, "{node} requests"),
            Self::Acquire { node, weight } => write!(f, "{node} requests {weight}"),
            Self::Withdraw(node) => write!(f, "{node} withdraws"),
            Self::Release(node) | Self::ReleaseOne { node, which: 1 } => {
                write!(f, "{node} releases")
            }
            Self::ReleaseOne { node, which } => write!(f, "{node} releases #{which}"),
            Self::Message { from, to, kind, which, fate } => {
                write!(f, "{from} -> {to}: {kind}")?;
                if *which != 1 {
                    write!(f, " {which}")?;
                }
                f.write_str(match fate {
                    Fate::Arrives => "",
                    Fate::Lost => " lost",
                    Fate::Duplicated => " duplicated",
                })
            }
            Self::Expire { node, timer } => write!(f, "{node}: {timer} expires"),
            Self::Crash(node) => write!(f, "{node} crashes"),
            Self::Restart(node) => write!(f, "{node} recovers"),
            Self::NotifyCrash { node, of } => write!(f, "{node} learns that {of} crashed"),
            Self::NotifyReturn { node, of } => write!(f, "{node} learns that {of} recovered"),
            Self::Resize { node, k } => write!(f, "{node} learns that k is {k}"),
        }
    }
}

/// A line that is not a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a step: write for example `p0 requests`, `p0 -> p1: reply`, `p0 crashes`, `p1 \
     learns that p0 crashed`"
)]
pub struct ParseStepError(String);

impl FromStr for Step {
    type Err = ParseStepError;
    fn from_str(text: &str) -> Result<Self, ParseStepError> {
        parse(text).ok_or_else(|| ParseStepError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Step> {
    if let Some((timed, "")) = text.rsplit_once(" expires") {
        let (node, timer) = timed.split_once(": ")?;
        return Some(Step::Expire { node: id(node)?, timer: timer.to_owned() });
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(match *words.as_slice() {
        [node, "requests"] => Step::Acquire { node: id(node)?, weight: 1 },
        [node, "requests", weight] => {
            Step::Acquire { node: id(node)?, weight: weight.parse().ok()? }
        }
        [node, "withdraws"] => Step::Withdraw(id(node)?),
        [node, "releases"] => Step::Release(id(node)?),
        [node, "releases", which] => {
            let which = which.strip_prefix('#')?.parse().ok().filter(|&which| which > 1)?;
            Step::ReleaseOne { node: id(node)?, which }
        }
        [node, "crashes"] => Step::Crash(id(node)?),
        [node, "recovers"] => Step::Restart(id(node)?),
        [node, "learns", "that", of, "crashed"] => {
            Step::NotifyCrash { node: id(node)?, of: id(of)? }
        }
        [node, "learns", "that", of, "recovered"] => {
            Step::NotifyReturn { node: id(node)?, of: id(of)? }
        }
        [node, "learns", "that", "k", "is", k] => {
            Step::Resize { node: id(node)?, k: k.parse().ok()? }
        }
        [from, "->", to, kind, ref rest @ ..] => {
            message(id(from)?, id(to.strip_suffix(':')?)?, kind, rest)?
        }
        _ => return None,
    })
}

fn message(from: NodeId, to: NodeId, kind: &str, rest: &[&str]) -> Option<Step> {
    let (which, fate) = match *rest {
        [] => ("1", "arrives"),
        [word @ ("lost" | "duplicated")] => ("1", word),
        [which] => (which, "arrives"),
        [which, fate] => (which, fate),
        _ => return None,
    };
    let fate = match fate {
        "arrives" => Fate::Arrives,
        "lost" => Fate::Lost,
        "duplicated" => Fate::Duplicated,
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

    /// Every form of the table above is parsed, and printed as the same text.
    #[test]
    fn steps_are_parsed_as_they_are_printed() {
        let all = "p0 requests\np0 requests 2\np0 withdraws\np0 releases\np0 releases #2\n\
                   p0 -> p1: reply\np0 -> p1: reply 2\np0 -> p1: reply lost\n\
                   p0 -> p1: reply 2 lost\np0 -> p1: reply duplicated\np0: Refresh expires\n\
                   p3: Again { of: p1 } expires\np0 crashes\np0 recovers\n\
                   p0 learns that p1 crashed\np0 learns that p1 recovered\np0 learns that k is 3";
        for line in all.lines() {
            let step: Step = line.parse().expect(line);
            assert_eq!(step.to_string(), line);
        }
    }

    /// A line that is not a step is rejected.
    #[test]
    fn malformed_steps_are_rejected() {
        for line in [
            "",
            "p0",
            "q0 requests",
            "p0 requests many",
            "p0 -> p1 reply",
            "p0 -> p1: reply 0",
            "p0 releases #0",
            "p0 releases 2",
            "p0 -> p1: reply 1 eaten",
        ] {
            assert_eq!(line.parse::<Step>(), Err(ParseStepError(line.into())), "{line}");
        }
    }
}
