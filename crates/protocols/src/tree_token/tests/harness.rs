//! A system that meets with everything at random, from one seed, and its checker.
//!
//! Messages arrive in any order. Processes crash and recover, neighbours too. Messages sent to a
//! process that is down are lost or kept, and messages that it had not really sent yet are lost.
//! Some processes are lost permanently; all others learn of these in one order, each at its own
//! time. Clients come and go. After every step: at most k slots in use, no slot twice, every token
//! at most once, increasing fences. At the end every process that is not permanently lost recovers,
//! and all messages and log entries are delivered. Within a bounded number of messages the system
//! is quiescent, neighbours agree about their links, and every waiting client is served even if k-1
//! clients stay inside forever.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use kgate_core::{Incarnation, Notice};

use super::*;
use crate::harness::Copy;

/// What may happen in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) crashes: bool,
    pub(super) losses: bool,
}

/// A client of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    waits: bool,
    inside: Option<(GrantId, u32)>,
}

pub(super) struct Harness {
    net: Tree,
    k: u32,
    state: u64,
    faults: Faults,
    down: Vec<bool>,
    /// The processes lost permanently, in the order in which the others learn of it.
    log: Vec<u32>,
    /// The number of log entries that each process has applied in this incarnation.
    told: Vec<usize>,
    clients: Vec<Client>,
    fences: BTreeMap<u32, u128>,
    /// How many of the net's notices have been checked.
    checked: usize,
    /// The most epochs that a token has seen.
    pub(super) epoch: u32,
    pub(super) delivered: usize,
}

type Verdict = Result<(), String>;

