//! Order of entry: with k = 1, units are granted in the order of the requests' stamps.
//!
//! Source: Ricart and Agrawala 1981. vcube-2018, Lemma 7.3, claims it for any k, which is false for
//! k >= 2 (D10): there the later of two requests may collect all but k-1 permissions first. So the
//! checker speaks for k = 1 alone, and for protocols that exclude by permissions
//! (`Mechanism::Permissions`): a queue in a tree serves in the order of arrival.
//!
//! Why it holds, crashes and withdrawals included. Let p go in with stamp s, and q later with a
//! smaller stamp t. With k = 1, p had q's permission for s, or knew q to have crashed; but q is
//! alive, since it goes in later, and news of crashes are right. When q permitted s, it either had
//! asked with t already: then t came first, and q would have put p off until it had come out or
//! given up, that is, not gone in later. Or it asked with t afterwards: then its clock had passed
//! s, and t is greater. A crash only removes one who could go in; who gives up never goes in. So no
//! crash and no withdrawal can turn the order around.
//!
//! Not checked: runs in which the living are suspected (the order may then break, and so does
//! more); the order of requests in real time, which nobody promises; who waits how long.

use kgate_core::{Stamp, Time};

use crate::Violation;

/// Keeps the stamp of the last grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EntryOrder {
    last: Option<Stamp>,
}

impl EntryOrder {
    /// The property's name.
    pub const NAME: &'static str = "granted in the order of stamps";

    /// The request of that stamp is granted.
    pub fn granted(&mut self, stamp: Stamp, now: Time) -> Option<Violation> {
        let last = self.last.replace(stamp).filter(|last| *last >= stamp)?;
        Some(Violation {
            property: Self::NAME,
            at_ns: now,
            nodes: vec![last.node, stamp.node],
            text: format!("{stamp:?} was granted after {last:?}"),
        })
    }

    /// The same of one moment, without a memory: who of those that wait and live is overtaken when
    /// `stamp` is granted.
    pub fn overtaken(stamp: Stamp, waiting: impl Iterator<Item = Stamp>) -> Option<Stamp> {
        waiting.filter(|other| *other < stamp).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kgate_core::NodeId;

    fn stamp(clock: u64, node: u32) -> Stamp {
        Stamp { clock, node: NodeId(node) }
    }

    /// The planted bug: the later of two requests is granted first. Ties go to the smaller id; a
    /// stamp is granted once.
    #[test]
    fn catches_who_jumps_the_queue() {
        let mut checker = EntryOrder::default();
        for (clock, node) in [(1, 0), (1, 2), (4, 1)] {
            assert_eq!(checker.granted(stamp(clock, node), Time(1)), None);
        }
        let violation = checker.granted(stamp(3, 0), Time(2)).expect("3 after 4");
        assert_eq!(violation.nodes, [NodeId(1), NodeId(0)]);
        assert!(checker.granted(stamp(3, 0), Time(2)).is_some(), "twice");
    }

    /// Of a moment: an earlier stamp that waits is overtaken, a later one is not.
    #[test]
    fn sees_who_is_overtaken() {
        let waiting = [stamp(7, 0), stamp(4, 1), stamp(3, 2)];
        assert_eq!(EntryOrder::overtaken(stamp(5, 3), waiting.into_iter()), Some(stamp(3, 2)));
        assert_eq!(EntryOrder::overtaken(stamp(3, 0), waiting.into_iter()), None);
    }
}
