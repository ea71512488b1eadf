//! No deadlock: if nothing is under way and nobody is inside, nobody waits.
//!
//! Nothing under way means: no message, no timer that runs, no news of a crash that somebody has
//! yet to hear, no process that is to come back. Then only clients can make anything happen. If
//! nobody is inside either, no client will come out, and whoever waits waits for ever unless
//! somebody else happens to ask.
//!
//! Source: vcube-2018 section 7.4 ("liveness .. ensures the absence of deadlock and starvation")
//! and Raymond 1989. Starvation, where others are served and one is not, is checked by
//! [`EveryoneServed`](crate::EveryoneServed). A deadlock can be told the moment it is there;
//! starvation only of a run that was given time to end, where both come to the same.
//!
//! Not checked: a livelock, in which something is always under way; units that stay idle while
//! fewer than k are inside; runs with more crashes than the protocol claims to tolerate, which the
//! driver leaves out.

use kgate_core::{NodeId, Time};

use crate::Violation;

/// Tells a deadlock once.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDeadlock {
    told: bool,
}

impl NoDeadlock {
    /// The property's name.
    pub const NAME: &'static str = "no deadlock";

    /// Whether it holds of one moment.
    pub fn holds(under_way: bool, inside: usize, waiting: usize) -> bool {
        under_way || inside > 0 || waiting == 0
    }

    /// Nothing is under way now.
    pub fn quiet(
        &mut self,
        inside: usize,
        waiting: impl Iterator<Item = NodeId>,
        now: Time,
    ) -> Option<Violation> {
        let nodes: Vec<NodeId> = waiting.collect();
        if self.told || Self::holds(false, inside, nodes.len()) {
            return None;
        }
        self.told = true;
        let text = format!("nothing is under way, nobody is inside, and {nodes:?} wait");
        Some(Violation { property: Self::NAME, at_ns: now, nodes, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The planted bug: two put each other off and nothing is under way. Somebody inside, or
    /// something under way, is no deadlock.
    #[test]
    fn catches_two_that_wait_for_each_other() {
        let both = || [NodeId(0), NodeId(1)].into_iter();
        let mut checker = NoDeadlock::default();
        assert_eq!(checker.quiet(1, both(), Time(1)), None, "who is inside will come out");
        assert_eq!(checker.quiet(0, std::iter::empty(), Time(1)), None, "nobody wants anything");
        assert!(NoDeadlock::holds(true, 0, 2), "a message may change that");
        assert_eq!(
            checker.quiet(0, both(), Time(2)).expect("a deadlock").nodes,
            [NodeId(0), NodeId(1)]
        );
        assert_eq!(checker.quiet(0, both(), Time(3)), None, "it is told once");
    }
}
