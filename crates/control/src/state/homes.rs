//! Which node is home of a gate, as the members and their fitness decide it.
//!
//! A member is fit to be home unless it is suspected. The directory counts every change since the
//! log began, so it cannot be computed from the present members: it is a part of the state, and of
//! every snapshot.

use kgate_core::Directory;
use serde::{Deserialize, Serialize};

use super::{Change, State};
use crate::membership::MembershipChange;

/// The homes of gates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Homes {
    /// The entry that changed the directory last.
    pub at: u64,
    /// The members by which homes and terms follow.
    pub directory: Directory,
}

impl Homes {
    /// The directory follows a change of the members, by the entry of that index.
    fn follow(&mut self, index: u64, change: MembershipChange) {
        let before = self.directory.changes();
        match change {
            MembershipChange::Added(node, incarnation, _) => self.directory.add(node, incarnation),
            MembershipChange::Suspected(node, incarnation, _) => {
                self.directory.set_fit(node, incarnation, false);
            }
            MembershipChange::Unsuspected(node, incarnation) => {
                self.directory.set_fit(node, incarnation, true);
            }
            MembershipChange::Gone(node, incarnation) => self.directory.evict(node, incarnation),
        }
        if self.directory.changes() != before {
            self.at = index;
        }
    }
}

impl State {
    /// The homes follow what an entry has changed of the members.
    pub(super) fn follow_members(&mut self, index: u64, changes: &[Change]) -> Option<Change> {
        let homes = &mut self.cluster_state.homes;
        for change in changes {
            if let Change::Membership { change, .. } = change {
                homes.follow(index, *change);
            }
        }
        (homes.at == index).then(|| Change::Homes(homes.clone()))
    }
}
