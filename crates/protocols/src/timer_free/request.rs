//! One request, from Acquire to Release. Its stamp is the process's `last`.

use kgate_core::{NodeId, Stamp};

use super::node_set::NodeSet;
use crate::collections::SortedMap;

/// A request that waits or holds. Only a process with a request defers others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    /// It has been sent (after line 14); at once, unless T4 runs as printed.
    pub(super) asked: bool,
    /// It has entered (line 16).
    pub(super) holding: bool,
    /// The processes that have given permission (`have_perm`; `perm_count` is its size).
    pub(super) given: NodeSet,
    /// The processes whose request is answered when this one ends, each with the request's clock.
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
    pub(super) fn defer(&mut self, theirs: Stamp, keep_first: bool) {
        match self.pending.get(theirs.node) {
            Some(_) if keep_first => {} // T3: as printed, a set of processes.
            Some(newer) if newer >= theirs.clock => {}
            Some(_) | None => drop(self.pending.insert(theirs.node, theirs.clock)),
        }
    }

    /// Enters. The permissions are no longer needed.
    pub(super) fn enter(&mut self) {
        self.holding = true;
        self.given = NodeSet::default();
    }
}
