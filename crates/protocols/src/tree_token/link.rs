//! What a process keeps of one neighbour: a session, which lasts as long as both live without a
//! crash.
//!
//! Asks and answers are counted from the beginning of the session, and messages carry the counts:
//! so their order does not matter, and what an earlier incarnation said is recognised and not
//! counted (R10).
//!
//! Invariant: when nothing is on its way between two neighbours, what one has asked and not got is
//! what waits in the other's queue for it.

use kgate_core::NodeId;

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub(super) node: NodeId,
    /// Which incarnation of it this session is with; 0 until that is known.
    pub(super) incarnation: u32,
    /// How many entries of our queue are its.
    pub(super) waits: u32,
    /// It has told where the tokens are, since it became a neighbour or we came back.
    pub(super) stated: bool,
    /// How many tokens we have asked it for.
    pub(super) asks_out: u64,
    /// How many of these it has served.
    pub(super) served_in: u64,
    /// How many it has asked us for.
    pub(super) asks_in: u64,
    /// How many of these we have served.
    pub(super) served_out: u64,
}

impl Link {
    /// A neighbour that is alive its `incarnation`; 0 if we do not know.
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

    /// Whether we may ask it: an ask in an incarnation that we do not know would not be counted.
    pub(super) fn is_known(&self) -> bool {
        self.incarnation > 0
    }

    /// What we have asked for and not got.
    pub(super) fn outstanding(&self) -> u64 {
        self.asks_out.checked_sub(self.served_in).expect("no more is served than asked for")
    }

    /// The session with a later incarnation of it begins, by its RESTART. It has forgotten
    /// everything, and is told in our ADVISE what we still want of it and what it still wants of
    /// us: both are carried over.
    pub(super) fn adopt(&mut self, incarnation: u32) {
        let asked = self.outstanding();
        self.adopt_untold(incarnation);
        self.asks_out = asked;
    }

    /// The session with a later incarnation of it begins, by another message than its RESTART,
    /// which was lost or is late. Nobody has told it what we want: we must ask again.
    pub(super) fn adopt_untold(&mut self, incarnation: u32) {
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

    /// It has asked us for so many in all; how many of these are new.
    pub(super) fn hear_asks(&mut self, asks: u64) -> u32 {
        let new = asks.saturating_sub(self.asks_in);
        self.asks_in = self.asks_in.max(asks);
        let new = u32::try_from(new).expect("checked: at most k more");
        self.waits += new;
        new
    }

    /// It has served so many of our asks in all. If we do not remember them, they are of before our
    /// crash.
    pub(super) fn hear_served(&mut self, served: u64) {
        self.served_in = self.served_in.max(served);
        self.asks_out = self.asks_out.max(served);
    }
}
