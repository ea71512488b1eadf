//! Faults: pauses, sleep, restarts, stalls, cuts, changes of voters, wrong suspicions.

use kgate_core::NodeId;

use super::client::Watchdog;
use super::{Event, FOR_EVER, Harness, INCARNATION, LEASE, Mutation, NODES, node_id};
use crate::lease::Proposal;
use crate::voters::Voters;

impl Harness {
    fn some_node(&mut self) -> NodeId {
        let p = self.knobs.p;
        let any = node_id(usize::try_from(self.rng.below(NODES as u64)).expect("few"));
        if self.rng.percent(30) { p } else { any }
    }

    fn for_a_while(&mut self, longest: u64) -> u64 {
        self.now + self.rng.below(longest)
    }

    /// Schedules the faults that make the rules necessary close together: around one moment p is
    /// suspected, voters stall, restart and change, and p is cut off.
    pub(super) fn schedule_faults(&mut self) {
        let begin = LEASE / 2 + self.rng.below(3 * LEASE);
        let spread = LEASE / self.rng.pick(&[1, 2, 5]);
        let (stalls, kills) = (self.rng.pick(&[0, 30, 60]), self.rng.pick(&[0, 0, 50]));
        let suspicion = Proposal::Suspect { node: self.knobs.p, incarnation: INCARNATION };
        let mut events = vec![Event::Propose(suspicion)];
        for node in (0..NODES).map(node_id) {
            // p is dangerous while it does not know what has happened to it.
            if self.rng.percent(if node == self.knobs.p { 60 } else { stalls }) {
                events.push(Event::Stall(node));
            }
            if node != self.knobs.p && self.rng.percent(kills) {
                events.push(Event::Kill(node));
            }
        }
        if self.rng.percent(70) {
            events.push(Event::ChangeVoters);
        }
        if self.rng.percent(30) {
            events.push(Event::Cut);
        }
        for event in events {
            let late = if matches!(event, Event::Kill(_)) { LEASE } else { 0 };
            let when = begin + self.rng.below(spread + late);
            self.at(when, event);
        }
        for node in 0..NODES {
            let leading = self.rng.percent(30);
            self.nodes[node].leases.set_leader(leading);
        }
    }

    pub(super) fn inject_fault(&mut self) {
        self.later(2 * self.knobs.fault_interval, Event::Fault);
        let node = self.some_node();
        let (incarnation, p) = (INCARNATION, self.knobs.p);
        match self.rng.below(17) {
            0 => self.nodes[node.index()].paused_until = self.for_a_while(2 * LEASE),
            1 => self.sleep(node),
            2 | 3 => self.restart(node),
            4..=7 => self.stall(node),
            8 | 9 => self.cut(),
            10 => self.log.propose(Proposal::Suspect { node: p, incarnation }),
            11 => {
                // An old proposal of p to be cleared arrives.
                let at = 1 + self.rng.below(self.log.len() as u64);
                self.log.propose(Proposal::Unsuspect { node: p, incarnation, at });
            }
            12 | 13 => self.change_voters(),
            14 => self.client.frozen_until = self.for_a_while(3 * LEASE),
            15 => {
                if self.mutation == Some(Mutation::StreamEndFrees)
                    && !self.is_down(p)
                    && self.runs_at(p) <= self.now
                {
                    self.free();
                }
                let leading = self.rng.percent(50);
                self.nodes[node.index()].leases.set_leader(leading);
            }
            _ => self.append_uncommitted_voters(node),
        }
        self.record_commits();
    }

    /// A machine sleeps; with p's also the client, if it runs there.
    fn sleep(&mut self, node: NodeId) {
        let machine = if self.rng.percent(40) { NODES } else { node.index() };
        if self.knobs.sleeps && self.machines[machine].asleep_until <= self.now {
            let until = self.for_a_while(3 * LEASE);
            let stops = self.mutation == Some(Mutation::ClockStops);
            self.machines[machine].sleep(self.now, until, stops);
            self.rearm(machine);
        }
    }

    /// A clock that stops in suspend moves every wake-up of its machine.
    fn rearm(&mut self, machine: usize) {
        if machine < NODES {
            self.schedule_wake(node_id(machine));
        }
        if self.client.child.is_some() {
            self.at(self.now, Event::Watchdog(Watchdog::Front));
            self.at(self.now, Event::Watchdog(Watchdog::Guard));
        }
    }

    pub(super) fn stall(&mut self, node: NodeId) {
        let longest = self.rng.pick(&[LEASE, 4 * LEASE, 9 * LEASE]);
        let until = self.for_a_while(longest);
        if self.rng.percent(35) {
            self.nodes[node.index()].append_stalled_until = until;
        } else {
            self.nodes[node.index()].apply_stalled_until = until;
        }
    }

    /// Kills a voter, which starts again later. p, once killed, does not start again.
    pub(super) fn restart(&mut self, node: NodeId) {
        if self.is_down(node) {
            return;
        }
        if node == self.knobs.p {
            if self.rng.percent(20) {
                self.nodes[node.index()].down_until = FOR_EVER;
            }
            return;
        }
        let longest = self.rng.pick(&[LEASE / 20, LEASE / 2]);
        let until = self.for_a_while(longest);
        self.nodes[node.index()].down_until = until;
        self.at(until, Event::Up(node));
    }

    pub(super) fn up(&mut self, node: NodeId) {
        let former = self.nodes[node.index()].leases.clone();
        let applied = self.nodes[node.index()].applied;
        let cut_until = self.nodes[node.index()].cut_until;
        let mut state = self.start(node, applied, Some(&former));
        state.cut_until = cut_until;
        self.nodes[node.index()] = state;
        self.report_appended(node);
        self.schedule_wake(node);
    }

    /// Cuts p off from some nodes.
    pub(super) fn cut(&mut self) {
        let until = self.for_a_while(4 * LEASE);
        let all = self.rng.percent(50);
        for node in 0..NODES {
            if all || self.rng.percent(50) {
                self.nodes[node].cut_until = until;
            }
        }
    }

    /// Takes the next step of the change of voters, as soon as the last one is committed.
    pub(super) fn change_voters(&mut self) {
        let Some(target) = self.knobs.target.clone() else { return };
        if self.log.change_voters(&target) {
            self.record_commits();
            self.later(LEASE / 10, Event::ChangeVoters);
        }
    }

    /// A leader without followers has put voters into one node's log. They are never committed, and
    /// overwritten soon.
    fn append_uncommitted_voters(&mut self, node: NodeId) {
        if self.mutation == Some(Mutation::AppliedShown)
            || self.is_down(node)
            || self.runs_at(node) > self.now
        {
            return;
        }
        let (now, at) = (self.local(node), self.log.len() as u64 + 1 + self.rng.below(2));
        let one = node_id(usize::try_from(self.rng.below(NODES as u64)).expect("few"));
        self.nodes[node.index()].leases.voters_appended(now, Voters::new(at, [one]));
        self.schedule_wake(node);
    }
}
