//! The state that a process keeps about one neighbour: a session, which lasts as long as both live
//! without a crash.
//!
//! Requests and answers are counted from the beginning of the session, and messages carry the
//! counts: so their order does not matter, and messages of an earlier incarnation are recognised
//! and not counted (R10).
//!
//! Invariant: when no message is in transit between two neighbours, the requests of one that are
//! not served are the entries that wait for it in the other's queue.

use kgate_core::NodeId;

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub(super) node: NodeId,
    /// The neighbour's incarnation in this session; 0 until that is known.
    pub(super) incarnation: u32,
    /// The number of its entries in the queue.
    pub(super) waits: u32,
    /// Whether it has reported where the tokens are, since it became a neighbour or this process
    /// recovered.
    pub(super) stated: bool,
    /// The number of tokens requested from it.
    pub(super) asks_out: u64,
    /// The number of these that it has served.
    pub(super) served_in: u64,
    /// The number of tokens that it has requested here.
    pub(super) asks_in: u64,
    /// The number of these that were served.
    pub(super) served_out: u64,
}

impl Link {
    /// A live neighbour in this incarnation; 0 if unknown.
    pub(super) fn new(node: NodeId, incarnation: u32) -> Self {
        Self {
            node,
            incarnation,
            waits: 0,
            stated: false,
            asks_out: 0,
            served_in: 0,
            asks_in: 0,
            served_out: 0,
        }
    }

    /// Whether it can be sent requests: a request in an unknown incarnation would not be counted.
    pub(super) fn is_known(&self) -> bool {
        self.incarnation > 0
    }

    /// The number of requests that it has not served.
    pub(super) fn outstanding(&self) -> u64 {
        self.asks_out.checked_sub(self.served_in).expect("no more is served than asked for")
    }

    /// The session with a later incarnation of it begins, by its RESTART. It has forgotten
    /// everything; the ADVISE from here repeats the requests in both directions, so both are
    /// carried over.
    pub(super) fn adopt(&mut self, incarnation: u32) {
        let asked = self.outstanding();
        self.adopt_unconfirmed(incarnation);
        self.asks_out = asked;
    }

    /// The session with a later incarnation of it begins, by another message than its RESTART,
    /// which was lost or is late. It does not know the requests of this process, which must be sent
    /// again.
    pub(super) fn adopt_unconfirmed(&mut self, incarnation: u32) {
        assert!(
            incarnation > self.incarnation,
            "{}: incarnation {incarnation} after {}",
            self.node,
            self.incarnation
        );
        self.incarnation = incarnation;
        self.asks_out = 0;
        self.served_in = 0;
        self.asks_in = u64::from(self.waits);
        self.served_out = 0;
    }

    /// Its total number of requests; returns how many of these are new.
    pub(super) fn hear_asks(&mut self, asks: u64) -> u32 {
        let new = asks.saturating_sub(self.asks_in);
        self.asks_in = self.asks_in.max(asks);
        let new = u32::try_from(new).expect("checked: at most k more");
        self.waits += new;
        new
    }

    /// The total number of requests that it has served. Requests that this process does not
    /// remember are from before its crash.
    pub(super) fn hear_served(&mut self, served: u64) {
        self.served_in = self.served_in.max(served);
        self.asks_out = self.asks_out.max(served);
    }
}
