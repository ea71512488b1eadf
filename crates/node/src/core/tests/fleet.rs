//! A fleet of nodes on a network that delivers at once and in order, with a manual clock.

use std::collections::{BTreeMap, VecDeque};

use kgate_control::state::Slots;
use kgate_core::{NodeId, Span, Time};

use super::super::*;

pub(super) struct Fleet {
    pub(super) now: Time,
    pub(super) nodes: BTreeMap<NodeId, Core>,
    flying: VecDeque<(NodeId, NodeId, Bytes)>,
    /// Messages to clients, by node and stream.
    received: BTreeMap<(NodeId, ClientId), Vec<ServerMessage>>,
    pub(super) reports: Vec<StatusReport>,
    pub(super) stopped: Vec<(NodeId, StopReason)>,
    pub(super) rejected: Vec<PeerError>,
    pub(super) probes: Vec<(SessionId, u64, Vec<u32>)>,
    /// The sessions whose processes must end, with their streams.
    pub(super) trees: Vec<(SessionId, ClientId)>,
    /// The streams whose processes are forgotten.
    pub(super) forgotten: Vec<ClientId>,
    pub(super) answers: Vec<Result<CallReply, Refusal>>,
    /// What operators set, in order.
    pub(super) settings: Vec<GateSetting>,
    pub(super) marks: Vec<(ClientId, u64, StoredMark)>,
    /// Links on which nothing arrives.
    pub(super) cut: Vec<(NodeId, NodeId)>,
    pub(super) stored: BTreeMap<(NodeId, GateId), Vec<u8>>,
}

impl Fleet {
    /// All nodes, connected.
    pub(super) fn new(settings: &Settings) -> Self {
        let mut fleet = Self::apart(settings);
        let ids: Vec<NodeId> = fleet.nodes.keys().copied().collect();
        for &a in &ids {
            for &b in ids.iter().filter(|b| **b != a) {
                fleet.peer(a, b, PeerEvent::Up);
            }
        }
        fleet.run();
        fleet
    }

    /// All nodes, not connected.
    pub(super) fn apart(settings: &Settings) -> Self {
        let mut fleet = Self {
            now: Time(1),
            nodes: BTreeMap::new(),
            flying: VecDeque::new(),
            received: BTreeMap::new(),
            reports: Vec::new(),
            stopped: Vec::new(),
            rejected: Vec::new(),
            probes: Vec::new(),
            trees: Vec::new(),
            forgotten: Vec::new(),
            answers: Vec::new(),
            settings: Vec::new(),
            marks: Vec::new(),
            cut: Vec::new(),
            stored: BTreeMap::new(),
        };
        let ids: Vec<NodeId> = (0..settings.nodes).map(NodeId).collect();
        for &me in &ids {
            fleet.start(&Settings { me, ..settings.clone() });
        }
        fleet
    }

    /// Connects two nodes.
    pub(super) fn connect(&mut self, one: u32, other: u32) {
        self.peer(NodeId(one), NodeId(other), PeerEvent::Up);
        self.peer(NodeId(other), NodeId(one), PeerEvent::Up);
        self.run();
    }

    pub(super) fn start(&mut self, settings: &Settings) {
        let me = settings.me;
        let stored = self.stored.iter().filter(|((node, _), _)| *node == me);
        let stored = stored.map(|((_, gate), bytes)| (*gate, bytes.clone())).collect();
        let mut actions = Vec::new();
        let core =
            Core::start(self.now, settings.clone(), &stored, &mut actions).expect("it starts");
        self.nodes.insert(me, core);
        self.carry_out(me, actions);
    }

    /// Kills a node, with all its messages that are on their way.
    pub(super) fn kill(&mut self, node: u32) {
        self.nodes.remove(&NodeId(node));
        self.flying.retain(|(from, _, _)| *from != NodeId(node));
        let others: Vec<NodeId> = self.nodes.keys().copied().collect();
        others.into_iter().for_each(|other| self.peer(other, NodeId(node), PeerEvent::Down));
    }

    pub(super) fn peer(&mut self, at: NodeId, from: NodeId, event: PeerEvent) {
        let Some(core) = self.nodes.get_mut(&at) else { return };
        let mut actions = Vec::new();
        core.handle(self.now, Input::Peer(from, event), &mut actions);
        self.carry_out(at, actions);
    }

