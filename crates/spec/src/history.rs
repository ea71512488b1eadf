//! The independent oracle: checks a run by its trace and nothing else.
//!
//! It reads the lines of a [`trace`](crate::trace), from the simulator or any other program that
//! writes this format, and knows no protocol. It follows requests, grants with their slots and
//! fences, releases, crashes and recoveries. A request that waits when its process crashes still
//! waits after a recovery, unless the process starts a new incarnation; a grant ends with the
//! crash. Safety is not checked between a transient fault and the event that the run has recovered
//! from it. If k changes, the oracle uses the greatest k that a live process knows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufRead};

use kgate_core::{Fence, GrantId, NodeId, Stamp, Time};
use serde::{Deserialize, Serialize};

use crate::trace::{VERSION, one};
use crate::{AtMostK, EntryOrder, EveryoneServed, SlotFences, SometimesK, Violation, WithinK};

/// The result of the oracle.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// The protocol, as the trace names it.
    pub protocol: String,
    /// Number of processes.
    pub n: u32,
    /// Number of slots at the start.
    pub k: u32,
    /// Number of lines after the header.
    pub lines: u64,
    /// Number of requests.
    pub requests: u64,
    /// Number of grants.
    pub grants: u64,
    /// The greatest number of slots in use at once.
    pub max_in_use: usize,
    /// Whether all k slots were in use at once; if not, the trace shows little.
    pub k_in_use_seen: bool,
    /// Live processes that wait at the end.
    pub waiting: Vec<NodeId>,
    /// Violated properties.
    pub violations: Vec<Violation>,
}

/// A text that is not a trace. Each error names the line and what to do; nothing has been checked.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The trace cannot be read.
    #[error("the trace cannot be read")]
    Io(#[from] io::Error),
    /// The first line is not a header.
    #[error(
        "line 1 is not the header of a trace: a trace begins with \
         {{\"run\":{{..}},\"trace\":{VERSION}}}; record one with kgate sim --trace"
    )]
    Header(#[source] serde_json::Error),
    /// The trace has another version.
    #[error(
        "the trace has version {0}, and this kgate reads version {VERSION}: check it with the \
         kgate that recorded it"
    )]
    Version(u32),
    /// A line is not an event.
    #[error("line {0} is not an event: it needs t, node and event; the file may be truncated")]
    Line(u64, #[source] serde_json::Error),
    /// A line names a process that does not exist.
    #[error("line {0} names {1}, and there are n = {2} processes")]
    UnknownNode(u64, NodeId, u32),
    /// The events are not sorted by time.
    #[error("line {0} is earlier than the line before: events must be sorted by time")]
    Backwards(u64),
}

#[derive(Deserialize)]
struct Header {
    trace: u32,
    run: Run,
}

/// The run that the header of a trace describes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Run {
    /// The protocol.
    #[serde(default)]
    pub protocol: String,
    /// Number of processes.
    pub n: u32,
    /// Number of slots at the start.
    pub k: u32,
}

/// Parses the header, the first line of a trace.
pub(crate) fn header(line: &str) -> Result<Run, TraceError> {
    let header: Header = serde_json::from_str(line).map_err(TraceError::Header)?;
    if header.trace == VERSION { Ok(header.run) } else { Err(TraceError::Version(header.trace)) }
}

#[derive(Deserialize)]
struct Line {
    t: Time,
    node: NodeId,
    #[serde(flatten)]
    event: Relevant,
}

/// The events that the oracle uses; it ignores all others.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Relevant {
    Acquire {
        #[serde(default = "one")]
        weight: u32,
    },
    Granted {
        #[serde(default)]
        slots: Vec<u32>,
        #[serde(default)]
        fence: Option<String>,
        #[serde(default)]
        stamp: Option<u64>,
        #[serde(default)]
        grant: Option<u64>,
    },
    Release {
        #[serde(default)]
        grant: Option<u64>,
    },
    Withdraw,
    TooLarge {
        weight: u32,
    },
    Resize {
        k: u32,
    },
    Crash,
    Restart {
        #[serde(default)]
        incarnation: Option<u32>,
    },
    Fault,
    Recovered,
    #[serde(other)]
    Other,
}

/// Violated by a grant without a request or of another weight, and by a release without a grant.
pub const NOTHING_FROM_NOTHING: &str = "every grant follows a request and every release a grant";

/// Checks a whole trace.
pub fn check(text: impl BufRead) -> Result<Verdict, TraceError> {
    let mut lines = text.lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let mut oracle = Oracle::new(header(&first)?);
    for (number, line) in (2..).zip(lines) {
        let line: Line =
            serde_json::from_str(&line?).map_err(|error| TraceError::Line(number, error))?;
        let verdict = &oracle.verdict;
        if line.node.0 >= verdict.n {
            return Err(TraceError::UnknownNode(number, line.node, verdict.n));
        }
        if line.t < oracle.now {
            return Err(TraceError::Backwards(number));
        }
        oracle.see(line);
    }
    Ok(oracle.end())
}

