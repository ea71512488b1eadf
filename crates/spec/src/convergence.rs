//! Self-stabilization: every run reaches a legitimate configuration (convergence), and stays
//! correct from then on (closure).
//!
//! Source: Dijkstra 1974; stabilizing-2014 section 4. The protocol defines which configurations are
//! legitimate, because it knows its invariant; the driver, which sees all processes at once,
//! queries it. In stabilizing-2014 a legitimate configuration is the first clean start of a wave in
//! which every process has joined the tree; from then on there are at most l tokens, and at most l
//! processes have the privilege. (Its Corollary 4.1, that no process becomes abnormal again, is
//! false, and so is the bound of its Lemma 4.12: `tests/tests/stabilizing_2014/claims.rs`. Neither
//! is checked.) Time has the unit of the driver: rounds of the state model, or nanoseconds.
//!
//! Not checked: anything before a legitimate configuration is reached; that one is reached in a run
//! without a bound.

use kgate_core::{NodeId, Time};

use crate::Violation;

/// There are at most l tokens in the network, from the first start configuration on
/// (stabilizing-2014 Theorem 4.2).
pub const AT_MOST_L_TOKENS: &str = "at most l tokens";
/// In every configuration some process can move.
pub const SOMEBODY_CAN_MOVE: &str = "some process can move";
/// No process is in an abnormal state after n rounds (stabilizing-2014 Theorem 4.1 with D = n-1).
pub const NORMAL_IN_TIME: &str = "normal within n rounds";

/// Watches one run from its start, or from its last fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Convergence {
    /// The time limit, counted from the last fault; not checked if none.
    bound: Option<u64>,
    since: u64,
    reached: Option<u64>,
    broken: bool,
}

impl Convergence {
    /// The name of convergence.
    pub const NAME: &'static str = "the run recovers from transient faults";
    /// The name of closure.
    pub const CLOSURE: &'static str = "a recovered run stays correct";

    /// A checker from the start of a run, with this bound.
    pub fn new(bound: Option<u64>) -> Self {
        Self { bound, ..Self::default() }
    }

    /// A fault at that time: convergence starts anew.
    pub fn fault(&mut self, at: u64) {
        *self = Self { bound: self.bound, since: at, ..Self::default() };
    }

    /// The time at which a legitimate configuration was reached, counted from the last fault.
    pub fn reached(&self) -> Option<u64> {
        self.reached
    }

    /// Looks at a configuration: whether it is legitimate, and whether it is `right` (correct) in a
    /// run that has already converged. Reports closure violations once.
    pub fn see(&mut self, legitimate: bool, right: bool, at: u64) -> Option<Violation> {
        if self.reached.is_none() {
            if legitimate {
                self.reached = Some(at - self.since);
            }
            return None;
        }
        if right || self.broken {
            return None;
        }
        self.broken = true;
        let text = format!("recovered after {:?}, incorrect again at {at}", self.reached);
        Some(violation(Self::CLOSURE, at, text))
    }

    /// The verdict at time `at`; `at_last` means that the run had all the time it could use.
    pub fn verdict(&self, at: u64, at_last: bool) -> Option<Violation> {
        let waited = at - self.since;
        let over = |bound| self.reached.map_or(waited > bound, |reached| reached > bound);
        let never = at_last && self.reached.is_none();
        (never || self.bound.is_some_and(over)).then(|| {
            let text = match (self.reached, self.bound) {
                (Some(reached), Some(bound)) => format!("it took {reached}, the bound is {bound}"),
                _ => format!("no legitimate configuration was reached in {waited}"),
            };
            violation(Self::NAME, at, text)
        })
    }
}

fn violation(property: &'static str, at: u64, text: String) -> Violation {
    let nodes: Vec<NodeId> = Vec::new();
    Violation { property, at_ns: Time(at), nodes, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planted bugs: no convergence, late convergence, and no closure; a fault starts anew.
    #[test]
    fn catches_a_run_that_does_not_settle() {
        let mut checker = Convergence::new(Some(10));
        checker.see(false, false, 5);
        assert_eq!(checker.verdict(5, false), None, "there is time");
        assert_eq!(checker.verdict(11, false).expect("too late").property, Convergence::NAME);
        assert!(
            Convergence::new(None).verdict(99, false).is_none()
                && Convergence::new(None).verdict(99, true).is_some()
        );
        checker.see(true, true, 12);
        assert!(checker.verdict(12, true).is_some(), "late is late");
        assert_eq!(
            checker.see(false, false, 13).expect("wrong again").property,
            Convergence::CLOSURE
        );
        checker.fault(20);
        assert_eq!((checker.see(true, false, 24), checker.reached()), (None, Some(4)));
        assert_eq!((checker.see(false, true, 25), checker.verdict(99, true)), (None, None));
    }
}
