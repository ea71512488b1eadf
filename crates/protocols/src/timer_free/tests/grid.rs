//! Runs on clusters with slow links between them (section 3, second example): each process is among
//! the first to answer those of its cluster, and a cluster has more than f, so the responsiveness
//! property holds.

use alloc::collections::BTreeMap;

use kgate_core::Time;

use super::disorder::Rng;
use super::*;

const MILLI: u64 = Span::UNIT.0 / 1000;

/// The planned events besides messages and timers.
#[derive(Clone, Copy)]
enum Event {
    Acquire(u32),
    Release(u32),
    Crash(u32),
}

/// How processes behave in one run.
struct Run {
    clusters: u32,
    size: u32,
    k: u32,
    tolerate: u32,
    crashes: u32,
    refresh: Option<Span>,
    /// The processes that never request.
    idle: fn(u32) -> bool,
    /// How long they hold, and think, at least; twice as long at most.
    pace: u64,
    /// No process requests after this.
    end: Time,
}

struct Grid {
    net: Mutex,
    size: u32,
    rng: Rng,
    agenda: BTreeMap<(Time, u64), Event>,
    /// How many events were put on the agenda.
    planned: u64,
    /// The last message or timer that has its time.
    sent: u64,
    /// The number of reports that have been checked.
    checked: usize,
    entries: u32,
}

impl Grid {
    /// Runs until no event is left. Checks at each step that at most k processes are inside and no
    /// live process is declared dead.
    fn run(run: &Run, seed: u64) -> Self {
        let nodes = run.clusters * run.size;
        let setup = setup(nodes, run.k, Defects::NONE);
        let mut grid = Self {
            net: Net::with(Setup { refresh: run.refresh, tolerate: run.tolerate, ..setup }),
            size: run.size,
            rng: Rng(seed),
            agenda: BTreeMap::new(),
            planned: 0,
            sent: 0,
            checked: 0,
            entries: 0,
        };
        for node in (0..nodes).filter(|&node| !(run.idle)(node)) {
            let first = grid.rng.below(2 * run.pace);
            grid.plan(first, Event::Acquire(node));
        }
        let mut doomed: Vec<u32> = (0..nodes).collect();
        for _ in 0..run.crashes {
            let node = doomed.swap_remove(grid.rng.index(doomed.len()));
            let when = grid.rng.below(run.end.0 / 3);
            grid.plan(when, Event::Crash(node));
        }
        // Refreshes do not end by themselves.
        while grid.step(run) && grid.net.now < Time(2 * run.end.0) {
            let inside = grid.net.inside();
            assert!(inside.len() <= run.k as usize, "seed {seed}: {inside:?} are inside");
            for (at, of) in suspicions(&grid.net).split_off(grid.checked) {
                grid.checked += 1;
                assert!(
                    !grid.net.live().contains(&of),
                    "seed {seed}: p{at} holds p{of} for crashed, which is alive"
                );
            }
        }
        for node in grid.net.live() {
            assert_eq!(
                grid.net.nodes[node as usize].observe().phase,
                Phase::Idle,
                "seed {seed}: p{node} waits"
            );
        }
        grid
    }

    fn plan(&mut self, after: u64, event: Event) {
        self.planned += 1;
        self.agenda.insert((self.net.now + Span(after), self.planned), event);
    }

    /// Performs the next event that is due; false if nothing is left.
    fn step(&mut self, run: &Run) -> bool {
        let never = (Time::NEVER, 0);
        let flight = self.net.flights.keys().next().map_or(never, |due| *due);
        let timer = self.net.timers.iter().map(|(key, due)| (*due, *key)).min();
        let tick = timer.map_or(never, |timer| timer.0);
        let planned = self.agenda.keys().next().map_or(never, |due| *due);
        let next = flight.0.min(tick.0).min(planned.0);
        if next == Time::NEVER {
            return false;
        }
        self.net.now = next;
        if flight.0 == next {
            self.net.deliver_nth(0);
        } else if planned.0 == next {
            let (_, event) = self.agenda.pop_first().expect("it is due");
            self.happen(event, run);
        } else if let Some((_, key)) = timer {
            self.net.timers.remove(&key);
            self.net.input(key.0.0, Input::Expire(key.1)).unwrap();
        }
        self.travel();
        self.check_entries(run);
        true
    }

