//! Gates with the protocol `home` in whole nodes (docs/internals/home.md).

use kgate_control::state::Command;
use kgate_core::NodeId;
use kgate_testkit::{each_seed, seeds};

use super::super::LapseSeen;
use super::log::TotalOrder;
use super::runs::{run_of, run_with_a_cut};
use super::{MILLISECOND, Mutation, SECOND, Simulation};

impl Simulation {
    /// The same with another protocol, before anything has happened.
    pub(super) fn of(mut self, protocol: &str) -> Self {
        let nodes = u32::try_from(self.machines.len()).expect("few");
        let voters = u32::try_from(self.log.voters().all().len()).expect("few");
        let k = self.log.cluster_state().gate("gpu").expect("made").k;
        self.log = TotalOrder::new(nodes, voters, k, self.timing, protocol);
        self
    }

    /// The checker sees a permit whose client is gone.
    pub(super) fn on_lapse(&mut self, node: NodeId, seen: LapseSeen) {
        let entries = self.decided_entries();
        match seen {
            LapseSeen::Begins(key) => {
                self.checker.is_gone((node.0, key.session.0, key.number), entries);
            }
            LapseSeen::Ends(key, applied) => {
                let permit = (node.0, key.session.0, key.number);
                self.checker.lapses(self.now, permit, applied);
            }
        }
    }

    /// The gate is deleted, and created again.
    fn create_anew(&mut self) {
        let gate = self.log.cluster_state().gate("gpu").expect("made").clone();
        let (name, author) = (gate.name.clone(), gate.author.clone());
        self.propose(Command::SetGate {
            name: name.clone(),
            k: Some(0),
            source: None,
            policy: None,
            version: None,
            author: author.clone(),
        });
        let version = self.log.cluster_state().gate("gpu").expect("closed").version;
        self.propose(Command::DeleteGate { name: name.clone(), version });
        self.propose(Command::CreateGate {
            name,
            slots: gate.k.into(),
            protocol: gate.protocol,
            lanes: 1,
            policy: gate.policy,
            weight_max: None,
            author,
        });
    }

    /// The home of the gate, as that node knows it.
    fn home(&self, node: u32) -> NodeId {
        let core = self.machines[&NodeId(node)].core.as_ref().expect("up");
        core.log.state.homes.directory.home(1).expect("there are members").node
    }

    /// The nodes whose messages the gate lacks, as that node sees it.
    fn lacking(&self, node: u32) -> Vec<NodeId> {
        let core = self.machines[&NodeId(node)].core.as_ref().expect("up");
        core.views(Some("gpu")).remove(0).lacking
    }

    /// The nodes at which the gate is in use.
    fn users(&self) -> Vec<u32> {
        let uses = |machine: &super::Machine| {
            let core = machine.core.as_ref().expect("up");
            core.gates.values().any(|gate| gate.is_started())
        };
        let used = self.machines.iter().filter(|(_, machine)| uses(machine));
        used.map(|(node, _)| node.0).collect()
    }
}

/// Leases and H1 to H17 together: at most k clients believe to hold at any instant, fences grow,
/// permits lapse behind a barrier, and after healing every client is served.
#[test]
fn at_most_k_with_homes() {
    let (mut grants, mut lost, mut lapses) = (0, 0, 0);
    each_seed(seeds(1, 40), "-p kgate-node --lib simulation::homes", |seed| {
        let (simulation, wrong) = run_of("home", seed, None, false);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        grants += simulation.checker.grants;
        lost += simulation.checker.lost;
        lapses += simulation.checker.lapses;
    });
    println!("{grants} grants, {lost} lost, {lapses} lapses");
    assert!(grants > 0 && lapses > 0);
}

/// H14: the same with durable permits at the same gate; none is lost.
#[test]
fn at_most_k_with_homes_and_durable_permits() {
    let (mut grants, mut held) = (0, 0);
    each_seed(seeds(1, 40), "-p kgate-node --lib simulation::homes", |seed| {
        let (simulation, wrong) = run_of("home", seed, None, true);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        grants += simulation.checker.grants;
        held += simulation.checker.durable_grants.len();
    });
    println!("{grants} grants, {held} of them held by the log");
    assert!(grants > 0 && held > 100);
}

/// H19: the same while two nodes never reach each other; after the other faults have healed every
/// client is served.
#[test]
fn a_cut_link_blocks_no_client() {
    let mut grants = 0;
    each_seed(seeds(1, 40), "-p kgate-node --lib simulation::homes", |seed| {
        let (simulation, wrong) = run_with_a_cut(seed);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        grants += simulation.checker.grants;
    });
    println!("{grants} grants");
    assert!(grants > 0);
}

