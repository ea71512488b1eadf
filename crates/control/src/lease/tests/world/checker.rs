//! The checker: no child runs in real time after its slot was free.

use super::clock::Real;

/// Real instants are exact to a nanosecond on each clock.
const TOLERANCE: Real = 4;

/// What a run was like.
#[derive(Clone, Debug, Default)]
pub(in crate::lease::tests) struct Verdict {
    /// What went wrong, in words.
    pub(in crate::lease::tests) violation: Option<String>,
    pub(in crate::lease::tests) evicted: bool,
    /// After the voters had changed.
    pub(in crate::lease::tests) evicted_by_others: bool,
    pub(in crate::lease::tests) cleared: u64,
    pub(in crate::lease::tests) children: u64,
    /// Real time from a child's death to the freeing of its slot by an eviction.
    pub(in crate::lease::tests) margin: Option<Real>,
}

#[derive(Default)]
pub(in crate::lease::tests) struct Checker {
    pub(in crate::lease::tests) verdict: Verdict,
    /// When anybody first applied the eviction.
    pub(in crate::lease::tests) evicted: Option<Real>,
    /// The last grant that p itself has freed, and when.
    freed: Option<(u64, Real)>,
    /// The death that has to wait for its margin.
    died: Option<Real>,
}

impl Checker {
    pub(in crate::lease::tests) fn evicted(&mut self, now: Real, by_others: bool) {
        if self.evicted.is_none() {
            self.evicted = Some(now);
            self.verdict.evicted = true;
            self.verdict.evicted_by_others = by_others;
            self.verdict.margin = self.died.map(|died| now - died);
        }
    }

    /// p counts that grant as given back, and all before.
    pub(in crate::lease::tests) fn freed(&mut self, now: Real, grant: u64) {
        self.freed = Some((grant, now));
    }

    fn free_since(&self, grant: u64) -> Option<Real> {
        let freed = self.freed.filter(|(freed, _)| grant <= *freed).map(|(_, since)| since);
        match (self.evicted, freed) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub(in crate::lease::tests) fn child_starts(&mut self, now: Real, grant: u64) {
        self.verdict.children += 1;
        self.died = None;
        if let Some(since) = self.free_since(grant) {
            self.blame(format!("a child starts {} ns after its slot was free", now - since));
        }
    }

    /// A child that ran until now; `woke` is when its machine last slept, and until when.
    pub(in crate::lease::tests) fn child_ends(
        &mut self,
        now: Real,
        grant: u64,
        slept: (Real, Real),
    ) {
        self.died = Some(now);
        let Some(free) = self.free_since(grant) else { return };
        let ran_from = if slept.0 <= free && free < slept.1 { slept.1 } else { free };
        if now > ran_from + TOLERANCE {
            self.blame(format!("a child runs {} ns after its slot was free", now - ran_from));
        }
    }

    fn blame(&mut self, what: String) {
        self.verdict.violation.get_or_insert(what);
    }
}
