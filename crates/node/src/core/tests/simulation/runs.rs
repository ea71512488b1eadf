//! Random runs: some seconds of faults, then healing, after which every client must be served.
//!
//! `KGATE_TEST_SEEDS` sets the number of seeds, `KGATE_FIRST_SEED` the first one. A failure names
//! its seed.

use kgate_core::NodeId;
use kgate_testkit::{Rng, each_seed, seeds};

use super::{Event, MILLISECOND, Mutation, SECOND, Simulation};

/// A fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// A node is partitioned for a time, in both directions or in one.
    Cut(NodeId, u8, u64),
    /// The partition heals.
    Mend,
    /// A node is paused for a time.
    Pause(NodeId, u64),
    /// A node is killed and restarts after a time.
    Kill(NodeId, u64),
    /// A node stops cleanly and restarts after a time.
    Restart(NodeId, u64),
    /// All nodes are killed.
    KillAll(u64),
    /// A client is killed.
    Client(usize),
    /// A stream ends.
    Stream(usize),
    /// The log decides nothing for a time.
    Stall(u64),
}

/// The duration of the faults.
const FAULTS: u64 = 8 * SECOND;
/// The time in which every client must be served after healing.
const HEALED: u64 = 12 * SECOND;

impl Simulation {
    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Cut(node, direction, span) => {
                let others: Vec<NodeId> =
                    self.machines.keys().copied().filter(|other| *other != node).collect();
                for other in others {
                    if direction != 1 {
                        self.cut.insert((node, other));
                    }
                    if direction != 2 {
                        self.cut.insert((other, node));
                    }
                }
                self.at(span, Event::Fault(Fault::Mend));
            }
            Fault::Mend => self.cut.clone_from(&self.cut_for_good),
            Fault::Pause(node, span) => self.machine(node).paused_until = self.now + span,
            Fault::Kill(node, span) => {
                self.kill(node);
                self.at(span, Event::Start(node));
            }
            Fault::Restart(node, span) => {
                let paused = self.machines[&node].paused_until > self.now;
                if self.machines[&node].core.is_some() && !paused {
                    self.suspend(node);
                    self.at(span, Event::Start(node));
                }
            }
            Fault::KillAll(span) => {
                let all: Vec<NodeId> = self.machines.keys().copied().collect();
                for node in all {
                    let after = self.rng.below(span);
                    self.fault(Fault::Kill(node, after));
                }
            }
            Fault::Client(client) => self.kill_client(client),
            Fault::Stream(client) => {
                self.cut_stream(client);
                if !self.durable_clients.is_empty() {
                    self.cut_durable_client(client % self.durable_clients.len());
                }
            }
            Fault::Stall(span) => self.log.stalled_until = self.now + span,
        }
    }

    /// Draws faults for the first part of a run.
    fn draw_faults(&mut self) {
        let (nodes, clients) = (self.machines.len() as u64, self.clients() as u64);
        self.loss = self.rng.pick(&[0, 0, 5, 30]);
        self.delay_most = self.rng.pick(&[2, 5, 20]) * MILLISECOND;
        self.log.late = self.rng.pick(&[0, 10, 50]);
        self.log.lag_most = self.rng.pick(&[20, 300, 1500]) * MILLISECOND;
        let lease = self.timing.lease.0;
        for _ in 0..self.rng.within(4, 16) {
            let at = self.rng.within(SECOND, FAULTS);
            let rng: &mut Rng = &mut self.rng;
            let node = NodeId(u32::try_from(rng.below(nodes)).expect("few"));
            let client = usize::try_from(rng.below(clients)).expect("few");
            // Around the length of a lease, where it matters.
            let span = rng.within(lease / 10, lease * 5 / 2);
            let short = rng.within(lease / 50, lease / 2);
            let fault = match rng.below(16) {
                0..=3 => Fault::Cut(node, u8::try_from(rng.below(4)).expect("small"), span),
                4..=5 => Fault::Pause(node, span),
                6..=8 => Fault::Kill(node, span),
                9..=10 => Fault::Restart(node, short),
                11 => Fault::KillAll(span),
                12..=13 => Fault::Client(client),
                14 => Fault::Stream(client),
                _ => Fault::Stall(span),
            };
            self.at(at, Event::Fault(fault));
        }
    }

    /// Ends all faults.
    fn heal(&mut self) {
        (self.healed, self.loss, self.log.stalled_until, self.log.late) = (true, 0, 0, 0);
        self.cut.clone_from(&self.cut_for_good);
        self.events.retain(|_, event| !matches!(event, Event::Fault(_)));
        for machine in self.machines.values_mut() {
            machine.paused_until = machine.paused_until.min(self.now + SECOND);
        }
        let down: Vec<NodeId> = self
            .machines
            .iter()
            .filter(|(_, machine)| machine.core.is_none())
            .map(|(node, _)| *node)
            .collect();
        for node in down {
            self.at(0, Event::Start(node));
        }
        self.begin_count();
    }
}

