//! The log of the harness as it holds slots: durable permits, which outlive the process that
//! decided them (`docs/internals/slots.md`, "Slots that the log holds").
//!
//! A client's grant is proposed to the log; the log accepts it later, if the process that decided
//! it is still a member then; each process applies the entry later still, sometimes several entries
//! at once. The checker knows the end of the log, and no process does.

use alloc::vec::Vec;

use super::{Entry, Harness, Input, Verdict};
use kgate_core::{Fence, GrantId, Incarnation, NodeId, ViewId};

/// Whether the log holds slots, and the planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Holds {
    /// The log holds no slots.
    Never,
    /// Held correctly.
    Whole,
    /// Planted: the deciding process releases its grant before it learns that the slots are
    /// reserved.
    TooLate,
    /// Planted: the log accepts the grant of an evicted incarnation.
    OfTheGone,
    /// Planted: a process that applies several entries at once applies the membership first.
    MembersFirst,
}

/// Slots that the log holds, has held or may hold.
#[derive(Clone, Debug)]
pub(super) struct Permit {
    /// The process that decided it, and its incarnation.
    by: (u32, u32),
    grant: GrantId,
    slots: Vec<u32>,
    at: Stage,
}

/// The state of a durable permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Proposed,
    Rejected,
    Held,
    Free,
}

impl Harness {
    /// A client's grant is proposed to the log.
    pub(super) fn propose(&mut self, a: u32, b: u32) -> Verdict {
        let mut in_hand = Vec::new();
        for node in self.net.live() {
            let Some(incarnation) = self.places[node as usize].member else { continue };
            let holding = self.clients[node as usize].holding.iter();
            let free = holding.filter(|(grant, _)| !self.is_proposed(node, *grant));
            in_hand.extend(free.map(|(grant, slots)| ((node, incarnation), *grant, slots.clone())));
        }
        if in_hand.is_empty() {
            return Ok(());
        }
        let (by, grant, slots) = in_hand.swap_remove(a.wrapping_add(b) as usize % in_hand.len());
        let node = by.0;
        trace!(self, "p{node} proposes that the log hold {slots:?}");
        self.k.push(Permit { by, grant, slots, at: Stage::Proposed });
        Ok(())
    }

    /// Whether the log decides over a grant: until the outcome is known here, it is not released.
    pub(super) fn is_proposed(&self, node: u32, grant: GrantId) -> bool {
        self.k.iter().any(|permit| permit.by.0 == node && permit.grant == grant)
    }

    fn at_stage(&self, stage: Stage) -> Vec<usize> {
        (0..self.k.len()).filter(|&number| self.k[number].at == stage).collect()
    }

    /// The log accepts a proposal, or rejects it.
    pub(super) fn resume_from(&mut self, a: u32) -> Verdict {
        let proposed = self.at_stage(Stage::Proposed);
        if proposed.is_empty() {
            return Ok(());
        }
        let number = proposed[a as usize % proposed.len()];
        let (node, incarnation) = self.k[number].by;
        let place = &self.places[node as usize];
        let is_member = [place.member, place.over].contains(&Some(incarnation));
        if is_member || self.config.holds == Holds::OfTheGone {
            trace!(self, "log: {:?} of p{node} are held", self.k[number].slots);
            self.k[number].at = Stage::Held;
            self.log.push(Entry::Held(number));
        } else {
            self.k[number].at = Stage::Rejected;
        }
        Ok(())
    }

    /// The log frees a permit. False if it holds none.
    pub(super) fn free(&mut self, a: u32) -> bool {
        let held = self.at_stage(Stage::Held);
        if held.is_empty() {
            return false;
        }
        let number = held[a as usize % held.len()];
        trace!(self, "log: {:?} are free", self.k[number].slots);
        self.k[number].at = Stage::Free;
        self.log.push(Entry::Freed(number));
        true
    }

    /// All open proposals.
    pub(super) fn resume_from_all(&mut self) -> Verdict {
        (0..self.k.len()).try_for_each(|_| self.resume_from(0))
    }

    /// The number of permits that the log has held.
    pub(in super::super) fn ever_held(&self) -> u64 {
        (self.at_stage(Stage::Held).len() + self.at_stage(Stage::Free).len()) as u64
    }

