//! A few nodes with one clock, for tests step by step. Messages are delivered at once, unless a
//! node is cut off.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Incarnation, NodeId, Span, Time};

use crate::lease::{LeaseEffect, LeaseMessage, Leases, Proposal};
use crate::membership::{LeaseTerms, MembershipChange, StoreId};
use crate::timing::Timing;
use crate::voters::Voters;

pub(super) const TIMING: Timing = Timing::DEFAULT;
pub(super) const INCARNATION: Incarnation = Incarnation(1);
/// Not zero: nothing may depend on when a clock started.
pub(super) const BEGIN: Time = Time(1_000_000_000_000);

pub(super) fn ms(count: u64) -> Span {
    Span(count * 1_000_000)
}

pub(super) fn node(id: u32) -> NodeId {
    NodeId(id)
}

pub(super) fn terms() -> LeaseTerms {
    TIMING.terms()
}

pub(super) fn voters(at: u64, nodes: &[u32]) -> Voters {
    Voters::new(at, nodes.iter().copied().map(NodeId))
}

pub(super) fn joint(at: u64, old: &[u32], new: &[u32]) -> Voters {
    let (old, new) = (voters(at, old), voters(at, new));
    Voters { at, sets: [old.sets, new.sets].concat() }
}

/// A node that has applied these voters (entry 1) and members (entry 2).
pub(super) fn leases(now: Time, id: u32, votes: &[u32], members: &[u32]) -> Leases {
    let mut leases = Leases::new(now, node(id), INCARNATION, StoreId(id.into()), TIMING);
    leases.voters_applied(now, voters(1, votes));
    leases.voters_appended(now, voters(1, votes));
    for member in members {
        leases
            .membership_changed(now, MembershipChange::Added(node(*member), INCARNATION, terms()));
    }
    leases.applied(now, 2);
    leases
}

/// The effects of a tick at that time.
pub(super) fn tick(leases: &mut Leases, now: Time) -> Vec<LeaseEffect> {
    let mut effects = Vec::new();
    leases.tick(now, &mut effects);
    effects
}

/// The effects of a message.
pub(super) fn deliver(
    leases: &mut Leases,
    now: Time,
    from: u32,
    message: LeaseMessage,
) -> Vec<LeaseEffect> {
    let mut effects = Vec::new();
    leases.on_message(now, node(from), message, &mut effects);
    effects
}

/// The number of the pings that a node sends at that time.
pub(super) fn ping(leases: &mut Leases, now: Time) -> u64 {
    let number = |effect: &LeaseEffect| match effect {
        LeaseEffect::Send(_, LeaseMessage::Ping { seq, .. }) => Some(*seq),
        LeaseEffect::Send(..) | LeaseEffect::Propose(_) => None,
    };
    tick(leases, now).iter().find_map(number).expect("a ping is due")
}

/// An answer of a voter that shows these voters.
pub(super) fn answer(from: u32, seq: u64, shown: Voters) -> LeaseMessage {
    LeaseMessage::Answer {
        incarnation: INCARNATION,
        seq,
        store: StoreId(from.into()),
        voters: shown,
        committed: 2,
    }
}

/// The voter's reply to a ping.
pub(super) fn reply_to_ping(voter: &mut Leases, now: Time, from: u32, seq: u64) -> LeaseMessage {
    let effects = deliver(voter, now, from, LeaseMessage::Ping { incarnation: INCARNATION, seq });
    match effects.as_slice() {
        [LeaseEffect::Send(_, reply)] => reply.clone(),
        other => panic!("one reply expected: {other:?}"),
    }
}

pub(super) struct Fixture {
    pub(super) now: Time,
    pub(super) nodes: BTreeMap<NodeId, Leases>,
    /// These nodes neither send nor receive.
    pub(super) cut: BTreeSet<NodeId>,
    pub(super) proposals: Vec<(Time, NodeId, Proposal)>,
    applied: u64,
}

impl Fixture {
    /// So many members; these of them vote.
    pub(super) fn new(nodes: u32, votes: &[u32]) -> Self {
        let all: Vec<u32> = (0..nodes).collect();
        let nodes = all.iter().map(|id| (node(*id), leases(BEGIN, *id, votes, &all))).collect();
        Self { now: BEGIN, nodes, cut: BTreeSet::new(), proposals: Vec::new(), applied: 2 }
    }

    pub(super) fn node(&mut self, id: u32) -> &mut Leases {
        self.nodes.get_mut(&node(id)).expect("the node exists")
    }

    /// Advances the clock in steps of 10 ms.
    pub(super) fn advance(&mut self, span: Span) {
        let until = self.now + span;
        while self.now < until {
            self.now += ms(10);
            let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
            for id in ids {
                let now = self.now;
                let due = self.node(id.0).next_due(now).is_some_and(|due| due <= now);
                if due {
                    let effects = tick(self.node(id.0), now);
                    self.perform(id, effects);
                }
            }
        }
    }

    fn perform(&mut self, from: NodeId, effects: Vec<LeaseEffect>) {
        for effect in effects {
            match effect {
                LeaseEffect::Send(to, message) => {
                    let lost = self.cut.contains(&from)
                        || self.cut.contains(&to)
                        || !self.nodes.contains_key(&to);
                    if !lost {
                        let now = self.now;
                        let more = deliver(self.node(to.0), now, from.0, message);
                        self.perform(to, more);
                    }
                }
                LeaseEffect::Propose(proposal) => self.proposals.push((self.now, from, proposal)),
            }
        }
    }

    /// The next entry of the log: all nodes apply it except these.
    pub(super) fn apply(&mut self, change: MembershipChange, except: &[u32]) {
        self.applied += 1;
        let (now, index) = (self.now, self.applied);
        for (id, leases) in &mut self.nodes {
            if !except.contains(&id.0) {
                leases.membership_changed(now, change);
                leases.applied(now, index);
            }
        }
    }

    /// The index of the next entry.
    pub(super) fn next_index(&self) -> u64 {
        self.applied + 1
    }
}
