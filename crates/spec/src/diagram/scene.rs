//! What is to be seen: bars, messages and marks with their times, without any place on paper yet.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Time};

use super::TooMuch;
use super::label::short;
use crate::told::{Run, Told, What};
use crate::view::View;
use crate::view::bars::{Bar, Bars};
use crate::view::channels::Channels;

/// A run, or a window of it, ready to be drawn.
pub(super) struct Scene {
    pub(super) run: Run,
    /// The processes that are drawn, in order.
    pub(super) shown: Vec<NodeId>,
    /// Every moment at which something is seen, once, if they are to be columns.
    pub(super) times: Vec<Time>,
    /// How many moments there are.
    pub(super) moments: usize,
    /// The first and the last moment of the picture.
    pub(super) from: Time,
    pub(super) until: Time,
    pub(super) messages: Vec<Message>,
    pub(super) bars: Vec<Bar>,
    pub(super) marks: Vec<Mark>,
    pub(super) absences: Vec<Absence>,
    pub(super) violations: Vec<(Time, String)>,
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
    pub(super) sent: Time,
    pub(super) end: End,
    /// Which of all.
    number: u64,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Arrived(Time),
    Lost(Time),
    /// It was still on its way at the end.
    Open,
}

/// Something at one process and moment.
pub(super) struct Mark {
    pub(super) node: NodeId,
    pub(super) at: Time,
    pub(super) sign: Sign,
    pub(super) label: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A time in which a process did nothing: it was down, or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Absence {
    pub(super) node: NodeId,
    pub(super) from: Time,
    /// To the end, if it never came back.
    pub(super) until: Option<Time>,
    /// Whether it was stopped and had not crashed.
    pub(super) stopped: bool,
}

/// What a sender leaves with a message.
#[derive(Clone, Copy)]
struct Sent {
    at: Time,
    number: u64,
    kind: usize,
    copy: bool,
    /// Whether it was sent while the window was open, and counted then; and whether it fitted.
    within: bool,
    drawn: bool,
}

/// Makes a scene of events. What is not in view is listened to, but not kept.
pub(super) struct Teller {
    scene: Scene,
    view: View,
    columns: bool,
    most: usize,
    bars: Bars,
    channels: Channels<Sent>,
    /// How many messages that are to be drawn have not arrived.
    awaited: u64,
    sends: u64,
    last: Option<Time>,
    load: Load,
}

/// How much there is to draw, and what would fit.
#[derive(Default)]
struct Load {
    signs: u64,
    /// When nine tenths of what fits had been seen.
    nearly: Option<Time>,
    /// Signs by the last process that they need.
    by_last: BTreeMap<NodeId, u64>,
}

impl Teller {
    /// At most so many signs; each moment a column of its own, or not.
    pub(super) fn new(run: &Run, view: &View, most: usize, columns: bool) -> Self {
        let scene = Scene {
            run: run.clone(),
            shown: view.shown.of(run.n).collect(),
            times: Vec::new(),
            moments: 0,
            from: view.window.from,
            until: view.window.until,
            messages: Vec::new(),
            bars: Vec::new(),
            marks: Vec::new(),
            absences: Vec::new(),
            violations: Vec::new(),
            kinds: Vec::new(),
            moves: false,
        };
        Self {
            scene,
            view: view.clone(),
            columns,
            most,
            bars: Bars::default(),
            channels: Channels::default(),
            awaited: 0,
            sends: 0,
            last: None,
            load: Load::default(),
        }
    }

    /// Takes in the next event; whether the one after it is of interest.
    pub(super) fn see(&mut self, told: &Told) -> bool {
        let (node, now) = (told.node, told.t);
        let over = now > self.view.window.until;
        if !over {
            if self.view.has(told) {
                self.moment(now);
            }
            let ended: Vec<Bar> = self.bars.see(told).collect();
            ended.into_iter().for_each(|bar| self.bar(bar));
        }
        if let What::Deliver { from, message, .. } = &told.what {
            self.arrive(now, (*from, node), message, End::Arrived(now));
        } else if let What::Lost { from, message, .. } = &told.what {
            self.arrive(now, (*from, node), message, End::Lost(now));
        } else if !over {
            self.happen(told);
        }
        !over || self.awaited > 0
    }

