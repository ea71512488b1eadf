//! Every configuration of small networks: the repaired rules satisfy all laws; as printed, or with
//! a planted bug, each law is violated.

use std::time::Duration;

use kgate_core::{Setup, Step, View};
use kgate_protocols::stabilizing::{Exclusion, defects};
use kgate_protocols::topology::graphs::Shape;

use super::*;
use crate::Stopped;

fn graph(shape: Shape, nodes: u32) -> Arc<Graph> {
    Arc::new(shape.build(nodes, &mut |_| 0).expect("a graph"))
}

fn explore<R: Rules>(shape: Shape, nodes: u32, k: u32, printed: Defects) -> Outcome {
    explore_rules::<R>(&graph(shape, nodes), k, printed, Limits::default()).expect("small enough")
}

fn broken(outcome: &Outcome) -> Vec<&'static str> {
    assert!(outcome.complete);
    outcome.properties.iter().filter(|finding| !finding.holds).map(|finding| finding.name).collect()
}

/// stabilizing-2014, corrected, on all rooted graphs of 2 and 3 processes: Theorems 4.1 to 4.5
/// hold. The numbers of configurations and of processes inside at once are pinned.
#[test]
fn all_laws_hold() {
    let networks = [
        (Shape::Path, 2, [(64, 1), (96, 1)]),
        (Shape::Path, 3, [(9216, 1), (13_824, 1)]),
        (Shape::Star, 3, [(8192, 1), (10_240, 1)]),
        (Shape::Complete, 3, [(41_472, 1), (51_840, 2)]),
    ];
    for (shape, nodes, found) in networks {
        for (k, (configurations, inside)) in (1..).zip(found) {
            let outcome = explore::<Exclusion>(shape, nodes, k, Defects::NONE);
            assert_eq!(broken(&outcome), [""; 0], "{shape} of {nodes}, l = {k}");
            let names: Vec<_> = outcome.properties.iter().map(|finding| finding.name).collect();
            assert_eq!((names.as_slice(), outcome.is_wrong()), (PROPERTIES.as_slice(), false));
            assert_eq!(
                (outcome.unique, outcome.inside_max),
                (configurations, Some(inside)),
                "{shape}"
            );
            assert!(
                outcome.depth > 0
                    && outcome.depth <= nodes as usize
                    && outcome.states > outcome.unique
            );
        }
    }
}

/// Each printed defect of stabilizing-2014 that three processes can show is found, by the law that
/// it violates first.
#[test]
fn printed_defects_are_found() {
    let shown = [
        (defects::C1, Shape::Star, 3, 1, SOMEBODY_CAN_MOVE),
        (defects::C1, Shape::Complete, 3, 2, SOMEBODY_CAN_MOVE),
        (defects::C3, Shape::Path, 2, 1, Convergence::NAME),
        (defects::C5, Shape::Path, 2, 1, NORMAL_IN_TIME),
        (defects::C7, Shape::Star, 3, 1, SOMEBODY_CAN_MOVE),
        (defects::C8, Shape::Complete, 3, 2, SOMEBODY_CAN_MOVE),
        (defects::C9, Shape::Path, 2, 2, SOMEBODY_CAN_MOVE),
    ];
    for (printed, shape, nodes, k, law) in shown {
        let outcome = explore::<Exclusion>(shape, nodes, k, printed);
        assert_eq!(broken(&outcome).first(), Some(&law), "{printed:?}");
        assert!(outcome.is_wrong());
    }
}

/// A counterexample names its first configuration and every step: C8 is stuck from the clean start,
/// C7 only where a fault has put it.
#[test]
fn counterexamples_name_start_and_steps() {
    let counterexample = |outcome: &Outcome| {
        let finding = outcome.properties[0].clone();
        let steps = finding.counterexample.expect("it is wrong");
        let steps: Vec<String> = steps.iter().map(|entry| entry.step.to_string()).collect();
        (finding.from.expect("a configuration"), steps)
    };
    let (from, steps) = counterexample(&explore::<Exclusion>(Shape::Complete, 3, 2, defects::C8));
    assert_eq!(from, ["p0 T=C S=p2 P=p0 L=0", "p1 T=C S=- P=- L=1", "p2 T=C S=- P=- L=1"]);
    assert_eq!(steps, ["p0(a1) moves", "p1(a6) moves", "p2(a6) moves"]);
    let (from, steps) = counterexample(&explore::<Exclusion>(Shape::Star, 3, 2, defects::C7));
    assert_eq!((from.len(), steps.len()), (3, 0));
}