/// Runs one seed, and returns what went wrong.
pub(in crate::core::tests) fn run(
    seed: u64,
    mutation: Option<Mutation>,
) -> (Simulation, Vec<String>) {
    run_with(seed, mutation, false)
}

/// The same, with or without durable permits.
pub(super) fn run_with(
    seed: u64,
    mutation: Option<Mutation>,
    durable_clients: bool,
) -> (Simulation, Vec<String>) {
    run_of("slots", seed, mutation, durable_clients)
}

/// The same, of a gate with that protocol.
pub(super) fn run_of(
    protocol: &str,
    seed: u64,
    mutation: Option<Mutation>,
    durable_clients: bool,
) -> (Simulation, Vec<String>) {
    let mut rng = Rng::new(seed);
    let nodes = [1, 2, 3, 3, 3, 4, 5][usize::try_from(rng.below(7)).expect("small")];
    let voters = if nodes >= 3 { 3 } else { nodes };
    let k = u32::try_from(rng.within(1, 3)).expect("small");
    let mut simulation = Simulation::new(seed, nodes, voters, k, mutation).of(protocol);
    if durable_clients {
        simulation.add_durable_clients(nodes);
    }
    run_out(simulation)
}

/// The same of a gate with the protocol `home`, where two of three to five nodes never reach each
/// other, in one direction or in both.
pub(super) fn run_with_a_cut(seed: u64) -> (Simulation, Vec<String>) {
    let mut rng = Rng::new(seed);
    let mut below = |bound: u64| u32::try_from(rng.below(bound)).expect("small");
    let nodes = 3 + below(3);
    let mut simulation = Simulation::new(seed, nodes, 3, 1 + below(3), None).of("home");
    let one = below(u64::from(nodes));
    let other = (one + 1 + below(u64::from(nodes - 1))) % nodes;
    simulation.cut_for_good.insert((NodeId(one), NodeId(other)));
    if below(3) > 0 {
        simulation.cut_for_good.insert((NodeId(other), NodeId(one)));
    }
    simulation.cut.clone_from(&simulation.cut_for_good);
    run_out(simulation)
}

/// Faults, healing, and what went wrong.
fn run_out(mut simulation: Simulation) -> (Simulation, Vec<String>) {
    simulation.draw_faults();
    simulation.run_until(FAULTS + SECOND);
    simulation.heal();
    simulation.run_until(FAULTS + HEALED);
    let mut wrong = std::mem::take(&mut simulation.checker.violations);
    wrong.extend(simulation.stopped.iter().map(|why| format!("a node has stopped: {why}")));
    wrong.extend(
        simulation
            .checker
            .durable_losses
            .iter()
            .map(|why| format!("a permit of the log was lost: {why}")),
    );
    let unserved = simulation.unserved();
    if !unserved.is_empty() {
        wrong.push(format!("clients {unserved:?} did not get in after all was healed"));
        wrong.extend(simulation.describe());
    }
    (simulation, wrong)
}

/// N1 to N6, E1 to E5, S1 to S4, R1 and R2 together: at most k clients believe to hold at any
/// instant, fences grow, and after healing every client is served.
#[test]
fn at_most_k_under_faults() {
    let (mut grants, mut lost, mut refused) = (0, 0, 0);
    each_seed(seeds(1, 40), "-p kgate-node --lib world::runs", |seed| {
        let (simulation, wrong) = run(seed, None);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        grants += simulation.checker.grants;
        lost += simulation.checker.lost;
        refused += simulation.checker.refused;
    });
    println!("{grants} grants, {lost} lost, {refused} refused");
    assert!(grants > 0 && lost > 0);
}

/// The checker detects each mutation within a number of runs.
#[test]
fn mutations_are_detected() {
    for mutation in [
        Mutation::GrantsWithoutLease,
        Mutation::GoneAtSuspect,
        Mutation::AlwaysWholeLease,
        Mutation::KeepsItsIncarnation,
        Mutation::FenceOfDecision,
        Mutation::FreedAtStreamEnd,
    ] {
        let unsafe_run = |seed: &u64| {
            let (_, wrong) = run(*seed, Some(mutation));
            wrong.iter().any(|why| why.contains("believed held") || why.contains("fence"))
        };
        let found = (1..=400).find(unsafe_run);
        println!("{mutation:?}: seed {found:?}");
        assert!(found.is_some(), "{mutation:?} was not found");
    }
}

/// A node may learn from the leader that its incarnation has ended before it applies the entry that
/// ends it. Its gates must not stay in that incarnation: no other node answers them any more, and
/// requests there wait for ever.
#[test]
fn gates_in_an_earlier_incarnation_are_detected() {
    let stuck = |seed: &u64| !run(*seed, Some(Mutation::GatesKeepIncarnations)).1.is_empty();
    let found = (1..=1000).find(stuck).expect("it was not found");
    println!("seed {found}");
    assert_eq!(run(found, None).1, Vec::<String>::new());
}

/// A run is determined by its seed.
#[test]
fn a_run_is_determined_by_its_seed() {
    let [one, other] = [7, 7].map(|seed| run(seed, None).0.checker.grants);
    assert_eq!(one, other);
}