    /// What happens at one process while the window is open, or before.
    fn happen(&mut self, told: &Told) {
        let (node, now) = (told.node, told.t);
        let mut mark = |sign: Sign, label: Option<String>| {
            if self.view.has(told) && self.load.takes(node, now, self.most) {
                self.scene.marks.push(Mark { node, at: now, sign, label });
            }
        };
        match &told.what {
            What::Send { kind, message, .. } => {
                for to in told.receivers(self.scene.run.n) {
                    self.send(now, (node, to), kind, message, false);
                }
            }
            What::Doubled { kind, to, message } => {
                // A copy leaves where the first one did.
                let first = self.channels.next(node, *to, message).map(|sent| sent.at);
                self.send(first.unwrap_or(now), (node, *to), kind, message, true);
            }
            What::Withdraw => mark(Sign::Withdrawal, None),
            What::TooLarge { weight, most } => {
                mark(Sign::Withdrawal, Some(format!("{weight} wanted, k is {most}")));
            }
            What::Resize { k } => mark(Sign::News, Some(format!("k is {k}"))),
            What::Crash => {
                mark(Sign::Crash, None);
                self.leaves(node, now, false);
            }
            What::Restart { .. } => {
                mark(Sign::Restart, None);
                self.returns(node, now, false);
            }
            What::Pause => self.leaves(node, now, true),
            What::Resume => self.returns(node, now, true),
            What::Fault => mark(Sign::Fault, Some("fault".into())),
            What::Recovered => mark(Sign::Recovery, Some("recovered".into())),
            What::Suspected { whom } => mark(Sign::Suspicion, Some(format!("{whom} has crashed"))),
            What::Joined { whom } => mark(Sign::News, Some(format!("{whom} is back"))),
            What::Moved { action, state } => mark(Sign::Move, Some(format!("{action}: {state}"))),
            What::Can { .. } => self.scene.moves = true,
            What::Violated { property, text, .. } => {
                // Whomever it is told of, it concerns everybody.
                if self.view.window.has(now) {
                    self.moment(now);
                    self.scene.violations.push((now, format!("{property}: {text}")));
                }
            }
            What::Acquire { .. }
            | What::Asked
            | What::Granted { .. }
            | What::Release { .. }
            | What::Deliver { .. }
            | What::Lost { .. }
            | What::Other => {}
        }
    }

    /// Something is seen then.
    fn moment(&mut self, now: Time) {
        if self.last != Some(now) {
            self.scene.moments += 1;
            if self.last.is_none() && self.view.window.from == Time::ZERO {
                self.scene.from = now;
            }
            if self.columns {
                self.scene.times.push(now);
            }
            self.last = Some(now);
        }
    }

    fn bar(&mut self, bar: Bar) {
        let seen = self.view.shown.has(bar.node) && bar.until >= self.view.window.from;
        if seen && self.load.takes(bar.node, bar.until, self.most) {
            self.scene.bars.push(bar);
        }
    }

    fn leaves(&mut self, node: NodeId, from: Time, stopped: bool) {
        if self.view.shown.has(node) {
            self.scene.absences.push(Absence { node, from, until: None, stopped });
        }
    }

    fn returns(&mut self, node: NodeId, now: Time, stopped: bool) {
        let absences = &mut self.scene.absences;
        let fits = |absence: &Absence| {
            (absence.node, absence.stopped, absence.until) == (node, stopped, None)
        };
        if let Some(place) = absences.iter().rposition(fits) {
            if now < self.view.window.from {
                absences.remove(place);
            } else {
                absences[place].until = Some(now);
            }
        }
    }

