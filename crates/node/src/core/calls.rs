//! Calls: commands and questions that belong to no session, each answered once.
//!
//! Operators change gates and evict holders without an agreed log; processes ask whether they run
//! under a permit already (`reentry.rs`).
//!
//! A node alone is the only authority for its gates, so it changes their k at once. Slots at or
//! above a smaller k are drained as in a cluster: no request gets one of them again, and their
//! holders keep them until they release them.
//!
//! The k that requests gave a gate follows the requests: while the gate is unused, the next request
//! with another k changes it. The k that an operator or the configuration set stays until it is set
//! again. What an operator set is stored before it takes effect, so that neither a restart nor the
//! end of an idle node undoes it.

use kgate_control::state::{KSource, Policy, Slots};
use kgate_core::Span;
use serde::{Deserialize, Serialize};

use super::clients::closed;
use super::definition::{BadDefinition, Definition};
use super::messages::{AcquireRequest, ErrorCode, Refusal};
use super::peer_message::{GateId, PeerMessage};
use super::reentry::{HeldPermit, ReentryKey};
use super::timers::Deadline;
use super::view::HolderId;
use super::{Action, Core, RequestKey, SessionId};

/// Why a node of a cluster without a log cannot carry out a command of an operator.
pub(crate) const NO_LOG: &str = "this node has no replicated log: its members and the k of its \
    gates are fixed; to change them at run time, set `data` and remove faults = \"crash-stop\" \
    from the configuration";

/// A command or a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Changes a gate, and creates it if need be.
    SetGate {
        /// The name of the gate.
        name: String,
        /// The new k, if it changes; 0 closes the gate.
        k: Option<u32>,
        /// What k comes from, if that changes. With a new k alone, an expression is dropped, and
        /// names stay.
        source: Option<KSource>,
        /// Whether the slots lose their names.
        no_names: bool,
        /// The new policy, if it changes.
        policy: Option<Policy>,
        /// The operator, for people.
        author: String,
    },
    /// Tells a holder, here or at another node, that its permit is lost.
    EvictHolder {
        /// The holder.
        holder: HolderId,
        /// The operator, for people.
        author: String,
    },
    /// Asks for the permit of a gate that a key proves.
    FindPermit {
        /// The name of the gate.
        gate: String,
        /// The key.
        key: ReentryKey,
    },
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallReply {
    /// The gate is as the operator wants it. Slots at or above k may still be held.
    GateSet {
        /// Its k.
        k: u32,
        /// The k before; the same, if the gate was created.
        previous_k: u32,
    },
    /// The holder is told, or its node is. It holds its slots until it has stopped.
    EvictionSent,
    /// The permit is held.
    Permit(HeldPermit),
}

/// What an operator set of a gate: kept until it is set again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateSetting {
    /// The name of the gate.
    pub name: String,
    /// Its slots.
    pub slots: Slots,
    /// The operator, for people.
    pub author: String,
}

impl Core {
    /// A call.
    pub(super) fn on_call(&mut self, number: u64, call: Call) {
        let reply = match call {
            Call::SetGate { name, k, source, no_names, policy, author } => self
                .check_setting(&name, (k, source, no_names), policy)
                .map(|slots| self.set_gate_alone(&name, slots, author)),
            Call::EvictHolder { holder, author } => self.evict_holder(&holder, &author),
            Call::FindPermit { gate, key } => self.find_permit(&gate, key).map(CallReply::Permit),
        };
        self.actions.push(Action::Answer(number, reply));
    }

    /// Tells a holder that an operator evicts it. The slots stay taken until the client has stopped
    /// its work and releases them, or has surely stopped: every renewal that was answered after
    /// this message reached a client that knew of it (rule S4).
    pub(super) fn evict_holder(
        &mut self,
        holder: &HolderId,
        author: &str,
    ) -> Result<CallReply, Refusal> {
        if holder.node != self.settings.me {
            let (holder, author) = (holder.clone(), author.to_owned());
            let message = PeerMessage::EvictHolder { holder: holder.clone(), author };
            self.actions.push(Action::Send(holder.node, message.bytes()));
            return Ok(CallReply::EvictionSent);
        }
        let key = RequestKey { session: SessionId(holder.session), number: holder.number };
        let gate = self.gate_of(key).and_then(|id| self.gates.get(&id));
        if !gate.is_some_and(|gate| gate.holds_under(key, holder.fence.as_deref())) {
            let text = "it does not hold this permit any more";
            return Err((ErrorCode::PermitNotFound, text.into()));
        }
        let over = self.sessions.terms().over_after();
        if self.sessions.stream(key).is_none() && over == Span::ZERO {
            let text = "no connection leads to the holder: it started before this node, or its \
                        guard is dead. Its slots are free when its processes have ended";
            return Err((ErrorCode::BadRequest, text.into()));
        }
        self.mark_dirty();
        self.announce_loss(key, format!("evicted by {author}"));
        if over > Span::ZERO && !self.timers.runs(&Deadline::Reclaim(key)) {
            self.timers.arm(self.now, Deadline::Reclaim(key), over, over);
        }
        Ok(CallReply::EvictionSent)
    }

    /// Whether this node is the only authority for its gates.
    pub(super) fn is_alone(&self) -> bool {
        self.settings.nodes == 1 && !self.failures.has_leases()
    }

