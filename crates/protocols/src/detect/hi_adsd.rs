//! Hi-ADSD, hierarchical adaptive system-level diagnosis (Duarte and Nanya 1998, as used by
//! robust-2012).
//!
//! Every `interval` a process tests its clusters `C(i,1) .. C(i,log2 n)`, one after the other. In
//! each it tests the processes in order until one answers; the answer names the processes of the
//! same cluster that the tested process considers crashed, and the next cluster follows. A process
//! known to be crashed is tested again each time (robust-2012's published totals say so: 5100 tests
//! and 2348 answers come out exactly).
//!
//! Cost: n log2 n tests per interval without faults; up to n-1 tests by one process when all others
//! have crashed. Every process knows of a crash within log2(n)^2 rounds. State: the crashed
//! processes, and the place in the round.
//!
//! Deviations: a round takes one timeout for each crashed process that it meets; an interval that
//! begins while a round is in progress starts no other, which the paper leaves open.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kgate_core::{
    Incarnation, InputOf, Never, NodeId, Notice, Observation, Outbox, Protocol, Refusal, Setup,
    Span, Suspend, Time,
};
use serde::{Deserialize, Serialize};

use super::{DetectorInput, check_reply, checked, in_time, observed};
use crate::collections::NodeList;
use crate::topology::{ClusterOrder, Members, Walk, cluster_of, dimension};

/// The messages of [`HiAdsd`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HiAdsdMessage {
    /// ARE-YOU-ALIVE. Answered by `TestReply` with the same number.
    Test {
        /// The tester's count of tests.
        number: u32,
    },
    /// I-AM-ALIVE, with the processes that the sender considers crashed in the cluster in which it
    /// and the receiver see each other.
    TestReply {
        /// The number of the test that this answers.
        number: u32,
        /// The crashed processes of the cluster; most often none.
        crashed: Option<Box<[NodeId]>>,
    },
}

kgate_core::kinds!(HiAdsdMessage { Test => "test", TestReply => "test_reply" });

/// The timers of [`HiAdsd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HiAdsdTimer {
    /// Every interval: begin a round of tests. Never disarmed.
    Round,
    /// A test has not been answered within the timeout. Its answer disarms the timer.
    Timeout,
}

/// A round in progress: the cluster, the place in it, and the process under test.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Round {
    cluster: u32,
    walk: Walk,
    tested: NodeId,
}

/// The detector's state at one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HiAdsd {
    me: NodeId,
    nodes: u32,
    interval: Span,
    timeout: Span,
    number: u32,
    round: Option<Box<Round>>,
    crashed: NodeList,
}

impl HiAdsd {
    fn on_round(&mut self, out: &mut Outbox<Self>) {
        out.arm(HiAdsdTimer::Round, self.interval);
        if self.round.is_none() {
            // Otherwise the last round is still in progress, and this one is skipped.
            self.test_cluster(1, out);
        }
    }

    /// Tests the first process of the first cluster from `cluster` on that has any.
    fn test_cluster(&mut self, cluster: u32, out: &mut Outbox<Self>) {
        self.round = None;
        for cluster in cluster..=dimension(self.nodes) {
            let walk = Walk::new(self.me, cluster, ClusterOrder::HiAdsd);
            if self.test_next(cluster, walk, out) {
                return;
            }
        }
    }

    /// Tests the next process of the walk, known to be crashed or not; false if none is left.
    fn test_next(&mut self, cluster: u32, mut walk: Walk, out: &mut Outbox<Self>) -> bool {
        let everybody = NodeList::default();
        let Some(tested) = walk.next(&Members::new(self.nodes, &everybody)) else { return false };
        self.number = self.number.wrapping_add(1);
        out.send(tested, HiAdsdMessage::Test { number: self.number });
        out.arm(HiAdsdTimer::Timeout, in_time(self.timeout));
        self.round = Some(Box::new(Round { cluster, walk, tested }));
        true
    }

    fn on_test(&mut self, from: NodeId, number: u32, out: &mut Outbox<Self>) {
        let cluster = cluster_of(self.me, from);
        // The tester sees this process in its cluster of the same number, which is this process's
        // own block of 2^(cluster-1) places.
        let same_block = |node: NodeId| (node.0 ^ self.me.0) >> (cluster - 1) == 0;
        let crashed: Vec<NodeId> = self.crashed.iter().filter(|&node| same_block(node)).collect();
        let crashed = (!crashed.is_empty()).then(|| crashed.into_boxed_slice());
        out.send(from, HiAdsdMessage::TestReply { number, crashed });
    }

    fn on_reply(
        &mut self,
        from: NodeId,
        number: u32,
        crashed: Option<Box<[NodeId]>>,
        out: &mut Outbox<Self>,
    ) {
        let Some(round) = self.round.take_if(|round| round.tested == from && number == self.number)
        else {
            return; // An answer to a test that is over.
        };
        out.disarm(HiAdsdTimer::Timeout);
        for &node in crashed.iter().flat_map(|list| list.iter()) {
            self.suspect(node, out);
        }
        self.test_cluster(round.cluster + 1, out);
    }

    fn on_timeout(&mut self, out: &mut Outbox<Self>) {
        let Some(round) = self.round.take() else { return };
        let Round { cluster, walk, tested } = *round;
        self.suspect(tested, out);
        if !self.test_next(cluster, walk, out) {
            self.test_cluster(cluster + 1, out);
        }
    }

    fn suspect(&mut self, node: NodeId, out: &mut Outbox<Self>) {
        if node != self.me && self.crashed.insert(node) {
            out.notify(Notice::Suspected { node, incarnation: Incarnation::default() });
        }
    }
}

impl Protocol for HiAdsd {
    const NAME: &'static str = "hi-adsd";
    type Message = HiAdsdMessage;
    type Timer = HiAdsdTimer;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, out: &mut Outbox<Self>) -> Self {
        out.arm(HiAdsdTimer::Round, Span::ZERO);
        Self {
            me: setup.me,
            nodes: setup.nodes,
            interval: setup.detect_interval,
            timeout: setup.detect_timeout,
            number: 0,
            round: None,
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
            DetectorInput::Deliver { from, message: HiAdsdMessage::Test { number } } => {
                self.on_test(from, number, out);
            }
            DetectorInput::Deliver {
                from,
                message: HiAdsdMessage::TestReply { number, crashed },
            } => {
                check_reply(self.nodes, crashed.iter().flat_map(|list| list.iter()).copied())?;
                self.on_reply(from, number, crashed, out);
            }
            DetectorInput::Expire(HiAdsdTimer::Round) => self.on_round(out),
            DetectorInput::Expire(HiAdsdTimer::Timeout) => self.on_timeout(out),
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        observed(&self.crashed)
    }
}

impl Suspend for HiAdsd {}
