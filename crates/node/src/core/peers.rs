//! Other nodes: their messages, and who of them has crashed.
//!
//! Failures are crash-stop here: whoever is held for crashed takes part no more, and if it is alive
//! it is told so and stops. That is safe only where a silent node is a dead one. The detector
//! begins when all nodes have met all others once, so that nobody is held for crashed who has not
//! started yet, or who cannot answer yet because it still waits for a third.

use std::collections::BTreeSet;

use kgate_core::{Incarnation, NodeId, Notice, Refusal, Setup, Time};
use kgate_net::{Deed, Drive, NotTaken};
use kgate_protocols::registry;

use super::catalogue::{Answer, CATALOGUE, Definition, Step};
use super::clients::OURS;
use super::peer_message::{GATE_ID_MAX, GateId, PeerMessage};
use super::timers::Due;
use super::{Action, Core, PeerEvent};

/// So many bytes of messages for gates that are not known yet are kept, for each of them.
const EARLY: usize = 1 << 20;
/// Of so many gates.
const EARLY_GATES: usize = 1 << 10;

impl Core {
    /// Something happens at a peer's link. An error is what no correct peer sends, for the logs.
    pub fn peer(
        &mut self,
        now: Time,
        from: NodeId,
        event: PeerEvent,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        self.check_lease(now, actions);
        let taken = self.on_peer(now, from, event, actions);
        self.note_changes(now);
        taken
    }

    fn on_peer(
        &mut self,
        now: Time,
        from: NodeId,
        event: PeerEvent,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        // Where a log tells who takes part, others may come than were there at first.
        let unknown = self.control.is_none() && from.0 >= self.settings.nodes;
        if self.stopped || from == self.settings.me || unknown {
            return Ok(());
        }
        match event {
            PeerEvent::Up if self.crashed.contains(&from) => {
                actions.push(Action::Send(from, PeerMessage::DeclaredDead.bytes()));
            }
            PeerEvent::Up => {
                self.up.insert(from);
                self.met.insert(from);
                if self.control.is_none() {
                    actions.push(Action::Send(
                        from,
                        PeerMessage::ConfiguredGates(self.settings.fixed.clone()).bytes(),
                    ));
                }
                actions.extend(
                    self.watch_message().map(|message| Action::Send(from, message.bytes())),
                );
                self.mark_dirty();
                self.begin_detection(now, actions);
            }
            PeerEvent::Down => {
                self.up.remove(&from);
                self.status_queries.gone(from);
                self.send_status_reports(actions);
                self.hint(now, from);
                self.mark_dirty();
            }
            PeerEvent::Broken | PeerEvent::Banned if self.control.is_some() => self.hint(now, from),
            PeerEvent::Broken => self.crash(now, from, actions),
            PeerEvent::Banned => self.declared_dead(from, actions),
            PeerEvent::PeerMessage(bytes) => {
                let message = PeerMessage::read(&bytes).ok_or("bytes that are no message")?;
                if message == PeerMessage::DeclaredDead && self.control.is_none() {
                    self.declared_dead(from, actions);
                } else if self.crashed.contains(&from) {
                    actions.push(Action::Send(from, PeerMessage::DeclaredDead.bytes()));
                } else {
                    return self.message(now, from, message, actions);
                }
            }
        }
        Ok(())
    }

