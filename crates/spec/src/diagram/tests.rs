//! That the picture has what the trace tells, once each; how it looks is for the eye.

use kgate_core::{NodeId, Time};

use super::label::{Area, Arrow, Taken, short};
use super::scene::{End, Scene, Sign};
use crate::told::{Run, Told, What};

fn told(events: Vec<(u64, u32, What)>) -> Vec<Told> {
    events.into_iter().map(|(t, node, what)| Told { t: Time(t), node: NodeId(node), what }).collect()
}

fn send(to: u32) -> What {
    What::Send {
        kind: "reply".into(),
        to: Some(NodeId(to)),
        to_many: vec![],
        copies: 1,
        message: "Reply".into(),
    }
}

fn deliver(from: u32) -> What {
    What::Deliver { kind: "reply".into(), from: NodeId(from), message: "Reply".into() }
}

fn run() -> Run {
    Run { protocol: "x<y".into(), n: 3, k: 1 }
}

/// Each arrival belongs to the earliest send of its text in its channel; a copy leaves where the first one did; what is left over is open.
#[test]
fn arrivals_find_their_sends() {
    let copy = What::Doubled { kind: "reply".into(), to: NodeId(1), message: "Reply".into() };
    let lost = What::Lost { kind: "reply".into(), from: NodeId(0), message: "Reply".into() };
    let events = vec![
        (1, 0, send(1)),
        (2, 0, send(1)),
        (3, 0, copy),
        (5, 1, deliver(0)),
        (9, 1, lost),
        (9, 1, deliver(2)),
    ];
    let scene = Scene::new(&run(), &told(events));
    assert_eq!((scene.columns(), scene.kinds.len()), (5, 1), "a column a moment");
    let ways: Vec<(usize, End)> = scene.messages.iter().map(|message| (message.sent, message.end)).collect();
    assert!(ways == [(0, End::Arrived(3)), (1, End::Lost(4)), (0, End::Open)]);
}

/// Waiting ends with the entry, inside with the exit, both with a crash; what has not ended reaches to the edge.
#[test]
fn bars_and_marks() {
    let granted = || What::Granted { slots: vec![], fence: None, grant: None };
    let events = vec![
        (1, 0, What::Acquire { weight: 1 }),
        (2, 0, granted()),
        (3, 0, What::Release { grant: None }),
        (4, 1, What::Acquire { weight: 1 }),
        (5, 1, What::Crash),
        (6, 1, What::Restart { life: None }),
        (6, 2, What::Acquire { weight: 1 }),
        (7, 2, What::Suspected { whom: NodeId(1) }),
    ];
    let scene = Scene::new(&run(), &told(events));
    let bars: Vec<_> =
        scene.bars.iter().map(|bar| (bar.node.0, bar.from, bar.until, bar.inside, bar.open)).collect();
    let expected =
        [(0, 0, 1, false, false), (0, 1, 2, true, false), (1, 3, 4, false, false), (2, 5, 6, false, true)];
    assert_eq!(bars, expected);
    assert_eq!(scene.down, [(NodeId(1), 4, Some(5))]);
    assert!(scene.marks.iter().map(|mark| mark.sign).eq([Sign::Crash, Sign::Restart, Sign::Suspicion]));
}

/// The file is whole, names what it shows, hides nothing in markup, and explains the signs that it uses and no others.
#[test]
fn a_picture_of_its_own() {
    let wrong = What::Violated { property: "p".into(), nodes: vec![], text: "a & b".into() };
    let svg = super::draw(
        &run(),
        &told(vec![(1, 0, send(1)), (2, 1, deliver(0)), (3, 0, wrong)]),
        "title",
        Some(Time(2)),
    );
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for part in [
        "x&lt;y, n = 3, k = 1",
        ">title<",
        ">reply<",
        "VIOLATED at 0.000000003: p: a &amp; b",
        ">violated here<",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(!svg.contains("is inside") && !svg.contains("href") && !svg.contains("x<y"));
    assert!(super::draw(&run(), &[], "", None).ends_with("</svg>\n"), "of nothing at all");
}

/// A label is the kind and the plain fields of the outermost structure.
#[test]
fn short_labels() {
    assert_eq!(short("tree", "Spread(Tree { request: 1@p1 })"), "tree 1@p1");
    assert_eq!(short("reply", "Reply { clock: 12 }"), "reply 12");
    assert_eq!(short("initialize", "Initialize"), "initialize");
    assert_eq!(short("request", "Request { lives: Lives { mine: 1, yours: 1 }, asks: 1 }"), "request 1");
    assert_eq!(short("token", "Token { slot: 0, revision: Revision { epoch: 0 }, lost: {} }"), "token 0");
    assert_eq!(short("two", "Two { first: 1, second: 2 }"), "two first 1..");
    assert_eq!(short("long", "Long { text: abcdefghijklmnopqrstuvwxyz }"), "long abcdefghijklmnop..");
}

/// Of several places the first free one is taken, or the one that covers least; a label may cover its own arrow.
#[test]
fn labels_give_way() {
    let mut taken = Taken::default();
    let at = |x: f64| Area { x, y: 0.0, width: 10.0, height: 10.0 };
    assert_eq!(taken.place(None, [at(0.0), at(50.0)].into_iter()), at(0.0));
    assert_eq!(taken.place(None, [at(5.0), at(50.0)].into_iter()), at(50.0));
    assert_eq!(taken.place(None, [at(2.0), at(48.0), at(8.0)].into_iter()), at(8.0));
    taken.take_arrow(7, &Arrow { from: (100.0, 5.0), bend: (110.0, 5.0), to: (120.0, 5.0) });
    assert_eq!(taken.place(None, [at(100.0), at(200.0)].into_iter()), at(200.0));
    assert_eq!(taken.place(Some(7), [at(100.0), at(300.0)].into_iter()), at(100.0));
}
