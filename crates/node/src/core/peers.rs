//! Other nodes: their messages, and who of them has crashed.
//!
//! Failures are crash-stop here: whoever is held for crashed takes part no more, and if it is alive
//! it is told so and stops. That is safe only where a silent node is a dead one. The detector
//! begins when all nodes have met all others once, so that nobody is held for crashed who has not
//! started yet, or who cannot answer yet because it still waits for a third.

use std::collections::BTreeSet;

use bytes::Bytes;
use kgate_core::{Effect, Incarnation, Input, NodeId, Notice, Refusal, Setup, Time};
use kgate_protocols::registry;

use super::catalogue::{Answer, CATALOGUE, Step};
use super::clients::OURS;
use super::definition::{BadDefinition, Definition};
use super::peer_message::{GATE_ID_MAX, GateId, PeerMessage, detector_frame};
use super::timers::Due;
use super::{Action, Core, PeerEvent};
use crate::driver::{DriverEffect, DriverInput, InputRejected};

/// So many bytes of messages for gates that are not known yet are kept, for each of them.
const EARLY: usize = 1 << 20;
/// Of so many gates.
const EARLY_GATES: usize = 1 << 10;

/// Why a message of a peer was rejected. No correct peer sends one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The frame is no message between nodes.
    #[error("malformed message: the frame is no message between nodes")]
    Malformed,
    /// Nodes with a log do not define gates by messages.
    #[error("message about the catalogue of gates: here the log defines the gates")]
    CatalogueMessage,
    /// The shell hands messages of the log to the log, not to the core.
    #[error("message of the log inside another message")]
    LogMessage,
    /// The protocol rejected the message.
    #[error(transparent)]
    Rejected(#[from] InputRejected),
    /// The definition of a gate is not valid.
    #[error(transparent)]
    BadDefinition(#[from] BadDefinition),
    /// The number of a gate is so large that no number is left for the next one.
    #[error("gate {} has a number beyond the last one, {}", .0.0, GATE_ID_MAX.0)]
    GateNumber(GateId),
    /// The name or the number belongs to another gate.
    #[error("another definition of gate `{known}`: {other:?}")]
    ConflictingDefinition {
        /// The name of the gate that is known.
        known: String,
        /// The definition of the peer.
        other: Box<Definition>,
    },
    /// The gate is unknown, and messages wait for too many unknown gates already.
    #[error("message for gate {}, which is unknown, as are too many others", .0.0)]
    TooManyUnknownGates(GateId),
    /// The gate is unknown, and too many messages wait for it already.
    #[error("too many messages for gate {}, which is unknown", .0.0)]
    TooManyEarlyMessages(GateId),
}

impl Core {
    /// Something happens at a peer's link. An error is what no correct peer sends, for the logs.
    pub fn peer(
        &mut self,
        now: Time,
        from: NodeId,
        event: PeerEvent,
        actions: &mut Vec<Action>,
    ) -> Result<(), PeerError> {
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
    ) -> Result<(), PeerError> {
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
            PeerEvent::Received(frame) => {
                let message = PeerMessage::read(&frame).ok_or(PeerError::Malformed)?;
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
    ) -> Result<(), PeerError> {
        if self.control.is_some() && message.is_of_catalogue() {
            return Err(PeerError::CatalogueMessage);
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
                return Ok(self.drive_detector(
                    now,
                    Input::Deliver { from, message: bytes },
                    actions,
                )?);
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
                    return Err(PeerError::GateNumber(last));
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
                return Err(PeerError::LogMessage);
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
        message: Bytes,
        actions: &mut Vec<Action>,
    ) -> Result<(), PeerError> {
        if self.gates.contains_key(&id) {
            let deliver =
                |gate: &mut super::Gate, out: &mut Vec<_>| gate.deliver(now, from, message, out);
            return match self.at_gate(now, id, actions, deliver) {
                // The sender may have sent it before it left. Where members come and go, such a
                // message is no error.
                Some(Err(InputRejected::Refused(Refusal::UnknownNode(_))))
                    if self.control.is_some() =>
                {
                    Ok(())
                }
                taken => Ok(taken.unwrap_or(Ok(()))?),
            };
        }
        if self.early.len() >= EARLY_GATES && !self.early.contains_key(&id) {
            return Err(PeerError::TooManyUnknownGates(id));
        }
        let agreed = self.control.is_some();
        let early = self.early.entry(id).or_default();
        if early.is_empty() && !agreed {
            actions.push(Action::Send(from, PeerMessage::DescribeGate(id).bytes()));
        }
        let waiting: usize = early.iter().map(|(_, message)| message.len() + 32).sum();
        if waiting + message.len() > EARLY {
            return Err(PeerError::TooManyEarlyMessages(id));
        }
        early.push((from, message));
        Ok(())
    }

    /// Checks a peer's definition of a gate against the rules and against what is known here.
    fn check(&self, definition: &Definition) -> Result<(), PeerError> {
        definition.check(self.settings.nodes)?;
        if definition.id > GATE_ID_MAX {
            return Err(PeerError::GateNumber(definition.id));
        }
        let known = self.gates.get(&definition.id).map(|gate| &gate.definition);
        let named = self.catalogue.get(&definition.name);
        match known.or(named).filter(|known| *known != definition) {
            Some(known) => {
                let (known, other) = (known.name.clone(), Box::new(definition.clone()));
                Err(PeerError::ConflictingDefinition { known, other })
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
        let mut effects = Vec::new();
        self.detector = super::detector(self.settings.detection, &setup, &mut effects);
        self.carry_out_detector(now, effects, actions);
    }

    /// Hands the detector one input, if there is a detector, and carries out its effects.
    pub(super) fn drive_detector(
        &mut self,
        now: Time,
        input: DriverInput,
        actions: &mut Vec<Action>,
    ) -> Result<(), InputRejected> {
        let Some(detector) = &mut self.detector else { return Ok(()) };
        let mut effects = Vec::new();
        detector.handle(now, input, &mut effects)?;
        self.carry_out_detector(now, effects, actions);
        Ok(())
    }

    fn carry_out_detector(
        &mut self,
        now: Time,
        effects: Vec<DriverEffect>,
        actions: &mut Vec<Action>,
    ) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.send(&to, &detector_frame(message), actions),
                Effect::Arm { timer, least, most } => {
                    self.timers.arm(now, Due::Detector(timer), least, most);
                }
                Effect::Disarm(timer) => self.timers.disarm(&Due::Detector(timer)),
                Effect::Notify(notice) => {
                    if let Notice::Suspected { node, .. } = *notice {
                        self.crash(now, node, actions);
                    }
                }
                // A detector starts anew with its node.
                Effect::Persist(_) => {}
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
        let _ =
            self.drive_detector(now, Input::Crashed { node, incarnation: Incarnation(0) }, actions);
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