    fn message(
        &mut self,
        now: Time,
        from: NodeId,
        message: PeerMessage,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        if self.control.is_some() && message.is_of_catalogue() {
            return Err(
                "a message of the catalogue: here the log says which gates there are".into()
            );
        }
        match message {
            PeerMessage::Gate(id, bytes) => {
                return self.gate_message(now, from, id, bytes, actions);
            }
            PeerMessage::Detector(bytes) => {
                // Who looks for crashes was told by everybody, and so by us.
                if self.detector.is_none() && self.said_met_all {
                    self.start_detector(now, actions);
                }
                let taken =
                    self.detect(now, actions, |it, deeds| it.deliver(now, from, &bytes, deeds));
                return taken.map_err(|error| error.to_string());
            }
            PeerMessage::ConfiguredGates(theirs) => self.compare(from, &theirs),
            PeerMessage::Collect { round, name } => {
                let definition = self.catalogue.get(&name).cloned();
                let known = PeerMessage::Known { round, definition, last: self.catalogue.last() };
                actions.push(Action::Send(from, known.bytes()));
            }
            PeerMessage::Known { round, definition, last } => {
                definition.iter().try_for_each(|definition| self.check(definition))?;
                if last > GATE_ID_MAX {
                    return Err(format!("gate {} was the last one made, beyond all", last.0));
                }
                self.catalogue
                    .answered(from, Some(Answer { round, known: Some((definition, last)) }));
                self.make_on(now, actions);
            }
            PeerMessage::Define { round, definition } => {
                self.check(&definition)?;
                self.learn(now, definition, actions);
                actions.push(Action::Send(from, PeerMessage::Defined { round }.bytes()));
            }
            PeerMessage::Defined { round } => {
                self.catalogue.answered(from, Some(Answer { round, known: None }));
                self.make_on(now, actions);
            }
            PeerMessage::DescribeGate(id) => {
                let definition = self.gates.get(&id).map(|gate| gate.definition.clone());
                // Nobody waits for the answer to round 0.
                let define = definition
                    .map(|definition| PeerMessage::Define { round: 0, definition }.bytes());
                actions.extend(define.map(|bytes| Action::Send(from, bytes)));
            }
            PeerMessage::StatusQuery { question, gate } => {
                let gates = self.views(now, gate.as_deref());
                let seen = PeerMessage::StatusReply { question, gates, who: self.who(now) };
                actions.push(Action::Send(from, seen.bytes()));
            }
            PeerMessage::StatusReply { question, gates, who } => {
                if who.node == from {
                    self.status_queries.seen(question, who, gates);
                    self.send_status_reports(actions);
                }
            }
            PeerMessage::Watch(begins) => self.watched(from, begins),
            PeerMessage::Changed => actions.push(Action::Changed),
            // With a log nobody is gone before the log says so, and crashes are found by the
            // voters.
            PeerMessage::Leaving | PeerMessage::DeclaredDead | PeerMessage::MetAll
                if self.control.is_some() => {}
            PeerMessage::Leaving => self.crash(now, from, actions),
            PeerMessage::DeclaredDead => unreachable!("answered before"),
            PeerMessage::MetAll => {
                self.met_all.insert(from);
                self.begin_detection(now, actions);
            }
            PeerMessage::Lease(message) => self.lease_message(now, from, message, actions),
            PeerMessage::Log(_) => {
                return Err("a message of the log, which goes another way".into());
            }
        }
        Ok(())
    }

    /// A message for a gate. One that is not known yet will be, or the sender is asked what it is.
    fn gate_message(
        &mut self,
        now: Time,
        from: NodeId,
        id: GateId,
        bytes: Vec<u8>,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        if let Some(taken) =
            self.at_gate(now, id, actions, |gate, out| gate.deliver(now, from, &bytes, out))
        {
            return match taken {
                // Who is gone may have sent a message before; where members come and go, that is no
                // junk.
                Err(NotTaken::Refused(Refusal::UnknownNode(_))) if self.control.is_some() => Ok(()),
                taken => taken.map_err(|error| error.to_string()),
            };
        }
        if self.early.len() >= EARLY_GATES && !self.early.contains_key(&id) {
            return Err(format!(
                "a message for gate {}, which is not known, like too many others",
                id.0
            ));
        }
        let agreed = self.control.is_some();
        let early = self.early.entry(id).or_default();
        if early.is_empty() && !agreed {
            actions.push(Action::Send(from, PeerMessage::DescribeGate(id).bytes()));
        }
        let kept: usize = early.iter().map(|(_, bytes)| bytes.len() + 32).sum();
        if kept + bytes.len() > EARLY {
            return Err(format!("too many messages for gate {}, which is not known", id.0));
        }
        early.push((from, bytes));
        Ok(())
    }

