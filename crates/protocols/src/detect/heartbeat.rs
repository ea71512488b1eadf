//! All-to-all heartbeats: the detector of `bas` (Bouillaguet, Arantes and Sens 2008 assume a
//! detector; this one is kgate's own).
//!
//! Every `interval` a process sends a heartbeat to all others and determines which of them have
//! been silent since the last one. A silent process has another `timeout` to be heard from; then it
//! is suspected. Two heartbeats of a live process arrive at most `interval` plus one delay apart,
//! so with a `timeout` of two delays no process is suspected wrongly, whatever the phases of the
//! processes.
//!
//! Cost: n(n-1) messages per interval; a crash is detected within 2 `interval` + `timeout` + one
//! delay. State: 2n bits.

use alloc::vec::Vec;

use fixedbitset::FixedBitSet;
use kgate_core::{
    Incarnation, InputOf, Message, Never, NodeId, Notice, Observation, Outbox, Protocol, Refusal,
    Setup, Span, Suspend, Time, To,
};
use serde::{Deserialize, Serialize};

use super::{DetectorInput, checked, in_time, observed};
use crate::collections::NodeList;

/// I-AM-ALIVE. There is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Beat;

impl Message for Beat {
    const KINDS: usize = 1;
    fn kind(&self) -> usize {
        0
    }
    fn kind_name(_kind: usize) -> &'static str {
        "heartbeat"
    }
}

/// The timers of [`Heartbeat`]. They are never disarmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeartbeatTimer {
    /// Every interval: send a heartbeat and find the silent processes.
    Beat,
    /// A timeout after a `Beat` that found a silent process: suspect those that are still silent.
    Check,
}

/// The detector's state at one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    me: NodeId,
    nodes: u32,
    interval: Span,
    timeout: Span,
    /// Heard from since the last `Beat`.
    heard: FixedBitSet,
    /// Silent in the interval before, and since; suspected at `Check`. Empty unless `Check` is
    /// armed.
    silent: FixedBitSet,
    checking: bool,
    crashed: NodeList,
}

impl Heartbeat {
    fn on_beat(&mut self, out: &mut Outbox<Self>) {
        out.send_to(To::All, Beat);
        out.arm(HeartbeatTimer::Beat, self.interval);
        if self.checking {
            return; // The interval is shorter than the timeout: one check at a time.
        }
        self.silent.clone_from(&self.heard);
        self.silent.toggle_range(..);
        self.heard.clear();
        self.silent.remove(self.me.index());
        for node in self.crashed.iter() {
            self.silent.remove(node.index());
        }
        if !self.silent.is_clear() {
            self.checking = true;
            out.arm(HeartbeatTimer::Check, in_time(self.timeout));
        }
    }

    fn on_check(&mut self, out: &mut Outbox<Self>) {
        self.checking = false;
        let silent: Vec<usize> = self.silent.ones().collect();
        self.silent.clear();
        for index in silent {
            let node = NodeId(u32::try_from(index).expect("a node's index"));
            self.crashed.insert(node);
            out.notify(Notice::Suspected { node, incarnation: Incarnation::default() });
        }
    }
}

impl Protocol for Heartbeat {
    const NAME: &'static str = "heartbeat";
    type Message = Beat;
    type Timer = HeartbeatTimer;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, out: &mut Outbox<Self>) -> Self {
        let mut heard = FixedBitSet::with_capacity(setup.nodes as usize);
        let silent = heard.clone();
        heard.insert_range(..); // No process is late before the first interval is over.
        out.arm(HeartbeatTimer::Beat, Span::ZERO);
        Self {
            me: setup.me,
            nodes: setup.nodes,
            interval: setup.detect_interval,
            timeout: setup.detect_timeout,
            heard,
            silent,
            checking: false,
            crashed: NodeList::default(),
        }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        match checked(Self::NAME, self.me, self.nodes, input)? {
            DetectorInput::Deliver { from, message: Beat } => {
                self.heard.insert(from.index());
                if self.checking {
                    self.silent.remove(from.index());
                }
            }
            DetectorInput::Expire(HeartbeatTimer::Beat) => self.on_beat(out),
            DetectorInput::Expire(HeartbeatTimer::Check) => self.on_check(out),
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        observed(&self.crashed)
    }
}

impl Suspend for Heartbeat {}
