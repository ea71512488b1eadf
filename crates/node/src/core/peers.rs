//! Links to other nodes, and the messages that arrive there.

use std::collections::BTreeSet;

use bytes::Bytes;
use kgate_core::{Input, NodeId, Refusal};

use super::catalogue::{Answer, CATALOGUE, NextStep};
use super::clients::CATALOGUE_REQUEST;
use super::definition::{BadDefinition, Definition};
use super::failures::FailureModel;
use super::peer_message::{GATE_ID_MAX, GateId, PeerMessage};
use super::{Action, Core, PeerEvent};
use crate::driver::InputRejected;

/// The most bytes of early messages for one unknown gate.
const EARLY: usize = 1 << 20;
/// The most unknown gates with early messages.
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
    /// Something happened at the link to a peer. An error is what no correct peer sends.
    pub(super) fn on_peer(&mut self, from: NodeId, event: PeerEvent) -> Result<(), PeerError> {
        // With a log there may be more nodes than at the start.
        let unknown = !self.failures.has_leases() && from.0 >= self.settings.nodes;
        if self.stopped || from == self.settings.me || unknown {
            return Ok(());
        }
        match event {
            PeerEvent::Up if self.failures.has_crashed(from) => {
                self.send_to(from, &PeerMessage::DeclaredDead);
            }
            PeerEvent::Up => {
                self.up.insert(from);
                self.met(from);
                if !self.failures.has_leases() {
                    self.actions.push(Action::Send(
                        from,
                        PeerMessage::ConfiguredGates(self.settings.fixed.clone()).bytes(),
                    ));
                }
                self.actions.extend(
                    self.watch_message().map(|message| Action::Send(from, message.bytes())),
                );
                self.mark_dirty();
                self.begin_detection();
            }
            PeerEvent::Down => {
                self.up.remove(&from);
                self.status_queries.gone(from);
                self.send_status_reports();
                self.hint(from);
                self.mark_dirty();
            }
            PeerEvent::Broken | PeerEvent::Banned if self.failures.has_leases() => {
                self.hint(from);
            }
            PeerEvent::Broken => self.crash(from),
            PeerEvent::Banned => self.declared_dead(from),
            PeerEvent::Received(frame) => {
                let message = PeerMessage::read(&frame).ok_or(PeerError::Malformed)?;
                if message == PeerMessage::DeclaredDead && !self.failures.has_leases() {
                    self.declared_dead(from);
                } else if self.failures.has_crashed(from) {
                    self.send_to(from, &PeerMessage::DeclaredDead);
                } else {
                    return self.message(from, message);
                }
            }
        }
        Ok(())
    }

    fn message(&mut self, from: NodeId, message: PeerMessage) -> Result<(), PeerError> {
        if self.failures.has_leases() && message.is_of_catalogue() {
            return Err(PeerError::CatalogueMessage);
        }
        match message {
            PeerMessage::Gate(id, bytes) => {
                return self.gate_message(from, id, bytes);
            }
            PeerMessage::Detector(message) => {
                let input = Input::Deliver { from, message };
                return Ok(self.detector_message(input)?);
            }
            PeerMessage::ConfiguredGates(theirs) => self.compare(from, &theirs),
            PeerMessage::Collect { round, name } => {
                let definition = self.catalogue.get(&name).cloned();
                let known = PeerMessage::Known { round, definition, last: self.catalogue.last() };
                self.send_to(from, &known);
            }
            PeerMessage::Known { round, definition, last } => {
                definition.iter().try_for_each(|definition| self.check(definition))?;
                if last > GATE_ID_MAX {
                    return Err(PeerError::GateNumber(last));
                }
                self.catalogue
                    .answered(from, Some(Answer { round, known: Some((definition, last)) }));
                self.advance_creation();
            }
            PeerMessage::Define { round, definition } => {
                self.check(&definition)?;
                self.learn(definition);
                self.send_to(from, &PeerMessage::Defined { round });
            }
            PeerMessage::Defined { round } => {
                self.catalogue.answered(from, Some(Answer { round, known: None }));
                self.advance_creation();
            }
            PeerMessage::DescribeGate(id) => {
                let definition = self.gates.get(&id).map(|gate| gate.definition.clone());
                // No gate waits for the answer to round 0.
                let define = definition
                    .map(|definition| PeerMessage::Define { round: 0, definition }.bytes());
                self.actions.extend(define.map(|bytes| Action::Send(from, bytes)));
            }
            PeerMessage::StatusQuery { question, gate } => {
                self.answer_status_query(from, question, gate.as_deref());
            }
            PeerMessage::StatusReply { question, gates, who } => {
                if who.node == from {
                    self.status_queries.seen(question, who, gates);
                    self.send_status_reports();
                }
            }
            PeerMessage::Watch(begins) => self.watched(from, begins),
            PeerMessage::Changed => self.actions.push(Action::Changed),
            // With leases the log alone says who is gone, and the voters find silent nodes.
            PeerMessage::Leaving | PeerMessage::DeclaredDead | PeerMessage::MetAll
                if self.failures.has_leases() => {}
            PeerMessage::Leaving => self.crash(from),
            PeerMessage::DeclaredDead => unreachable!("answered before"),
            PeerMessage::MetAll => self.has_met_all(from),
            PeerMessage::Lease(message) => self.lease_message(from, message),
            PeerMessage::Log(_) => {
                return Err(PeerError::LogMessage);
            }
            // The operator's node looks at the status, whatever came of it.
            PeerMessage::EvictHolder { holder, author } => {
                let _ = self.evict_holder(&holder, &author);
            }
        }
        Ok(())
    }

    /// A message for a gate. Messages for an unknown gate wait until the gate is known; without a
    /// log the sender is asked to define it.
    fn gate_message(&mut self, from: NodeId, id: GateId, message: Bytes) -> Result<(), PeerError> {
        if self.gates.contains_key(&id) {
            self.start_at_first_use(id);
            let deliver = |gate: &mut super::Gate| gate.deliver(from, message);
            return match self.at_gate(id, deliver) {
                // The sender may have sent it before it left. Where members come and go, such a
                // message is no error.
                Some(Err(InputRejected::Refused(Refusal::UnknownNode(_))))
                    if self.failures.has_leases() =>
                {
                    Ok(())
                }
                taken => Ok(taken.unwrap_or(Ok(()))?),
            };
        }
        if self.early.len() >= EARLY_GATES && !self.early.contains_key(&id) {
            return Err(PeerError::TooManyUnknownGates(id));
        }
        let agreed = self.failures.has_leases();
        let early = self.early.entry(id).or_default();
        if early.is_empty() && !agreed {
            self.actions.push(Action::Send(from, PeerMessage::DescribeGate(id).bytes()));
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
        Definition::check_without_log(definition.check(self.settings.nodes)?)?;
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

    /// Opens a gate that a peer has defined.
    fn learn(&mut self, definition: Definition) {
        if self.gates.contains_key(&definition.id) {
            return;
        }
        self.open_gate(definition.clone(), None).expect("it was looked at");
        self.gate_opened(definition);
    }

    /// A gate is open now: hands it the messages and requests that waited for it.
    pub(super) fn gate_opened(&mut self, definition: Definition) {
        let (id, name) = (definition.id, definition.name.clone());
        self.catalogue.insert(definition.clone());
        self.actions.push(Action::Opened(definition));
        for (from, bytes) in self.early.remove(&id).unwrap_or_default() {
            // A rejected early message is dropped.
            let _ = self.gate_message(from, id, bytes);
        }
        self.place_all(&name);
    }

    /// This node holds the permit of the catalogue: creates the next gate, or releases the permit.
    pub(super) fn create_next(&mut self) {
        match self.catalogue.begin(self.others.clone()) {
            Some(message) => {
                self.broadcast(&message);
                self.advance_creation();
            }
            None => {
                self.at_gate(CATALOGUE, |gate| gate.release(CATALOGUE_REQUEST));
            }
        }
    }

    /// Advances the creation of a gate, if all have answered.
    pub(super) fn advance_creation(&mut self) {
        loop {
            let planned = self.catalogue.planned();
            let plan = planned.map(|(id, name, slots, author)| Definition {
                author,
                ..self.plan(id, name, slots)
            });
            match self.catalogue.proceed(self.others.clone(), plan) {
                NextStep::Wait => return,
                NextStep::ServerMessage(message) => self.broadcast(&message),
                NextStep::Created(definition) => {
                    self.learn(definition);
                    return self.create_next();
                }
            }
        }
    }

    /// Compares the gates of two configurations, which must be the same.
    fn compare(&mut self, from: NodeId, theirs: &[Definition]) {
        let known: BTreeSet<&str> = theirs.iter().map(|gate| gate.name.as_str()).collect();
        for ours in self.settings.fixed.clone() {
            let differs = theirs.iter().find(|gate| gate.name == ours.name && **gate != ours);
            let text = match differs {
                Some(other) => format!(
                    "gate `{}` has {} and protocol {} in the configuration of node {}, but {} and \
                     protocol {} in that of node {}: make them equal and restart",
                    ours.name,
                    ours.slots(),
                    ours.protocol,
                    self.settings.me.0,
                    other.slots(),
                    other.protocol,
                    from.0
                ),
                None if !known.contains(ours.name.as_str()) => format!(
                    "gate `{}` is in the configuration of node {} but not in that of node {}: make \
                     them equal and restart",
                    ours.name, self.settings.me.0, from.0
                ),
                None => continue,
            };
            if let FailureModel::CrashStop(crashes) = &mut self.failures {
                crashes.conflicts.insert(ours.id, text);
            }
        }
    }
}
