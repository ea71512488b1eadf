//! Numbered slots are not left lying: where nothing is under way, the first of those that wait
//! wants more than is free. Who holds a slot may stay as long as it likes, so a request that waits
//! for no reason is seen even if the next release would wake it.
//!
//! Source: `slots`, P4.

use kgate_core::{NodeId, Stamp, Time};

use crate::Violation;

/// Looks at one moment in which nothing is under way; it needs no memory.
#[derive(Clone, Copy, Debug)]
pub struct NotLeftLying;

impl NotLeftLying {
    /// The property's name.
    pub const NAME: &'static str = "no request waits for free slots";

    /// The verdict on a moment: who waits, by what stamp (who has none comes last) and for how many
    /// units, the slots that are somebody's, and k.
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
                "{node} is first of those that wait, for {wanted}, and of {k} slots {free:?} are free"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bug: the first one fits and was not told. One behind it that would fit is none.
    #[test]
    fn catches_who_waits_for_no_reason() {
        let stamp = |ticks| Some(Stamp::in_view(kgate_core::ViewId(0), ticks, NodeId(0)));
        let waiting = [(NodeId(1), stamp(4), 1), (NodeId(2), stamp(3), 2), (NodeId(3), None, 1)];
        let verdict =
            |taken: &[u32], k| NotLeftLying::verdict(waiting.into_iter(), taken, k, Time(1));
        assert_eq!(verdict(&[0, 1], 3), None, "p2 is first and wants two");
        assert_eq!(verdict(&[0, 3], 3).expect("two are free").nodes, [NodeId(2)]);
        assert_eq!(NotLeftLying::verdict([].into_iter(), &[], 3, Time(1)), None);
    }
}
