//! No deadlock: in a quiescent state without holders, no request waits.
//!
//! Quiescent means: no message in transit, no running timer, no crash notification outstanding, no
//! process that will recover. Then only clients can cause events. Without holders no client will
//! release, so a waiting request waits for ever, unless another client happens to issue a request.
//!
//! Source: vcube-2018 section 7.4 ("liveness .. ensures the absence of deadlock and starvation")
//! and Raymond 1989. Starvation, where others are served and one is not, is checked by
//! [`EveryoneServed`](crate::EveryoneServed). A deadlock is visible at once; starvation only at the
//! end of a run, where both coincide.
//!
//! Not checked: a livelock, which is never quiescent; slots that stay idle while fewer than k are
//! in use; runs with more crashes than the protocol claims to tolerate, which the driver leaves
//! out.

use kgate_core::{NodeId, Time};

use crate::Violation;

/// Reports a deadlock once.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDeadlock {
    reported: bool,
}

impl NoDeadlock {
    /// The property's name.
    pub const NAME: &'static str = "no deadlock";

    /// Whether the property holds in one state.
    pub fn holds(under_way: bool, inside: usize, waiting: usize) -> bool {
        under_way || inside > 0 || waiting == 0
    }

    /// The verdict in a quiescent state.
    pub fn quiet(
        &mut self,
        inside: usize,
        waiting: impl Iterator<Item = NodeId>,
        now: Time,
    ) -> Option<Violation> {
        let nodes: Vec<NodeId> = waiting.collect();
        if self.reported || Self::holds(false, inside, nodes.len()) {
            return None;
        }
        self.reported = true;
        let text = format!("quiescent without a holder while {nodes:?} wait");
        Some(Violation { property: Self::NAME, at_ns: now, nodes, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bug: two processes defer their answers to each other and the state is quiescent. A
    /// holder, or an event in progress, is no deadlock.
    #[test]
    fn catches_two_that_wait_for_each_other() {
        let both = || [NodeId(0), NodeId(1)].into_iter();
        let mut checker = NoDeadlock::default();
        assert_eq!(checker.quiet(1, both(), Time(1)), None, "the holder will release");
        assert_eq!(checker.quiet(0, std::iter::empty(), Time(1)), None, "no request waits");
        assert!(NoDeadlock::holds(true, 0, 2), "a message may change that");
        assert_eq!(
            checker.quiet(0, both(), Time(2)).expect("a deadlock").nodes,
            [NodeId(0), NodeId(1)]
        );
        assert_eq!(checker.quiet(0, both(), Time(3)), None, "it is reported once");
    }
}