/// A search that is too large is refused with advice; a search without time claims nothing.
#[test]
fn limits_are_reported() {
    let with = |shape, nodes, limits| {
        explore_rules::<Exclusion>(&graph(shape, nodes), 1, Defects::NONE, limits)
            .map(|outcome| (outcome.stopped, outcome.complete, outcome.properties.len()))
    };
    let usual = Limits::default();
    let refused = |shape, nodes, limits| with(shape, nodes, limits).expect_err("too large");
    assert_eq!(refused(Shape::Complete, 4, usual), TooLarge::Configurations(space::MOST));
    assert_eq!(refused(Shape::Path, 17, usual), TooLarge::Configurations(space::MOST));
    let few = Limits { states: Some(9215), ..usual };
    assert_eq!(refused(Shape::Path, 3, few), TooLarge::Configurations(9215));
    let small = Limits { memory: Some(1 << 20), ..usual };
    assert_eq!(
        refused(Shape::Path, 3, small),
        TooLarge::Memory { configurations: 9216, gibibytes: 1 }
    );
    let no_time = Limits { time: Some(Duration::ZERO), ..usual };
    assert_eq!(with(Shape::Path, 3, no_time), Ok((Some(Stopped::Time), false, 0)));
}

/// Dijkstra's ring of 1974 with two processes and three values: p0 moves when both values are
/// equal, p1 when they differ. An enabled process is inside, so there is always one token. `BUG`
/// plants a bug.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Toy<const BUG: u8>;

/// p0 does not leave the last value.
const STUCK: u8 = 1;
/// p1 may idle inside when it is not its turn.
const CROWDED: u8 = 2;
/// A process with the abnormal value replaces it by the same value, forever.
const ABNORMAL: u8 = 3;
/// p1 is never inside.
const STARVED: u8 = 4;
/// No configuration is a start.
const NEVER: u8 = 5;
/// No process is ever inside.
const EMPTY: u8 = 6;
/// There is a token too many, which no process sees.
const TOKEN: u8 = 7;
/// There are four abnormal values, and each is replaced by the one before it.
const LATE: u8 = 8;
/// p0 hops between two abnormal values until p1 has 1, which p1 can take only while p0 is at one of
/// them.
const HOPPING: u8 = 9;

impl<const BUG: u8> Rules for Toy<BUG> {
    const NAME: &'static str = "toy";
    type State = u8;

    fn clean(_: &Setup) -> u8 {
        0
    }

    fn arbitrary(_: &Setup, below: &mut dyn FnMut(u64) -> u64) -> u8 {
        let values = match BUG {
            LATE => 7,
            ABNORMAL => 4,
            HOPPING => 5,
            _ => 3,
        };
        u8::try_from(below(values)).expect("small")
    }

    fn in_domain(_: &Setup, state: &u8) -> bool {
        *state < 7
    }

    fn enabled(view: View<'_, u8>, steps: &mut Vec<Step<u8>>) {
        let (own, other, first) = (*view.own, view.neighbours[0], view.me() == NodeId(0));
        let privileged = BUG != EMPTY && (first || BUG != STARVED);
        if BUG == HOPPING && first && own > 2 {
            let next = if other == 1 { 0 } else { 7 - own };
            steps.push(Step { name: "hop", next, privileged: false });
        } else if BUG == HOPPING && other == 3 && own < 3 && own != 1 {
            steps.push(Step { name: "help", next: 1, privileged: false });
        } else if own > 2 {
            let next = if BUG == ABNORMAL { own } else { own - 1 };
            steps.push(Step { name: "mend", next, privileged: false });
        } else if other > 2 {
            // Disabled.
        } else if first && own == other && (BUG != STUCK || own < 2) {
            steps.push(Step { name: "pass", next: (own + 1) % 3, privileged });
        } else if !first && own != other {
            steps.push(Step { name: "copy", next: other, privileged });
        } else if !first && BUG == CROWDED {
            steps.push(Step { name: "idle", next: own, privileged });
        }
    }

