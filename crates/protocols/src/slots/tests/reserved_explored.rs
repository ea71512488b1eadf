//! Every schedule of a small system in which the log holds a slot, frees it, and evicts a process
//! that has crashed.
//!
//! Messages arrive in any order, each process applies each entry of the log at any time. Checked at
//! every grant: no process and no log entry holds the slot, and the fence grows; at every end: no
//! process waits.

extern crate std;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;

use kgate_core::{
    Defects, Effect, Explorable, Fence, GrantId, Incarnation, Input, InputOf, NodeId, Notice,
    Outbox, Protocol, Setup, SlotOptions, Time, To,
};

use super::{flat, plain, tree};
use crate::harness::setup;
use crate::slots::defects::{SP3, SP4};
use crate::slots::{Slots, SlotsMessage};

/// The bounds of the exploration.
#[derive(Clone, Debug)]
struct Bounds {
    nodes: u32,
    options: SlotOptions,
    defects: Defects,
    /// The number of requests of each process.
    asks: Vec<u8>,
    /// Whether one process crashes, and is evicted.
    crash: bool,
    /// Planted: a grant is given up before its slot is reserved.
    too_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Entry {
    Held,
    Freed,
    Evict(u32),
}

/// The state of the one durable permit of the one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Permit {
    None,
    Proposed,
    Rejected,
    Held,
    Free,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: Vec<Slots>,
    flying: Vec<(u64, u32, u32, SlotsMessage)>,
    asked: Vec<u8>,
    waiting: Vec<u8>,
    holding: Vec<Vec<GrantId>>,
    crashed: Option<u32>,
    evicted: bool,
    log: Vec<Entry>,
    told: Vec<usize>,
    permit: Permit,
    /// The deciding process, and its grant.
    by: Option<(u32, GrantId)>,
    fence: Option<Fence>,
}