struct Oracle {
    verdict: Verdict,
    now: Time,
    inside: AtMostK,
    served: EveryoneServed,
    fences: SlotFences,
    some: SometimesK,
    order: EntryOrder,
    down: BTreeSet<NodeId>,
    /// The weights of the waiting requests of each process, in the order of requests.
    weights: BTreeMap<NodeId, VecDeque<u32>>,
    /// The k that each process knows, if it has changed since the start.
    resized: BTreeMap<NodeId, u32>,
    excused: bool,
}

impl Oracle {
    fn new(run: Run) -> Self {
        Self {
            inside: AtMostK::new(run.k),
            verdict: Verdict { protocol: run.protocol, n: run.n, k: run.k, ..Verdict::default() },
            now: Time::ZERO,
            served: EveryoneServed::default(),
            fences: SlotFences::default(),
            some: SometimesK::new(run.k),
            order: EntryOrder::default(),
            down: BTreeSet::new(),
            weights: BTreeMap::new(),
            resized: BTreeMap::new(),
            excused: false,
        }
    }

    fn see(&mut self, Line { t, node, event }: Line) {
        self.now = t;
        self.verdict.lines += 1;
        match event {
            Relevant::Acquire { weight } => {
                self.verdict.requests += 1;
                self.served.ask(node, t);
                self.weights.entry(node).or_default().push_back(weight);
            }
            Relevant::Granted { slots, fence, stamp, grant } => {
                self.granted(node, &slots, fence.as_deref(), grant.map(GrantId));
                self.ordered(stamp.map(|clock| Stamp { clock, node }));
            }
            Relevant::Release { grant } => self.released(node, grant.map(GrantId)),
            Relevant::Withdraw => {
                self.served.end_last(node);
                self.weights.get_mut(&node).and_then(VecDeque::pop_back);
            }
            Relevant::TooLarge { weight } => self.end_of_weight(node, weight),
            Relevant::Resize { k } => {
                self.resized.insert(node, k);
                self.update_k();
            }
            Relevant::Crash => {
                self.inside.leave(node);
                self.fences.leave(node);
                self.down.insert(node);
                self.update_k();
            }
            Relevant::Restart { incarnation } => {
                self.down.remove(&node);
                if incarnation.is_some() {
                    self.served.end(node);
                    self.weights.remove(&node);
                    self.resized.remove(&node);
                    self.update_k();
                }
            }
            Relevant::Fault => self.excused = true,
            Relevant::Recovered => {
                self.excused = false;
                self.inside.forget_most();
                self.some.forget();
                self.some.see(self.inside.now());
            }
            Relevant::Other => {}
        }
    }

    /// Sets k to the greatest value that a live process knows.
    fn update_k(&mut self) {
        if self.resized.is_empty() {
            return self.inside.resize(self.verdict.k);
        }
        let up = (0..self.verdict.n).map(NodeId).filter(|node| !self.down.contains(node));
        let greatest = up.map(|node| self.known_to(node)).max();
        self.inside.resize(greatest.unwrap_or(self.verdict.k));
    }

    fn known_to(&self, node: NodeId) -> u32 {
        self.resized.get(&node).copied().unwrap_or(self.verdict.k)
    }

    fn released(&mut self, node: NodeId, grant: Option<GrantId>) {
        let was_inside = match grant {
            Some(grant) => {
                self.fences.leave_with(node, grant);
                self.inside.leave_with(node, grant)
            }
            None => {
                self.fences.leave(node);
                self.inside.leave(node)
            }
        };
        if !was_inside {
            self.wrong(node, format!("{node} released without a grant"));
        }
    }

    fn granted(
        &mut self,
        node: NodeId,
        slots: &[u32],
        fence: Option<&str>,
        grant: Option<GrantId>,
    ) {
        self.verdict.grants += 1;
        if !self.served.is_waiting(node) {
            self.wrong(node, format!("{node} was granted without a request"));
        }
        let crowded = match grant {
            Some(grant) => self.numbered(node, grant, slots),
            None => {
                self.end_of_weight(node, 1);
                self.inside.enter(node, self.now)
            }
        };
        self.verdict.violations.extend(crowded.filter(|_| !self.excused));
        self.some.see(self.inside.now());
        let fence = fence
            .and_then(|text| u128::from_str_radix(text.trim_start_matches("0x"), 16).ok())
            .map(Fence);
        for &slot in slots {
            self.verdict.violations.extend(self.fences.grant(slot, fence, (node, grant), self.now));
        }
    }

