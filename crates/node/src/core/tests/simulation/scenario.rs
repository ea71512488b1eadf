//! Scenarios by hand: clients do nothing by themselves but renew their sessions.

use kgate_control::state::{Command, PermitId};
use kgate_core::NodeId;

use super::super::super::*;
use super::{Event, Simulation};

impl Simulation {
    /// A simulation in which only the test causes events.
    pub(in crate::core::tests) fn quiet(nodes: u32, k: u32) -> Self {
        let mut simulation = Self::new(1, nodes, nodes.min(3), k, None);
        simulation.by_hand = true;
        simulation
    }

    /// The first client of a node acquires, once it has a session.
    pub(in crate::core::tests) fn acquire(&mut self, node: usize) {
        self.acquire_with(node, None);
    }

    pub(in crate::core::tests) fn acquire_with(&mut self, node: usize, k: Option<u32>) {
        self.refusals.clear();
        self.acquire_at(node, k);
    }

    /// The client acquires again, after it has lost its permit.
    pub(in crate::core::tests) fn acquire_another(&mut self, node: usize) {
        self.acquire_with(node, None);
    }

    /// The last grant of the first client of a node.
    pub(in crate::core::tests) fn granted(&self, node: usize) -> Option<(Vec<u32>, u128)> {
        self.grants.get(&node).cloned()
    }

    pub(in crate::core::tests) fn refused(&self, node: usize) -> Option<(ErrorCode, String)> {
        self.refusals.get(&node).cloned()
    }

    /// The views that members began, by the log.
    pub(in crate::core::tests) fn views(&self) -> impl Iterator<Item = u64> + '_ {
        let core = self.machines[&NodeId(0)].core.as_ref().expect("up");
        core.log.incarnations.values().copied()
    }

    pub(in crate::core::tests) fn view(&self, node: u32) -> ControlView {
        let machine = &self.machines[&NodeId(node)];
        let now = machine.clock.read(self.now);
        machine.core.as_ref().expect("up").control_view(now).expect("it has a log")
    }

    /// Why that node cannot grant now, if it cannot; and its metrics.
    pub(in crate::core::tests) fn unready(&self, node: u32) -> (Option<String>, String) {
        let machine = &self.machines[&NodeId(node)];
        let (now, core) = (machine.clock.read(self.now), machine.core.as_ref().expect("up"));
        (core.unready(now), crate::metrics::render(core, now))
    }

    /// The first watcher at a node arrives.
    pub(in crate::core::tests) fn watch(&mut self, node: NodeId) {
        self.input(node, Input::Watch(true));
    }

    /// Whether watchers were notified since then.
    pub(in crate::core::tests) fn has_changed(&self, node: NodeId, since: u64) -> bool {
        self.changed.get(&node).is_some_and(|at| *at >= since)
    }

    pub(in crate::core::tests) fn restart_after(&mut self, node: NodeId, span: u64) {
        self.at(span, Event::Start(node));
    }

    /// Partitions a node from all others.
    pub(in crate::core::tests) fn cut_off(&mut self, node: NodeId) {
        for other in self.machines.keys().copied().filter(|other| *other != node) {
            self.cut.insert((node, other));
            self.cut.insert((other, node));
        }
    }

    pub(in crate::core::tests) fn mend(&mut self) {
        self.cut.clear();
    }

    /// A peer sends a message. Returns why it was rejected, if it was.
    pub(in crate::core::tests) fn message(
        &mut self,
        to: NodeId,
        from: NodeId,
        message: &PeerMessage,
    ) -> Option<PeerError> {
        let mut rejected = None;
        self.with(to, |core, now, actions| {
            let received = PeerEvent::Received(message.bytes());
            core.handle(now, Input::Peer(from, received), actions);
            actions.retain(|action| {
                if let Action::Log(LogEvent::PeerRejected { error, .. }) = action {
                    rejected = Some(error.clone());
                }
                !matches!(action, Action::Log(LogEvent::PeerRejected { .. }))
            });
        });
        rejected
    }

    /// A client opens a session and sends these permit commands. Returns how many of them are
    /// proposed, and the refusals.
    pub(in crate::core::tests) fn permit_commands(
        &mut self,
        node: NodeId,
        words: impl IntoIterator<Item = (PermitId, Secret)>,
    ) -> (usize, Vec<ServerMessage>) {
        let (mut actions, client) = (Vec::new(), ClientId(1 << 40));
        let real = self.now;
        let machine = self.machine(node);
        let now = machine.clock.read(real);
        let core = machine.core.as_mut().expect("up");
        let hello =
            ClientMessage::Hello { process: Process::default(), resume: None, secret: Secret(1) };
        core.handle(now, Input::Client(client, hello), &mut actions);
        for (number, (permit, secret)) in (1..).zip(words) {
            let word = PermitCommand::Renew;
            core.handle(
                now,
                Input::Client(
                    client,
                    ClientMessage::Permit { number, permit, secret, command: word },
                ),
                &mut actions,
            );
        }
        let proposed =
            actions.iter().filter(|action| matches!(action, Action::Propose(..))).count();
        let mut received = Vec::new();
        for action in actions {
            if let Action::Reply(_, tell @ ServerMessage::Refused { .. }) = action {
                received.push(tell);
            }
        }
        (proposed, received)
    }

    /// An operator proposes a command.
    /// The keys that are used, by the log.
    pub(in crate::core::tests) fn once_keys(&self) -> Vec<String> {
        self.log.once_keys()
    }

    pub(in crate::core::tests) fn propose(&mut self, command: Command) {
        self.proposal(super::Proposer { node: NodeId(0), boot: 0, number: 0 }, command);
    }
}
