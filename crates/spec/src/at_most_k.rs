//! Safety: at most k inside at any time (vcube-2018 section 7.4, Lemma 7.1; the same in every paper).

use std::collections::BTreeSet;

use kgate_core::{NodeId, Time};

use crate::Violation;

/// Counts who is inside. A holder that crashes is no longer inside.
#[derive(Clone, Debug)]
pub struct AtMostK {
    k: u32,
    inside: BTreeSet<NodeId>,
    most: usize,
}

impl AtMostK {
    /// The property's name.
    pub const NAME: &'static str = "at most k inside";

    /// Nobody is inside.
    pub fn new(k: u32) -> Self {
        Self { k, inside: BTreeSet::new(), most: 0 }
    }

    /// `node` goes in.
    pub fn enter(&mut self, node: NodeId, now: Time) -> Option<Violation> {
        let new = self.inside.insert(node);
        self.most = self.most.max(self.inside.len());
        let nodes = || self.inside.iter().copied().collect();
        if !new {
            let text = format!("{node} was granted a second unit while it was inside");
            return Some(Violation { property: Self::NAME, at_ns: now, nodes: nodes(), text });
        }
        (self.inside.len() > self.k as usize).then(|| Violation {
            property: Self::NAME,
            at_ns: now,
            nodes: nodes(),
            text: format!("{} processes are inside, k is {}: {:?}", self.inside.len(), self.k, self.inside),
        })
    }

    /// `node` comes out, or crashes; false if it was not inside.
    pub fn leave(&mut self, node: NodeId) -> bool {
        self.inside.remove(&node)
    }

    /// Starts anew with those inside now, for instance when a run has recovered from a fault.
    pub fn forget_most(&mut self) {
        self.most = self.inside.len();
    }

    /// How many are inside now.
    pub fn now(&self) -> usize {
        self.inside.len()
    }

    /// The most that were ever inside at once.
    pub fn most(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bug: k+1 inside is caught, with those inside; k inside, or a crash in between, is not.
    #[test]
    fn catches_one_too_many() {
        let mut judge = AtMostK::new(2);
        assert_eq!(judge.enter(NodeId(4), Time(1)), None);
        assert_eq!(judge.enter(NodeId(7), Time(2)), None);
        let violation = judge.enter(NodeId(1), Time(3)).expect("three inside, k is 2");
        assert_eq!(violation.nodes, [NodeId(1), NodeId(4), NodeId(7)]);
        assert!(judge.leave(NodeId(4)) && judge.leave(NodeId(7)) && !judge.leave(NodeId(7)));
        assert_eq!(judge.enter(NodeId(2), Time(4)), None);
        assert!(judge.enter(NodeId(2), Time(5)).is_some(), "twice inside");
        assert_eq!(judge.most(), 3);
    }
}
