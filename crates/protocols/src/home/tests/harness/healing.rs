//! The end of a run: all faults end but cuts, and everything must come to rest.

use alloc::format;
use alloc::vec::Vec;

use kgate_core::NodeId;

use super::{Durable, Harness, Verdict};

/// More rounds than any run needs in which every holder releases in turn.
const ROUNDS: u32 = 200;
/// More messages than any run has in flight or causes at once.
const DELIVERIES: u32 = 5000;

impl Harness {
    /// P4, P5: crashed processes are evicted, all others are members; then every request is served,
    /// and nothing is left behind.
    pub(super) fn heal(&mut self) -> Verdict {
        trace!(self, "all faults end");
        for node in 0..self.config.nodes {
            if self.suspended[node as usize] {
                self.resume(node, 0)?;
            }
            let process = self.net.nodes[node as usize].incarnation;
            let member = self.latest().directory.incarnation(NodeId(node));
            if !self.is_up(node) || member.is_some_and(|member| member < process) {
                self.evict(node)?;
            }
            if self.is_up(node) && self.latest().directory.incarnation(NodeId(node)).is_none() {
                self.come_back(node, 0)?;
            }
        }
        self.mend_hopeless_cuts();
        self.rest()?;
        // Whatever is left in a table without being held is in the way of this request.
        if let Some(&node) = self.net.live().last() {
            self.acquire(node, self.view(node).k - 1)?;
        }
        self.rest()?;
        self.nothing_is_left()
    }

    fn rest(&mut self) -> Verdict {
        for _ in 0..ROUNDS {
            if self.come_to_rest()? {
                return Ok(());
            }
        }
        Err(format!("requests wait for ever: {:?}", self.waiting))
    }

    /// Everything that must happen, once. True if nothing was to be done.
    fn come_to_rest(&mut self) -> Result<bool, alloc::string::String> {
        let mut idle = true;
        for node in self.net.live() {
            while self.view(node).index < self.end_of_log() {
                idle = false;
                self.apply(node, 1)?;
            }
            self.lease(node, true)?;
        }
        let mut deliveries = 0;
        while !self.net.flights.is_empty() {
            (idle, deliveries) = (false, deliveries + 1);
            self.deliver(0)?;
            if deliveries > DELIVERIES {
                return Err("messages are exchanged for ever".into());
            }
        }
        let timers: Vec<_> = self.net.timers.keys().cloned().collect();
        for (node, timer) in timers {
            idle = false;
            if self.net.timers.contains_key(&(node, timer)) {
                self.net.expire(node.0, timer);
                self.check()?;
            }
        }
        // A client that has asked elsewhere is never answered in time.
        for place in 0..self.sessions.len() {
            let session = &self.sessions[place];
            let permit = &self.permits[session.permit];
            let is_held = permit.by == place && matches!(permit.durable, Durable::Held(_));
            let speaks = permit.believes && permit.by == place && !permit.moved;
            if session.ended.is_none() && !is_held && (!speaks || !self.is_live(session)) {
                self.end_session(place);
            }
        }
        for place in self.ripe() {
            idle = false;
            self.lapse_session(place)?;
        }
        self.permits
            .iter_mut()
            .filter(|permit| permit.durable == Durable::Proposed)
            .for_each(|permit| permit.durable = Durable::No);
        for permit in self.in_hand() {
            idle = false;
            self.release_permit(permit)?;
        }
        let before = self.end_of_log();
        self.free(0)?;
        idle &= before == self.end_of_log();
        Ok(idle && self.waiting.iter().all(|waiting| waiting.is_empty()))
    }

    fn nothing_is_left(&self) -> Verdict {
        let mut listed = Vec::new();
        for node in self.net.live() {
            let process = &self.net.nodes[node as usize];
            if !process.member.asks.is_empty() {
                return Err(format!("p{node}: an adoption request is left"));
            }
            for hold in &process.member.holds {
                if hold.usage != crate::home::Usage::Cached {
                    return Err(format!("p{node}: a hold is left: {hold:?}"));
                }
                listed.extend(hold.slots.as_slice().iter().map(|slot| (*slot, NodeId(node))));
            }
        }
        listed.sort_unstable();
        for node in self.net.live() {
            let Some(home) = &self.net.nodes[node as usize].coordinator else { continue };
            // A line beyond k is found out about when k grows again.
            let k = self.latest().k;
            let written: Vec<_> = home
                .holders()
                .into_iter()
                .map(|(slot, node, _)| (slot, node))
                .filter(|(slot, _)| *slot < k)
                .collect();
            if written.iter().any(|line| !listed.contains(line)) || home.waiting() > 0 {
                return Err(format!("home p{node}: left behind: {written:?}, here {listed:?}"));
            }
        }
        Ok(())
    }
}
