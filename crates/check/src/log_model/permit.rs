//! Permits: what clients were granted, whether they still believe in it, and the sessions by which
//! nodes know of them.
//!
//! A client stops at a deadline. The node of its session extends the deadline until the client has
//! asked another node; the client believes by the leases of all nodes that it has asked (H18).
//! There is no clock here: a deadline passes when the schedule says so, before the eviction of a
//! node by whose lease the client believes.

use kgate_core::{Fence, GrantId, NodeId};
use smallvec::SmallVec;

use crate::client;

/// What a client was granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permit {
    /// The fence of the slots, which names the permit.
    pub fence: Fence,
    /// The slots, one bit each.
    pub slots: u32,
    /// The length of the log when the client stopped to believe; `None` while it uses the slots.
    pub ended: Option<u64>,
    /// The session by which it believes.
    pub by: Session,
    /// The sessions that the processes remember, in order.
    pub sessions: SmallVec<[Session; 2]>,
    /// The last attempt of the client to go on elsewhere, and the last that it confirmed.
    pub attempt: u8,
    /// The last attempt that it confirmed.
    pub confirmed: u8,
    /// The adoption requests without an answer: the node and the attempt.
    pub asks: SmallVec<[(NodeId, u8); 2]>,
    /// The nodes that it has asked since it was confirmed, one bit each.
    pub asked: u16,
    /// Whether the log holds it.
    pub durable: Durable,
}

/// What a process knows of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    /// The process.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: u8,
    /// The grant at that process.
    pub grant: GrantId,
    /// The length of the log that it had applied when it let the client in.
    pub after: u64,
    /// The attempt by which the slots came there, until the client confirms.
    pub unconfirmed: Option<u8>,
    /// The length of the log when the deadline passed, if it has.
    pub ended: Option<u64>,
}

/// Whether the log holds a permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durable {
    /// Nobody wants it to.
    #[default]
    No,
    /// Its node has proposed it.
    Proposed,
    /// Since this entry.
    Held(u64),
}

impl Permit {
    /// The permit of a client that has just been let in.
    pub fn new(slots: u32, fence: Fence, session: Session) -> Self {
        Self {
            fence,
            slots,
            ended: None,
            by: session,
            sessions: SmallVec::from_slice(&[session]),
            attempt: 0,
            confirmed: 0,
            asks: SmallVec::new(),
            asked: 0,
            durable: Durable::No,
        }
    }

    /// Whether the client uses the slots.
    pub fn believes(&self) -> bool {
        self.ended.is_none()
    }

    /// Whether the client has asked elsewhere, and so speaks no more to the node of its session.
    pub fn has_moved(&self) -> bool {
        self.attempt > self.confirmed
    }

    /// The slots that count for a process that believes in this k.
    pub fn slots_in_use(&self, k: u32) -> u32 {
        (self.slots & client::below(k)).count_ones()
    }

    /// Whether this is the session by which the client believes.
    pub fn is_by(&self, session: &Session) -> bool {
        (session.node, session.grant) == (self.by.node, self.by.grant)
    }

    /// Whether the deadline of this session is that of the client.
    fn is_current(&self, session: &Session) -> bool {
        self.is_by(session) || session.unconfirmed.is_some_and(|attempt| attempt > self.confirmed)
    }

    /// The session by which the client believes, if its process remembers it.
    pub fn own_session(&self) -> Option<&Session> {
        self.sessions.iter().find(|session| self.is_by(session))
    }

    /// The session of that node.
    pub fn at(&self, node: NodeId) -> Option<&Session> {
        self.sessions.iter().find(|session| session.node == node)
    }

    /// Whether only the session of this node is over: the client goes on by another.
    pub fn is_left(&self, session: &Session) -> bool {
        session.ended.is_none() && (!self.is_current(session) || !self.believes())
    }

    /// The client's deadline passes.
    pub fn end(&mut self, now: u64) {
        self.ended.get_or_insert(now);
        if self.durable == Durable::Proposed {
            self.durable = Durable::No;
        }
        self.asked = 0;
        let current: SmallVec<[bool; 2]> =
            self.sessions.iter().map(|session| self.is_current(session)).collect();
        for (session, current) in self.sessions.iter_mut().zip(current) {
            if current {
                session.ended.get_or_insert(now);
            }
        }
    }

    /// A process forgets its session.
    pub fn forget(&mut self, node: NodeId, grant: GrantId) {
        self.sessions.retain(|session| (session.node, session.grant) != (node, grant));
    }

    /// A process forgets everything.
    pub fn forget_all(&mut self, node: NodeId) {
        self.sessions.retain(|session| session.node != node);
        self.asks.retain(|ask| ask.0 != node);
    }

    /// A process remembers a session.
    pub fn remember(&mut self, session: Session) {
        let place = self.sessions.partition_point(|other| *other < session);
        self.sessions.insert(place, session);
    }

    /// Forgets what nothing depends on after the client's end.
    pub(super) fn normalize(&mut self) {
        let is_open = |session: &Session| session.ended.is_none();
        let matters = self.believes() || self.durable != Durable::No || !self.asks.is_empty();
        if !matters && !self.sessions.iter().any(is_open) {
            for session in &mut self.sessions {
                session.unconfirmed = None;
            }
            if let Some(first) = self.sessions.first() {
                self.by = *first;
            }
            (self.attempt, self.confirmed, self.ended) = (0, 0, Some(0));
        }
    }

    /// Whether nothing that can happen depends on this permit any more.
    pub fn is_over(&self) -> bool {
        !self.believes() && self.sessions.is_empty() && self.asks.is_empty()
    }
}
