//! What people may see of all nodes together.
//!
//! Whoever is asked at one node asks all others that can be talked to, and puts the answers
//! together. Who does not answer soon is named.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{NodeId, Span, Time};

use super::peer_message::PeerMessage;
use super::timers::Due;
use super::view::{GateView, Who};
use super::{Action, Core, RequestKey};

/// How long others have time to answer.
const PATIENCE: Span = Span(1_000_000_000);

/// All that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Each node with what it sees.
    pub seen: Vec<(Who, Vec<GateView>)>,
    /// Who did not answer.
    pub silent: Vec<NodeId>,
}

/// Questions that are under way.
#[derive(Debug, Default)]
pub(super) struct Looks(BTreeMap<u64, Look>);

#[derive(Debug)]
struct Look {
    awaited: BTreeSet<NodeId>,
    report: Report,
}

impl Looks {
    pub(super) fn seen(&mut self, question: u64, who: Who, gates: Vec<GateView>) {
        if let Some(look) = self.0.get_mut(&question)
            && look.awaited.remove(&who.node)
        {
            look.report.seen.push((who, gates));
        }
    }

    /// A node will not answer.
    pub(super) fn gone(&mut self, node: NodeId) {
        for look in self.0.values_mut() {
            if look.awaited.remove(&node) {
                look.report.silent.push(node);
            }
        }
    }

    fn done(&mut self) -> Vec<(u64, Report)> {
        let done: Vec<u64> = self
            .0
            .iter()
            .filter(|(_, look)| look.awaited.is_empty())
            .map(|(question, _)| *question)
            .collect();
        done.into_iter()
            .filter_map(|question| Some((question, self.0.remove(&question)?.report)))
            .collect()
    }
}

impl Core {
    /// Somebody wants to see a gate, or all of them; answered by [`Action::Report`] of the same
    /// number.
    pub fn look(
        &mut self,
        now: Time,
        question: u64,
        gate: Option<&str>,
        actions: &mut Vec<Action>,
    ) {
        let silent = self.others.iter().filter(|node| !self.up.contains(node)).copied().collect();
        let report = Report { seen: vec![(self.who(now), self.views(now, gate))], silent };
        let awaited: BTreeSet<NodeId> = self.others.intersection(&self.up).copied().collect();
        let message = PeerMessage::Look { question, gate: gate.map(str::to_owned) }.bytes();
        actions.extend(awaited.iter().map(|node| Action::Send(*node, message.clone())));
        self.looks.0.insert(question, Look { awaited, report });
        self.timers.arm(now, Due::Look(question), PATIENCE, PATIENCE);
        self.answer_looks(actions);
    }

    pub(super) fn look_is_over(&mut self, question: u64, actions: &mut Vec<Action>) {
        if let Some(Look { awaited, mut report }) = self.looks.0.remove(&question) {
            report.silent.extend(awaited);
            actions.push(Action::Report(question, report));
        }
    }

    pub(super) fn answer_looks(&mut self, actions: &mut Vec<Action>) {
        for (question, report) in self.looks.done() {
            self.timers.disarm(&Due::Look(question));
            actions.push(Action::Report(question, report));
        }
    }

    /// Which node this is.
    pub fn me(&self) -> NodeId {
        self.settings.me
    }

    pub(super) fn who(&self, now: Time) -> Who {
        Who {
            node: self.settings.me,
            crashed: self.crashed.iter().copied().collect(),
            unreachable: self
                .others
                .iter()
                .filter(|node| !self.up.contains(node))
                .copied()
                .collect(),
            control: self.control_view(now),
            incarnation: self.own_incarnation(),
        }
    }

    pub(super) fn views(&self, now: Time, gate: Option<&str>) -> Vec<GateView> {
        let cut_off = |key: RequestKey| self.sessions.stream(key).is_none();
        let shown = |name: &str| gate.is_none_or(|gate| gate == name);
        let gates = self.catalogue.all().filter(|gate| shown(&gate.name));
        gates
            .filter_map(|gate| {
                let view = self.gates.get(&gate.id)?.view(now, self.settings.me, cut_off);
                Some(GateView {
                    version: self.version_of(gate.id),
                    held: self.held_views(now, gate.id),
                    ..view
                })
            })
            .collect()
    }
}
