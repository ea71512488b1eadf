//! How a node treats failures of other nodes: as crashes for good, or by leases.
//!
//! With **crash-stop**, a node that the detector declares dead is permanently excluded. If it is
//! alive after all, it is told so and stops. That is safe only where a silent node is a dead node.
//! The detector starts when all nodes have met all others once, so that no node is declared dead
//! that has not started yet, or that cannot answer yet because it still waits for a third.
//!
//! With **leases**, only the agreed log says who is a member ([`Control`]).

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Effect, Incarnation, NodeId, Notice, Setup};
use kgate_protocols::registry;

use super::action::StopReason;
use super::control::Control;
use super::peer_message::{GateId, PeerMessage, detector_frame};
use super::timers::Deadline;
use super::{Action, Core, Gate};
use crate::driver::{Drive, DriverEffect, DriverInput, InputRejected};

/// The failure model of a cluster. Its configuration says which.
pub(super) enum FailureModel {
    /// A silent node is dead for good.
    CrashStop(CrashStop),
    /// A silent node is evicted by the log when its lease is over.
    Leases(Box<Control>),
}

/// What a node knows of crashes, where failures are crash-stop.
#[derive(Default)]
pub(super) struct CrashStop {
    detector: Option<Box<dyn Drive>>,
    /// Nodes that were connected at least once.
    met: BTreeSet<NodeId>,
    /// Nodes that have met all others.
    met_all: BTreeSet<NodeId>,
    /// Whether this node has announced that it has met all others.
    announced: bool,
    /// Nodes that were declared dead.
    pub(super) crashed: BTreeSet<NodeId>,
    /// Of those, the nodes whose clients have certainly stopped: the gates know that they are gone.
    pub(super) confirmed_dead: BTreeSet<NodeId>,
    /// Gates that the configuration of a peer defines differently, with the reason for clients.
    pub(super) conflicts: BTreeMap<GateId, String>,
}

impl FailureModel {
    pub(super) fn leases(&self) -> Option<&Control> {
        match self {
            Self::CrashStop(_) => None,
            Self::Leases(control) => Some(control),
        }
    }

    /// The control plane, in code that runs with leases only.
    pub(super) fn control(&self) -> &Control {
        self.leases().expect("only a node with leases gets here")
    }

    /// The same, to change it.
    pub(super) fn control_mut(&mut self) -> &mut Control {
        match self {
            Self::CrashStop(_) => unreachable!("only a node with leases gets here"),
            Self::Leases(control) => control,
        }
    }

    pub(super) fn has_leases(&self) -> bool {
        self.leases().is_some()
    }

    pub(super) fn has_crashed(&self, node: NodeId) -> bool {
        match self {
            Self::CrashStop(crashes) => crashes.crashed.contains(&node),
            Self::Leases(_) => false,
        }
    }

    /// Nodes that were declared dead; none with leases.
    pub(super) fn crashed(&self) -> impl Iterator<Item = NodeId> {
        let crashed = match self {
            Self::CrashStop(crashes) => Some(&crashes.crashed),
            Self::Leases(_) => None,
        };
        crashed.into_iter().flatten().copied()
    }
}

impl Core {
    /// A link to a peer is up.
    pub(super) fn met(&mut self, node: NodeId) {
        if let FailureModel::CrashStop(crashes) = &mut self.failures {
            crashes.met.insert(node);
        }
    }

    /// A peer has met all others.
    pub(super) fn has_met_all(&mut self, node: NodeId) {
        if let FailureModel::CrashStop(crashes) = &mut self.failures {
            crashes.met_all.insert(node);
            self.begin_detection();
        }
    }

    /// Starts to detect crashes as soon as all nodes have met all others. A node that cannot answer
    /// yet is not dead.
    pub(super) fn begin_detection(&mut self) {
        let FailureModel::CrashStop(crashes) = &mut self.failures else { return };
        let others = &self.others;
        if crashes.detector.is_some() || others.is_empty() || !others.is_subset(&crashes.met) {
            return;
        }
        let (all, announces) = (others.is_subset(&crashes.met_all), !crashes.announced);
        crashes.announced = true;
        if announces {
            self.broadcast(&PeerMessage::MetAll);
        }
        if all {
            self.start_detector();
        }
    }

