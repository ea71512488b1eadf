//! Watchers learn that something changed at any node, soon and not too often.

use std::collections::BTreeSet;

use kgate_core::{NodeId, Span};

use super::peer_message::PeerMessage;
use super::timers::Deadline;
use super::{Action, Core};

/// Changes within this span are notified together.
const TOGETHER: Span = Span(50_000_000);

/// The watchers, and whether something has changed.
#[derive(Debug, Default)]
pub(super) struct Watching {
    /// Whether this node has watchers.
    here: bool,
    /// The other nodes that have watchers.
    elsewhere: BTreeSet<NodeId>,
    changed: bool,
}

impl Core {
    /// The first watcher at this node arrived, or the last one left.
    pub(super) fn on_watch(&mut self, begins: bool) {
        self.watching.here = begins;
        self.broadcast(&PeerMessage::Watch(begins));
    }

    /// The message for a peer that has just connected.
    pub(super) fn watch_message(&self) -> Option<PeerMessage> {
        self.watching.here.then_some(PeerMessage::Watch(true))
    }

    /// Another node has watchers, or has none any more.
    pub(super) fn watched(&mut self, by: NodeId, begins: bool) {
        if begins {
            self.watching.elsewhere.insert(by)
        } else {
            self.watching.elsewhere.remove(&by)
        };
    }

    /// Something visible to status queries changed.
    pub(super) fn mark_dirty(&mut self) {
        self.watching.changed = true;
    }

    /// Arms the notification of watchers, if something has changed.
    pub(super) fn notify_watchers_later(&mut self) {
        let watched = self.watching.here || !self.watching.elsewhere.is_empty();
        if std::mem::take(&mut self.watching.changed)
            && watched
            && !self.timers.runs(&Deadline::NotifyWatchers)
        {
            self.timers.arm(self.now, Deadline::NotifyWatchers, TOGETHER, TOGETHER);
        }
    }

    pub(super) fn notify_watchers(&mut self) {
        let message = PeerMessage::Changed.bytes();
        self.actions.extend(
            self.watching.elsewhere.iter().map(|node| Action::Send(*node, message.clone())),
        );
        self.actions.push(Action::Changed);
    }
}