    /// Whether somebody's definition of a gate can be true.
    fn check(&self, definition: &Definition) -> Result<(), String> {
        let entry = registry::entry(&definition.protocol).map_err(|error| error.to_string())?;
        super::check(definition, entry, self.settings.nodes)?;
        if definition.id > GATE_ID_MAX {
            return Err(format!(
                "gate `{}` has the number {}, beyond all",
                definition.name, definition.id.0
            ));
        }
        let known = self.gates.get(&definition.id).map(|gate| &gate.definition);
        let named = self.catalogue.get(&definition.name);
        match known.or(named).filter(|known| *known != definition) {
            Some(known) => {
                Err(format!("another definition of gate `{}`: {definition:?}", known.name))
            }
            None => Ok(()),
        }
    }

    /// There is a gate.
    fn learn(&mut self, now: Time, definition: Definition, actions: &mut Vec<Action>) {
        if self.gates.contains_key(&definition.id) {
            return;
        }
        self.open_gate(now, definition.clone(), None, actions).expect("it was looked at");
        self.learnt(now, definition, actions);
    }

    /// There is a gate, and it is open: what came for it before happens.
    pub(super) fn learnt(&mut self, now: Time, definition: Definition, actions: &mut Vec<Action>) {
        let (id, name) = (definition.id, definition.name.clone());
        self.catalogue.insert(definition.clone());
        actions.push(Action::Opened(definition));
        for (from, bytes) in self.early.remove(&id).unwrap_or_default() {
            // What is no message of this gate is as good as lost.
            let _ = self.gate_message(now, from, id, bytes, actions);
        }
        self.place_all(now, &name, actions);
    }

    /// The permit of the catalogue is here.
    pub(super) fn make_next(&mut self, now: Time, actions: &mut Vec<Action>) {
        match self.catalogue.begin(self.others.clone()) {
            Some(message) => {
                self.tell_all(&message, actions);
                self.make_on(now, actions);
            }
            None => {
                self.at_gate(now, CATALOGUE, actions, |gate, out| gate.release(now, OURS, out));
            }
        }
    }

    /// Goes on with the gate that is being made, if all have answered.
    fn make_on(&mut self, now: Time, actions: &mut Vec<Action>) {
        loop {
            let plan = self.catalogue.planned().map(|(id, name, k)| self.plan(id, &name, k));
            match self.catalogue.proceed(self.others.clone(), plan) {
                Step::Wait => return,
                Step::ServerMessage(message) => self.tell_all(&message, actions),
                Step::Made(definition) => {
                    self.learn(now, definition, actions);
                    return self.make_next(now, actions);
                }
            }
        }
    }

    /// Begins to look for crashes, once everybody has met everybody: who cannot answer yet is not
    /// dead.
    pub(super) fn begin_detection(&mut self, now: Time, actions: &mut Vec<Action>) {
        if self.control.is_some()
            || self.detector.is_some()
            || self.others.is_empty()
            || !self.others.is_subset(&self.met)
        {
            return;
        }
        if !self.said_met_all {
            self.said_met_all = true;
            self.tell_all(&PeerMessage::MetAll, actions);
        }
        if self.others.is_subset(&self.met_all) {
            self.start_detector(now, actions);
        }
    }

    fn start_detector(&mut self, now: Time, actions: &mut Vec<Action>) {
        let setup = Setup {
            me: self.settings.me,
            detect_interval: self.settings.detect_interval,
            detect_timeout: self.settings.detect_timeout,
            ..Setup::new(self.settings.nodes, 1)
        };
        let mut deeds = Vec::new();
        self.detector = super::detector(self.settings.detection, &setup, &mut deeds);
        self.detected(now, deeds, actions);
    }

    /// Something happens at the detector.
    pub(super) fn detect(
        &mut self,
        now: Time,
        actions: &mut Vec<Action>,
        what: impl FnOnce(&mut dyn Drive, &mut Vec<Deed>) -> Result<(), NotTaken>,
    ) -> Result<(), NotTaken> {
        // None where nobody looks for crashes.
        let Some(detector) = &mut self.detector else { return Ok(()) };
        let mut deeds = Vec::new();
        what(&mut **detector, &mut deeds)?;
        self.detected(now, deeds, actions);
        Ok(())
    }

