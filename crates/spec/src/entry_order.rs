//! Order of entry: with k = 1, requests are granted in the order of their stamps.
//!
//! Source: Ricart and Agrawala 1981. vcube-2018, Lemma 7.3, claims it for any k, which is false for
//! k >= 2 (D10): there the later of two requests may collect all but k-1 permissions first. So the
//! checker applies only to k = 1 and to protocols that exclude by permissions
//! (`Mechanism::Permissions`): a queue in a tree serves requests in the order of arrival.
//!
//! Proof, crashes and withdrawals included. Let p enter with stamp s, and q later with a smaller
//! stamp t. With k = 1, p had q's permission for s, or knew that q had crashed; but q is alive,
//! since it enters later, and crash notifications are correct. When q permitted s, there are two
//! cases. Either q had already issued its request t: then t came first, and q defers its permission
//! to p until q has released or withdrawn, so q does not enter later. Or q issued t afterwards:
//! then its clock had passed s, and t is greater than s. A crash only removes a process that could
//! enter, and a withdrawn request never enters. So no crash and no withdrawal can reverse the
//! order.
//!
//! Not checked: runs in which live processes are suspected (other properties fail there too); the
//! order of requests in real time, which no protocol promises; waiting times.

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

    /// The stateless form: the request of a live process, if any, that is overtaken when `stamp` is
    /// granted.
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

    /// Planted bug: the later of two requests is granted first. Ties go to the smaller id; a stamp
    /// is granted once.
    #[test]
    fn catches_an_overtaken_request() {
        let mut checker = EntryOrder::default();
        for (clock, node) in [(1, 0), (1, 2), (4, 1)] {
            assert_eq!(checker.granted(stamp(clock, node), Time(1)), None);
        }
        let violation = checker.granted(stamp(3, 0), Time(2)).expect("3 after 4");
        assert_eq!(violation.nodes, [NodeId(1), NodeId(0)]);
        assert!(checker.granted(stamp(3, 0), Time(2)).is_some(), "twice");
    }

    /// A waiting request with an earlier stamp is overtaken, one with a later stamp is not.
    #[test]
    fn finds_the_overtaken_request() {
        let waiting = [stamp(7, 0), stamp(4, 1), stamp(3, 2)];
        assert_eq!(EntryOrder::overtaken(stamp(5, 3), waiting.into_iter()), Some(stamp(3, 2)));
        assert_eq!(EntryOrder::overtaken(stamp(3, 0), waiting.into_iter()), None);
    }
}
