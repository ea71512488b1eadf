//! The log, and the processes that it adds and evicts.

use alloc::sync::Arc;
use alloc::vec::Vec;

use kgate_core::{Directory, Input, LogIndex, LogView, NodeId};

use super::{Durable, Harness, Verdict};

impl Harness {
    /// What the whole log says.
    pub(super) fn latest(&self) -> &Arc<LogView> {
        self.log.last().expect("never empty")
    }

    /// What a process has applied.
    pub(super) fn view(&self, node: u32) -> &Arc<LogView> {
        &self.log[self.applied[node as usize]]
    }

    fn append(&mut self, change: impl FnOnce(&mut LogView)) {
        let mut next = LogView::clone(self.latest());
        next.index.0 += 1;
        change(&mut next);
        let home = |view: &LogView| view.home().map(|home| home.term);
        self.terms += u32::from(home(&next) != home(self.latest()));
        trace!(self, "log {}: {:?} {:?}", next.index.0, next.home(), next.reserved);
        self.log.push(Arc::new(next));
    }

    fn change_members(&mut self, change: impl FnOnce(&mut Directory)) {
        self.append(|view| change(Arc::make_mut(&mut view.directory)));
    }

    /// A process applies some entries at once. What it let in and the log holds now is released.
    pub(super) fn apply(&mut self, node: u32, entries: usize) -> Verdict {
        let at = node as usize;
        let next = (self.applied[at] + entries).min(self.log.len() - 1);
        if !self.is_up(node) || next == self.applied[at] {
            return Ok(());
        }
        self.applied[at] = next;
        trace!(self, "p{node} applies up to {next}");
        self.input(node, Input::Applied(self.log[next].clone()))?;
        self.hand_over(node)
    }

    fn hand_over(&mut self, node: u32) -> Verdict {
        let index = self.view(node).index;
        for place in 0..self.sessions.len() {
            let session = &self.sessions[place];
            let permit = &self.permits[session.permit];
            let held = matches!(permit.durable, Durable::Held(since) if since <= index);
            if held && session.node == node && permit.by == place && self.is_live(session) {
                let grant = session.grant;
                self.sessions[place].gone = true;
                trace!(
                    self,
                    "p{node}: the log holds {:?}", self.permits[self.sessions[place].permit].slots
                );
                self.input(node, Input::Release { grant })?;
            }
        }
        Ok(())
    }

    pub(super) fn resize(&mut self, k: u32) -> Verdict {
        self.append(|view| view.k = k);
        Ok(())
    }

    /// SUSPECT, UNSUSPECT, DRAIN: the log changes its opinion of a member.
    pub(super) fn flip(&mut self, node: u32) -> Verdict {
        let node = NodeId(node);
        if let Some(incarnation) = self.latest().directory.incarnation(node) {
            let before = self.latest().directory.changes();
            self.change_members(|directory| directory.set_fit(node, incarnation, false));
            if self.latest().directory.changes() == before {
                self.log.pop();
                self.change_members(|directory| directory.set_fit(node, incarnation, true));
            }
        }
        Ok(())
    }

    /// The process stops. Some of what it has just sent is lost with it.
    pub(super) fn crash(&mut self, node: u32, b: u32) -> Verdict {
        if !self.is_up(node) {
            return Ok(());
        }
        trace!(self, "p{node} crashes");
        if b.is_multiple_of(2) {
            self.net.keep_sent(node, |sent| (b / 2) as usize % (sent + 1));
        }
        self.net.crash(node);
        self.waiting[node as usize].clear();
        Ok(())
    }

    /// EVICT, of a crashed process or of a live one without a lease: no client believes by it
    /// (H18).
    pub(super) fn evict(&mut self, node: u32) -> Verdict {
        let Some(incarnation) = self.latest().directory.incarnation(NodeId(node)) else {
            return Ok(());
        };
        let is_it = self.net.nodes[node as usize].incarnation == incarnation;
        if self.is_up(node) && is_it && self.leases[node as usize] {
            return Ok(());
        }
        let omissions = self.config.omissions;
        for place in 0..self.sessions.len() {
            let session = &self.sessions[place];
            let permit = &self.permits[session.permit];
            let by_it = session.node == node
                && session.incarnation == incarnation
                && session.unconfirmed.is_none();
            let asked = permit.by == place && permit.asked.contains(&(node, incarnation));
            if by_it && !omissions.evict || asked && !omissions.evict_asked {
                self.end_session(place);
            }
        }
        self.change_members(|directory| directory.evict(NodeId(node), incarnation));
        Ok(())
    }

