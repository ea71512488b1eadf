//! A process that decides for all serves the requests in its queue in their order: none is passed
//! by another, whatever their weights.
//!
//! Source: `home`, P3. While processes come and go, leases end or k changes, a refused request
//! returns to the front of the queue; where nothing of that happens, a decision always takes the
//! first request that k allows.

use kgate_core::{NodeId, Observation, Time};

use crate::Violation;

/// The checker.
#[derive(Clone, Copy, Debug)]
pub struct QueueOrder;

impl QueueOrder {
    /// The name of the property.
    pub const NAME: &'static str = "requests in a queue are served in their order";

    /// Checks what a process shows before and after one input: if it has decided, then about the
    /// first request with a weight of at most k.
    pub fn verdict(
        before: &Observation,
        after: &Observation,
        k: u32,
        node: NodeId,
        now: Time,
    ) -> Option<Violation> {
        let first = before.queue.iter().find(|(_, _, weight)| *weight <= k)?;
        if after.decided <= before.decided || !after.queue.contains(first) {
            return None;
        }
        let text = format!(
            "{node} has granted {} request(s), and the first one in its queue, of {} for {} \
             slot(s), still waits",
            after.decided - before.decided,
            first.0,
            first.2
        );
        Some(Violation { property: Self::NAME, at_ns: now, nodes: vec![node, first.0], text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves the checker: a request that is passed is caught; one that is too large may be passed.
    #[test]
    fn catches_a_request_that_is_passed() {
        let shown = |decided, queue: &[(u32, u32)]| Observation {
            decided,
            queue: queue.iter().map(|&(node, weight)| (NodeId(node), 1, weight)).collect(),
            ..Observation::default()
        };
        let verdict = |before: &Observation, after: &Observation| {
            QueueOrder::verdict(before, after, 2, NodeId(0), Time(1)).map(|found| found.nodes)
        };
        let before = shown(4, &[(1, 2), (2, 1)]);
        assert_eq!(verdict(&before, &shown(5, &[(2, 1)])), None);
        assert_eq!(verdict(&before, &shown(4, &[(1, 2)])), None, "withdrawn");
        assert_eq!(verdict(&before, &shown(5, &[(1, 2)])), Some(vec![NodeId(0), NodeId(1)]));
        assert_eq!(verdict(&shown(4, &[(1, 3), (2, 1)]), &shown(5, &[(1, 3)])), None);
    }
}
