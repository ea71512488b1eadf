//! The agreed log of crashes and returns, for processes that restart without state.
//!
//! The log has one order and continues whichever processes are down. Every process is notified of
//! one entry after the other, each at any time; a restarted process is notified from the beginning.
//! All first incarnations take part from the start; later incarnations are numbered across all
//! processes.
//!
//! Once no process can restart any more, none will read the log from the beginning, so entries
//! known to every process that is up are dropped.

use kgate_core::{Incarnation, Input, NodeId, Protocol, ViewId};
use smallvec::SmallVec;

use crate::model::SharedInput;
use crate::state::State;

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The process.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: u8,
    /// Whether the incarnation takes part from here on; otherwise it has ended.
    pub adds: bool,
}

/// The entries that some process may still be notified of.
pub type Log = SmallVec<[Entry; 4]>;

impl Entry {
    /// The entry as the input of a process.
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
    /// Appends the end of a process's incarnation.
    pub(crate) fn evict(&mut self, node: NodeId) {
        let incarnation = self.clients[node.index()].added;
        self.log.push(Entry { node, incarnation, adds: false });
    }

    /// Appends the next incarnation of a process.
    pub(crate) fn add(&mut self, node: NodeId) {
        let added = self.log.iter().filter(|entry| entry.adds).count();
        let incarnation = u8::try_from(added + 1).expect("bounds are small");
        self.log.push(Entry { node, incarnation, adds: true });
        self.clients[node.index()].added = incarnation;
    }

    /// The next entry that a process is notified of.
    pub(crate) fn next_entry(&self, node: NodeId) -> Option<Entry> {
        self.log.get(usize::from(self.clients[node.index()].notified)).copied()
    }

    /// Drops the entries that every process which is up was notified of. No process may restart any
    /// more.
    pub(crate) fn truncate_log(&mut self) {
        let up = self.ids().filter(|&node| self.is_up(node));
        let known = up.map(|node| self.clients[node.index()].notified).min().unwrap_or(0);
        if known > 0 {
            self.log.drain(..usize::from(known));
            let up: SmallVec<[NodeId; 4]> = self.ids().filter(|&node| self.is_up(node)).collect();
            up.iter().for_each(|node| self.clients[node.index()].notified -= known);
        }
    }
}
