//! No request waits for free slots: in a quiescent state, the first waiting request wants more
//! numbered slots than are free. Holders may hold as long as they like, so a request that waits
//! without a reason is seen even if the next release would wake it.
//!
//! Source: `slots`, P4.

use kgate_core::{NodeId, Stamp, Time};

use crate::Violation;

/// Checks a quiescent state; stateless.
#[derive(Clone, Copy, Debug)]
pub struct NotLeftLying;

impl NotLeftLying {
    /// The property's name.
    pub const NAME: &'static str = "no request waits for free slots";

    /// The verdict on a state: the waiting requests with their stamps (a request without a stamp
    /// comes last) and weights, the slots that are held or cached, and k.
    pub fn verdict(
        waiting: impl Iterator<Item = (NodeId, Option<Stamp>, u32)>,
        taken: &[u32],
        k: u32,
        now: Time,
    ) -> Option<Violation> {
        let (node, _, wanted) =
            waiting.min_by_key(|(node, stamp, _)| (stamp.is_none(), *stamp, *node))?;
        let free: Vec<u32> = (0..k).filter(|slot| !taken.contains(slot)).collect();
        (free.len() >= wanted as usize).then(|| Violation {
            property: Self::NAME,
            at_ns: now,
            nodes: vec![node],
            text: format!(
                "{node} is first in line for {wanted} slots, and of {k} slots {free:?} are free"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bug: the first request fits and is not granted. A later request that would fit is no
    /// violation.
    #[test]
    fn catches_a_request_that_could_be_granted() {
        let stamp = |ticks| Some(Stamp::in_view(kgate_core::ViewId(0), ticks, NodeId(0)));
        let waiting = [(NodeId(1), stamp(4), 1), (NodeId(2), stamp(3), 2), (NodeId(3), None, 1)];
        let verdict =
            |taken: &[u32], k| NotLeftLying::verdict(waiting.into_iter(), taken, k, Time(1));
        assert_eq!(verdict(&[0, 1], 3), None, "p2 is first and wants two");
        assert_eq!(verdict(&[0, 3], 3).expect("two are free").nodes, [NodeId(2)]);
        assert_eq!(NotLeftLying::verdict([].into_iter(), &[], 3, Time(1)), None);
    }
}