    fn detected(&mut self, now: Time, deeds: Vec<Deed>, actions: &mut Vec<Action>) {
        for deed in deeds {
            match deed {
                Deed::Send { to, bytes, .. } => {
                    self.send(to, &PeerMessage::Detector(bytes).bytes(), actions);
                }
                Deed::Arm(timer, least, most) => {
                    self.timers.arm(now, Due::Detector(timer), least, most)
                }
                Deed::Disarm(timer) => self.timers.disarm(&Due::Detector(timer)),
                Deed::Tell(Notice::Suspected { node, .. }) => self.crash(now, node, actions),
                Deed::Tell(_) | Deed::Store(_) => {}
            }
        }
    }

    /// A node is held for crashed, for good.
    fn crash(&mut self, now: Time, node: NodeId, actions: &mut Vec<Action>) {
        if !self.crashed.insert(node) {
            return;
        }
        self.mark_dirty();
        self.watched(node, false);
        self.others.remove(&node);
        self.up.remove(&node);
        self.status_queries.gone(node);
        actions.push(Action::Send(node, PeerMessage::DeclaredDead.bytes()));
        actions.push(Action::Ban(node));
        // Its clients may go on until the time is over that it has told them last, and that was
        // before this.
        let wait = self.sessions.terms().over_after();
        self.timers.arm(now, Due::ConfirmDead(node), wait, wait);
        // The detector itself may find crashes by others' silence alone, or want to be told.
        let _ = self.detect(now, actions, |detector, deeds| {
            detector.order(now, kgate_net::Order::Crashed(node, Incarnation(0)), deeds)
        });
        self.begin_detection(now, actions);
        self.catalogue.answered(node, None);
        self.make_on(now, actions);
        self.send_status_reports(actions);
    }

    /// Nobody can hold anything any more through a node that has crashed: the gates go on without
    /// it.
    pub(super) fn confirm_dead(&mut self, now: Time, node: NodeId, actions: &mut Vec<Action>) {
        self.confirmed_dead.insert(node);
        self.mark_dirty();
        let tells = |gate: &super::Gate| {
            registry::entry(&gate.definition.protocol).is_ok_and(|entry| entry.detector.is_some())
        };
        let told: Vec<GateId> =
            self.gates.iter().filter(|(_, gate)| tells(gate)).map(|(id, _)| *id).collect();
        for id in told {
            self.at_gate(now, id, actions, |gate, out| {
                gate.crashed(now, node, Incarnation(0), out)
            });
        }
    }

    /// Another node holds this one for crashed. Of two parts that hold each other for crashed the
    /// smaller one stops; of equal ones, both.
    fn declared_dead(&mut self, by: NodeId, actions: &mut Vec<Action>) {
        let minority = 2 * self.crashed.len() >= self.settings.nodes as usize;
        if !self.crashed.contains(&by) || minority {
            let text = format!(
                "node {} holds this node, {}, for crashed and has gone on without it: it was silent for too long. It can take part again when the \
                 whole cluster is started anew",
                by.0, self.settings.me.0
            );
            self.stop_all(&text, actions);
        }
    }

    /// Gates of the configuration must be the same everywhere.
    fn compare(&mut self, from: NodeId, theirs: &[Definition]) {
        let known: BTreeSet<&str> = theirs.iter().map(|gate| gate.name.as_str()).collect();
        for ours in self.settings.fixed.clone() {
            let differs = theirs.iter().find(|gate| gate.name == ours.name && **gate != ours);
            let text = match differs {
                Some(other) => format!(
                    "gate `{}` has k = {} by {} in the configuration of node {}, and k = {} by {} in that of node {}: make them the same and restart",
                    ours.name,
                    ours.k,
                    ours.protocol,
                    self.settings.me.0,
                    other.k,
                    other.protocol,
                    from.0
                ),
                None if !known.contains(ours.name.as_str()) => format!(
                    "gate `{}` is in the configuration of node {} and not in that of node {}: make them the same and restart",
                    ours.name, self.settings.me.0, from.0
                ),
                None => continue,
            };
            self.conflicts.insert(ours.id, text);
        }
    }
}
