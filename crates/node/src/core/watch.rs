//! When to look again: whoever watches is told of changes at all nodes, soon and not too often.

use std::collections::BTreeSet;

use kgate_core::{NodeId, Span, Time};

use super::peer_message::PeerMessage;
use super::timers::Deadline;
use super::{Action, Core};

/// Changes within that time are told together.
const TOGETHER: Span = Span(50_000_000);

/// Who watches, and whether something has changed.
#[derive(Debug, Default)]
pub(super) struct Watching {
    /// Whether somebody watches at this node.
    here: bool,
    /// At which other nodes somebody does.
    elsewhere: BTreeSet<NodeId>,
    changed: bool,
}

impl Core {
    /// Somebody begins to watch at this node, or nobody does any more.
    pub(super) fn on_watch(&mut self, begins: bool, actions: &mut Vec<Action>) {
        self.watching.here = begins;
        self.broadcast(&PeerMessage::Watch(begins), actions);
    }

    /// What a peer that has just come must be told.
    pub(super) fn watch_message(&self) -> Option<PeerMessage> {
        self.watching.here.then_some(PeerMessage::Watch(true))
    }

    /// Somebody watches at another node, or no more.
    pub(super) fn watched(&mut self, by: NodeId, begins: bool) {
        if begins {
            self.watching.elsewhere.insert(by)
        } else {
            self.watching.elsewhere.remove(&by)
        };
    }

    /// Something has changed that people may see.
    pub(super) fn mark_dirty(&mut self) {
        self.watching.changed = true;
    }

    /// If something has changed, those who watch will be told.
    pub(super) fn notify_watchers_later(&mut self, now: Time) {
        let watched = self.watching.here || !self.watching.elsewhere.is_empty();
        if std::mem::take(&mut self.watching.changed)
            && watched
            && !self.timers.runs(&Deadline::NotifyWatchers)
        {
            self.timers.arm(now, Deadline::NotifyWatchers, TOGETHER, TOGETHER);
        }
    }

    pub(super) fn notify_watchers(&self, actions: &mut Vec<Action>) {
        let message = PeerMessage::Changed.bytes();
        actions.extend(
            self.watching.elsewhere.iter().map(|node| Action::Send(*node, message.clone())),
        );
        actions.push(Action::Changed);
    }
}
