//! When a waiting request will probably be granted, from how long permits of the gate were held.
//!
//! A node remembers how long its last permits of a gate were held. The remaining time of a holder
//! is the median of the holds that lasted longer than this one has so far, less its age. Requests
//! are served in order, each after the holders that release the slots it needs. Without enough
//! past holds there is no estimate: it would be a guess.

use crate::v1::{ClientStatus, GateStatus};

/// Minimum number of past holds for an estimate.
const SAMPLES_MIN: usize = 5;
/// Minimum number of past holds that lasted longer than a present one has.
const LONGER_MIN: usize = 3;
/// Maximum of k: an estimate keeps a number for each slot.
const K_MAX: u32 = 10_000;

/// The expected time until the waiting request at this place (0 is the first) is granted, in
/// nanoseconds. None if too little is known.
pub fn estimate(gate: &GateStatus, place: usize) -> Option<u64> {
    let mut past = gate.past_holds_ns.clone();
    past.sort_unstable();
    let ahead = gate.waiting.get(..=place)?;
    let is_complete = gate.omitted.is_none_or(|omitted| omitted.holders == 0);
    // A durable permit ends when somebody ends it.
    if past.len() < SAMPLES_MIN || !gate.durable_permits.is_empty() || !is_complete {
        return None;
    }
    let typical = past[past.len() / 2];
    // When each slot is free again.
    let mut free_at = vec![0; usize::try_from(gate.k).ok().filter(|_| gate.k <= K_MAX)?];
    let mut held = 0;
    for holder in &gate.holders {
        let slots = free_at.get_mut(held..)?.get_mut(..slots(holder))?;
        slots.fill(left(&past, holder.age_ns)?);
        held += slots.len();
    }
    let mut now = 0;
    for request in ahead {
        free_at.sort_unstable();
        let taken = free_at.get_mut(..slots(request))?;
        // No request overtakes an earlier one.
        now = now.max(*taken.last()?);
        taken.fill(now.saturating_add(typical));
    }
    Some(now)
}

fn slots(client: &ClientStatus) -> usize {
    usize::try_from(client.weight.max(1)).unwrap_or(usize::MAX)
}

/// The remaining time of a hold of that age.
fn left(past: &[u64], age: u64) -> Option<u64> {
    let longer = &past[past.partition_point(|hold| *hold <= age)..];
    (longer.len() >= LONGER_MIN).then(|| longer[longer.len() / 2] - age)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(all: &[(u32, u64)]) -> Vec<ClientStatus> {
        let client = |&(weight, age_ns)| ClientStatus { weight, age_ns, ..Default::default() };
        all.iter().map(client).collect()
    }

    fn gate(k: u32, holders: &[(u32, u64)], waiting: &[(u32, u64)], past: &[u64]) -> GateStatus {
        GateStatus {
            k,
            holders: clients(holders),
            waiting: clients(waiting),
            past_holds_ns: past.to_vec(),
            ..Default::default()
        }
    }

    /// Each place waits for one more hold, divided among the slots; weights wait for as many slots.
    #[test]
    fn places_wait_for_the_holds_before_them() {
        let past = [10; 8];
        let waiting = [(1, 0), (1, 0), (1, 0)];
        let of = |gate: &GateStatus| [0, 1, 2].map(|place| estimate(gate, place));
        assert_eq!(of(&gate(1, &[(1, 4)], &waiting, &past)), [Some(6), Some(16), Some(26)]);
        assert_eq!(of(&gate(2, &[(1, 4), (1, 9)], &waiting, &past)), [Some(1), Some(6), Some(11)]);
        // The first request takes both slots, and the second does not overtake it.
        let wide = gate(2, &[(1, 4), (1, 9)], &[(2, 0), (1, 0)], &past);
        assert_eq!([0, 1, 2].map(|place| estimate(&wide, place)), [Some(6), Some(16), None]);
    }

    /// A hold that has lasted longer than half of the past ones has as much left as the others.
    #[test]
    fn a_long_hold_is_compared_with_long_ones() {
        let past = [1, 2, 3, 10, 20, 30];
        assert_eq!(estimate(&gate(1, &[(1, 5)], &[(1, 0)], &past), 0), Some(15));
    }

    /// Too few past holds, a hold longer than nearly all of them, a durable permit, or a request
    /// for more than k: nothing is said.
    #[test]
    fn too_little_is_known() {
        assert_eq!(estimate(&gate(1, &[(1, 0)], &[(1, 0)], &[10; 4]), 0), None);
        assert_eq!(estimate(&gate(1, &[(1, 10)], &[(1, 0)], &[10; 9]), 0), None);
        assert_eq!(estimate(&gate(1, &[(1, 0)], &[(2, 0)], &[10; 9]), 0), None);
        let mut durable = gate(1, &[], &[(1, 0)], &[10; 9]);
        durable.durable_permits.push(Default::default());
        assert_eq!(estimate(&durable, 0), None);
    }
}
