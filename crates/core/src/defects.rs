//! Switches that bring a known defect back, for checkers to catch and for teaching.

/// A set of known defects that a protocol runs with instead of their repairs. Which bit is which
/// defect is the protocols' business.
///
/// Only the laboratory can make a set that is not empty: without the feature `defects` this type
/// has a single value, [`NONE`](Self::NONE), takes no space, and every check of a switch is
/// constant. The crates of a node are built without the feature, so that none of their code can
/// name another value. A binary that contains the laboratory as well pays eight bytes per process
/// and a test of a bit per switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Defects(Bits);

#[cfg(feature = "defects")]
type Bits = u64;
#[cfg(not(feature = "defects"))]
type Bits = ();

#[cfg(feature = "defects")]
impl Defects {
    /// Every defect repaired.
    pub const NONE: Defects = Defects(0);

    /// The set of the one defect that has this bit, below 64.
    pub const fn bit(number: u32) -> Defects {
        Defects(1 << number)
    }

    /// This set together with the defects of `others`.
    pub const fn with(self, others: Defects) -> Defects {
        Defects(self.0 | others.0)
    }

    /// Whether the set contains any of `defects`.
    pub const fn has(self, defects: Defects) -> bool {
        self.0 & defects.0 != 0
    }
}

/// Rules that the driver of a protocol with an agreed log keeps, left out: the protocol does not
/// look at these.
impl Defects {
    /// A session lapses at its deadline, whatever of the log has been applied.
    pub const LAPSES_EARLY: Defects = Defects::bit(61);
    /// A grant is released when its durable permit is proposed, not when the log holds it.
    pub const RELEASES_EARLY: Defects = Defects::bit(62);
    /// A process is evicted while clients believe by its lease.
    pub const EVICTS_EARLY: Defects = Defects::bit(63);
}

#[cfg(not(feature = "defects"))]
impl Defects {
    /// Every defect repaired.
    pub const NONE: Defects = Defects(());

    /// The empty set: without the feature `defects` no switch exists.
    pub const fn bit(_number: u32) -> Defects {
        Defects::NONE
    }

    /// The empty set.
    pub const fn with(self, _others: Defects) -> Defects {
        Defects::NONE
    }

    /// Always false.
    pub const fn has(self, _defects: Defects) -> bool {
        false
    }
}
