//! The agreed log of who takes part, for processes that come back with nothing.
//!
//! It says in one order who is gone and who takes part again, and incarnations on whoever is down.
//! Every process is told entry after entry, each at any time; whoever comes back is told from the
//! beginning. All first incarnations take part from the start; incarnations that are added are
//! numbered through all processes.
//!
//! Once nobody can come back any more, nobody will be told the beginning again: what everybody up
//! has been told is forgotten then.

use kgate_core::{Incarnation, Input, NodeId, Protocol, ViewId};
use smallvec::SmallVec;

use crate::model::SharedInput;
use crate::state::State;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Who.
    pub node: NodeId,
    /// Which incarnation of it.
    pub incarnation: u8,
    /// Whether it takes part from here on; else it is gone.
    pub adds: bool,
}

/// All entries that somebody may still be told.
pub type Log = SmallVec<[Entry; 4]>;

impl Entry {
    /// As it is told.
    pub(crate) fn input<P: Protocol>(self) -> SharedInput<P> {
        let incarnation = Incarnation(u32::from(self.incarnation));
        if self.adds {
            Input::Joined { node: self.node, incarnation, view: ViewId(incarnation.0) }
        } else {
            Input::Crashed { node: self.node, incarnation }
        }
    }
}

impl<P: Protocol> State<P> {
    /// The log says that this incarnation of a process is gone.
    pub(crate) fn evict(&mut self, node: NodeId) {
        let incarnation = self.clients[node.index()].added;
        self.log.push(Entry { node, incarnation, adds: false });
    }

    /// The log says that a process takes part again, as its next incarnation.
    pub(crate) fn add(&mut self, node: NodeId) {
        let added = self.log.iter().filter(|entry| entry.adds).count();
        let incarnation = u8::try_from(added + 1).expect("bounds are small");
        self.log.push(Entry { node, incarnation, adds: true });
        self.clients[node.index()].added = incarnation;
    }

    /// What a process is told next.
    pub(crate) fn next_entry(&self, node: NodeId) -> Option<Entry> {
        self.log.get(usize::from(self.clients[node.index()].notified)).copied()
    }

    /// Nobody comes back any more: forgets what everybody has been told.
    pub(crate) fn truncate_log(&mut self) {
        let up = self.ids().filter(|&node| self.is_up(node));
        let told = up.map(|node| self.clients[node.index()].notified).min().unwrap_or(0);
        if told > 0 {
            self.log.drain(..usize::from(told));
            let up: SmallVec<[NodeId; 4]> = self.ids().filter(|&node| self.is_up(node)).collect();
            up.iter().for_each(|node| self.clients[node.index()].notified -= told);
        }
    }
}
