//! The checker: in real time, no child runs after its slot was free.

use super::clock::Real;

/// Each clock rounds real time to a nanosecond.
const TOLERANCE: Real = 4;

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub(in crate::lease::tests) struct Verdict {
    /// The violation, if there was one, for people.
    pub(in crate::lease::tests) violation: Option<String>,
    pub(in crate::lease::tests) evicted: bool,
    /// The eviction came after the voters had changed.
    pub(in crate::lease::tests) evicted_by_others: bool,
    pub(in crate::lease::tests) cleared: u64,
    pub(in crate::lease::tests) children: u64,
    /// The real time from a child's death until an eviction freed its slot.
    pub(in crate::lease::tests) margin: Option<Real>,
}

#[derive(Default)]
pub(in crate::lease::tests) struct Checker {
    pub(in crate::lease::tests) verdict: Verdict,
    /// When the first node applied the eviction.
    pub(in crate::lease::tests) evicted: Option<Real>,
    /// The last grant that p itself freed, and when.
    freed: Option<(u64, Real)>,
    /// The last death, until the eviction gives its margin.
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

    /// p counts that grant, and all before, as returned.
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
            self.report(format!("a child starts {} ns after its slot was free", now - since));
        }
    }

    /// A child ran until now; `slept` is when its machine last fell asleep and woke.
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
            self.report(format!("a child runs {} ns after its slot was free", now - ran_from));
        }
    }

    fn report(&mut self, what: String) {
        self.verdict.violation.get_or_insert(what);
    }
}
