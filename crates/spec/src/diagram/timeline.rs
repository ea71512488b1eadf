//! The elements of a diagram: bars, messages and marks with their times, without coordinates.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Time};

use super::DiagramError;
use super::label::short;
use crate::trace::reader::{Event, Record, Run};
use crate::view::View;
use crate::view::bars::{Bar, Bars};
use crate::view::channels::Channels;

/// A run, or a window of it, ready to be drawn.
pub(super) struct Timeline {
    pub(super) run: Run,
    /// The processes that are drawn, in order.
    pub(super) shown: Vec<NodeId>,
    /// Every time of an event, once, if times are columns.
    pub(super) times: Vec<Time>,
    /// Number of distinct times.
    pub(super) moments: usize,
    /// The first and the last time of the diagram.
    pub(super) from: Time,
    pub(super) until: Time,
    pub(super) messages: Vec<Message>,
    pub(super) bars: Vec<Bar>,
    pub(super) marks: Vec<Mark>,
    pub(super) absences: Vec<Absence>,
    pub(super) violations: Vec<(Time, String)>,
    /// The message kinds, in the order of their first occurrence.
    pub(super) kinds: Vec<String>,
    /// Whether the run is in the state model.
    pub(super) moves: bool,
}

/// A message.
pub(super) struct Message {
    pub(super) kind: usize,
    /// The kind and some fields.
    pub(super) label: String,
    /// The full text.
    pub(super) text: String,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) sent: Time,
    pub(super) end: End,
    /// The position in the order of sends.
    number: u64,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Arrived(Time),
    Lost(Time),
    /// In transit at the end.
    Open,
}

/// A mark at one process and time.
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
    Change,
    Withdrawal,
    Fault,
    Recovery,
    Move,
}

/// An interval in which a process is down or paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Absence {
    pub(super) node: NodeId,
    pub(super) from: Time,
    /// The end; none if the process never recovers.
    pub(super) until: Option<Time>,
    /// Whether it is a pause, not a crash.
    pub(super) stopped: bool,
}

/// Data of the sender of a message.
#[derive(Clone, Copy)]
struct Sent {
    at: Time,
    number: u64,
    kind: usize,
    copy: bool,
    /// Whether it was sent within the window and counted, and whether it fits.
    within: bool,
    drawn: bool,
}

/// Builds a timeline from events. Events out of view are read, but not kept.
pub(super) struct TimelineBuilder {
    timeline: Timeline,
    view: View,
    columns: bool,
    most: usize,
    bars: Bars,
    channels: Channels<Sent>,
    /// Number of messages within the window that have not been delivered.
    awaited: u64,
    sends: u64,
    last: Option<Time>,
    load: Load,
}

/// The number of signs to draw, and what would fit.
#[derive(Default)]
struct Load {
    signs: u64,
    /// The time at which nine tenths of the limit were reached.
    nearly: Option<Time>,
    /// Numbers of signs by the last process that they need.
    by_last: BTreeMap<NodeId, u64>,
}