    fn survey(_: &[Setup], states: &[u8]) -> Survey {
        let both = BUG == CROWDED && states[0] == states[1];
        let normal = states.iter().all(|state| *state < 3);
        Survey {
            normal,
            start: BUG != NEVER && normal && states[0] == states[1],
            joined: true,
            tokens: 1 + u32::from(BUG == TOKEN),
            privileged: if BUG == EMPTY { 0 } else { 1 + u32::from(both) },
        }
    }
}

/// Each law is violated by its planted bug, and otherwise only laws that follow from it.
#[test]
fn planted_bugs_break_each_law() {
    fn of<const BUG: u8>() -> Vec<&'static str> {
        broken(&explore::<Toy<BUG>>(Shape::Path, 2, 1, Defects::NONE))
    }
    assert_eq!(of::<0>(), [""; 0]);
    assert_eq!(of::<STUCK>(), [SOMEBODY_CAN_MOVE, fair::NAME], "it stands still in a start");
    assert_eq!(of::<CROWDED>(), [AtMostK::NAME]);
    assert_eq!(
        of::<ABNORMAL>(),
        [NORMAL_IN_TIME, Convergence::NAME, fair::NAME],
        "it is all that happens"
    );
    assert_eq!(of::<STARVED>(), [fair::NAME]);
    assert_eq!(of::<NEVER>(), [Convergence::NAME, SometimesK::SOMEBODY]);
    assert_eq!(of::<EMPTY>(), [fair::NAME, SometimesK::SOMEBODY]);
    assert_eq!(of::<TOKEN>(), [AT_MOST_L_TOKENS]);
    assert_eq!(of::<LATE>(), [NORMAL_IN_TIME]);
    let hopping = [NORMAL_IN_TIME, Convergence::NAME, fair::NAME];
    assert_eq!(
        of::<HOPPING>(),
        hopping,
        "a process disabled for a moment need not move, in a round or for fairness"
    );
}

/// A late recovery has a counterexample as long as the bound: n rounds without a normal
/// configuration.
#[test]
fn a_late_recovery_is_found() {
    let late = explore::<Toy<LATE>>(Shape::Path, 2, 1, Defects::NONE);
    assert_eq!(late.depth, 4, "from 6 down to 2");
    let finding = &late.properties[1];
    let steps = finding.counterexample.as_ref().expect("it is late");
    assert!(
        steps.len() >= 2 && steps.iter().all(|entry| entry.step.to_string().contains("mend")),
        "{steps:?}"
    );
    let never = explore::<Toy<ABNORMAL>>(Shape::Path, 2, 1, Defects::NONE);
    assert_eq!((never.depth, never.properties[1].holds), (0, false));
    let hopping = explore::<Toy<HOPPING>>(Shape::Path, 2, 1, Defects::NONE);
    assert_eq!(
        hopping.depth, 0,
        "never: a round does not wait for a process that was disabled for a moment"
    );
}

/// A cycle returns to its begin, every process moves on it or is disabled, and the starved one is
/// never inside.
#[test]
fn cycles_are_closed_and_fair() {
    let space = Space::<Exclusion>::new(&graph(Shape::Path, 3), 1, defects::C3, Limits::default())
        .expect("small");
    let cycle = laws::fair_cycle(&space, |_, edge| edge.privileged & 1 == 0).expect("p0 starves");
    assert!(!cycle.steps.is_empty() && cycle.end() == cycle.from);
    let (mut at, mut satisfied) = (cycle.from, 0);
    for edge in &cycle.steps {
        assert!(space.edges(at).contains(edge) && edge.privileged & 1 == 0);
        satisfied |= edge.movers | !space.enabled(at);
        at = edge.to;
    }
    assert_eq!(satisfied & 0b111, 0b111);
}