    /// The first request of that weight ends; if there is none, the first request.
    fn end_of_weight(&mut self, node: NodeId, weight: u32) {
        let weights = self.weights.entry(node).or_default();
        let place = weights.iter().position(|other| *other == weight).unwrap_or(0);
        weights.remove(place);
        self.served.end_at(node, place);
    }

    /// A grant of a process that may have several: it must have as many slots as requested, and
    /// none beyond k.
    fn numbered(&mut self, node: NodeId, grant: GrantId, slots: &[u32]) -> Option<Violation> {
        let weight = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        if self
            .weights
            .get(&node)
            .is_some_and(|weights| !weights.is_empty() && !weights.contains(&weight))
        {
            self.wrong(
                node,
                format!("{node} was granted {weight} slots, and no request there has this weight"),
            );
        }
        self.end_of_weight(node, weight);
        let beyond = WithinK::verdict(slots, self.known_to(node), node, self.now);
        self.verdict.violations.extend(beyond);
        self.inside.enter_with(node, grant, weight, slots, self.now)
    }

    /// Only protocols that claim to serve requests in the order of stamps record stamps, and the
    /// claim is for k = 1.
    fn ordered(&mut self, stamp: Option<Stamp>) {
        let Some(stamp) = stamp.filter(|_| self.verdict.k == 1 && !self.excused) else { return };
        self.verdict.violations.extend(self.order.granted(stamp, self.now));
    }

    fn wrong(&mut self, node: NodeId, text: String) {
        let property = NOTHING_FROM_NOTHING;
        self.verdict.violations.push(Violation {
            property,
            at_ns: self.now,
            nodes: vec![node],
            text,
        });
    }

    fn end(mut self) -> Verdict {
        for &node in &self.down {
            self.served.end(node);
        }
        self.verdict.waiting = self.served.who().collect();
        self.verdict.max_in_use = self.inside.most();
        self.verdict.k_in_use_seen = self.some.seen();
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(events: &[(u64, u32, &str)]) -> Result<Verdict, TraceError> {
        let mut text = "{\"run\":{\"n\":3,\"k\":1,\"protocol\":\"x\"},\"trace\":1}\n".to_owned();
        for (t, node, event) in events {
            text += &format!("{{\"t\":{t},\"node\":{node},\"event\":{event}}}\n");
        }
        check(text.as_bytes())
    }

    fn properties(events: &[(u64, u32, &str)]) -> Vec<&'static str> {
        trace(events)
            .expect("a trace")
            .violations
            .iter()
            .map(|violation| violation.property)
            .collect()
    }

    const ASK: &str = "\"acquire\"";
    const IN: &str = "\"granted\"";
    const OUT: &str = "\"release\"";

    /// A correct history with a crash of a holder, a permanent crash of a waiting process, and
    /// events of other kinds.
    #[test]
    fn a_correct_history() {
        let verdict = trace(&[
            (0, 0, ASK),
            (0, 1, ASK),
            (1, 0, IN),
            (2, 0, "\"crash\""),
            (3, 1, IN),
            (3, 2, ASK),
            (4, 1, OUT),
            (4, 2, "\"crash\""),
            (4, 0, "\"restart\""),
            (5, 0, "\"suspected\",\"whom\":2"),
        ])
        .expect("a trace");
        assert_eq!(
            (verdict.requests, verdict.grants, verdict.max_in_use, verdict.lines),
            (3, 2, 1, 10)
        );
        assert!(
            verdict.k_in_use_seen && verdict.waiting.is_empty() && verdict.violations.is_empty(),
            "{verdict:?}"
        );
    }

    /// Planted bugs: two holders, a grant without a request, a release without a grant, a slot
    /// granted twice, an old fence. Requests waiting at the end are listed.
    #[test]
    fn wrong_histories_are_caught() {
        assert_eq!(
            properties(&[(0, 0, ASK), (0, 1, ASK), (1, 0, IN), (2, 1, IN)]),
            [AtMostK::NAME]
        );
        assert_eq!(properties(&[(1, 0, IN)]), [NOTHING_FROM_NOTHING]);
        assert_eq!(properties(&[(1, 0, OUT)]), [NOTHING_FROM_NOTHING]);
        let slot = |fence: &str| format!("\"granted\",\"slots\":[0],\"fence\":\"{fence}\"");
        let (new, old) = (slot("0x20"), slot("0x1f"));
        assert_eq!(
            properties(&[(0, 0, ASK), (1, 0, &old), (2, 0, OUT), (2, 1, ASK), (3, 1, &new)]),
            [""; 0]
        );
        assert_eq!(
            properties(&[(0, 0, ASK), (1, 0, &new), (2, 0, OUT), (2, 1, ASK), (3, 1, &old)]),
            [SlotFences::NAME]
        );
        let waiting =
            trace(&[(0, 0, ASK), (0, 2, ASK), (0, 1, ASK), (1, 2, IN), (1, 1, "\"withdraw\"")]);
        assert_eq!(waiting.expect("a trace").waiting, [NodeId(0)]);
    }