    /// A crashed process starts again, with nothing; one that is up and no member is added.
    pub(super) fn come_back(&mut self, node: u32, b: u32) -> Verdict {
        let at = node as usize;
        if self.suspended[at] {
            return self.resume(node, b);
        }
        if !self.is_up(node) {
            let known = (0..self.log.len()).rev();
            let last =
                known.filter_map(|entry| self.log[entry].directory.incarnation(NodeId(node)));
            let incarnation = last.max().expect("all were members").0 + 1;
            trace!(self, "p{node} starts, to be incarnation {incarnation}");
            self.starts[at] += 1;
            let applied = b as usize % self.log.len();
            (self.applied[at], self.leases[at]) = (applied, true);
            self.net.setup.log = Some(self.log[applied].clone());
            self.net.return_in(node, incarnation);
        } else if self.latest().directory.incarnation(NodeId(node)).is_none() {
            self.change_members(|directory| directory.join(NodeId(node)));
        }
        self.check()
    }

    /// A clean stop; the clients go on.
    pub(super) fn suspend(&mut self, node: u32) -> Verdict {
        if self.is_up(node) && self.net.suspend(node, |_| {}) {
            trace!(self, "p{node} is suspended");
            (self.suspended[node as usize], self.leases[node as usize]) = (true, false);
        }
        Ok(())
    }

    /// A suspended process goes on, with what the log says by now.
    pub(super) fn resume(&mut self, node: u32, b: u32) -> Verdict {
        let at = node as usize;
        let ahead = self.log.len() - self.applied[at];
        self.applied[at] += b as usize % ahead;
        trace!(self, "p{node} resumes, and has applied up to {}", self.applied[at]);
        self.suspended[at] = false;
        self.net.setup.log = Some(self.log[self.applied[at]].clone());
        self.net.resume(node);
        self.check()?;
        self.hand_over(node)
    }

    /// A client wants its permit to be held by the log.
    pub(super) fn propose(&mut self, a: u32) -> Verdict {
        let in_hand = self.in_hand();
        if in_hand.is_empty() {
            return Ok(());
        }
        let place = in_hand[a as usize % in_hand.len()];
        trace!(self, "permit {place} is to be durable");
        self.permits[place].durable = Durable::Proposed;
        if self.config.omissions.held {
            let session = &mut self.sessions[self.permits[place].by];
            session.gone = true;
            let (node, grant) = (session.node, session.grant);
            return self.input(node, Input::Release { grant });
        }
        Ok(())
    }

    /// HELD: void if the incarnation that proposed it is no member any more.
    pub(super) fn hold(&mut self, a: u32) -> Verdict {
        let proposed = |place: &usize| self.permits[*place].durable == Durable::Proposed;
        let proposed: Vec<usize> = (0..self.permits.len()).filter(proposed).collect();
        if proposed.is_empty() {
            return Ok(());
        }
        let place = proposed[a as usize % proposed.len()];
        let session = &self.sessions[self.permits[place].by];
        let (node, incarnation) = (NodeId(session.node), session.incarnation);
        if self.latest().directory.incarnation(node) != Some(incarnation) {
            return Ok(());
        }
        let slots = self.permits[place].slots.clone();
        self.append(|view| {
            let mut reserved = view.reserved.to_vec();
            reserved.extend(slots);
            reserved.sort_unstable();
            view.reserved = reserved.into();
        });
        self.permits[place].durable = Durable::Held(self.latest().index);
        Ok(())
    }

    /// RELEASED: the client of a durable permit is done.
    pub(super) fn free(&mut self, a: u32) -> Verdict {
        let held = |place: &usize| {
            self.permits[*place].believes
                && matches!(self.permits[*place].durable, Durable::Held(_))
        };
        let held: Vec<usize> = (0..self.permits.len()).filter(held).collect();
        if held.is_empty() {
            return Ok(());
        }
        let place = held[a as usize % held.len()];
        let slots = self.permits[place].slots.clone();
        self.append(|view| {
            let reserved = view.reserved.iter().filter(|slot| !slots.contains(slot));
            view.reserved = reserved.copied().collect();
        });
        self.permits[place].believes = false;
        Ok(())
    }

    /// The index of the last entry.
    pub(super) fn end_of_log(&self) -> LogIndex {
        self.latest().index
    }
}