impl TimelineBuilder {
    /// A builder for at most `most` signs, with one column per time or not.
    pub(super) fn new(run: &Run, view: &View, most: usize, columns: bool) -> Self {
        let timeline = Timeline {
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
            timeline,
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

    /// Adds the next event; returns whether later events matter.
    pub(super) fn see(&mut self, record: &Record) -> bool {
        let (node, now) = (record.node, record.t);
        let over = now > self.view.window.until;
        if !over {
            if self.view.has(record) {
                self.moment(now);
            }
            let ended: Vec<Bar> = self.bars.see(record).collect();
            ended.into_iter().for_each(|bar| self.bar(bar));
        }
        if let Event::Deliver { from, message, .. } = &record.event {
            self.arrive(now, (*from, node), message, End::Arrived(now));
        } else if let Event::Lost { from, message, .. } = &record.event {
            self.arrive(now, (*from, node), message, End::Lost(now));
        } else if !over {
            self.happen(record);
        }
        !over || self.awaited > 0
    }

    /// Adds an event of one process within or before the window.
    fn happen(&mut self, record: &Record) {
        let (node, now) = (record.node, record.t);
        let mut mark = |sign: Sign, label: Option<String>| {
            if self.view.has(record) && self.load.takes(node, now, self.most) {
                self.timeline.marks.push(Mark { node, at: now, sign, label });
            }
        };
        match &record.event {
            Event::Send { kind, message, .. } => {
                for to in record.receivers(self.timeline.run.n) {
                    self.send(now, (node, to), kind, message, false);
                }
            }
            Event::Duplicated { kind, to, message } => {
                // A copy starts where the original was sent.
                let first = self.channels.next(node, *to, message).map(|sent| sent.at);
                self.send(first.unwrap_or(now), (node, *to), kind, message, true);
            }
            Event::Withdraw => mark(Sign::Withdrawal, None),
            Event::TooLarge { weight, most } => {
                mark(Sign::Withdrawal, Some(format!("weight {weight}, k is {most}")));
            }
            Event::Resize { k } => mark(Sign::Change, Some(format!("k is {k}"))),
            Event::Crash => {
                mark(Sign::Crash, None);
                self.leaves(node, now, false);
            }
            Event::Restart { .. } => {
                mark(Sign::Restart, None);
                self.returns(node, now, false);
            }
            Event::Pause => self.leaves(node, now, true),
            Event::Resume => self.returns(node, now, true),
            Event::Fault => mark(Sign::Fault, Some("fault".into())),
            Event::Recovered => mark(Sign::Recovery, Some("recovered".into())),
            Event::Suspected { whom } => mark(Sign::Suspicion, Some(format!("{whom} crashed"))),
            Event::Joined { whom } => mark(Sign::Change, Some(format!("{whom} recovered"))),
            Event::Moved { action, state } => mark(Sign::Move, Some(format!("{action}: {state}"))),
            Event::Enabled { .. } => self.timeline.moves = true,
            Event::Violated { property, text, .. } => {
                // A violation concerns all processes, wherever it is recorded.
                if self.view.window.has(now) {
                    self.moment(now);
                    self.timeline.violations.push((now, format!("{property}: {text}")));
                }
            }
            Event::Acquire { .. }
            | Event::Requested
            | Event::Granted { .. }
            | Event::Release { .. }
            | Event::Deliver { .. }
            | Event::Lost { .. }
            | Event::Other => {}
        }
    }

    /// Counts a time with an event in view.
    fn moment(&mut self, now: Time) {
        if self.last != Some(now) {
            self.timeline.moments += 1;
            if self.last.is_none() && self.view.window.from == Time::ZERO {
                self.timeline.from = now;
            }
            if self.columns {
                self.timeline.times.push(now);
            }
            self.last = Some(now);
        }
    }

    fn bar(&mut self, bar: Bar) {
        let seen = self.view.shown.has(bar.node) && bar.until >= self.view.window.from;
        if seen && self.load.takes(bar.node, bar.until, self.most) {
            self.timeline.bars.push(bar);
        }
    }

    fn leaves(&mut self, node: NodeId, from: Time, stopped: bool) {
        if self.view.shown.has(node) {
            self.timeline.absences.push(Absence { node, from, until: None, stopped });
        }
    }

    fn returns(&mut self, node: NodeId, now: Time, stopped: bool) {
        let absences = &mut self.timeline.absences;
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
        let kinds = &mut self.timeline.kinds;
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

    /// Ends a message. A message sent before the window comes into view at its delivery.
    fn arrive(&mut self, now: Time, (from, to): (NodeId, NodeId), message: &str, end: End) {
        let Some(sent) = self.channels.take(from, to, message) else { return };
        self.awaited -= u64::from(sent.within);
        let comes_in = !sent.within && now >= self.view.window.from;
        if sent.drawn || comes_in && self.load.takes(from.max(to), now, self.most) {
            self.draw((from, to), message, &sent, end);
        }
    }

    fn draw(&mut self, (from, to): (NodeId, NodeId), message: &str, sent: &Sent, end: End) {
        let mut label = short(&self.timeline.kinds[sent.kind], message);
        if sent.copy {
            label += " (copy)";
        }
        let (kind, text, number) = (sent.kind, message.to_owned(), sent.number);
        self.timeline.messages.push(Message {
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

    /// The timeline, unless it has too many signs.
    pub(super) fn end(mut self) -> Result<Timeline, DiagramError> {
        if self.load.signs > self.most as u64 {
            return Err(self.load.reject(&self.timeline, self.most));
        }
        let window = self.view.window;
        if window.until == Time::NEVER {
            self.timeline.until = self.last.unwrap_or(window.from).max(self.timeline.from);
        }
        let rest: Vec<Bar> = std::mem::take(&mut self.bars).rest(self.timeline.until).collect();
        rest.into_iter().for_each(|bar| self.bar(bar));
        for ((from, to), message, sent) in std::mem::take(&mut self.channels).rest() {
            if sent.drawn {
                self.draw((from, to), &message, &sent, End::Open);
            }
        }
        self.timeline.messages.sort_by_key(|message| message.number);
        Ok(self.timeline)
    }
}

impl Load {
    /// Counts a sign that needs the processes up to `last`; returns whether it fits.
    fn takes(&mut self, last: NodeId, now: Time, most: usize) -> bool {
        self.signs += 1;
        *self.by_last.entry(last).or_default() += 1;
        if self.nearly.is_none() && self.signs > most as u64 / 10 * 9 {
            self.nearly = Some(now);
        }
        self.signs <= most as u64
    }

    /// The error, with a shorter window from the same time on, or fewer processes, that would fit.
    fn reject(&self, timeline: &Timeline, most: usize) -> DiagramError {
        let until = self.nearly.and_then(|nearly| rounded(timeline.from, nearly));
        let mut signs = 0;
        let fitting = self.by_last.iter().take_while(|(_, count)| {
            signs += **count;
            signs <= most as u64
        });
        let first = timeline.shown.first().copied();
        let last = fitting.map(|(node, _)| *node).last();
        let processes = first.zip(last).filter(|(first, last)| first < last);
        DiagramError::Signs {
            signs: self.signs,
            most,
            window: until.map(|until| (timeline.from, until)),
            processes,
        }
    }
}

/// A time slightly before `until`, rounded to two digits after `from`.
fn rounded(from: Time, until: Time) -> Option<Time> {
    let span = until.since(from).0;
    let grain = 10u64.pow(span.checked_ilog10()?.saturating_sub(1));
    // Round on the clock's grid, not the window's: that is shorter to write.
    let until = Time(until.0.saturating_sub(1) / grain * grain);
    (until > from).then_some(until)
}