    /// Violations are excused from a transient fault until the run has recovered, and no longer.
    #[test]
    fn faults_excuse_until_recovery() {
        let fault = [(0, 0, ASK), (0, 1, ASK), (0, 2, "\"fault\""), (1, 0, IN), (2, 1, IN)];
        assert_eq!(properties(&fault), [""; 0]);
        let mut late = fault.to_vec();
        late.insert(3, (1, 2, "\"recovered\""));
        assert_eq!(properties(&late), [AtMostK::NAME]);
    }

    /// Planted bug: the later stamp is granted first. Without stamps the order is not checked.
    #[test]
    fn order_is_checked_with_stamps() {
        let stamped = |clock: u64| format!("\"granted\",\"stamp\":{clock}");
        let (first, second) = (stamped(3), stamped(4));
        let course =
            |a, b| [(0, 0, ASK), (0, 1, ASK), (1, 0, a), (2, 0, OUT), (3, 1, b), (4, 1, OUT)];
        assert_eq!(properties(&course(&first, &second)), [""; 0]);
        assert_eq!(properties(&course(&second, &first)), [EntryOrder::NAME]);
        assert_eq!(properties(&course(IN, &first)), [""; 0]);
    }

    /// Several grants at once, weights, changes of k and a new incarnation: a correct history, and
    /// a planted bug of each.
    #[test]
    fn numbered_slots() {
        let ask = |weight: u32| format!("\"acquire\",\"weight\":{weight}");
        let enter = |grant: u64, slots: &str| {
            format!(
                "\"granted\",\"slots\":{slots},\"fence\":\"{:#x}\",\"grant\":{grant}",
                grant + 16
            )
        };
        let out = |grant: u64| format!("\"release\",\"grant\":{grant}");
        let resize = |k: u32| format!("\"resize\",\"k\":{k}");
        let course = |events: &[(u32, String)]| {
            let events: Vec<(u64, u32, &str)> =
                (0..).zip(events).map(|(at, (node, event))| (at, *node, event.as_str())).collect();
            properties(&events)
        };
        let grown = [0, 1, 2].map(|node| (node, resize(3)));
        let right =
            [(0, ask(2)), (0, ask(1)), (0, enter(1, "[0,1]")), (0, enter(2, "[2]")), (0, out(1))];
        assert_eq!(course(&[&grown[..], &right[..]].concat()), [""; 0]);
        assert_eq!(
            course(&[(0, ask(2)), (0, resize(3)), (0, enter(1, "[0]"))]),
            [NOTHING_FROM_NOTHING]
        );
        assert_eq!(course(&[(0, ask(1)), (0, enter(1, "[1]"))]), [WithinK::NAME]);
        let twice = [(0, ask(1)), (0, ask(1)), (0, enter(1, "[0]")), (0, enter(2, "[0]"))];
        assert_eq!(course(&twice), [AtMostK::NAME, SlotFences::NAME]);
        assert_eq!(
            course(&[(0, ask(1)), (0, enter(1, "[0]")), (0, out(2))]),
            [NOTHING_FROM_NOTHING]
        );
        let incarnation = || "\"restart\",\"incarnation\":1".to_owned();
        let gone =
            [(0, ask(1)), (0, "\"crash\"".into()), (0, incarnation()), (0, ask(2)), (0, resize(2))];
        assert_eq!(
            course(&[&gone[..], &[(0, enter(1, "[0,1]"))]].concat()),
            [""; 0],
            "the first request is gone"
        );
        let shrunk = [(0, "\"too_large\",\"weight\":2,\"most\":1".into()), (0, enter(1, "[0]"))];
        assert_eq!(course(&[&[(0, ask(2)), (0, ask(1))], &shrunk[..]].concat()), [""; 0]);
    }

    /// A text that is not a trace is rejected with the line.
    #[test]
    fn malformed_traces_are_rejected() {
        assert!(matches!(check(&b""[..]), Err(TraceError::Header(_))));
        assert!(matches!(
            check(&b"{\"run\":{\"n\":3,\"k\":1},\"trace\":9}"[..]),
            Err(TraceError::Version(9))
        ));
        assert!(matches!(trace(&[(0, 3, ASK)]), Err(TraceError::UnknownNode(2, NodeId(3), 3))));
        assert!(matches!(trace(&[(5, 0, ASK), (4, 0, IN)]), Err(TraceError::Backwards(3))));
        let cut = b"{\"run\":{\"n\":3,\"k\":1},\"trace\":1}\n{\"t\":0,\"no";
        assert!(matches!(check(&cut[..]), Err(TraceError::Line(2, _))));
    }
}
