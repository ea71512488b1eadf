//! Each correction that has a switch, taken back: what goes wrong, where the corrected rules do
//! not.

use std::sync::Arc;

use kgate_check::rules::Space;
use kgate_check::rules::laws::{fair_cycle, terminal};
use kgate_core::{Defects, Graph};
use kgate_protocols::stabilizing::Exclusion;
use kgate_protocols::stabilizing::defects::{self, C1, C3, C5, C6, C7, C8, C9, C10, C11, C14};
use kgate_protocols::topology::graphs::Shape;
use kgate_sim::state::SOMEBODY_CAN_MOVE;
use kgate_sim::{Daemon, Start, StateConfig};

use crate::{graph, properties, run, shaped, space};

/// A terminal configuration is reached from a clean start under every fair daemon; with the
/// correction never.
fn deadlocks_from_a_clean_start(graph: &Arc<Graph>, k: u32, printed: Defects) {
    for daemon in [Daemon::Synchronous, Daemon::Central, Daemon::Distributed] {
        for seed in 1..=20 {
            let mut config = StateConfig::new(Arc::clone(graph), k, seed);
            (config.start, config.daemon, config.rounds) = (Start::Clean, daemon, 300);
            assert_eq!(properties(&run(&config)), [""; 0], "corrected, {daemon}, seed {seed}");
            config.printed = printed;
            let report = run(&config);
            if daemon == Daemon::Synchronous {
                assert!(report.terminal, "{daemon}, seed {seed}");
                assert_eq!(properties(&report), [SOMEBODY_CAN_MOVE]);
            }
        }
    }
}

/// C1 (root's Cleaning over all neighbours): deadlock from a clean start, star of 4, l = 2.
#[test]
fn c1_a_neighbour_that_is_no_child() {
    deadlocks_from_a_clean_start(&shaped(Shape::Star, 4, 1), 2, C1);
}

/// C7 (a9 waits for the child of another process): a terminal configuration on the star of 3, from
/// a corrupted start.
#[test]
fn c7_a_token_that_nobody_takes() {
    let star = shaped(Shape::Star, 3, 1);
    for k in 1..=2 {
        assert!(terminal(&space(&star, k, C7)).is_some());
        let seeds = (1..=300).filter(|&seed| {
            let mut config =
                StateConfig { rounds: 100, ..StateConfig::new(Arc::clone(&star), k, seed) };
            assert_eq!(properties(&run(&config)), [""; 0], "corrected, seed {seed}");
            config.printed = C7;
            run(&config).terminal
        });
        assert!(seeds.count() > 0, "l = {k}");
    }
}

/// C8 (a2 and a3 do not ask whose child): deadlock from a clean start on the triangle, l = 2.
#[test]
fn c8_the_tok_of_another_token() {
    let triangle = shaped(Shape::Complete, 3, 1);
    let printed = space(&triangle, 2, C8);
    let stuck = |space: &Space<Exclusion>| {
        space.reachable([space.clean()]).into_iter().find(|&at| space.enabled(at) == 0)
    };
    assert!(stuck(&printed).is_some());
    assert!(stuck(&space(&triangle, 2, Defects::NONE)).is_none());
    let mut config = StateConfig::new(triangle, 2, 1);
    (config.start, config.printed) = (Start::Clean, C8);
    assert!((1..=50).any(|seed| run(&StateConfig { seed, ..config.clone() }).terminal));
}

/// C9 (no g_i): a root with one neighbour cannot send it a second token; deadlock from a clean
/// start, l = 2.
#[test]
fn c9_two_tokens_to_one_neighbour() {
    deadlocks_from_a_clean_start(&shaped(Shape::Path, 2, 1), 2, C9);
    deadlocks_from_a_clean_start(&shaped(Shape::Path, 5, 1), 3, C9);
}

/// C3 (a9 for any T): it cleans a clean process, so a weakly fair daemon may choose it forever; and
/// it ends broadcasts. C5 (AbnPath without a parent): a10 changes nothing, so a weakly fair daemon
/// may choose it forever.
#[test]
fn c3_and_c5_actions_that_do_nothing() {
    let pair = shaped(Shape::Path, 2, 1);
    for printed in [C3, C5] {
        assert!(fair_cycle(&space(&pair, 1, printed), |_, edge| edge.privileged == 0).is_some());
    }
    assert!(fair_cycle(&space(&pair, 1, Defects::NONE), |_, edge| edge.privileged == 0).is_none());
}

/// C6 (D is the diameter): where a token's path is longer than the diameter, the processes further
/// along it are never reached.
#[test]
fn c6_levels_end_too_soon() {
    let graph = graph(6, &[(0, 1), (0, 2), (1, 2), (2, 3), (1, 4), (3, 4), (4, 5)], 0);
    let never = (1..=200).find(|&seed| {
        let mut config = StateConfig::new(Arc::clone(&graph), 1, seed);
        (config.start, config.rounds) = (Start::Clean, 600);
        assert!(run(&config).stabilized_at_round.is_some(), "corrected, seed {seed}");
        config.printed = C6;
        run(&config).stabilized_at_round.is_none()
    });
    println!("C6: seed {never:?}");
    assert!(never.is_some());
}

/// C10 (any neighbour's offer counts): it takes more than n rounds to be normal.
#[test]
fn c10_offers_from_outside_the_tree() {
    let late = (1..=400).find(|&seed| {
        let mut config = StateConfig::new(shaped(Shape::Complete, 10, 1), 3, seed);
        (config.daemon, config.rounds) = (Daemon::Synchronous, 30);
        assert!(
            run(&config).normal_at_round.is_some_and(|round| round <= 10),
            "corrected, seed {seed}"
        );
        config.printed = C10;
        run(&config).normal_at_round.is_none_or(|round| round > 10)
    });
    println!("C10: seed {late:?}");
    assert!(late.is_some());
}

/// C11 (a token before the last feedback is cleaned): on a tree, where Corollary 4.1 holds, an
/// abnormal process is created.
#[test]
fn c11_a_token_meets_a_feedback() {
    let fork = graph(4, &[(0, 1), (1, 2), (1, 3)], 0);
    let again = (1..=100).find(|&seed| {
        let mut config = StateConfig::new(Arc::clone(&fork), 1, seed);
        (config.start, config.daemon, config.rounds) = (Start::Clean, Daemon::Central, 300);
        assert_eq!(run(&config).abnormal_again, 0, "corrected, seed {seed}");
        config.printed = C11;
        run(&config).abnormal_again > 0
    });
    println!("C11: seed {again:?}");
    assert!(again.is_some());
}

/// Every switch is described exactly once, under its number.
#[test]
fn every_switch_is_described() {
    let switches = [C1, C3, C5, C6, C7, C8, C9, C10, C11, C14];
    assert_eq!(defects::ALL.map(|defect| defect.switch), switches);
    for defect in defects::ALL {
        let number: u32 = defect.id[1..].parse().expect("a number");
        assert_eq!(defect.switch, Defects::bit(48 + number), "{}", defect.id);
    }
}