    fn happen(&mut self, event: Event, run: &Run) {
        let pause = run.pace + self.rng.below(run.pace);
        match event {
            Event::Acquire(node) | Event::Release(node) if !self.net.live().contains(&node) => {}
            Event::Acquire(_) if self.net.now > run.end => {}
            Event::Acquire(node) => self.net.acquire(node),
            Event::Release(node) => {
                self.net.release(node);
                self.plan(pause, Event::Acquire(node));
            }
            Event::Crash(node) => {
                self.net.crash(node);
                let rng = &mut self.rng;
                self.net.keep_sent(node, |sent| rng.index(sent + 1)); // Some of it never left.
            }
        }
    }

    /// What was just sent gets its time of arrival.
    fn travel(&mut self) {
        let fresh: Vec<_> =
            self.net.flights.keys().filter(|due| due.1 > self.sent).copied().collect();
        for due in fresh {
            let copy = self.net.flights.remove(&due).expect("found above");
            let near = copy.from.0 / self.size == copy.to.0 / self.size;
            let delay = if near {
                10 * MILLI + self.rng.below(20 * MILLI)
            } else {
                180 * MILLI + self.rng.below(40 * MILLI)
            };
            self.net.flights.insert((due.0 + Span(delay), due.1), copy);
            self.sent = self.sent.max(due.1);
        }
    }

    fn check_entries(&mut self, run: &Run) {
        let entered = self
            .net
            .notices
            .iter()
            .filter(|told| matches!(told.2, Notice::Granted { .. }))
            .map(|told| told.1);
        let entered: Vec<NodeId> = entered.skip(self.entries as usize).collect();
        for node in entered {
            self.entries += 1;
            let hold = run.pace + self.rng.below(run.pace);
            self.plan(hold, Event::Release(node.0));
        }
    }

    /// Which of the living know of all crashes.
    fn know_all(&self) -> Vec<u32> {
        let living = self.net.live();
        let dead = self.net.nodes.len() - living.len();
        living
            .into_iter()
            .filter(|&node| self.net.nodes[node as usize].observe().crashed.len() == dead)
            .collect()
    }
}

fn nobody(_: u32) -> bool {
    false
}

/// Lemmas 1, 2 and 3 under the responsiveness property: no live process is declared dead, at most k
/// processes are inside, and every request is granted, on four hundred random schedules with up to
/// f crashes and with slow and fast clients.
#[test]
fn no_live_process_is_suspected_where_responsiveness_holds() {
    let mut entries = 0;
    for seed in 0..400 {
        let mut rng = Rng(seed);
        let mut draw = |bound: u32| u32::try_from(rng.below(u64::from(bound))).unwrap();
        let size = 2 + draw(3);
        let tolerate = 1 + draw(size - 1);
        let run = Run {
            clusters: 2,
            size,
            k: tolerate + 1 + draw(3),
            tolerate,
            crashes: draw(tolerate + 1),
            refresh: (draw(2) == 0).then_some(Span(300 * MILLI)),
            idle: if draw(2) == 0 { |node| node.is_multiple_of(3) } else { nobody },
            pace: [5, 100, 500][draw(3) as usize] * MILLI,
            end: Time(8 * Span::UNIT.0),
        };
        entries += Grid::run(&run, seed).entries;
    }
    assert!(entries > 10_000, "{entries} entries");
}

/// Theorem 1: while every process keeps requesting, every process finds every crash.
#[test]
fn every_crash_is_detected_by_all_that_keep_requesting() {
    for seed in 0..50 {
        let run = Run {
            clusters: 2,
            size: 4,
            k: 4,
            tolerate: 3,
            crashes: 3,
            refresh: None,
            idle: nobody,
            pace: 500 * MILLI,
            end: Time(40 * Span::UNIT.0),
        };
        let grid = Grid::run(&run, seed);
        assert_eq!(grid.know_all(), grid.net.live(), "seed {seed}");
    }
}

/// T8, theorem 1: if some processes never request, no crash is found; with a refresh all crashes
/// are found, even if hardly any process requests.
#[test]
fn idle_processes_stop_detection_unless_they_refresh() {
    for seed in 0..30 {
        let mut run = Run {
            clusters: 2,
            size: 4,
            k: 3,
            tolerate: 2,
            crashes: 2,
            refresh: None,
            idle: |node| node % 4 > 0, // Three of each cluster: not all of them can crash.
            pace: 500 * MILLI,
            end: Time(20 * Span::UNIT.0),
        };
        let grid = Grid::run(&run, seed);
        assert_eq!(grid.know_all(), [], "seed {seed}: who never asks clears everybody");
        run.refresh = Some(Span::UNIT);
        let grid = Grid::run(&run, seed);
        assert_eq!(grid.know_all(), grid.net.live(), "seed {seed}");
    }
}
