//! The holds of a run: which client held which slots, from when until when.

use std::collections::BTreeMap;

use crate::record::{Record, What};

/// A hold of a permit.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) who: String,
    pub(super) node: u32,
    pub(super) gate: String,
    pub(super) slots: Vec<u32>,
    pub(super) fence: String,
    pub(super) from: u64,
    /// From when on it certainly no longer held: after `from`.
    pub(super) end: u64,
    pid: u32,
    process: bool,
    /// Its deadline, as last recorded.
    until: u64,
    over: bool,
}

/// A heartbeat after the deadline.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) who: String,
    pub(super) t: u64,
    pub(super) until: u64,
}

/// All holds of the records.
#[derive(Debug, Default)]
pub(super) struct Holds {
    pub(super) all: Vec<Hold>,
    pub(super) late: Vec<Late>,
    /// The intervals in which each process was frozen with its whole tree.
    frozen: BTreeMap<u32, Vec<(u64, u64)>>,
}

/// Maximum time until a thawed tree is ended by one of its supervisors.
const THAW_NS: u64 = 250_000_000;

impl Holds {
    pub(super) fn of(records: &[Record]) -> Self {
        let mut holds = Self { frozen: frozen(records), ..Self::default() };
        let mut places = BTreeMap::new();
        for record in records {
            if let What::Killed { pid } = record.what {
                holds.killed(pid, record.t);
            } else if let What::Granted { .. } = record.what {
                holds.granted(record, &mut places);
            } else if let Some(&place) = places.get(&record.who) {
                holds.go_on(place, record);
            }
        }
        for hold in holds.all.iter_mut().filter(|hold| !hold.process && !hold.over) {
            hold.end = hold.until;
        }
        for hold in &mut holds.all {
            hold.end = hold.end.max(hold.from + 1);
        }
        holds
    }

    fn granted(&mut self, record: &Record, places: &mut BTreeMap<String, usize>) {
        let What::Granted { gate, slots, fence, until, pid, process } = record.what.clone() else {
            return;
        };
        let Record { t, node, .. } = *record;
        if until <= t {
            if process {
                self.heartbeat_after(until, record, pid);
            } else {
                // The grant came too late, and the client knows it.
                return;
            }
        }
        places.insert(record.who.clone(), self.all.len());
        let who = record.who.clone();
        self.all.push(Hold {
            who,
            node,
            gate,
            slots,
            fence,
            from: t,
            end: t,
            pid,
            process,
            until,
            over: false,
        });
    }

    fn go_on(&mut self, place: usize, record: &Record) {
        let Hold { over, pid, process, until, .. } = self.all[place];
        if over {
            return;
        }
        let t = record.t;
        if let What::Inside { until: next } = record.what {
            if !process {
                // One that is read after the deadline says that the belief ended at it.
                self.all[place].until = next.max(until);
            } else if next < t && self.heartbeat_after(next, record, pid) {
                self.all[place].over = true;
                self.all[place].end = next;
            } else {
                self.all[place].until = next;
                self.all[place].end = t;
            }
        } else if matches!(record.what, What::Out | What::Lost { .. }) {
            self.all[place].over = true;
            self.all[place].end = if process { t } else { t.min(until) };
        }
    }

    /// Whether it is excused; if not, it is noted.
    fn heartbeat_after(&mut self, until: u64, record: &Record, pid: u32) -> bool {
        if self.excused(pid, record.t) {
            return true;
        }
        self.late.push(Late { who: record.who.clone(), t: record.t, until });
        false
    }

    /// A dead process believes nothing.
    fn killed(&mut self, pid: u32, t: u64) {
        for hold in
            self.all.iter_mut().filter(|hold| hold.pid == pid && !hold.over && !hold.process)
        {
            hold.over = true;
            hold.end = t.min(hold.until);
        }
    }

    fn excused(&self, pid: u32, t: u64) -> bool {
        self.frozen.get(&pid).is_some_and(|spans| {
            spans.iter().any(|(from, to)| *from <= t && t <= to.saturating_add(THAW_NS))
        })
    }

    /// Whether that process was frozen whole, and its time had passed.
    pub(super) fn frozen_and_late(&self, pid: u32, t: u64) -> bool {
        let until = self
            .all
            .iter()
            .rev()
            .find(|hold| hold.pid == pid && hold.from <= t)
            .map(|hold| hold.until);
        self.excused(pid, t) && until.is_some_and(|until| until <= t)
    }
}

fn frozen(records: &[Record]) -> BTreeMap<u32, Vec<(u64, u64)>> {
    let mut spans: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for record in records {
        if let What::Frozen { pid } = record.what {
            spans.entry(pid).or_default().push((record.t, u64::MAX));
        } else if let What::Thawed { pid } = record.what
            && let Some((_, to)) = spans.get_mut(&pid).and_then(|spans| spans.last_mut())
        {
            *to = record.t;
        }
    }
    spans
}
