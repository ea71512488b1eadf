//! Permits that outlive their node: in the log before they are granted, out of it before their
//! slots are free.

use super::{
    Applied, Change, ClusterState, DurablePermit, FreeReason, Outcome, PermitId, Rejected,
    SecretHash, State, bounds, check_text, refused,
};

impl ClusterState {
    /// Whether that is the secret of that permit, as far as this cluster_state goes. A permit has
    /// the number of its entry and keeps its secret: one of an applied entry that is not there is
    /// gone for good.
    pub fn check_secret(&self, id: PermitId, secret: SecretHash) -> Result<(), Rejected> {
        match self.permits.get(&id) {
            None => Err(Rejected::PermitNotHeld(id)),
            Some(permit) if permit.secret != secret => refused(format!("{id} has another secret")),
            Some(_) => Ok(()),
        }
    }
}

impl State {
    pub(super) fn hold(&mut self, id: PermitId, mut permit: DurablePermit) -> Outcome {
        check_text("a holder", &permit.holder, true)?;
        let (node, incarnation) = permit.by;
        // The same decision again: its proposer heard nothing. Or the same holder, who has gone to
        // another node since.
        let known = self
            .cluster_state
            .permits
            .iter()
            .find(|(_, it)| (it.gate, it.secret) == (permit.gate, permit.secret));
        if let Some((known, _)) = known {
            return Ok((Applied::Held(*known), Vec::new()));
        }
        // What an evicted incarnation decided may have been decided again by others.
        if self.cluster_state.membership.incarnation(node, incarnation).is_none() {
            return Err(Rejected::NotMember { node, incarnation });
        }
        let Some(gate) = self.cluster_state.gates.get(&permit.gate) else {
            return refused("the gate is gone");
        };
        permit.slots.sort_unstable();
        permit.slots.dedup();
        let most = gate.weight_max.map_or(bounds::WEIGHT, |most| bounds::WEIGHT.min(most as usize));
        if permit.slots.is_empty() || permit.slots.len() > most {
            return refused(format!(
                "a permit of gate {} that the log holds has 1 to {most} slots: not {}",
                gate.name,
                permit.slots.len()
            ));
        }
        if let Some(slot) = permit.slots.iter().find(|slot| **slot >= gate.k) {
            return Err(Rejected::Outdated(format!(
                "gate {} has k = {} now: slot {slot} is not given any more",
                gate.name, gate.k
            )));
        }
        let held = self.cluster_state.held_slots(permit.gate);
        if let Some(slot) = permit.slots.iter().find(|slot| held.contains(slot)) {
            return Err(Rejected::Outdated(format!(
                "slot {slot} of gate {} is held already",
                gate.name
            )));
        }
        // A proposal that comes a second time, after its permit was given back, must not bring it
        // back.
        let later = |slot: &&u32| self.fences.get(&(permit.gate, **slot)) >= Some(&permit.fence);
        if let Some(slot) = permit.slots.iter().find(later) {
            let name = &gate.name;
            return Err(Rejected::Outdated(format!(
                "slot {slot} of gate {name} was held under a later fence"
            )));
        }
        if self.cluster_state.permits.len() >= bounds::PERMITS {
            return refused(format!("the log holds {} permits already", bounds::PERMITS));
        }
        self.make_room_for_fences(permit.slots.len())?;
        self.fences.extend(permit.slots.iter().map(|slot| ((permit.gate, *slot), permit.fence)));
        self.cluster_state.permits.insert(id, permit.clone());
        Ok((Applied::Held(id), vec![Change::PermitHeld(id, permit)]))
    }

    /// What an incarnation decides has a view that is not before its own beginning, and only
    /// members hold: fences before all of their beginnings keep nobody out.
    fn make_room_for_fences(&mut self, slots: usize) -> Result<(), Rejected> {
        if self.fences.len() + slots <= bounds::FENCES {
            return Ok(());
        }
        let members = self.cluster_state.membership.iter().map(|(node, _)| node);
        let begun = members
            .filter_map(|node| Some(self.cluster_state.directory.get(&node)?.last?.at))
            .min();
        self.fences.retain(|_, fence| begun.is_none_or(|begun| u64::from(fence.view().0) >= begun));
        if self.fences.len() + slots > bounds::FENCES {
            return refused(format!(
                "the log has held permits on {} slots, its most: gates whose permits it holds need fewer slots",
                self.fences.len()
            ));
        }
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        id: PermitId,
        secret: SecretHash,
        renewals: Option<u64>,
    ) -> Outcome {
        let permit = self.shown(id, secret)?;
        if renewals.is_some_and(|renewals| renewals != permit.renewals) {
            return refused(format!("{id} was renewed since"));
        }
        self.free(id, FreeReason::Released)
    }

    pub(super) fn renew(&mut self, id: PermitId, secret: SecretHash) -> Outcome {
        let permit = self.shown(id, secret)?;
        permit.renewals += 1;
        let renewals = permit.renewals;
        Ok((Applied::Renewed(renewals), vec![Change::PermitRenewed(id, renewals)]))
    }

    pub(super) fn expire(&mut self, id: PermitId, renewals: u64) -> Outcome {
        let permit = self.cluster_state.permits.get(&id).ok_or(Rejected::PermitNotHeld(id))?;
        if permit.ttl.is_none() {
            return refused(format!("{id} has no end of its own"));
        }
        if permit.renewals != renewals {
            return refused(format!("{id} was renewed since"));
        }
        self.free(id, FreeReason::Expired)
    }

    pub(super) fn evict_held(&mut self, id: PermitId, author: String) -> Outcome {
        check_text("an author", &author, true)?;
        self.free(id, FreeReason::Evicted(author))
    }

    fn shown(&mut self, id: PermitId, secret: SecretHash) -> Result<&mut DurablePermit, Rejected> {
        self.cluster_state.check_secret(id, secret)?;
        Ok(self.cluster_state.permits.get_mut(&id).expect("just seen"))
    }

    fn free(&mut self, id: PermitId, how: FreeReason) -> Outcome {
        let permit = self.cluster_state.permits.remove(&id).ok_or(Rejected::PermitNotHeld(id))?;
        Ok((Applied::Freed, vec![Change::PermitFreed(id, permit, how)]))
    }

    pub(super) fn permits_since(&self, older: &ClusterState, changes: &mut Vec<Change>) {
        let now = &self.cluster_state.permits;
        for (id, permit) in &older.permits {
            match now.get(id) {
                None => changes.push(Change::PermitFreed(*id, permit.clone(), FreeReason::Unknown)),
                Some(later) if later.renewals != permit.renewals => {
                    changes.push(Change::PermitRenewed(*id, later.renewals));
                }
                Some(_) => {}
            }
        }
        let new = now.iter().filter(|(id, _)| !older.permits.contains_key(id));
        changes.extend(new.map(|(id, permit)| Change::PermitHeld(*id, permit.clone())));
    }
}