    /// A client sends a message, and everything that follows happens.
    pub(super) fn ask(&mut self, node: u32, client: u64, ask: ClientMessage) {
        let at = NodeId(node);
        let mut actions = Vec::new();
        let input = Input::Client(ClientId(client), ask);
        self.nodes.get_mut(&at).expect("up").handle(self.now, input, &mut actions);
        self.carry_out(at, actions);
        self.run();
    }

    pub(super) fn hello(&mut self, node: u32, client: u64) -> SessionId {
        self.ask(
            node,
            client,
            ClientMessage::Hello { process: Process::default(), resume: None, secret: Secret(7) },
        );
        match self.received(node, client).pop() {
            Some(ServerMessage::Welcome { session, .. }) => session,
            other => panic!("no welcome: {other:?}"),
        }
    }

    pub(super) fn acquire(
        &mut self,
        node: u32,
        client: u64,
        number: u64,
        gate: &str,
        k: Option<u32>,
    ) {
        let gate = gate.to_owned();
        self.ask(
            node,
            client,
            ClientMessage::Acquire {
                number,
                request: AcquireRequest { k: k.map(Slots::from), ..AcquireRequest::new(gate) }
                    .into(),
            },
        );
    }

    /// The messages to a client since the last call.
    pub(super) fn received(&mut self, node: u32, client: u64) -> Vec<ServerMessage> {
        self.received.remove(&(NodeId(node), ClientId(client))).unwrap_or_default()
    }

    pub(super) fn gone(&mut self, node: u32, client: u64) {
        let mut actions = Vec::new();
        let input = Input::ClientGone(ClientId(client));
        self.nodes.get_mut(&NodeId(node)).expect("up").handle(self.now, input, &mut actions);
        self.carry_out(NodeId(node), actions);
        self.run();
    }

    /// An input of the shell, and everything that follows.
    pub(super) fn input(&mut self, node: u32, input: Input) {
        let mut actions = Vec::new();
        self.nodes.get_mut(&NodeId(node)).expect("up").handle(self.now, input, &mut actions);
        self.carry_out(NodeId(node), actions);
        self.run();
    }

    pub(super) fn free(&mut self, node: u32, session: SessionId, number: u64) {
        let mut actions = Vec::new();
        let input = Input::SlotsFree { session, number };
        self.nodes.get_mut(&NodeId(node)).expect("up").handle(self.now, input, &mut actions);
        self.carry_out(NodeId(node), actions);
        self.run();
    }

    pub(super) fn restore(&mut self, node: u32, gate: &str, k: u32, in_use: &[u32]) {
        let (name, in_use) = (gate.to_owned(), in_use.to_vec());
        let holders = Default::default();
        let restored = RestoredGate { name, slots: k.into(), in_use, holders, set_by: None };
        self.restore_gate(node, restored);
    }

    pub(super) fn restore_gate(&mut self, node: u32, gate: RestoredGate) {
        let mut actions = Vec::new();
        let input = Input::RestoreGate(gate);
        self.nodes.get_mut(&NodeId(node)).expect("up").handle(self.now, input, &mut actions);
        self.carry_out(NodeId(node), actions);
    }

    /// An operator changes k. What must be remembered is.
    pub(super) fn set(&mut self, node: u32, gate: &str, k: u32) -> Result<CallReply, Refusal> {
        let (name, author) = (gate.to_owned(), "an operator".to_owned());
        self.call(
            node,
            Call::SetGate { name, k: Some(k), source: None, no_names: false, policy: None, author },
        )
    }

    /// An operator evicts a holder, by way of that node.
    pub(super) fn evict(&mut self, node: u32, holder: &HolderId) -> Result<CallReply, Refusal> {
        let (holder, author) = (holder.clone(), "an operator".to_owned());
        self.call(node, Call::EvictHolder { holder, author })
    }

    pub(super) fn call(&mut self, node: u32, call: Call) -> Result<CallReply, Refusal> {
        let mut actions = Vec::new();
        let input = Input::Call { number: 1, call };
        self.nodes.get_mut(&NodeId(node)).expect("up").handle(self.now, input, &mut actions);
        self.carry_out(NodeId(node), actions);
        self.run();
        self.answers.pop().expect("answered at once")
    }

