//! Each checker catches the history that is planted for it, and lets its neighbour pass.

use super::*;

const MS: u64 = 1_000_000;

fn terms() -> Terms {
    Terms {
        nodes: 2,
        gates: [("a".to_owned(), 1)].into(),
        minority_ns: Some(700 * MS),
        answer_ns: 1000 * MS,
    }
}

fn at(t_ms: u64, node: u32, who: &str, what: What) -> Record {
    Record { t: t_ms * MS, node, who: who.into(), what }
}

fn granted(fence: &str, until_ms: u64, pid: u32, process: bool) -> What {
    let (gate, until) = ("a".into(), until_ms.saturating_mul(MS));
    What::Granted { gate, slots: vec![0], fence: fence.into(), until, pid, process }
}

fn inside(until_ms: u64) -> What {
    What::Inside { until: until_ms * MS }
}

fn checked(mut records: Vec<Record>) -> Verdict {
    records.sort_by_key(|record| record.t);
    check(&terms(), &records).expect("records")
}

fn checkers(records: Vec<Record>) -> Vec<&'static str> {
    let mut names: Vec<_> =
        checked(records).violations.iter().map(|violation| violation.checker).collect();
    names.dedup();
    names
}

/// A client believes until its deadline and not longer: the next may come in then, and not before.
#[test]
fn belief_ends_at_the_deadline() {
    let course = |next_ms| {
        vec![
            at(1, 0, "x", granted("01", 100, 1, false)),
            at(90, 0, "x", inside(150)),
            at(next_ms, 1, "y", granted("02", 500, 2, false)),
            at(300, 0, "x", What::Lost { why: "frozen".into() }),
            at(310, 1, "y", What::Out),
        ]
    };
    assert_eq!(checkers(course(150)), [""; 0]);
    assert_eq!(checkers(course(149)), [BELIEF]);
    assert_eq!(checked(course(150)).losses, 1);
}

/// One that was killed believes nothing; a grant that came after its deadline was none.
#[test]
fn the_dead_and_the_late_believe_nothing() {
    let killed = vec![
        at(1, 0, "x", granted("01", 900, 1, false)),
        at(50, 0, "", What::Killed { pid: 1 }),
        at(51, 1, "y", granted("02", 900, 2, false)),
        at(60, 1, "y", What::Out),
    ];
    assert_eq!(checkers(killed), [""; 0]);
    let late = vec![
        at(1, 0, "x", granted("02", 900, 1, false)),
        at(50, 1, "y", granted("01", 40, 2, false)),
        at(60, 0, "x", What::Out),
    ];
    assert_eq!(checkers(late), [""; 0]);
}

/// The planted bug of a child that is never stopped: it is alive after its deadline, and beside the
/// next holder.
#[test]
fn a_child_that_is_not_stopped() {
    let course = |last_ms| {
        vec![
            at(1, 0, "x", granted("01", 100, 1, true)),
            at(last_ms, 0, "x", inside(100)),
            at(150, 1, "y", granted("02", 500, 2, true)),
            at(160, 1, "y", What::Out),
        ]
    };
    assert_eq!(checkers(course(99)), [""; 0]);
    assert_eq!(checkers(course(120)), [DEADLINE]);
    let found = checkers(course(170));
    assert!(found.contains(&DEADLINE) && found.contains(&BELIEF), "{found:?}");
}

/// A tree that was frozen whole may show incarnation when it thaws, and keep its lock meanwhile;
/// long after that it may not.
#[test]
fn a_frozen_tree_is_excused() {
    let course = |thawed_ms| {
        vec![
            at(1, 0, "x", granted("01", 100, 1, true)),
            at(50, 0, "", What::Frozen { pid: 1 }),
            at(140, 1, "y", What::LockTaken { slot: 0, owner: 1 }),
            at(141, 1, "y", granted("02", 900, 2, true)),
            at(thawed_ms, 0, "", What::Thawed { pid: 1 }),
            at(600, 0, "x", inside(100)),
            at(700, 1, "y", What::Out),
        ]
    };
    assert_eq!(checkers(course(590)), [""; 0]);
    assert_eq!(checkers(course(145)), [BELIEF, DEADLINE]);
}