/// The checker detects each mutation within a number of runs.
#[test]
fn mutations_with_homes_are_detected() {
    for (mutation, durable, sign) in [
        (Mutation::GrantsWithoutLease, false, "believed held"),
        (Mutation::GoneAtSuspect, false, "believed held"),
        (Mutation::AlwaysWholeLease, false, "believed held"),
        (Mutation::KeepsItsIncarnation, false, "believed held"),
        (Mutation::FreedAtStreamEnd, false, "believed held"),
        (Mutation::FenceOfDecision, false, "fence"),
        (Mutation::LapsesWithoutBarrier, false, "lapses with"),
        (Mutation::NeverReserves, true, "believed held"),
        (Mutation::GivesBackBlindly, true, "believed held"),
    ] {
        let unsafe_run = |seed: &u64| {
            let (_, wrong) = run_of("home", *seed, Some(mutation), durable);
            wrong.iter().any(|why| why.contains(sign) || why.contains("fence"))
        };
        let found = (1..=400).find(unsafe_run);
        println!("{mutation:?}: seed {found:?}");
        assert!(found.is_some(), "{mutation:?} was not found");
    }
}

/// A gate has a protocol only at the nodes that use it: those of its clients, and its home. (A home
/// whose term is not that of the gate's creation also asks the founders of the term, once.)
#[test]
fn unused_gates_have_no_protocol() {
    let mut simulation = Simulation::quiet(5, 1).of("home");
    simulation.run_until(2 * SECOND);
    assert_eq!(simulation.users(), [0_u32; 0]);
    // The gate of the first entry is older than the members.
    simulation.create_anew();
    simulation.run_until(2 * SECOND + 500 * MILLISECOND);
    simulation.acquire(0);
    simulation.run_until(3 * SECOND);
    assert!(simulation.inside(0));
    let users = simulation.users();
    assert!(users.contains(&0) && users.len() <= 2, "{users:?}");
}

/// R1: a node that stops cleanly while its client holds resumes with the same fence, and the next
/// client is granted the slot when the first one is done. So does the home.
#[test]
fn a_clean_stop_keeps_permits() {
    for stops in 0..3 {
        let mut simulation = Simulation::quiet(3, 1).of("home");
        simulation.run_until(2 * SECOND);
        simulation.acquire(0);
        simulation.run_until(2 * SECOND + 100 * MILLISECOND);
        let before = simulation.granted(0).expect("granted");
        simulation.suspend(NodeId(stops));
        simulation.restart_after(NodeId(stops), 100 * MILLISECOND);
        simulation.run_until(4 * SECOND);
        assert!(simulation.inside(0), "node {stops}: {:?}", simulation.describe());
        assert_eq!(simulation.granted(0), Some(before));
        simulation.acquire(1);
        simulation.run_until(5 * SECOND);
        assert!(!simulation.inside(1), "it waits");
        simulation.leave(0, true);
        simulation.run_until(7 * SECOND);
        assert!(simulation.inside(1), "node {stops}: {:?}", simulation.describe());
        assert_eq!(simulation.checker.violations, Vec::<String>::new());
    }
}

/// H19: a node that does not reach the home, nor is reached by it, keeps its lease and is served
/// through the third node; and the slot that it returns goes to the next one.
#[test]
fn a_node_that_does_not_reach_the_home_is_served() {
    let mut simulation = Simulation::quiet(3, 1).of("home");
    simulation.run_until(2 * SECOND);
    let home = simulation.home(0);
    let others: Vec<u32> = (0..3).filter(|node| NodeId(*node) != home).collect();
    let [cut, third] = others[..] else { panic!("of three nodes one is home") };
    simulation.cut.extend([(home, NodeId(cut)), (NodeId(cut), home)]);
    simulation.acquire(cut as usize);
    simulation.run_until(4 * SECOND);
    assert!(simulation.inside(cut as usize), "{:?}", simulation.describe());
    simulation.acquire(third as usize);
    simulation.run_until(5 * SECOND);
    simulation.leave(cut as usize, true);
    simulation.run_until(7 * SECOND);
    assert!(simulation.inside(third as usize), "{:?}", simulation.describe());
    assert_eq!(simulation.home(0), home, "nobody was suspected");
}

/// A waiting request names the home; once the home is silent and another node is home, that one
/// names the node whose account it lacks, until the eviction.
#[test]
fn a_silent_home_is_named() {
    let mut simulation = Simulation::quiet(3, 1).of("home");
    simulation.run_until(2 * SECOND);
    let home = simulation.home(0);
    let others: Vec<u32> = (0..3).filter(|node| NodeId(*node) != home).collect();
    let [holds, waits] = others[..] else { panic!("of three nodes one is home") };
    simulation.acquire(holds as usize);
    simulation.run_until(3 * SECOND);
    simulation.acquire(waits as usize);
    simulation.run_until(4 * SECOND);
    assert_eq!((simulation.lacking(holds), simulation.lacking(waits)), (vec![], vec![home]));
    simulation.kill(home);
    let suspected = 4 * SECOND + 2 * simulation.timing.suspect_after.0;
    simulation.run_until(suspected);
    let next = simulation.home(holds);
    assert_ne!(next, home);
    assert_eq!(simulation.lacking(next.0), [home]);
    simulation.leave(holds as usize, true);
    simulation.run_until(7 * SECOND);
    assert!(simulation.inside(waits as usize), "{:?}", simulation.describe());
    assert_eq!(simulation.lacking(next.0), [NodeId(0); 0]);
}