    pub(super) fn look(&mut self, node: u32, gate: &str) -> StatusReport {
        let mut actions = Vec::new();
        let input = Input::StatusQuery { query: 1, gate: Some(gate.to_owned()) };
        self.nodes.get_mut(&NodeId(node)).expect("up").handle(self.now, input, &mut actions);
        self.carry_out(NodeId(node), actions);
        self.run();
        self.pass(Span(1_000_000_000));
        self.reports.pop().expect("a report within a second")
    }

    /// Delivers what is on its way; or much of it, where nodes never fall silent.
    pub(super) fn run(&mut self) {
        for _ in 0..300 {
            let Some((from, to, bytes)) = self.flying.pop_front() else { return };
            if !self.cut.contains(&(from, to)) {
                self.peer(to, from, PeerEvent::Received(bytes));
            }
        }
    }

    /// Lets time pass, and fires all deadlines in their order.
    pub(super) fn pass(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let due = self
                .nodes
                .iter()
                .filter_map(|(node, core)| Some((core.next_due(self.now)?, *node)))
                .min();
            let Some((at, node)) = due.filter(|due| due.0 <= end) else { break };
            self.now = self.now.max(at);
            let mut actions = Vec::new();
            self.nodes.get_mut(&node).expect("up").handle(self.now, Input::Tick, &mut actions);
            self.carry_out(node, actions);
            self.run();
        }
        self.now = end;
    }

    pub(super) fn carry_out(&mut self, node: NodeId, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(to, bytes) => self.flying.push_back((node, to, bytes)),
                Action::Reply(client, tell) => {
                    self.received.entry((node, client)).or_default().push(tell)
                }
                Action::Store(gate, bytes) => drop(self.stored.insert((node, gate), bytes)),
                Action::StoreGateSetting(setting) => self.settings.push(setting),
                Action::MarkOnce(client, number, mark) => self.marks.push((client, number, mark)),
                Action::Answer(_, reply) => self.answers.push(reply),
                Action::StatusReport(_, report) => self.reports.push(report),
                Action::Ban(_) | Action::Changed | Action::Opened(_) => {}
                Action::Probe { session, number, slots, .. } => {
                    self.probes.push((session, number, slots))
                }
                Action::EndTree { session, tree } => self.trees.push((session, tree)),
                Action::ForgetTree(tree) => self.forgotten.push(tree),
                Action::Stop(reason) => self.stopped.push((node, reason)),
                Action::Log(LogEvent::PeerRejected { error, .. }) => self.rejected.push(error),
                Action::Propose(..)
                | Action::Connect(..)
                | Action::Disconnect(_)
                | Action::NewIncarnation
                | Action::Suspend(_)
                | Action::ReadIndex(_)
                | Action::Log(_) => unreachable!("only with leases"),
            }
        }
    }
}

/// The slots and the fence of a grant, if there is one.
pub(super) fn granted(received: &[ServerMessage]) -> Option<(Vec<u32>, Option<u128>)> {
    received.iter().find_map(|tell| match tell {
        ServerMessage::Granted { slots, fence, .. } => {
            Some((slots.clone(), fence.map(|fence| fence.0)))
        }
        ServerMessage::Welcome { .. }
        | ServerMessage::Refused { .. }
        | ServerMessage::Lost { .. }
        | ServerMessage::Withdrawn { .. }
        | ServerMessage::Released { .. }
        | ServerMessage::OnceMarked { .. }
        | ServerMessage::PermitRenewed { .. }
        | ServerMessage::Renewed { .. }
        | ServerMessage::Closed { .. } => None,
    })
}

/// The code and message of a refusal, if there is one.
pub(super) fn refused(received: &[ServerMessage]) -> Option<(ErrorCode, String)> {
    received.iter().find_map(|tell| match tell {
        ServerMessage::Refused { code: why, message: text, .. }
        | ServerMessage::Closed { code: why, message: text } => Some((*why, text.clone())),
        ServerMessage::Welcome { .. }
        | ServerMessage::Granted { .. }
        | ServerMessage::Lost { .. }
        | ServerMessage::Withdrawn { .. }
        | ServerMessage::Released { .. }
        | ServerMessage::OnceMarked { .. }
        | ServerMessage::PermitRenewed { .. }
        | ServerMessage::Renewed { .. } => None,
    })
}
