//! The VCube detector (vcube-2018 section 4).
//!
//! Every `interval` a process tests all processes in whose clusters it is the first fault-free one
//! ([`tests_of`](crate::topology::tests_of)), all at once. A process that does not answer within
//! `timeout` has crashed. An answer carries *every* change that the tested process knows of, not
//! only those of one cluster: for each process a timestamp counts its events, even while it is
//! alive and odd while it is down, and the greater timestamp is the newer one. Only changes since
//! the tester's last visit are sent.
//!
//! Cost: n log2 n tests per interval, with any number of faults; every process knows of a crash
//! within log2(n)^2 intervals. State: the non-zero timestamps, and for each tested process the
//! number of its changes already known.
//!
//! Deviations: the paper takes one cluster per interval and starts again after log2 n of them; here
//! an interval takes all clusters, as its reference (Duarte, Bona and Ruoso 2014) has it. Processes
//! known to be crashed are not tested again, since a crash is permanent in this paper.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kgate_core::{
    Incarnation, InputOf, Never, NodeId, Notice, Observation, Outbox, Protocol, Refusal, Setup,
    Span, Suspend, Time,
};
use serde::{Deserialize, Serialize};

use super::{DetectorInput, check_reply, checked, in_time, observed};
use crate::collections::{NodeList, SortedMap};
use crate::topology::{Members, tests_of};

/// One change: the events of a process, as counted by its timestamp.
pub type Change = (NodeId, u32);

/// The messages of [`VCube`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VCubeMessage {
    /// Are you alive, and what has changed? Answered by `TestReply` of the same round.
    Test {
        /// The tester's round.
        round: u32,
        /// The number of the receiver's changes that the tester already has.
        known: u32,
    },
    /// The sender is alive; these changes are new to the tester.
    TestReply {
        /// The round of the test that this answers.
        round: u32,
        /// The number of the sender's changes that the tester has after these.
        known: u32,
        /// The changes; most often none.
        changes: Option<Box<[Change]>>,
    },
}

kgate_core::kinds!(VCubeMessage { Test => "test", TestReply => "test_reply" });

/// The timers of [`VCube`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VCubeTimer {
    /// Every interval: begin a round of tests. Never disarmed.
    Round,
    /// A timeout after a round began: the processes that have not answered are down. The last
    /// answer disarms it.
    Timeout,
}

/// The detector's state at one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VCube {
    me: NodeId,
    nodes: u32,
    interval: Span,
    timeout: Span,
    round: u32,
    /// Tested in this round without an answer so far.
    awaited: NodeList,
    /// The timestamps that are not zero.
    timestamps: SortedMap<NodeId, u32>,
    crashed: NodeList,
    /// All changes, in the order in which this process learnt them: testers read this list.
    changes: Vec<Change>,
    /// The number of changes that this process has from each tested process.
    known: SortedMap<NodeId, u32>,
}

impl VCube {
    fn on_round(&mut self, out: &mut Outbox<Self>) {
        out.arm(VCubeTimer::Round, self.interval);
        if !self.awaited.is_empty() {
            return; // The interval is shorter than the timeout: one round at a time.
        }
        self.round = self.round.wrapping_add(1);
        for tested in tests_of(self.me, &Members::new(self.nodes, &self.crashed)) {
            self.awaited.insert(tested);
            let known = self.known.get(tested).unwrap_or(0);
            out.send(tested, VCubeMessage::Test { round: self.round, known });
        }
        if !self.awaited.is_empty() {
            out.arm(VCubeTimer::Timeout, in_time(self.timeout));
        }
    }

    fn on_test(&mut self, from: NodeId, round: u32, known: u32, out: &mut Outbox<Self>) {
        let changes = self.changes.get(known as usize..).unwrap_or_default();
        let reply = VCubeMessage::TestReply {
            round,
            known: u32::try_from(self.changes.len()).expect("fewer changes than 2^32"),
            changes: (!changes.is_empty()).then(|| changes.into()),
        };
        out.send(from, reply);
    }

    fn on_reply(
        &mut self,
        from: NodeId,
        round: u32,
        known: u32,
        changes: &[Change],
        out: &mut Outbox<Self>,
    ) {
        if round != self.round || !self.awaited.remove(from) {
            return; // An answer to a test that is over.
        }
        if known > 0 {
            self.known.insert(from, known);
        }
        for &(node, timestamp) in changes {
            self.learn(node, timestamp, out);
        }
        if self.awaited.is_empty() {
            out.disarm(VCubeTimer::Timeout);
        }
    }

    fn on_timeout(&mut self, out: &mut Outbox<Self>) {
        for node in core::mem::take(&mut self.awaited).iter() {
            let timestamp = self.timestamps.get(node).unwrap_or(0);
            if timestamp.is_multiple_of(2) {
                self.learn(node, timestamp + 1, out);
            }
        }
    }

    /// "process i only updates a local timestamp entry when the obtained value is greater" (section
    /// 4).
    fn learn(&mut self, node: NodeId, timestamp: u32, out: &mut Outbox<Self>) {
        if node == self.me || timestamp <= self.timestamps.get(node).unwrap_or(0) {
            return;
        }
        self.timestamps.insert(node, timestamp);
        self.changes.push((node, timestamp));
        if timestamp.is_multiple_of(2) {
            self.crashed.remove(node);
        } else if self.crashed.insert(node) {
            out.notify(Notice::Suspected { node, incarnation: Incarnation(timestamp / 2) });
        }
    }
}

impl Protocol for VCube {
    const NAME: &'static str = "vcube";
    type Message = VCubeMessage;
    type Timer = VCubeTimer;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, out: &mut Outbox<Self>) -> Self {
        out.arm(VCubeTimer::Round, Span::ZERO);
        Self {
            me: setup.me,
            nodes: setup.nodes,
            interval: setup.detect_interval,
            timeout: setup.detect_timeout,
            round: 0,
            awaited: NodeList::default(),
            timestamps: SortedMap::default(),
            crashed: NodeList::default(),
            changes: Vec::new(),
            known: SortedMap::default(),
        }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        match checked(Self::NAME, self.me, self.nodes, input)? {
            DetectorInput::Deliver { from, message: VCubeMessage::Test { round, known } } => {
                self.on_test(from, round, known, out);
            }
            DetectorInput::Deliver {
                from,
                message: VCubeMessage::TestReply { round, known, changes },
            } => {
                let changes = changes.as_deref().unwrap_or_default();
                check_reply(self.nodes, changes.iter().map(|change| change.0))?;
                self.on_reply(from, round, known, changes, out);
            }
            DetectorInput::Expire(VCubeTimer::Round) => self.on_round(out),
            DetectorInput::Expire(VCubeTimer::Timeout) => self.on_timeout(out),
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        observed(&self.crashed)
    }
}

impl Suspend for VCube {}