#[derive(Clone, Debug)]
enum Action {
    Acquire(u32),
    Release(u32, GrantId),
    Deliver(usize),
    Propose(u32, GrantId),
    TakeUp,
    Free,
    Crash(u32),
    Evict,
    Hear(u32),
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl State {
    fn first(bounds: &Bounds) -> Self {
        let known = Setup { slots: bounds.options, ..setup(bounds.nodes, 1, bounds.defects) };
        let start =
            |me| Slots::start(&Setup { me: NodeId(me), ..known.clone() }, None, &mut Outbox::new());
        let count = bounds.nodes as usize;
        Self {
            nodes: (0..bounds.nodes).map(start).collect(),
            flying: Vec::new(),
            asked: vec![0; count],
            waiting: vec![0; count],
            holding: vec![Vec::new(); count],
            crashed: None,
            evicted: false,
            log: Vec::new(),
            told: vec![0; count],
            permit: Permit::None,
            by: None,
            fence: None,
        }
    }

    fn is_up(&self, node: u32) -> bool {
        self.crashed != Some(node)
    }

    fn actions(&self, bounds: &Bounds) -> Vec<Action> {
        let mut actions = Vec::new();
        for node in (0..bounds.nodes).filter(|&node| self.is_up(node)) {
            let at = node as usize;
            if self.asked[at] < bounds.asks[at] && self.waiting[at] == 0 {
                actions.push(Action::Acquire(node));
            }
            for &grant in &self.holding[at] {
                // Until its process has applied the outcome, a proposed grant is not released.
                if self.by != Some((node, grant)) {
                    actions.push(Action::Release(node, grant));
                    if self.permit == Permit::None {
                        actions.push(Action::Propose(node, grant));
                    }
                }
            }
            if self.told[at] < self.log.len() {
                actions.push(Action::Hear(node));
            }
            if bounds.crash && self.crashed.is_none() {
                actions.push(Action::Crash(node));
            }
        }
        match self.permit {
            Permit::Proposed => actions.push(Action::TakeUp),
            Permit::Held => actions.push(Action::Free),
            Permit::None | Permit::Rejected | Permit::Free => {}
        }
        if self.crashed.is_some() && !self.evicted {
            actions.push(Action::Evict);
        }
        for (place, copy) in self.flying.iter().enumerate() {
            if place == 0 || self.flying[place - 1] != *copy {
                actions.push(Action::Deliver(place));
            }
        }
        actions
    }

    fn act(&mut self, action: &Action, bounds: &Bounds) -> Result<(), String> {
        match *action {
            Action::Acquire(node) => {
                self.asked[node as usize] += 1;
                self.waiting[node as usize] += 1;
                self.input(node, Input::Acquire { weight: 1 })
            }
            Action::Release(node, grant) => {
                self.holding[node as usize].retain(|held| *held != grant);
                self.input(node, Input::Release { grant })
            }
            Action::Deliver(place) => {
                let (_, from, to, message) = self.flying.remove(place);
                self.input(to, Input::Deliver { from: NodeId(from), message })
            }
            Action::Propose(node, grant) => {
                (self.permit, self.by) = (Permit::Proposed, Some((node, grant)));
                Ok(())
            }
            Action::TakeUp => {
                let gone = self.evicted && self.by.map(|(node, _)| node) == self.crashed;
                self.permit = if gone { Permit::Rejected } else { Permit::Held };
                self.log.extend((!gone).then_some(Entry::Held));
                Ok(())
            }
            Action::Free => {
                self.permit = Permit::Free;
                self.log.push(Entry::Freed);
                Ok(())
            }
            Action::Crash(node) => {
                self.crashed = Some(node);
                self.holding[node as usize].clear();
                self.waiting[node as usize] = 0;
                self.flying.retain(|(_, _, to, _)| *to != node);
                Ok(())
            }
            Action::Evict => {
                self.evicted = true;
                self.log.extend(self.crashed.map(Entry::Evict));
                Ok(())
            }
            Action::Hear(node) => self.hear(node, bounds),
        }
    }

    fn hear(&mut self, node: u32, bounds: &Bounds) -> Result<(), String> {
        let entry = self.log[self.told[node as usize]];
        self.told[node as usize] += 1;
        match entry {
            Entry::Held => {
                let mine = self.by.filter(|(by, _)| *by == node).map(|(_, grant)| grant);
                self.holding[node as usize].retain(|held| Some(*held) != mine);
                let reserved = Input::Reserved([0].into());
                let given_up = mine.map(|grant| Input::Release { grant });
                let inputs = if bounds.too_late {
                    [given_up, Some(reserved)]
                } else {
                    [Some(reserved), given_up]
                };
                inputs.into_iter().flatten().try_for_each(|input| self.input(node, input))
            }
            Entry::Freed => self.input(node, Input::Reserved([].into())),
            Entry::Evict(of) => {
                self.input(node, Input::Crashed { node: NodeId(of), incarnation: Incarnation(0) })
            }
        }
    }

    fn input(&mut self, node: u32, input: InputOf<Slots>) -> Result<(), String> {
        let mut out = Outbox::new();
        self.nodes[node as usize]
            .handle(Time::ZERO, input, &mut out)
            .map_err(|refusal| refusal.to_string())?;
        while let Some(effect) = out.pop() {
            match effect {
                Effect::Send { to: To::One(to), message } => self.send(node, to.0, message),
                Effect::Send { to: To::Many(list), message } => {
                    list.iter().for_each(|to| self.send(node, to.0, message.clone()));
                }
                Effect::Send { to: To::All, message } => {
                    let all = u32::try_from(self.nodes.len()).expect("few");
                    (0..all)
                        .filter(|&to| to != node)
                        .for_each(|to| self.send(node, to, message.clone()));
                }
                Effect::Notify(notice) => self.told(node, &notice)?,
                Effect::Arm { .. } | Effect::Disarm(_) | Effect::Persist(_) => {}
            }
        }
        let of = &self.nodes[node as usize];
        self.flying.retain(|(_, from, to, message)| {
            *to != node || !of.is_outdated(NodeId(*from), message)
        });
        Ok(())
    }

    fn send(&mut self, from: u32, to: u32, message: SlotsMessage) {
        if self.is_up(to) {
            let copy = (digest(&(from, to, &message)), from, to, message);
            let place = self.flying.partition_point(|other| other.0 < copy.0);
            self.flying.insert(place, copy);
        }
    }

    /// The checker of grants.
    fn told(&mut self, node: u32, notice: &Notice) -> Result<(), String> {
        let Notice::Granted { grant, fence, .. } = notice else { return Ok(()) };
        if self.permit == Permit::Held {
            return Err(format!("p{node} is granted what the log holds"));
        }
        if self.holding.iter().any(|held| !held.is_empty()) {
            return Err(format!("p{node} is granted what another has"));
        }
        if *fence <= self.fence {
            return Err(format!("p{node}: a fence that does not grow"));
        }
        self.fence = *fence;
        self.waiting[node as usize] -= 1;
        self.holding[node as usize].push(*grant);
        Ok(())
    }
}

/// The numbers of states and ends; or the shortest schedule that fails.
fn explore(bounds: &Bounds) -> Result<(usize, usize), String> {
    let mut seen = BTreeSet::new();
    let mut ends = 0;
    let mut queue = VecDeque::from([(State::first(bounds), None)]);
    let mut steps: Vec<(Option<usize>, String)> = Vec::new();
    let trace = |steps: &[(Option<usize>, String)], mut at: Option<usize>, wrong: String| {
        let mut lines = vec![wrong];
        while let Some(step) = at {
            lines.push(steps[step].1.clone());
            at = steps[step].0;
        }
        lines.reverse();
        lines.join("\n")
    };
    while let Some((state, came_by)) = queue.pop_front() {
        let actions = state.actions(bounds);
        if actions.is_empty() {
            ends += 1;
            if state.waiting.iter().any(|waiting| *waiting > 0) {
                return Err(trace(&steps, came_by, "somebody waits for ever".into()));
            }
        }
        for action in actions {
            let mut next = state.clone();
            let done = next.act(&action, bounds);
            if done.is_ok() && !seen.insert((digest(&next), digest(&(1u8, &next)))) {
                continue;
            }
            let told = match &action {
                Action::Deliver(place) => {
                    let (_, from, to, message) = &state.flying[*place];
                    format!("p{from} -> p{to}: {message:?}")
                }
                Action::Acquire(_)
                | Action::Release(..)
                | Action::Propose(..)
                | Action::TakeUp
                | Action::Free
                | Action::Crash(_)
                | Action::Evict
                | Action::Hear(_) => format!("{action:?}"),
            };
            steps.push((came_by, told));
            let came_by = Some(steps.len() - 1);
            done.map_err(|wrong| trace(&steps, came_by, wrong))?;
            queue.push_back((next, came_by));
        }
    }
    Ok((seen.len(), ends))
}

fn bounds(nodes: u32, options: SlotOptions, asks: &[u8]) -> Bounds {
    Bounds {
        nodes,
        options,
        defects: Defects::NONE,
        asks: asks.to_vec(),
        crash: true,
        too_late: false,
    }
}

/// Every schedule of two and three processes, flat and on the tree, with a crash and without. An
/// environment variable adds larger bounds.
#[test]
fn every_schedule_with_a_slot_that_the_log_holds() {
    let mut all = vec![
        bounds(2, plain(), &[1, 1]),
        bounds(2, flat(), &[2, 1]),
        bounds(3, plain(), &[1, 1, 0]),
        bounds(3, tree(), &[1, 1, 0]),
    ];
    if std::env::var("KGATE_TEST_SEEDS").is_ok() {
        all.extend([
            bounds(3, plain(), &[2, 1, 0]),
            bounds(3, flat(), &[1, 1, 1]),
            bounds(3, tree(), &[2, 1, 0]),
        ]);
    }
    for bounds in all {
        let (states, ends) = explore(&bounds).unwrap_or_else(|trace| panic!("{bounds:?}\n{trace}"));
        std::println!(
            "n = {}, asks {:?}, {:?}: {states} states, {ends} ends",
            bounds.nodes,
            bounds.asks,
            bounds.options.dissemination
        );
        assert!(ends > 0);
    }
}

/// Planted bugs: each is found by a shortest schedule.
#[test]
fn each_planted_bug_has_a_schedule() {
    let sound = bounds(3, plain(), &[1, 1, 0]);
    for (name, planted) in [
        ("not reported", Bounds { defects: SP3, ..sound.clone() }),
        ("free to the process that decides", Bounds { defects: SP4, ..sound.clone() }),
        ("given up before it is reserved", Bounds { too_late: true, ..sound.clone() }),
    ] {
        let trace = explore(&planted).expect_err(name);
        std::println!("{name}, {} steps:\n{trace}\n", trace.lines().count() - 1);
        assert!(trace.ends_with("is granted what the log holds"), "{name}: {trace}");
    }
}
