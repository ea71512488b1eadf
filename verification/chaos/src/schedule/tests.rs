//! Plans are the same for the same seed, and keep their own rules.

use std::collections::BTreeSet;

use super::*;

fn frame(seed: u64) -> Frame {
    Frame {
        seed,
        seconds: 40,
        kinds: Kind::all(),
        nodes: None,
        lease_ms: 700,
        silence_max_ms: None,
        clock_error_ppm: 10_000,
    }
}

fn plans() -> impl Iterator<Item = Plan> {
    (0..300).map(|seed| Plan::draw(&frame(seed)))
}

/// A seed says everything.
#[test]
fn the_same_seed_the_same_plan() {
    for seed in 0..20 {
        assert_eq!(Plan::draw(&frame(seed)), Plan::draw(&frame(seed)));
        assert_ne!(Plan::draw(&frame(seed)).faults, Plan::draw(&frame(seed + 1000)).faults);
    }
}

/// Every kind is drawn by some seed, every run has something happen, and everything ends within the
/// run.
#[test]
fn every_kind_happens() {
    let mut seen = BTreeSet::new();
    for plan in plans() {
        assert!((5..=7).contains(&plan.nodes) && plan.voters <= plan.nodes && plan.voters % 2 == 1);
        assert!(!plan.faults.is_empty());
        for fault in &plan.faults {
            assert!(fault.begin_ms < fault.end_ms && fault.end_ms <= 40_000, "{fault}");
            assert!(plan.kinds.contains(&fault.kind), "{fault}");
            seen.insert(fault.kind);
        }
        seen.extend(plan.clock_ppm.iter().any(|ppm| *ppm != 0).then_some(Kind::Skew));
        seen.extend(plan.sync_ms.iter().any(|ms| *ms > 0).then_some(Kind::SlowDisk));
        assert!(plan.clock_ppm.iter().all(|ppm| ppm.abs() <= 10_000));
    }
    assert_eq!(seen.len(), Kind::ALL.len(), "{seen:?}");
}

/// Only what was asked for is drawn; each name means its kind.
#[test]
fn kinds_can_be_chosen() {
    let kinds = vec![Kind::Kill, Kind::Skew];
    for seed in 0..50 {
        let plan = Plan::draw(&Frame { kinds: kinds.clone(), ..frame(seed) });
        assert!(
            plan.faults.iter().all(|fault| fault.kind == Kind::Kill) && !plan.faults.is_empty()
        );
    }
    for (kind, name) in Kind::ALL {
        assert_eq!((name.parse::<Kind>().unwrap(), kind.name()), (kind, name));
    }
    assert!("fire".parse::<Kind>().unwrap_err().to_string().contains("restart-all"));
}

/// A node that is down is not paused, and the processes of one `kgate run` are not all out at once.
#[test]
fn faults_do_not_meet_at_one_process() {
    for plan in plans() {
        for node in 0..plan.nodes {
            let of_node = |fault: &&Fault| match &fault.action {
                Action::PauseNodes(nodes) | Action::KillNodes(nodes) => nodes.contains(&node),
                Action::StopNode(one) => *one == node,
                Action::Cut(_)
                | Action::PauseClients(..)
                | Action::KillClients(..)
                | Action::Narrow(..)
                | Action::Lose(..)
                | Action::Delay(..) => false,
            };
            let of_clients = |fault: &&Fault| {
                let (Action::PauseClients(one, _) | Action::KillClients(one, _)) = &fault.action
                else {
                    return false;
                };
                *one == node
            };
            let apart = |faults: Vec<&Fault>, gap_ms| {
                faults.windows(2).all(|pair| pair[0].end_ms + gap_ms < pair[1].begin_ms)
            };
            assert!(apart(plan.faults.iter().filter(of_node).collect(), 0), "{plan:?}");
            assert!(apart(plan.faults.iter().filter(of_clients).collect(), 1_000), "{plan:?}");
        }
    }
}

/// A clean partition cuts both ways; one-way cuts one way; across a bridge every node is connected
/// to the one in the middle.
#[test]
fn each_kind_of_partition_cuts_its_links() {
    for fault in plans().flat_map(|plan| plan.faults) {
        let Action::Cut(ways) = &fault.action else { continue };
        let back = ways.iter().filter(|(from, to)| ways.contains(&(*to, *from))).count();
        assert_eq!(back, if fault.kind == Kind::OneWay { 0 } else { ways.len() }, "{fault}");
        assert!(!ways.is_empty(), "{fault}");
    }
}

/// Where silence means death, no silence is long.
#[test]
fn silence_can_be_bounded() {
    for seed in 0..50 {
        let bounded =
            Frame { silence_max_ms: Some(300), kinds: Kind::CRASH_STOP.to_vec(), ..frame(seed) };
        for fault in Plan::draw(&bounded).faults {
            assert!(fault.end_ms - fault.begin_ms <= 300, "{fault}");
        }
    }
}