    fn send(
        &mut self,
        now: Time,
        (from, to): (NodeId, NodeId),
        kind: &str,
        message: &str,
        copy: bool,
    ) {
        if !self.view.shown.has(from) || !self.view.shown.has(to) {
            return;
        }
        let kinds = &mut self.scene.kinds;
        let kind = kinds.iter().position(|known| known == kind).unwrap_or_else(|| {
            kinds.push(kind.to_owned());
            kinds.len() - 1
        });
        let within = self.view.window.has(now);
        self.awaited += u64::from(within);
        let drawn = within && self.load.takes(from.max(to), now, self.most);
        self.sends += 1;
        let sent = Sent { at: now, number: self.sends, kind, copy, within, drawn };
        self.channels.send(from, to, message, sent);
    }

    /// One that was sent before the window opened comes into view when it arrives.
    fn arrive(&mut self, now: Time, (from, to): (NodeId, NodeId), message: &str, end: End) {
        let Some(sent) = self.channels.take(from, to, message) else { return };
        self.awaited -= u64::from(sent.within);
        let comes_in = !sent.within && now >= self.view.window.from;
        if sent.drawn || comes_in && self.load.takes(from.max(to), now, self.most) {
            self.draw((from, to), message, &sent, end);
        }
    }

    fn draw(&mut self, (from, to): (NodeId, NodeId), message: &str, sent: &Sent, end: End) {
        let mut label = short(&self.scene.kinds[sent.kind], message);
        if sent.copy {
            label += " (copy)";
        }
        let (kind, text, number) = (sent.kind, message.to_owned(), sent.number);
        self.scene.messages.push(Message {
            kind,
            label,
            text,
            from,
            to,
            sent: sent.at,
            end,
            number,
        });
    }

    /// The scene, unless it is too much for a picture.
    pub(super) fn end(mut self) -> Result<Scene, TooMuch> {
        if self.load.signs > self.most as u64 {
            return Err(self.load.refuse(&self.scene, self.most));
        }
        let window = self.view.window;
        if window.until == Time::NEVER {
            self.scene.until = self.last.unwrap_or(window.from).max(self.scene.from);
        }
        let rest: Vec<Bar> = std::mem::take(&mut self.bars).rest(self.scene.until).collect();
        rest.into_iter().for_each(|bar| self.bar(bar));
        for ((from, to), message, sent) in std::mem::take(&mut self.channels).rest() {
            if sent.drawn {
                self.draw((from, to), &message, &sent, End::Open);
            }
        }
        self.scene.messages.sort_by_key(|message| message.number);
        Ok(self.scene)
    }
}

impl Load {
    /// Counts a sign that needs the processes up to `last`; whether it still fits.
    fn takes(&mut self, last: NodeId, now: Time, most: usize) -> bool {
        self.signs += 1;
        *self.by_last.entry(last).or_default() += 1;
        if self.nearly.is_none() && self.signs > most as u64 / 10 * 9 {
            self.nearly = Some(now);
        }
        self.signs <= most as u64
    }

    /// What would fit: a shorter window from the same time on, or fewer processes.
    fn refuse(&self, scene: &Scene, most: usize) -> TooMuch {
        let until = self.nearly.and_then(|nearly| rounded(scene.from, nearly));
        let mut signs = 0;
        let fitting = self.by_last.iter().take_while(|(_, count)| {
            signs += **count;
            signs <= most as u64
        });
        let first = scene.shown.first().copied();
        let last = fitting.map(|(node, _)| *node).last();
        let processes = first.zip(last).filter(|(first, last)| first < last);
        TooMuch::Signs {
            signs: self.signs,
            most,
            window: until.map(|until| (scene.from, until)),
            processes,
        }
    }
}

/// A little earlier than `until`, with two digits after `from`.
fn rounded(from: Time, until: Time) -> Option<Time> {
    let span = until.since(from).0;
    let grain = 10u64.pow(span.checked_ilog10()?.saturating_sub(1));
    // Whole grains of the clock, not of the window, are short to write.
    let until = Time(until.0.saturating_sub(1) / grain * grain);
    (until > from).then_some(until)
}