impl Harness {
    pub(super) fn new(seed: u64, faults: Faults, defects: Defects) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        let nodes = 2 + u32::try_from(next(&mut state, 11)).unwrap();
        let k = 1 + u32::try_from(next(&mut state, 3)).unwrap();
        let shapes =
            [Shape::RandomTree, Shape::RandomTree, Shape::Path, Shape::Star, Shape::Radial];
        let shape = shapes[usize::try_from(next(&mut state, 5)).unwrap()];
        let graph = shape.build(nodes, &mut |bound| next(&mut state, bound)).unwrap();
        let root = NodeId(u32::try_from(next(&mut state, u64::from(nodes))).unwrap());
        let graph = Arc::new(graph.with_root(root).unwrap());
        let net =
            Net::with(Setup { graph: Some(graph), ..crate::harness::setup(nodes, k, defects) });
        let nodes = nodes as usize;
        Self {
            net,
            k,
            state,
            faults,
            down: alloc::vec![false; nodes],
            log: Vec::new(),
            told: alloc::vec![0; nodes],
            clients: alloc::vec![Client::default(); nodes],
            fences: BTreeMap::new(),
            checked: 0,
            epoch: 0,
            delivered: 0,
        }
    }

    /// Everything at random for so many steps, then everything heals.
    pub(super) fn run(&mut self, steps: u32) -> Verdict {
        for _ in 0..steps {
            self.step()?;
            self.check()?;
        }
        self.heal()
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(next(&mut self.state, bound as u64)).unwrap()
    }

    fn any(&mut self) -> u32 {
        u32::try_from(self.below(self.clients.len())).unwrap()
    }

    fn is_lost(&self, node: u32) -> bool {
        self.log.contains(&node)
    }

    fn is_up(&self, node: u32) -> bool {
        !self.down[node as usize]
    }

    fn step(&mut self) -> Verdict {
        let node = self.any();
        match self.below(20) {
            0..2 if self.is_up(node) => self.acquire(node),
            2..4 if self.is_up(node) => self.release(node),
            4 if self.is_up(node) && self.below(4) == 0 => self.withdraw(node),
            5 if self.faults.crashes && self.is_up(node) => self.crash(node),
            6 if self.faults.crashes && !self.is_up(node) => self.restart(node),
            7 if self.faults.losses && self.below(3) == 0 => self.lose(node),
            8 if self.is_up(node) => self.tell_next(node),
            _ => self.deliver_any(),
        }
    }

    fn acquire(&mut self, node: u32) -> Verdict {
        let client = &mut self.clients[node as usize];
        if client.waits || client.inside.is_some() && next(&mut self.state, 4) > 0 {
            return Ok(());
        }
        client.waits = true;
        self.input(node, Input::Acquire { weight: 1 })
    }

    fn release(&mut self, node: u32) -> Verdict {
        let Some((grant, _)) = self.clients[node as usize].inside.take() else { return Ok(()) };
        self.input(node, Input::Release { grant })
    }

    fn withdraw(&mut self, node: u32) -> Verdict {
        if !core::mem::take(&mut self.clients[node as usize].waits) {
            return Ok(());
        }
        self.input(node, Input::Withdraw)
    }

    /// A client that is inside is gone; one that waits will wait on. Some of what was sent has not
    /// really left.
    fn crash(&mut self, node: u32) -> Verdict {
        self.net.crash(node);
        self.down[node as usize] = true;
        self.clients[node as usize].inside = None;
        if self.below(2) == 0 {
            let left = self.below(4);
            self.net.keep_sent(node, |sent| sent.saturating_sub(left));
        }
        if self.below(4) == 0 {
            // A neighbour crashes with it.
            let neighbours = &self.net.nodes[node as usize].links;
            let other =
                neighbours.first().map(|link| link.node.0).filter(|&other| self.is_up(other));
            return other.map_or(Ok(()), |other| self.crash(other));
        }
        Ok(())
    }

    fn restart(&mut self, node: u32) -> Verdict {
        if self.is_lost(node) {
            return Ok(());
        }
        self.net.restart(node);
        self.down[node as usize] = false;
        self.told[node as usize] = 0;
        Ok(())
    }

    fn lose(&mut self, node: u32) -> Verdict {
        if self.is_lost(node) || self.log.len() + 1 == self.clients.len() {
            return Ok(());
        }
        if self.is_up(node) {
            self.net.crash(node);
            self.down[node as usize] = true;
            let left = self.below(4);
            self.net.keep_sent(node, |sent| sent.saturating_sub(left));
        }
        self.clients[node as usize] = Client::default();
        self.log.push(node);
        Ok(())
    }

    fn tell_next(&mut self, node: u32) -> Verdict {
        let Some(&lost) = self.log.get(self.told[node as usize]) else { return Ok(()) };
        self.told[node as usize] += 1;
        self.input(node, Input::Crashed { node: NodeId(lost), incarnation: Incarnation::default() })
    }

    fn deliver_any(&mut self) -> Verdict {
        if self.net.flights.is_empty() {
            return Ok(());
        }
        // The oldest more often than others, so that a run also gets somewhere.
        let place = if self.below(2) == 0 { 0 } else { self.below(self.net.flights.len()) };
        let (&due, copy) = self.net.flights.iter().nth(place).expect("a place in it");
        let to = copy.to.0;
        if !self.is_up(to) && !self.is_lost(to) && self.below(2) == 0 {
            return Ok(()); // Kept until it is back.
        }
        let Copy { from, message, .. } = self.net.flights.remove(&due).expect("found");
        if !self.is_up(to) {
            return Ok(());
        }
        self.delivered += 1;
        self.input(to, Input::Deliver { from, message })
    }

    fn input(&mut self, node: u32, input: InputOf<TreeToken>) -> Verdict {
        let text = format!("{input:?}");
        self.net
            .input(node, input)
            .map_err(|refusal| format!("refused at p{node}: {refusal}: {text}"))
    }

    /// Safety, after every step.
    fn check(&mut self) -> Verdict {
        for at in self.checked..self.net.notices.len() {
            let (_, NodeId(node), notice) = &self.net.notices[at];
            let Notice::Granted { grant, slots, fence } = notice else { continue };
            let (slot, fence) = (slots.as_ref().unwrap()[0], fence.unwrap().0);
            let client = &mut self.clients[*node as usize];
            if !client.waits || client.inside.is_some() {
                return Err(format!(
                    "p{node} is granted what its client did not ask for: {client:?}"
                ));
            }
            *client = Client { waits: false, inside: Some((*grant, slot)) };
            if self.fences.insert(slot, fence).is_some_and(|before| before >= fence) {
                return Err(format!("the fence of slot {slot} does not grow: {fence:x}"));
            }
        }
        self.checked = self.net.notices.len();
        let mut slots: Vec<u32> =
            self.clients.iter().filter_map(|client| Some(client.inside?.1)).collect();
        slots.sort_unstable();
        if slots.len() > self.k as usize || !slots.is_sorted_by(|a, b| a < b) {
            return Err(format!("two inside: slots {slots:?} of {}", self.k));
        }
        for slot in 0..self.k as usize {
            let here = |node: &NodeId| {
                !self.is_lost(node.0) && self.net.nodes[node.index()].places[slot].towards == *node
            };
            let here: Vec<NodeId> =
                (0..).map(NodeId).take(self.clients.len()).filter(here).collect();
            if here.len() > 1 {
                return Err(format!("two tokens: {slot} at {here:?}"));
            }
            if let [at] = here[..] {
                self.epoch = self.epoch.max(self.net.nodes[at.index()].places[slot].revision.epoch);
            }
        }
        Ok(())
    }

    fn heal(&mut self) -> Verdict {
        for node in 0..u32::try_from(self.clients.len()).unwrap() {
            if !self.is_up(node) {
                self.restart(node)?;
            }
        }
        let living = self.net.live();
        let mut telling = living.clone();
        while !telling.is_empty() {
            let at = self.below(telling.len());
            let node = telling[at];
            if self.told[node as usize] == self.log.len() {
                telling.swap_remove(at);
            } else if self.below(3) == 0 {
                self.tell_next(node)?;
            } else {
                self.deliver_any()?;
            }
            self.check()?;
        }
        // Some clients stay inside as long as any client waits, but never all k.
        let mut stay: Vec<u32> = Vec::new();
        loop {
            self.settle()?;
            for &node in &living {
                let inside = self.clients[node as usize].inside.is_some();
                // A client that stays inside and waits for its next entry would wait for itself.
                let alone = !self.clients[node as usize].waits;
                if inside && alone && !stay.contains(&node) && stay.len() + 1 < self.k as usize {
                    stay.push(node);
                }
            }
            let mut leaving = living.clone();
            leaving.retain(|node| {
                self.clients[*node as usize].inside.is_some() && !stay.contains(node)
            });
            if leaving.is_empty() {
                break;
            }
            let node = leaving[self.below(leaving.len())];
            self.release(node)?;
            self.check()?;
        }
        let waiting: Vec<u32> =
            living.iter().copied().filter(|&node| self.clients[node as usize].waits).collect();
        if !waiting.is_empty() {
            return Err(format!("starved: {waiting:?} wait for ever, {stay:?} inside"));
        }
        self.books()
    }

    /// All is delivered; it must come to an end.
    fn settle(&mut self) -> Verdict {
        let living = self.net.live().len();
        let most = 40 * living * (self.k as usize + 1) + 10 * self.net.flights.len();
        for _ in 0..most {
            if self.net.flights.is_empty() {
                return Ok(());
            }
            self.deliver_any()?;
            self.check()?;
        }
        Err(format!("no end: {most} messages and {} on their way", self.net.flights.len()))
    }

    /// In a quiet system neighbours agree: what one has asked for waits at the other, each knows
    /// the other's incarnation, and of each token one end of every edge says that it is on the
    /// other's side.
    fn books(&self) -> Verdict {
        if self.net.nodes[0].defects != Defects::NONE {
            return Ok(());
        }
        for node in self.net.live().into_iter().map(NodeId) {
            let process = &self.net.nodes[node.index()];
            for link in &process.links {
                let other = &self.net.nodes[link.node.index()];
                let Some(back) = other.link(node) else {
                    return Err(format!("{node} holds {} for its neighbour", link.node));
                };
                if link.incarnation != other.incarnation
                    || link.outstanding() != u64::from(back.waits)
                {
                    return Err(format!(
                        "{node} and {} do not agree: {link:?} {back:?}",
                        link.node
                    ));
                }
                for (mine, theirs) in process.places.iter().zip(&other.places) {
                    if (mine.towards == link.node) == (theirs.towards == node) {
                        return Err(format!("{node}, {}: {mine:?} and {theirs:?}", link.node));
                    }
                }
            }
            let entries = process.queue.len();
            let waits: u32 = process.links.iter().map(|link| link.waits).sum();
            if entries != waits as usize || !process.initialized {
                return Err(format!("{node}: {entries} entries, {waits} are its neighbours'"));
            }
            if Some(&process.durable()) != self.net.stored.get(&node) {
                return Err(format!("{node}: what is stored is not what it knows"));
            }
        }
        Ok(())
    }
}

fn next(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}
