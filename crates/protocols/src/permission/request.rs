//! One request, from Acquire to Release.

use fixedbitset::FixedBitSet;
use kgate_core::NodeId;

use super::deferred::Deferred;

/// A request that waits or holds. Only a process with a request defers others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    /// Its stamp's clock; also the name of its grant.
    pub(super) clock: u64,
    /// Its broadcast has started.
    pub(super) asked: bool,
    /// It has entered.
    pub(super) holding: bool,
    /// The processes that have given permission. A set: one process's permission counts once.
    given: FixedBitSet,
    count: u32,
    /// The processes whose newest request is answered when this one ends.
    pub(super) deferred: Deferred,
}

impl Request {
    pub(super) fn new(clock: u64, nodes: u32, answer_each: bool) -> Self {
        Self {
            clock,
            asked: false,
            holding: false,
            given: FixedBitSet::with_capacity(nodes as usize),
            count: 0,
            deferred: Deferred::new(nodes, answer_each),
        }
    }

    /// The number of permissions.
    pub(super) fn permissions(&self) -> u32 {
        self.count
    }

    /// Whether `node` has given permission.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.given.contains(node.index())
    }

    #[inline]
    pub(super) fn permit(&mut self, node: NodeId) {
        if !self.given.put(node.index()) {
            self.count += 1;
        }
    }

    /// Takes a permission back, if there is one.
    pub(super) fn take_back(&mut self, node: NodeId) {
        if self.has(node) {
            self.given.remove(node.index());
            self.count -= 1;
        }
    }

    /// Enters. The permissions are no longer needed.
    pub(super) fn enter(&mut self) {
        self.holding = true;
        self.given = FixedBitSet::new();
        self.count = 0;
    }
}
