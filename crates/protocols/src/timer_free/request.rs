//! One request, from Acquire to Release. Its stamp is the process's `last`.

use kgate_core::{NodeId, Stamp};

use super::node_set::NodeSet;
use crate::collections::SortedMap;

/// A request that waits or holds. Only a process with a request puts anybody off.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    /// It has left this process (after line 14); at once, unless T4 runs as printed.
    pub(super) asked: bool,
    /// It has entered (line 16).
    pub(super) holding: bool,
    /// Who has given permission (`have_perm`, and `perm_count` is its size).
    pub(super) given: NodeSet,
    /// Whose request is answered when this one ends, and which of its requests.
    pub(super) pending: SortedMap<NodeId, u64>,
}

impl Request {
    pub(super) fn new(nodes: u32) -> Self {
        Self {
            asked: false,
            holding: false,
            given: NodeSet::none_of(nodes),
            pending: SortedMap::default(),
        }
    }

    /// Line 30, for the newest request of each process: an older one is over, and its owner would
    /// ignore the answer.
    pub(super) fn put_off(&mut self, theirs: Stamp, keep_first: bool) {
        match self.pending.get(theirs.node) {
            Some(_) if keep_first => {} // T3: as printed, a set of processes.
            Some(newer) if newer >= theirs.clock => {}
            Some(_) | None => drop(self.pending.insert(theirs.node, theirs.clock)),
        }
    }

    /// Goes in. Who gave permission no longer matters.
    pub(super) fn enter(&mut self) {
        self.holding = true;
        self.given = NodeSet::default();
    }
}
