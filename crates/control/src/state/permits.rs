//! Durable permits: in the log before they are granted, out of it before their slots are free.

use super::{
    Applied, Change, ClusterState, DurablePermit, FreeReason, Invalid, Limit, Outcome, Outdated,
    PermitId, Rejected, SecretHash, State, TextField, bounds, check_text, invalid,
};

/// The protocol whose fences begin with the entry that began a view.
const VIEWS_IN_FENCES: &str = "slots";

impl ClusterState {
    /// Whether this is the secret of that permit, by the entries that are applied here. The number
    /// of a permit is that of its entry, and its secret never changes: a permit with the number of
    /// an applied entry that is not held is gone for good.
    pub fn check_secret(&self, id: PermitId, secret: SecretHash) -> Result<(), Rejected> {
        match self.permits.get(&id) {
            None => Err(Rejected::PermitNotHeld(id)),
            Some(permit) if permit.secret != secret => Err(Rejected::WrongSecret(id)),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn permits_since(&self, older: &ClusterState, changes: &mut Vec<Change>) {
        let now = &self.permits;
        for (id, permit) in &older.permits {
            match now.get(id) {
                None => changes.push(Change::PermitFreed {
                    id: *id,
                    permit: permit.clone(),
                    reason: FreeReason::Unknown,
                    at: self.gates.get(&permit.gate).map_or(0, |gate| gate.touched),
                }),
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

impl State {
    pub(super) fn hold(&mut self, id: PermitId, mut permit: DurablePermit) -> Outcome {
        check_text(TextField::Holder, &permit.holder, 0)?;
        let (node, incarnation) = permit.by;
        // The proposer did not receive the answer and proposes again, or the holder went to another
        // node meanwhile.
        let same =
            |known: &DurablePermit| (known.gate, known.secret) == (permit.gate, permit.secret);
        let mut permits = self.cluster_state.permits.iter();
        if let Some((known, _)) = permits.find(|(_, known)| same(known)) {
            return Ok((Applied::Held(*known), Vec::new()));
        }
        // The others may have granted again what an evicted incarnation had decided.
        if self.cluster_state.membership.incarnation(node, incarnation).is_none() {
            return Err(Rejected::NotMember { node, incarnation });
        }
        permit.slots.sort_unstable();
        permit.slots.dedup();
        self.check_slots(&permit)?;
        if self.cluster_state.permits.len() >= bounds::PERMITS {
            return Err(Rejected::LimitReached(Limit::Permits));
        }
        self.make_room_for_fences(permit.slots.len())?;
        self.fences.extend(permit.slots.iter().map(|slot| ((permit.gate, *slot), permit.fence)));
        self.cluster_state.permits.insert(id, permit.clone());
        self.cluster_state.touch(permit.gate, id.0);
        Ok((Applied::Held(id), vec![Change::PermitHeld(id, permit)]))
    }

    /// Whether the slots exist, are free, and were never held under this fence or a later one: a
    /// proposal that arrives a second time, after its permit was released, must not bring the
    /// permit back.
    fn check_slots(&self, permit: &DurablePermit) -> Result<(), Rejected> {
        let Some(gate) = self.cluster_state.gates.get(&permit.gate) else {
            return Err(Rejected::GateDeleted(permit.gate));
        };
        let most = gate.weight_max.map_or(bounds::WEIGHT, |most| bounds::WEIGHT.min(most as usize));
        if permit.slots.is_empty() || permit.slots.len() > most {
            let given = permit.slots.len();
            return invalid(Invalid::Weight { gate: gate.name.clone(), most, given });
        }
        let held = self.cluster_state.held_slots(permit.gate);
        let find = |outdated: &dyn Fn(u32) -> bool| {
            permit.slots.iter().copied().find(|slot| outdated(*slot))
        };
        let name = || gate.name.clone();
        let outdated = if let Some(slot) = find(&|slot| slot >= gate.k) {
            Outdated::BeyondK { gate: name(), k: gate.k, slot }
        } else if let Some(slot) = find(&|slot| held.contains(&slot)) {
            Outdated::SlotHeld { gate: name(), slot }
        } else if let Some(slot) =
            find(&|slot| self.fences.get(&(permit.gate, slot)) >= Some(&permit.fence))
        {
            Outdated::LaterFence { gate: name(), slot }
        } else {
            return Ok(());
        };
        Err(Rejected::Outdated(outdated))
    }

    /// Forgets the fences from before all present members were added: only members propose permits,
    /// and the view in a member's fence is never older than the entry that added it, so the fences
    /// that are forgotten keep nothing out. That is so with [`VIEWS_IN_FENCES`] only; with homes, a
    /// term may have begun before the member was added.
    fn make_room_for_fences(&mut self, slots: usize) -> Result<(), Rejected> {
        if self.fences.len() + slots <= bounds::FENCES {
            return Ok(());
        }
        let members = self.cluster_state.membership.iter().map(|(node, _)| node);
        let added = members
            .filter_map(|node| Some(self.cluster_state.directory.get(&node)?.last?.at))
            .min();
        let gates = &self.cluster_state.gates;
        self.fences.retain(|(gate, _), fence| {
            let has_views = gates.get(gate).is_none_or(|gate| gate.protocol == VIEWS_IN_FENCES);
            !has_views || added.is_none_or(|added| u64::from(fence.view().0) >= added)
        });
        if self.fences.len() + slots > bounds::FENCES {
            return Err(Rejected::LimitReached(Limit::Fences));
        }
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        id: PermitId,
        secret: SecretHash,
        renewals: Option<u64>,
    ) -> Outcome {
        let permit = self.permit_with(id, secret)?;
        let (before, now) = (renewals, permit.renewals);
        if before.is_some_and(|before| before != now) {
            return Err(Rejected::RenewedSince { permit: id, renewals: now });
        }
        self.free(id, FreeReason::Released)
    }

    pub(super) fn renew(&mut self, id: PermitId, secret: SecretHash) -> Outcome {
        let permit = self.permit_with(id, secret)?;
        permit.renewals += 1;
        let renewals = permit.renewals;
        Ok((Applied::Renewed(renewals), vec![Change::PermitRenewed(id, renewals)]))
    }

    pub(super) fn expire(&mut self, id: PermitId, renewals: u64) -> Outcome {
        let permit = self.cluster_state.permits.get(&id).ok_or(Rejected::PermitNotHeld(id))?;
        if permit.ttl.is_none() {
            return Err(Rejected::NoTtl(id));
        }
        if permit.renewals != renewals {
            return Err(Rejected::RenewedSince { permit: id, renewals: permit.renewals });
        }
        self.free(id, FreeReason::Expired)
    }

    pub(super) fn evict_permit(&mut self, id: PermitId, author: String) -> Outcome {
        check_text(TextField::Author, &author, 0)?;
        self.free(id, FreeReason::Evicted(author))
    }

    fn permit_with(
        &mut self,
        id: PermitId,
        secret: SecretHash,
    ) -> Result<&mut DurablePermit, Rejected> {
        self.cluster_state.check_secret(id, secret)?;
        Ok(self.cluster_state.permits.get_mut(&id).expect("it was just found"))
    }

    fn free(&mut self, id: PermitId, reason: FreeReason) -> Outcome {
        let permit = self.cluster_state.permits.remove(&id).ok_or(Rejected::PermitNotHeld(id))?;
        let at = self.cluster_state.applied;
        self.cluster_state.touch(permit.gate, at);
        Ok((Applied::Freed, vec![Change::PermitFreed { id, permit, reason, at }]))
    }
}