    fn start_detector(&mut self) {
        let FailureModel::CrashStop(crashes) = &mut self.failures else { return };
        let setup = Setup {
            me: self.settings.me,
            detect_interval: self.settings.detect_interval,
            detect_timeout: self.settings.detect_timeout,
            ..Setup::new(self.settings.nodes, 1)
        };
        let mut effects = Vec::new();
        crashes.detector = super::detector(self.settings.detection, &setup, &mut effects);
        self.carry_out_detector(effects);
    }

    /// A message of a peer's detector. The peer was told by all nodes, and so by this one, that
    /// they have met.
    pub(super) fn detector_message(&mut self, input: DriverInput) -> Result<(), InputRejected> {
        let FailureModel::CrashStop(crashes) = &self.failures else { return Ok(()) };
        if crashes.detector.is_none() && crashes.announced {
            self.start_detector();
        }
        self.drive_detector(input)
    }

    /// Hands the detector one input, if there is a detector, and carries out its effects.
    pub(super) fn drive_detector(&mut self, input: DriverInput) -> Result<(), InputRejected> {
        let FailureModel::CrashStop(crashes) = &mut self.failures else { return Ok(()) };
        let Some(detector) = &mut crashes.detector else { return Ok(()) };
        let mut effects = Vec::new();
        detector.handle(self.now, input, &mut effects)?;
        self.carry_out_detector(effects);
        Ok(())
    }

    fn carry_out_detector(&mut self, effects: Vec<DriverEffect>) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.send(&to, &detector_frame(message)),
                Effect::Arm { timer, least, most } => {
                    self.timers.arm(self.now, Deadline::Detector(timer), least, most);
                }
                Effect::Disarm(timer) => self.timers.disarm(&Deadline::Detector(timer)),
                Effect::Notify(notice) => {
                    if let Notice::Suspected { node, .. } = *notice {
                        self.crash(node);
                    }
                }
                // A detector starts anew with its node.
                Effect::Persist(_) => {}
            }
        }
    }

    /// Declares a node dead, for good.
    pub(super) fn crash(&mut self, node: NodeId) {
        let FailureModel::CrashStop(crashes) = &mut self.failures else { return };
        if !crashes.crashed.insert(node) {
            return;
        }
        self.mark_dirty();
        self.watched(node, false);
        self.others.remove(&node);
        self.up.remove(&node);
        self.status_queries.gone(node);
        self.send_to(node, &PeerMessage::DeclaredDead);
        self.actions.push(Action::Ban(node));
        // The clients of the node may go on until the validity that they were told last has
        // passed, and they were told before this instant.
        let wait = self.sessions.terms().over_after();
        self.timers.arm(self.now, Deadline::ConfirmDead(node), wait, wait);
        // A detector that finds crashes by silence alone refuses this input.
        let crashed = DriverInput::Crashed { node, incarnation: Incarnation(0) };
        let _ = self.drive_detector(crashed);
        self.begin_detection();
        self.catalogue.answered(node, None);
        self.advance_creation();
        self.send_status_reports();
    }

    /// No client can hold anything through the crashed node any more: the gates go on without it.
    pub(super) fn confirm_dead(&mut self, node: NodeId) {
        let FailureModel::CrashStop(crashes) = &mut self.failures else { return };
        crashes.confirmed_dead.insert(node);
        self.mark_dirty();
        let hears = |gate: &Gate| {
            registry::entry(&gate.definition.protocol).is_ok_and(|entry| entry.detector.is_some())
        };
        let gates: Vec<GateId> =
            self.gates.iter().filter(|(_, gate)| hears(gate)).map(|(id, _)| *id).collect();
        for id in gates {
            self.at_gate(id, |gate| gate.crashed(node, Incarnation(0)));
        }
    }

    /// Another node has declared this node dead. Of two parts that declare each other dead the
    /// smaller one stops; of equal parts, both stop.
    pub(super) fn declared_dead(&mut self, by: NodeId) {
        let FailureModel::CrashStop(crashes) = &self.failures else { return };
        let minority = 2 * crashes.crashed.len() >= self.settings.nodes as usize;
        if !crashes.crashed.contains(&by) || minority {
            let me = self.settings.me;
            self.stop_all(StopReason::DeclaredDead { me, by });
        }
    }
}
