//! Permits lapse behind a barrier (rule H13).
//!
//! A session whose deadline has passed holds nothing any more, by its client's own clock. But its
//! permits may have gone on at another node, by decisions of a home that this node does not know
//! of yet. So the node asks a quorum how far the log goes, after the deadline, and lets the permits
//! lapse when it has applied all of that. Without a quorum they stay taken: the node may be evicted
//! meanwhile, which frees them too.
//!
//! ```text
//! deadline --> waiting --asked--> asked --answer: entry i--> behind i --i is applied--> lapsed
//!                 ^                 | no quorum
//!                 +-----------------+
//! ```

use kgate_control::log::ProposeError;
use kgate_core::Span;

use crate::core::timers::Deadline;
use crate::core::{Action, Core, GateId, RequestKey, SessionId};

/// A permit that lapses.
type Lapse = (GateId, RequestKey);

/// The permits whose clients are gone, and which have not lapsed yet.
#[derive(Debug, Default)]
pub(in crate::core) struct Lapses {
    /// Nobody was asked since their deadline.
    waiting: Vec<Lapse>,
    /// The open question, and the permits that wait for its answer.
    asked: Option<(u64, Vec<Lapse>)>,
    /// The permits that wait until an entry is applied here.
    behind: Vec<(u64, Vec<Lapse>)>,
}

impl Lapses {
    /// All of them, for a clean stop.
    pub(in crate::core) fn suspend(&self) -> Vec<(u32, u64, u64)> {
        let asked = self.asked.iter().flat_map(|(_, all)| all);
        let behind = self.behind.iter().flat_map(|(_, all)| all);
        let all = self.waiting.iter().chain(asked).chain(behind);
        all.map(|(gate, key)| (gate.0, key.session.0, key.number)).collect()
    }

    /// Takes them up again. What was decided meanwhile is asked for anew.
    pub(in crate::core) fn resume(&mut self, all: Vec<(u32, u64, u64)>) {
        let lapse = |(gate, session, number)| {
            (GateId(gate), RequestKey { session: SessionId(session), number })
        };
        self.waiting.extend(all.into_iter().map(lapse));
    }
}

impl Core {
    /// The client of a permit is gone, and the permit lapses as soon as it may.
    pub(in crate::core) fn lapse_behind_barrier(&mut self, gate: GateId, key: RequestKey) {
        self.mark_dirty();
        #[cfg(test)]
        {
            self.lapses_seen.push(crate::core::tests::LapseSeen::Begins(key));
            if self.mutations.lapses_without_barrier {
                return self.let_lapse(vec![(gate, key)]);
            }
        }
        self.log.lapses.waiting.push((gate, key));
        self.ask_barrier();
    }

    /// Asks how far the log goes, unless a question is open: its answer may be older than the
    /// latest deadlines, and another one follows it.
    pub(in crate::core) fn ask_barrier(&mut self) {
        if self.log.lapses.asked.is_some() || self.log.lapses.waiting.is_empty() {
            return;
        }
        self.log.proposed += 1;
        let number = self.log.proposed;
        let waiting = std::mem::take(&mut self.log.lapses.waiting);
        self.log.lapses.asked = Some((number, waiting));
        self.actions.push(Action::ReadIndex(number));
    }

    /// The answer to a question.
    pub(in crate::core) fn on_read_index(
        &mut self,
        number: u64,
        result: Result<u64, ProposeError>,
    ) {
        let Some((_, all)) = self.log.lapses.asked.take_if(|(asked, _)| *asked == number) else {
            return;
        };
        match result {
            Ok(index) => {
                self.log.lapses.behind.push((index, all));
                self.pass_barriers();
                self.ask_barrier();
            }
            Err(_) => {
                self.log.lapses.waiting.extend(all);
                let again = Span(self.failures.control().timing.lease.0 / 4);
                self.timers.arm(self.now, Deadline::Barrier, again, again);
            }
        }
    }

    /// Lets the permits lapse whose barrier is applied here.
    pub(super) fn pass_barriers(&mut self) {
        let applied = self.log.state.applied;
        let passed = self.log.lapses.behind.extract_if(.., |(index, _)| *index <= applied);
        let passed = passed.flat_map(|(_, all)| all).collect();
        self.let_lapse(passed);
    }

    fn let_lapse(&mut self, all: Vec<Lapse>) {
        for (gate, key) in all {
            #[cfg(test)]
            self.lapses_seen.push(crate::core::tests::LapseSeen::Ends(key, self.log.state.applied));
            self.at_gate(gate, |gate| gate.lapse(key));
            self.mark_dirty();
        }
    }
}
