//! Status queries over all nodes.
//!
//! The node that is asked queries all connected nodes and combines the answers. The report names
//! the nodes that did not answer in time.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{NodeId, Span};

use super::bounded::bound;
use super::peer_message::PeerMessage;
use super::timers::Deadline;
use super::view::{GateView, NodeStatus};
use super::{Action, Core, RequestKey};

/// How long other nodes may take to answer.
const PATIENCE: Span = Span(1_000_000_000);

/// The most bytes of the views in an answer to another node. A message between nodes has at most
/// 1 MiB ([`kgate_net::wire::FRAME_MAX`]), and a longer one would never be sent.
const REPLY_MAX: usize = 900_000;

/// The answer to a status query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReport {
    /// The status of each node, and its view of the gates.
    pub seen: Vec<(NodeStatus, Vec<GateView>)>,
    /// The nodes that did not answer.
    pub silent: Vec<NodeId>,
}

/// The queries that wait for answers.
#[derive(Debug, Default)]
pub(super) struct StatusQueries(BTreeMap<u64, PendingQuery>);

#[derive(Debug)]
struct PendingQuery {
    awaited: BTreeSet<NodeId>,
    report: StatusReport,
}

impl StatusQueries {
    pub(super) fn seen(&mut self, question: u64, who: NodeStatus, gates: Vec<GateView>) {
        if let Some(look) = self.0.get_mut(&question)
            && look.awaited.remove(&who.node)
        {
            look.report.seen.push((who, gates));
        }
    }

    /// A node will not answer any more.
    pub(super) fn gone(&mut self, node: NodeId) {
        for look in self.0.values_mut() {
            if look.awaited.remove(&node) {
                look.report.silent.push(node);
            }
        }
    }

    fn done(&mut self) -> Vec<(u64, StatusReport)> {
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
    /// Queries one gate, or all gates, at all connected nodes.
    pub(super) fn on_status_query(&mut self, question: u64, gate: Option<&str>) {
        let silent = self.others.iter().filter(|node| !self.up.contains(node)).copied().collect();
        let report = StatusReport { seen: vec![(self.who(), self.views(gate))], silent };
        let awaited: BTreeSet<NodeId> = self.others.intersection(&self.up).copied().collect();
        let message = PeerMessage::StatusQuery { question, gate: gate.map(str::to_owned) }.bytes();
        self.actions.extend(awaited.iter().map(|node| Action::Send(*node, message.clone())));
        self.status_queries.0.insert(question, PendingQuery { awaited, report });
        self.timers.arm(self.now, Deadline::StatusQuery(question), PATIENCE, PATIENCE);
        self.send_status_reports();
    }

    pub(super) fn status_timed_out(&mut self, question: u64) {
        if let Some(PendingQuery { awaited, mut report }) = self.status_queries.0.remove(&question)
        {
            report.silent.extend(awaited);
            self.actions.push(Action::StatusReport(question, report));
        }
    }

    pub(super) fn send_status_reports(&mut self) {
        for (question, report) in self.status_queries.done() {
            self.timers.disarm(&Deadline::StatusQuery(question));
            self.actions.push(Action::StatusReport(question, report));
        }
    }

    /// Answers the query of another node, in one message between nodes.
    pub(super) fn answer_status_query(&mut self, from: NodeId, question: u64, gate: Option<&str>) {
        let (mut gates, mut who) = (self.views(gate), self.who());
        who.omitted_gates = bound(&mut gates, REPLY_MAX);
        self.send_to(from, &PeerMessage::StatusReply { question, gates, who });
    }

    /// The id of this node.
    pub fn me(&self) -> NodeId {
        self.settings.me
    }

    pub(super) fn who(&self) -> NodeStatus {
        NodeStatus {
            node: self.settings.me,
            crashed: self.failures.crashed().collect(),
            unreachable: self
                .others
                .iter()
                .filter(|node| !self.up.contains(node))
                .copied()
                .collect(),
            control: self.control_view(self.now),
            incarnation: self.log.is_member().then_some(self.log.incarnation.0),
            omitted_gates: 0,
        }
    }

    pub(super) fn views(&self, gate: Option<&str>) -> Vec<GateView> {
        let cut_off = |key: RequestKey| self.sessions.stream(key).is_none();
        let guarded = |key: RequestKey| self.sessions.is_guarded(key.session);
        let shown = |name: &str| gate.is_none_or(|gate| gate == name);
        let gates = self.catalogue.all().filter(|gate| shown(&gate.name));
        gates
            .filter_map(|gate| {
                let view =
                    self.gates.get(&gate.id)?.view(self.now, self.settings.me, cut_off, guarded);
                Some(GateView {
                    version: self.version_of(gate.id),
                    held: self.held_views(gate.id),
                    ..view
                })
            })
            .collect()
    }
}