/// The planted bugs of two holders: a lock that is taken, a fence that goes back.
#[test]
fn locks_and_fences() {
    let crowded = vec![
        at(1, 0, "x", granted("01", 100, 1, true)),
        at(2, 0, "x", What::Out),
        at(20, 1, "y", What::LockTaken { slot: 0, owner: 1 }),
    ];
    assert_eq!(checkers(crowded), [LOCK]);
    let course = |second: &str| {
        vec![
            at(1, 0, "x", granted("02", 100, 1, true)),
            at(2, 0, "x", What::Out),
            at(3, 1, "y", granted(second, 100, 2, true)),
            at(4, 1, "y", What::Out),
        ]
    };
    assert_eq!(checkers(course("03")), [""; 0]);
    assert_eq!(checkers(course("01")), [BELIEF]);
}

/// The resource may refuse a client whose deadline has passed, and no other.
#[test]
fn the_resource_refuses_only_stale_holders() {
    let stale =
        |until_ms: u64| What::Stale { slot: 0, greatest: "09".into(), until: until_ms * MS };
    let right = checked(vec![at(50, 0, "x", stale(40))]);
    assert_eq!((right.refused, right.violations.len()), (1, 0));
    assert_eq!(checkers(vec![at(50, 0, "x", stale(60))]), [RESOURCE]);
}

/// The planted bug of a minority that grants: later than its lease after the cut, and only there.
#[test]
fn a_minority_issues_no_grant() {
    let course = |t_ms, node| {
        vec![
            at(100, 0, "", What::Minority { nodes: vec![1] }),
            at(500, 0, "", What::Minority { nodes: vec![0, 1] }),
            at(2000, 0, "", What::Minority { nodes: vec![] }),
            at(t_ms, node, "x", granted("01", 9000, 1, false)),
            at(t_ms + 1, node, "x", What::Out),
        ]
    };
    assert_eq!(checkers(course(800, 1)), [""; 0]);
    assert_eq!(checkers(course(801, 1)), [MINORITY]);
    assert_eq!(checkers(course(1200, 0)), [""; 0], "it was cut off later");
    assert_eq!(checkers(course(2000, 1)), [""; 0]);
}

/// The planted bugs of answers: one that never comes, one that comes late, a node that lets nobody
/// in. A killed client waits for none.
#[test]
fn every_request_is_answered() {
    let asked = |pid| What::Asked { gate: "a".into(), pid };
    let served = |from: u64| {
        vec![
            at(10, 0, "", What::Healed),
            at(from, 0, "s", granted("01", 9000, 1, false)),
            at(from + 1, 0, "s", What::Out),
            at(from + 2, 1, "t", granted("02", 9000, 2, false)),
            at(from + 3, 1, "t", What::Out),
            at(5000, 0, "", What::End),
        ]
    };
    let with = |more: Vec<Record>| [served(20), more].concat();
    let answered = || What::Answered { how: "0".into() };
    let right = vec![at(5, 0, "x", asked(3)), at(900, 0, "x", answered())];
    assert_eq!(
        (checkers(with(right.clone())), checked(with(right)).longest_ns),
        (vec![], 890 * MS)
    );
    assert_eq!(
        checkers(with(vec![at(5, 0, "x", asked(3)), at(1011, 0, "x", answered())])),
        [ANSWERS]
    );
    assert_eq!(checkers(with(vec![at(5, 0, "x", asked(3))])), [ANSWERS]);
    let killed = vec![at(5, 0, "x", asked(3)), at(6, 0, "", What::Killed { pid: 3 })];
    assert_eq!(checkers(with(killed)), [""; 0]);
    assert_eq!(checkers(served(1)), [ANSWERS], "nobody came in after healing");
}

/// A node that ends by itself is told.
#[test]
fn nodes_live() {
    assert_eq!(
        checkers(vec![at(5, 1, "", What::Ended { text: "exit status: 101".into() })]),
        [NODES]
    );
}

/// A command that `kgate run` has ended must be reported as a loss (121); a report that the command
/// itself died of SIGTERM is a violation.
#[test]
fn a_loss_is_reported_as_a_loss() {
    let ends = |code: u32| {
        let how = format!("exit status: {code}");
        vec![at(1, 0, "x", granted("01", 900, 1, true)), at(90, 0, "x", What::Answered { how })]
    };
    assert_eq!(checkers(ends(121)), [""; 0]);
    assert_eq!(checkers(ends(143)), [CODES]);
}
