//! Gates: the first command to create one wins, later ones change it, and it is deleted once
//! nothing is held.

use super::{
    Applied, Change, ClusterState, Gate, GateId, Invalid, KSource, Limit, Outcome, Policy,
    Rejected, Slots, State, TextField, bounds, check_text, invalid, start,
};

/// What [`super::Command::SetGate`] asks for.
pub(super) struct GateChange {
    pub(super) k: Option<u32>,
    pub(super) source: Option<KSource>,
    pub(super) policy: Option<Policy>,
    pub(super) version: Option<u64>,
    pub(super) author: String,
}

impl State {
    /// `gate` is the gate as asked for, still without a number.
    pub(super) fn create_gate(&mut self, mut gate: Gate) -> Outcome {
        check_text(TextField::Author, &gate.author, 0)?;
        if let Some(known) = self.cluster_state.gate(&gate.name) {
            check_same(known, &gate)?;
            return Ok((Applied::Gate { gate: known.id, version: known.version }, Vec::new()));
        }
        check_gate(&gate)?;
        if self.cluster_state.gates.len() >= bounds::GATES {
            return Err(Rejected::LimitReached(Limit::Gates));
        }
        self.check_names(&gate)?;
        self.last_gate += 1;
        gate.id = GateId(self.last_gate);
        gate.created_in = self.cluster_state.homes.directory.changes();
        self.cluster_state.gates.insert(gate.id, gate.clone());
        let applied = Applied::Gate { gate: gate.id, version: gate.version };
        Ok((applied, vec![Change::GateCreated(gate)]))
    }

    pub(super) fn set_gate(&mut self, index: u64, name: &str, change: GateChange) -> Outcome {
        let GateChange { k, source, policy, version, author } = change;
        check_text(TextField::Author, &author, 0)?;
        let mut wanted = self.gate_named(name)?.clone();
        wanted.source = match (source, k) {
            (Some(source), _) => source,
            (None, Some(_)) => wanted.source.after_number(),
            (None, None) => wanted.source,
        };
        wanted.k = k.unwrap_or(wanted.k);
        wanted.policy = policy.unwrap_or(wanted.policy);
        check_slots(&wanted)?;
        self.check_names(&wanted)?;
        let id = wanted.id;
        let known = &self.cluster_state.gates[&id];
        if known.k > 0 {
            let moves = known.source.check_moves(&wanted.source);
            moves.map_err(|bad| Rejected::Invalid(Invalid::Slots(bad)))?;
        }
        let gate = self.cluster_state.gates.get_mut(&id).expect("it was found");
        if wanted == *gate {
            return Ok((Applied::Gate { gate: id, version: gate.version }, Vec::new()));
        }
        if version.is_some_and(|version| version != gate.version) {
            return Err(conflict(gate, wanted.slots(), author));
        }
        if wanted.slots() != gate.slots() {
            wanted.author = author;
        }
        (wanted.version, wanted.touched) = (index, index);
        *gate = wanted.clone();
        Ok((Applied::Gate { gate: id, version: index }, vec![Change::GateChanged(wanted)]))
    }

    pub(super) fn delete_gate(&mut self, index: u64, name: &str, version: u64) -> Outcome {
        let gate = self.gate_named(name)?;
        let (id, gate, k) = (gate.id, name.to_owned(), gate.k);
        if k != 0 {
            return Err(Rejected::GateNotClosed { gate, k });
        }
        let changed = self.cluster_state.gates[&id].version;
        if changed != version {
            return Err(Rejected::GateChanged { gate, version: changed });
        }
        if !self.cluster_state.held_slots(id).is_empty() {
            return Err(Rejected::GateHasPermits(gate));
        }
        self.cluster_state.gates.remove(&id);
        self.cluster_state.once.remove(&id);
        self.fences.retain(|(gate, _), _| *gate != id);
        Ok((Applied::Deleted, vec![Change::GateDeleted(id, index)]))
    }

    /// Checks that the names of a gate fit beside those of all others.
    fn check_names(&self, wanted: &Gate) -> Result<(), Rejected> {
        let others = self.cluster_state.gates.values().filter(|gate| gate.name != wanted.name);
        let others: usize = others.map(|gate| gate.source.names().len()).sum();
        let names = wanted.source.names().len();
        if names > 0 && others + names > bounds::NAMES_IN_ALL {
            return Err(Rejected::LimitReached(Limit::Names));
        }
        Ok(())
    }

    fn gate_named(&self, name: &str) -> Result<&Gate, Rejected> {
        if let Some(gate) = self.cluster_state.gate(name) {
            return Ok(gate);
        }
        check_name(name)?;
        Err(Rejected::NoGate(name.to_owned()))
    }
}

impl ClusterState {
    pub(super) fn gates_since(&self, older: &ClusterState, changes: &mut Vec<Change>) {
        let gone = older.gates.keys().filter(|id| !self.gates.contains_key(id));
        changes.extend(gone.map(|id| Change::GateDeleted(*id, self.applied)));
        for (id, gate) in &self.gates {
            match older.gates.get(id) {
                None => changes.push(Change::GateCreated(gate.clone())),
                Some(before) if before != gate => changes.push(Change::GateChanged(gate.clone())),
                Some(_) => {}
            }
        }
    }
}

/// Whether an existing gate is what is asked for. The policy is not compared: an operator may have
/// changed it since.
fn check_same(known: &Gate, wanted: &Gate) -> Result<(), Rejected> {
    if !known.slots().satisfies(&wanted.slots()) {
        return Err(conflict(known, wanted.slots(), wanted.author.clone()));
    }
    if known.protocol != wanted.protocol || known.lanes != wanted.lanes {
        return Err(Rejected::ProtocolConflict {
            gate: known.name.clone(),
            protocol: known.protocol.clone(),
            lanes: known.lanes,
            wanted_protocol: start(&wanted.protocol),
            wanted_lanes: wanted.lanes,
        });
    }
    Ok(())
}

fn conflict(gate: &Gate, wanted: Slots, wanted_by: String) -> Rejected {
    let (slots, wanted) = (Box::new(gate.slots()), Box::new(wanted));
    let (gate, author) = (gate.name.clone(), gate.author.clone());
    Rejected::Conflict { gate, slots, author, wanted, wanted_by }
}

fn check_gate(gate: &Gate) -> Result<(), Rejected> {
    check_name(&gate.name)?;
    check_slots(gate)?;
    check_text(TextField::Protocol, &gate.protocol, 1)?;
    if gate.k == 0 {
        return invalid(Invalid::ZeroK);
    }
    if gate.lanes == 0 || gate.lanes > gate.k {
        return invalid(Invalid::Lanes { k: gate.k, lanes: gate.lanes });
    }
    if gate.weight_max == Some(0) {
        return invalid(Invalid::ZeroWeightMax);
    }
    Ok(())
}

fn check_slots(gate: &Gate) -> Result<(), Rejected> {
    if gate.k > bounds::SLOTS {
        return invalid(Invalid::K(gate.k));
    }
    gate.slots().check().map_err(|bad| Rejected::Invalid(Invalid::Slots(bad)))
}

fn check_name(name: &str) -> Result<(), Rejected> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if name.is_empty() || name.len() > bounds::TEXT || !name.chars().all(allowed) {
        return invalid(Invalid::GateName(start(name)));
    }
    Ok(())
}
