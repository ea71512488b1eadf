//! Gates: made by whoever is first, changed by entries, ended when nothing is held.

use super::{
    Applied, Change, ClusterState, Gate, GateId, Outcome, Policy, Rejected, State, bounds,
    check_text, refused,
};

impl State {
    /// `gate` as it is asked for, still without a number.
    pub(super) fn create(&mut self, mut gate: Gate) -> Outcome {
        check_text("an author", &gate.author, true)?;
        if let Some(known) = self.cluster_state.gate(&gate.name) {
            return match same(known, &gate) {
                Ok(()) => {
                    Ok((Applied::Gate { gate: known.id, version: known.version }, Vec::new()))
                }
                Err(void) => Err(void),
            };
        }
        check_gate(&gate)?;
        if self.cluster_state.gates.len() >= bounds::GATES {
            return refused(format!("there are {} gates already: delete one first", bounds::GATES));
        }
        self.last_gate += 1;
        gate.id = GateId(self.last_gate);
        self.cluster_state.gates.insert(gate.id, gate.clone());
        Ok((
            Applied::Gate { gate: gate.id, version: gate.version },
            vec![Change::GateCreated(gate)],
        ))
    }

    pub(super) fn set(
        &mut self,
        index: u64,
        name: &str,
        k: Option<u32>,
        policy: Option<Policy>,
        version: Option<u64>,
        author: String,
    ) -> Outcome {
        check_text("an author", &author, true)?;
        let id = self.named(name)?.id;
        let gate = self.cluster_state.gates.get_mut(&id).expect("it was found");
        let mut wanted = gate.clone();
        wanted.k = k.unwrap_or(gate.k);
        wanted.policy = policy.unwrap_or(gate.policy);
        check_k(wanted.k)?;
        if wanted == *gate {
            return Ok((Applied::Gate { gate: id, version: gate.version }, Vec::new()));
        }
        if version.is_some_and(|version| version != gate.version) {
            return Err(Rejected::Conflict {
                gate: gate.name.clone(),
                k: gate.k,
                author: gate.author.clone(),
                wanted: wanted.k,
                wanted_by: author,
            });
        }
        if wanted.k != gate.k {
            wanted.author = author;
        }
        wanted.version = index;
        *gate = wanted.clone();
        Ok((Applied::Gate { gate: id, version: index }, vec![Change::GateChanged(wanted)]))
    }

    pub(super) fn delete(&mut self, index: u64, name: &str, version: u64) -> Outcome {
        let gate = self.named(name)?;
        if gate.k != 0 {
            return refused(format!(
                "gate {name} has k = {}: set k = 0 and let it drain first",
                gate.k
            ));
        }
        if gate.version != version {
            return refused(format!(
                "gate {name} was changed by entry {} since it was found drained",
                gate.version
            ));
        }
        if !self.cluster_state.held_slots(gate.id).is_empty() {
            return refused(format!("permits of gate {name} are still held"));
        }
        let id = gate.id;
        self.cluster_state.gates.remove(&id);
        self.fences.retain(|(gate, _), _| *gate != id);
        Ok((Applied::Deleted, vec![Change::GateDeleted(id, index)]))
    }

    fn named(&self, name: &str) -> Result<&Gate, Rejected> {
        match self.cluster_state.gate(name) {
            Some(gate) => Ok(gate),
            None => {
                check_name(name)?;
                refused(format!("there is no gate {name}"))
            }
        }
    }

    pub(super) fn gates_since(&self, older: &ClusterState, changes: &mut Vec<Change>) {
        let now = &self.cluster_state;
        let gone = older.gates.keys().filter(|id| !now.gates.contains_key(id));
        changes.extend(gone.map(|id| Change::GateDeleted(*id, now.applied)));
        for (id, gate) in &now.gates {
            match older.gates.get(id) {
                None => changes.push(Change::GateCreated(gate.clone())),
                Some(before) if before != gate => changes.push(Change::GateChanged(gate.clone())),
                Some(_) => {}
            }
        }
    }
}

/// Whether a gate that is there is what is asked for. Its policy is not asked: it may have been
/// changed since.
fn same(known: &Gate, wanted: &Gate) -> Result<(), Rejected> {
    if known.k != wanted.k {
        return Err(Rejected::Conflict {
            gate: known.name.clone(),
            k: known.k,
            author: known.author.clone(),
            wanted: wanted.k,
            wanted_by: wanted.author.clone(),
        });
    }
    if known.protocol != wanted.protocol || known.lanes != wanted.lanes {
        return refused(format!(
            "gate {} is run by {} with {} lanes, for its whole incarnation: not by {} with {}",
            known.name, known.protocol, known.lanes, wanted.protocol, wanted.lanes
        ));
    }
    Ok(())
}

fn check_gate(gate: &Gate) -> Result<(), Rejected> {
    check_name(&gate.name)?;
    check_k(gate.k)?;
    check_text("the name of a protocol", &gate.protocol, false)?;
    if gate.k == 0 {
        return refused("a gate begins with a slot at least: k = 0 is for its end");
    }
    if gate.lanes == 0 || gate.lanes > gate.k {
        return refused(format!(
            "a gate with k = {} has 1 to {} lanes: not {}",
            gate.k, gate.k, gate.lanes
        ));
    }
    match gate.weight_max {
        Some(0) => refused("a permit has one slot at least"),
        _ => Ok(()),
    }
}

fn check_k(k: u32) -> Result<(), Rejected> {
    if k > bounds::SLOTS {
        return refused(format!("a gate has at most {} slots: not {k}", bounds::SLOTS));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Rejected> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if name.is_empty() || name.len() > bounds::TEXT || !name.chars().all(fine) {
        return refused(format!(
            "a gate's name has 1 to {} letters, digits, dots, dashes, underscores or slashes: not `{}`",
            bounds::TEXT,
            name.chars().take(40).collect::<String>().escape_debug(),
        ));
    }
    Ok(())
}
