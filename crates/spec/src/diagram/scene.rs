//! What is to be seen: columns, bars, messages and marks, without any place on paper yet.

use std::collections::{BTreeMap, VecDeque};

use kgate_core::{NodeId, Time};

use super::label::short;
use crate::told::{Run, Told, What};

/// A run, ready to be drawn. Moments are numbered; each is a column.
pub(super) struct Scene {
    pub(super) run: Run,
    /// When each column is.
    pub(super) times: Vec<Time>,
    pub(super) messages: Vec<Message>,
    pub(super) bars: Vec<Bar>,
    pub(super) marks: Vec<Mark>,
    /// When each process was down; to the end if it never came back.
    pub(super) down: Vec<(NodeId, usize, Option<usize>)>,
    pub(super) violations: Vec<(usize, String)>,
    /// The kinds of messages, in the order of their first.
    pub(super) kinds: Vec<String>,
    /// Whether processes move instead of sending messages.
    pub(super) moves: bool,
}

/// A message on its way.
pub(super) struct Message {
    pub(super) kind: usize,
    /// Its kind and a little of what it says.
    pub(super) label: String,
    /// All that it says.
    pub(super) text: String,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) sent: usize,
    pub(super) end: End,
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Arrived(usize),
    Lost(usize),
    /// It was still on its way at the end.
    Open,
}

/// A time that a process's client spent waiting or inside.
pub(super) struct Bar {
    pub(super) node: NodeId,
    pub(super) from: usize,
    /// The last column, if it had not ended.
    pub(super) until: usize,
    pub(super) inside: bool,
    /// Whether it had not ended.
    pub(super) open: bool,
}

/// Something at one process and moment.
pub(super) struct Mark {
    pub(super) node: NodeId,
    pub(super) at: usize,
    pub(super) sign: Sign,
    pub(super) label: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Crash,
    Restart,
    Suspicion,
    News,
    Withdrawal,
    Fault,
    Recovery,
    Move,
}

impl Scene {
    pub(super) fn new(run: &Run, told: &[Told]) -> Self {
        let mut times: Vec<Time> = told.iter().map(|told| told.t).collect();
        times.dedup();
        let mut teller = Teller {
            scene: Self {
                run: run.clone(),
                times,
                messages: Vec::new(),
                bars: Vec::new(),
                marks: Vec::new(),
                down: Vec::new(),
                violations: Vec::new(),
                kinds: Vec::new(),
                moves: told.iter().any(|told| matches!(told.what, What::Can { .. })),
            },
            waiting: BTreeMap::new(),
            inside: BTreeMap::new(),
            counts: BTreeMap::new(),
            under_way: BTreeMap::new(),
            at: 0,
        };
        for told in told {
            while teller.scene.times[teller.at] < told.t {
                teller.at += 1;
            }
            teller.see(told);
        }
        teller.end()
    }

    /// How many columns there are, at least one.
    pub(super) fn columns(&self) -> usize {
        self.times.len().max(1)
    }
}

/// A message that has not arrived: its place in the list, by sender, receiver and text.
type UnderWay = BTreeMap<(NodeId, NodeId, String), VecDeque<usize>>;

struct Teller {
    scene: Scene,
    waiting: BTreeMap<NodeId, usize>,
    inside: BTreeMap<NodeId, usize>,
    /// How many clients of a process wait, and how many are inside, where it may have several at once.
    counts: BTreeMap<NodeId, (u32, u32)>,
    under_way: UnderWay,
    at: usize,
}