    /// The slots that the log holds, at its end.
    pub(super) fn held(&self) -> Vec<u32> {
        let held = self.k.iter().filter(|permit| permit.at == Stage::Held);
        held.flat_map(|permit| permit.slots.clone()).collect()
    }

    /// The slots that the log holds as far as a process has applied it.
    fn reserved(&self, node: u32) -> Vec<u32> {
        let mut slots = Vec::new();
        for entry in &self.log[..self.places[node as usize].told] {
            match entry {
                Entry::Held(number) => slots.extend_from_slice(&self.k[*number].slots),
                Entry::Freed(number) => slots.retain(|slot| !self.k[*number].slots.contains(slot)),
                Entry::Evict(..) | Entry::Add(..) => {}
            }
        }
        slots.sort_unstable();
        slots.dedup(); // Only a planted bug holds a slot twice.
        slots
    }

    /// A process applies the next entries of the log at once: first the held slots, then its own
    /// grants that are held, then the membership.
    pub(super) fn hear(&mut self, node: u32, most: usize) -> Verdict {
        let told = self.places[node as usize].told;
        let entries: Vec<Entry> = self.log[told..].iter().take(most).copied().collect();
        self.places[node as usize].told += entries.len();
        trace!(self, "p{node} hears {entries:?}");
        match self.config.holds {
            Holds::Never | Holds::Whole | Holds::OfTheGone => {
                self.hear_reserved(node)?;
                self.hand_over(node, &entries)?;
                self.hear_members(node, &entries)
            }
            Holds::TooLate => {
                self.hand_over(node, &entries)?;
                self.hear_reserved(node)?;
                self.hear_members(node, &entries)
            }
            Holds::MembersFirst => {
                self.hear_members(node, &entries)?;
                self.hear_reserved(node)?;
                self.hand_over(node, &entries)
            }
        }
    }

    fn hear_reserved(&mut self, node: u32) -> Verdict {
        let reserved = self.reserved(node);
        self.net.input(node, Input::Reserved(reserved.into())).unwrap();
        self.check()
    }

    /// A grant that the log holds now is no longer a grant of its process.
    fn hand_over(&mut self, node: u32, entries: &[Entry]) -> Verdict {
        for entry in entries {
            let Entry::Held(number) = entry else { continue };
            let (by, grant) = (self.k[*number].by.0, self.k[*number].grant);
            let holding = &mut self.clients[node as usize].holding;
            if by == node
                && let Some(place) = holding.iter().position(|(held, _)| *held == grant)
            {
                holding.swap_remove(place);
                self.net.input(node, Input::Release { grant }).unwrap();
                self.check()?;
            }
        }
        Ok(())
    }

    fn hear_members(&mut self, node: u32, entries: &[Entry]) -> Verdict {
        for entry in entries {
            let input = match *entry {
                Entry::Evict(of, incarnation) => {
                    Input::Crashed { node: NodeId(of), incarnation: Incarnation(incarnation) }
                }
                Entry::Add(of, incarnation) => Input::Joined {
                    node: NodeId(of),
                    incarnation: Incarnation(incarnation),
                    view: ViewId(incarnation),
                },
                Entry::Held(_) | Entry::Freed(_) => continue,
            };
            self.net.input(node, input).unwrap();
            self.check()?;
        }
        Ok(())
    }

    /// A slot that the log holds is never granted, whichever processes have applied the entry; and
    /// no process grants a slot that it knows to be held, free or not.
    pub(super) fn check_reserved(&self, node: NodeId, slots: &[u32], fence: Fence) -> Verdict {
        if let Some(slot) = self.held().iter().find(|slot| slots.contains(slot)) {
            return Err(alloc::format!(
                "slot {slot}: {node} is granted it by {fence:?}, the log holds it"
            ));
        }
        let known = self.reserved(node.0);
        if let Some(slot) = known.iter().find(|slot| slots.contains(slot)) {
            return Err(alloc::format!(
                "slot {slot}: {node} is granted it, and knows that it is reserved"
            ));
        }
        Ok(())
    }
}