    /// The slots that an unused gate takes from a request, if it takes other ones. A number or an
    /// expression takes nobody's names away: that has to be said, by `kgate set --no-names`.
    pub(super) fn next_slots(&self, known: &Definition, request: &AcquireRequest) -> Option<Slots> {
        let gate = self.gates.get(&known.id)?;
        let wanted = request.k.as_ref().filter(|wanted| !known.slots().satisfies(wanted))?;
        let drops_names = !known.source.names().is_empty() && wanted.source.names().is_empty();
        let valid = !drops_names
            && (1..=Definition::MOST).contains(&wanted.k)
            && self.check_names_in_all(&known.name, wanted).is_ok();
        let configured = self.settings.fixed.iter().any(|fixed| fixed.name == known.name);
        let follows = self.is_alone() && gate.can_resize() && !gate.is_set && !configured;
        (valid && follows && gate.is_unused()).then(|| wanted.clone())
    }

    /// The slots that a gate gets, if they may be set.
    fn check_setting(
        &self,
        name: &str,
        (k, source, no_names): (Option<u32>, Option<KSource>, bool),
        policy: Option<Policy>,
    ) -> Result<Slots, Refusal> {
        let refused = |text: String| Err((ErrorCode::BadRequest, text));
        if !self.is_alone() {
            return refused(NO_LOG.into());
        }
        if !self.settings.has_store {
            return refused(format!(
                "this node would forget the k of gate `{name}` when it stops: set `data` in its \
                 configuration"
            ));
        }
        if policy == Some(Policy::Hold) {
            return refused(
                "policy hold needs the agreed log of a cluster: permits of this node end with \
                 their processes"
                    .into(),
            );
        }
        let invalid = |error: BadDefinition| (ErrorCode::BadRequest, error.to_string());
        if let Some(k) = k.filter(|k| *k > Definition::MOST) {
            return Err(invalid(BadDefinition::K(k)));
        }
        let checked = |slots: Slots| {
            slots.check().map_err(|bad| invalid(bad.into()))?;
            self.check_names_in_all(name, &slots)?;
            Ok(slots)
        };
        let Some(known) = self.catalogue.get(name) else {
            Definition::check_name(name).map_err(invalid)?;
            return match (k, self.settings.new_gates) {
                (Some(k), Some(entry)) if entry.slots => {
                    checked(Slots { k, source: source.unwrap_or_default() })
                }
                (Some(_) | None, _) => {
                    Err((ErrorCode::GateNotFound, format!("there is no gate `{name}`")))
                }
            };
        };
        if !self.gates.get(&known.id).is_some_and(super::Gate::can_resize) {
            return refused(format!(
                "gate `{name}` uses protocol {}, whose k is fixed; `slots` can change it",
                known.protocol
            ));
        }
        let source = match (source, k) {
            (Some(source), _) => source,
            (None, Some(_)) => known.source.after_number(),
            (None, None) => known.source.clone(),
        };
        known.source.check_kept(&source, no_names).map_err(|bad| invalid(bad.into()))?;
        let holders = self.gates.get(&known.id).map_or(0, super::Gate::holders);
        if holders > 0 {
            known.source.check_moves(&source).map_err(|bad| invalid(bad.into()))?;
        }
        checked(Slots { k: k.unwrap_or(known.k), source })
    }

    /// Changes a gate that may be changed.
    fn set_gate_alone(&mut self, name: &str, slots: Slots, author: String) -> CallReply {
        let known = self.catalogue.get(name).cloned();
        let previous_k = known.as_ref().map(|known| known.k);
        let k = slots.k;
        self.actions.push(Action::StoreGateSetting(GateSetting {
            name: name.to_owned(),
            slots: slots.clone(),
            author: author.clone(),
        }));
        let definition = known.unwrap_or_else(|| {
            // A closed gate is opened with one slot, and closed below.
            let id = GateId(self.catalogue.last().0 + 1);
            let first = if k == 0 { 1.into() } else { slots.clone() };
            let plan = Definition { author: author.clone(), ..self.plan(id, name, first) };
            self.open_gate(plan.clone(), None).expect("it was checked");
            self.gate_opened(plan.clone());
            plan
        });
        if let Some(gate) = self.gates.get_mut(&definition.id) {
            gate.is_set = true;
        }
        if slots != definition.slots() {
            self.resize_alone(&definition, slots, author);
        }
        CallReply::GateSet { k, previous_k: previous_k.unwrap_or(k) }
    }

    /// Changes the slots of a gate of this node alone.
    pub(super) fn resize_alone(&mut self, gate: &Definition, slots: Slots, author: String) {
        let Definition { id, name, policy, .. } = gate;
        self.mark_dirty();
        self.catalogue.alter(name, slots.clone(), *policy, &author);
        let Slots { k, source } = slots.clone();
        let author_now = author.clone();
        self.actions.push(Action::Opened(Definition {
            k,
            source,
            author: author_now,
            ..gate.clone()
        }));
        if k == 0 {
            let text = closed(name, &author);
            self.refuse_waiting(Some(*id), ErrorCode::TooLarge, &text);
        }
        self.at_gate(*id, |gate| gate.resize(slots, author));
    }
}