impl Teller {
    fn see(&mut self, told: &Told) {
        let node = told.node;
        match &told.what {
            What::Acquire { .. } => {
                self.counts.entry(node).or_default().0 += 1;
                self.waiting.entry(node).or_insert(self.at);
            }
            What::Granted { grant, .. } => {
                self.waits_no_longer(node);
                if self.goes_in(node) || grant.is_none() {
                    self.end_bar(node, true);
                    self.inside.insert(node, self.at);
                }
            }
            What::Release { grant } => {
                if self.comes_out(node) || grant.is_none() {
                    self.end_bar(node, true);
                }
            }
            What::Withdraw => {
                self.waits_no_longer(node);
                self.mark(node, Sign::Withdrawal, None);
            }
            What::TooLarge { weight, most } => {
                self.waits_no_longer(node);
                self.mark(node, Sign::Withdrawal, Some(format!("{weight} wanted, k is {most}")));
            }
            What::Resize { k } => self.mark(node, Sign::News, Some(format!("k is {k}"))),
            What::Send { kind, message, .. } => {
                for to in told.receivers(self.scene.run.n) {
                    self.send(node, to, kind, message);
                }
            }
            What::Deliver { from, message, .. } => self.arrive(*from, node, message, End::Arrived(self.at)),
            What::Lost { from, message, .. } => self.arrive(*from, node, message, End::Lost(self.at)),
            What::Doubled { kind, to, message } => self.double(node, *to, kind, message),
            What::Crash => {
                self.counts.remove(&node);
                self.end_bar(node, true);
                self.end_bar(node, false);
                self.scene.down.push((node, self.at, None));
                self.mark(node, Sign::Crash, None);
            }
            What::Restart { .. } => {
                let down = self.scene.down.iter_mut().rev().find(|(who, ..)| *who == node);
                if let Some((_, _, until)) = down {
                    *until = Some(self.at);
                }
                self.mark(node, Sign::Restart, None);
            }
            What::Fault => self.mark(node, Sign::Fault, Some("fault".into())),
            What::Recovered => self.mark(node, Sign::Recovery, Some("recovered".into())),
            What::Suspected { whom } => {
                self.mark(node, Sign::Suspicion, Some(format!("{whom} has crashed")));
            }
            What::Joined { whom } => self.mark(node, Sign::News, Some(format!("{whom} is back"))),
            What::Moved { action, state } => {
                self.mark(node, Sign::Move, Some(format!("{action}: {state}")));
            }
            What::Can { actions, inside } => self.can(node, !actions.is_empty(), *inside),
            What::Violated { property, text, .. } => {
                self.scene.violations.push((self.at, format!("{property}: {text}")));
            }
            What::Asked | What::Other => {}
        }
    }

    /// One client of a process waits no longer; its bar ends with the last.
    fn waits_no_longer(&mut self, node: NodeId) {
        let waiting = &mut self.counts.entry(node).or_default().0;
        *waiting = waiting.saturating_sub(1);
        if *waiting == 0 {
            self.end_bar(node, false);
        }
    }

    /// A client goes in; whether it is the only one of its process.
    fn goes_in(&mut self, node: NodeId) -> bool {
        let inside = &mut self.counts.entry(node).or_default().1;
        *inside += 1;
        *inside == 1
    }

    /// A client comes out; whether it was the last one of its process.
    fn comes_out(&mut self, node: NodeId) -> bool {
        let inside = &mut self.counts.entry(node).or_default().1;
        *inside = inside.saturating_sub(1);
        *inside == 0
    }

    fn send(&mut self, from: NodeId, to: NodeId, kind: &str, message: &str) {
        let kinds = &mut self.scene.kinds;
        let place = kinds.iter().position(|known| known == kind).unwrap_or_else(|| {
            kinds.push(kind.to_owned());
            kinds.len() - 1
        });
        let way = (from, to, message.to_owned());
        self.under_way.entry(way).or_default().push_back(self.scene.messages.len());
        let (label, text) = (short(kind, message), message.to_owned());
        let (sent, end) = (self.at, End::Open);
        self.scene.messages.push(Message { kind: place, label, text, from, to, sent, end });
    }

    /// To the earliest send of that text in that channel to which nothing belongs yet.
    fn arrive(&mut self, from: NodeId, to: NodeId, message: &str, end: End) {
        let waiting = self.under_way.get_mut(&(from, to, message.to_owned()));
        if let Some(place) = waiting.and_then(VecDeque::pop_front) {
            self.scene.messages[place].end = end;
        }
    }

    /// A copy that left where the first one did.
    fn double(&mut self, from: NodeId, to: NodeId, kind: &str, message: &str) {
        let waiting = self.under_way.get(&(from, to, message.to_owned()));
        let sent = waiting.and_then(VecDeque::front).map(|&place| self.scene.messages[place].sent);
        self.send(from, to, kind, message);
        if let (Some(sent), Some(copy)) = (sent, self.scene.messages.last_mut()) {
            copy.sent = sent;
            copy.label += " (copy)";
        }
    }

    fn can(&mut self, node: NodeId, enabled: bool, inside: bool) {
        self.end_bar(node, true);
        self.end_bar(node, false);
        if inside {
            self.inside.insert(node, self.at);
        } else if enabled {
            self.waiting.insert(node, self.at);
        }
    }

    fn mark(&mut self, node: NodeId, sign: Sign, label: Option<String>) {
        self.scene.marks.push(Mark { node, at: self.at, sign, label });
    }

    fn end_bar(&mut self, node: NodeId, inside: bool) {
        let begun = if inside { self.inside.remove(&node) } else { self.waiting.remove(&node) };
        if let Some(from) = begun {
            self.scene.bars.push(Bar { node, from, until: self.at, inside, open: false });
        }
    }

    fn end(mut self) -> Scene {
        let until = self.scene.columns() - 1;
        for (left, inside) in [(&self.waiting, false), (&self.inside, true)] {
            let open = left.iter().map(|(&node, &from)| Bar { node, from, until, inside, open: true });
            self.scene.bars.extend(open);
        }
        self.scene
    }
}
