//! The third killer: this node ends the processes of a session that outlive its validity.
//!
//! Front and guard of `kgate run` each end CMD before the deadline D without the other. If both are
//! frozen, CMD would run on while its slot goes to another holder. So a client on this machine
//! offers its processes to its node (the shell has handles of them), and the node ends those that
//! still live at D - K.
//!
//! ```text
//! guarded --D - K has passed, and a permit was granted--> ending --no process is left--> ended
//! ```
//!
//! D is the latest instant until which the client may count its session as valid, by what this node
//! told it: the client's own D is never later, because it counts from when it sent its message
//! (rule S1).
//!
//! Invariant: no slot of a guarded session is freed by time (rule S4) before its processes are
//! gone, however long that takes. It is not freed earlier than without a guard either. A session
//! whose processes are being ended cannot be renewed or resumed; its client may still release.
//!
//! Permits that are bound to processes instead of time have no deadline, so nothing is ended.

use kgate_core::{Span, Time};

use super::sessions::Guarded;
use super::timers::Deadline;
use super::{Action, ClientId, Core, RequestKey, SessionId};

impl Core {
    /// A client has been told that its session is valid for that long from now on.
    pub(super) fn promised(&mut self, session: SessionId, valid_for: Option<Span>) {
        if let Some(end_at) = self.sessions.promise(session, valid_for.map(|span| self.now + span))
        {
            self.arm_end_of_tree(session, end_at);
        }
    }

    /// A request of the session was granted: it may run processes now.
    pub(super) fn entered(&mut self, session: SessionId) {
        if let Some(end_at) = self.sessions.enter(session) {
            self.arm_end_of_tree(session, end_at);
        }
    }

    fn arm_end_of_tree(&mut self, session: SessionId, end_at: Time) {
        let left = end_at.since(self.now);
        self.timers.arm(self.now, Deadline::EndTree(session), left, left);
    }

    /// Has the shell end the processes of a session whose D - K has passed.
    pub(super) fn end_tree(&mut self, session: SessionId) {
        if let Some(tree) = self.sessions.end_tree(session) {
            self.mark_dirty();
            self.actions.push(Action::EndTree { session, tree });
        }
    }

    /// Whether the slots of a session may be freed by time. If its processes may live, they are
    /// ended first.
    pub(super) fn is_tree_gone(&mut self, session: SessionId) -> bool {
        self.end_tree(session);
        !matches!(
            self.sessions.get(session).map(|session| session.guarded),
            Some(Guarded::Ending(_))
        )
    }

    /// The session has expired. It ends at once, or when its processes have.
    pub(super) fn expire_session(&mut self, session: SessionId) {
        if self.is_tree_gone(session) {
            self.end_session(session, Self::lapse);
        } else {
            self.sessions.postpone(session);
        }
    }

    /// A client that was told of a loss has surely stopped, unless its processes are being ended.
    pub(super) fn reclaim(&mut self, key: RequestKey) {
        if self.is_tree_gone(key.session) {
            self.lapse(key);
        } else {
            let again = self.sessions.terms().kill;
            self.timers.arm(self.now, Deadline::Reclaim(key), again, again);
        }
    }

    /// No process of the session is left.
    pub(super) fn on_tree_ended(&mut self, session: SessionId) {
        if self.sessions.tree_ended(session) {
            self.end_session(session, Self::lapse);
        }
    }

    /// The client of a new stream offers its processes, before its first message.
    pub(super) fn on_tree_offered(&mut self, client: ClientId) {
        self.sessions.offer_tree(client);
    }

    /// Has the shell drop the handles that no session needs any more.
    pub(super) fn forget_trees(&mut self) {
        self.actions.extend(self.sessions.take_forgotten_trees().map(Action::ForgetTree));
    }
}
