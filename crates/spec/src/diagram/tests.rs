//! The diagram has every element of the trace exactly once. Its look is not tested.

use kgate_core::{NodeId, Time};

use super::label::{Area, Arrow, Taken, short};
use super::timeline::{Absence, End, Sign, Timeline, TimelineBuilder};
use super::{Canvas, DiagramError, MOST_SIGNS};
use crate::trace::reader::{Event, Record, Run};
use crate::view::View;

fn record(events: Vec<(u64, u32, Event<'static>)>) -> Vec<Record> {
    events
        .into_iter()
        .map(|(t, node, event)| Record { t: Time(t), node: NodeId(node), event })
        .collect()
}

fn send(to: u32) -> Event<'static> {
    Event::Send {
        kind: "reply".into(),
        to: Some(NodeId(to)),
        to_many: vec![].into(),
        copies: 1,
        message: "Reply".into(),
    }
}

fn deliver(from: u32) -> Event<'static> {
    Event::Deliver { kind: "reply".into(), from: NodeId(from), message: "Reply".into() }
}

/// The whole timeline, with one column per time.
fn timeline(events: Vec<(u64, u32, Event<'static>)>) -> Timeline {
    let mut builder = TimelineBuilder::new(&run(), &View::default(), usize::MAX, true);
    record(events).iter().for_each(|record| assert!(builder.see(record)));
    builder.end().expect("there is no limit")
}

fn run() -> Run {
    Run { protocol: "x<y".into(), n: 3, k: 1 }
}

/// Each delivery belongs to the earliest send of its text in its channel; a copy starts at the
/// original send; unmatched sends stay open.
#[test]
fn deliveries_match_sends() {
    let copy = Event::Duplicated { kind: "reply".into(), to: NodeId(1), message: "Reply".into() };
    let lost = Event::Lost { kind: "reply".into(), from: NodeId(0), message: "Reply".into() };
    let events = vec![
        (1, 0, send(1)),
        (2, 0, send(1)),
        (3, 0, copy),
        (5, 1, deliver(0)),
        (9, 1, lost),
        (9, 1, deliver(2)),
    ];
    let timeline = timeline(events);
    assert_eq!((timeline.times.len(), timeline.kinds.len()), (5, 1), "a column a moment");
    let ways: Vec<(u64, End)> =
        timeline.messages.iter().map(|message| (message.sent.0, message.end)).collect();
    assert_eq!(ways, [(1, End::Arrived(Time(5))), (2, End::Lost(Time(9))), (1, End::Open)]);
}

/// Waiting ends with the grant, holding with the release, both with a crash; a waiting request
/// waits again after the recovery. Open bars reach to the edge.
#[test]
fn bars_and_marks() {
    let granted = || Event::Granted { slots: vec![].into(), fence: None, stamp: None, grant: None };
    let events = vec![
        (1, 0, Event::Acquire { weight: 1 }),
        (2, 0, granted()),
        (3, 0, Event::Release { grant: None }),
        (4, 1, Event::Acquire { weight: 1 }),
        (5, 1, Event::Crash),
        (6, 1, Event::Restart { incarnation: None }),
        (6, 2, Event::Acquire { weight: 1 }),
        (7, 2, Event::Suspected { whom: NodeId(1) }),
    ];
    let timeline = timeline(events);
    let bars: Vec<_> = timeline
        .bars
        .iter()
        .map(|bar| (bar.node.0, bar.from.0, bar.until.0, bar.inside, bar.open))
        .collect();
    let expected = [
        (0, 1, 2, false, false),
        (0, 2, 3, true, false),
        (1, 4, 5, false, false),
        (1, 6, 7, false, true),
        (2, 6, 7, false, true),
    ];
    assert_eq!(bars, expected);
    let down = Absence { node: NodeId(1), from: Time(5), until: Some(Time(6)), stopped: false };
    assert_eq!(timeline.absences, [down]);
    assert!(timeline.marks.iter().map(|mark| mark.sign).eq([
        Sign::Crash,
        Sign::Restart,
        Sign::Suspicion
    ]));
}

/// The file is complete, has its title, escapes markup, and explains exactly the signs that it
/// uses.
#[test]
fn the_file_is_self_contained() {
    let wrong =
        Event::Violated { property: "p".into(), nodes: vec![].into(), text: "a & b".into() };
    let svg = super::draw(
        &run(),
        &record(vec![(1, 0, send(1)), (2, 1, deliver(0)), (3, 0, wrong)]),
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
    assert!(!svg.contains("holds") && !svg.contains("href") && !svg.contains("x<y"));
    assert!(super::draw(&run(), &[], "", None).ends_with("</svg>\n"), "an empty run");
}

/// A label is the kind and the plain fields of the outermost structure.
#[test]
fn short_labels() {
    assert_eq!(short("tree", "Broadcast(Tree { request: 1@p1 })"), "tree 1@p1");
    assert_eq!(short("reply", "Reply { clock: 12 }"), "reply 12");
    assert_eq!(short("initialize", "Initialize"), "initialize");
    assert_eq!(
        short("request", "Request { incarnations: Incarnations { mine: 1, yours: 1 }, asks: 1 }"),
        "request 1"
    );
    assert_eq!(
        short("token", "Token { slot: 0, revision: Revision { epoch: 0 }, lost: {} }"),
        "token 0"
    );
    assert_eq!(short("two", "Two { first: 1, second: 2 }"), "two first 1..");
    assert_eq!(
        short("long", "Long { text: abcdefghijklmnopqrstuvwxyz }"),
        "long abcdefghijklmnop.."
    );
}

/// The first free place is taken, or the one that covers least; a label may cover its own arrow.
#[test]
fn labels_give_way() {
    let mut taken = Taken::default();
    let at = |x: f64| Area { x, y: 0.0, width: 10.0, height: 10.0 };
    assert_eq!(taken.place(None, true, [at(0.0), at(50.0)].into_iter()), Some(at(0.0)));
    assert_eq!(taken.place(None, true, [at(5.0), at(50.0)].into_iter()), Some(at(50.0)));
    assert_eq!(taken.place(None, true, [at(2.0), at(48.0), at(8.0)].into_iter()), Some(at(8.0)));
    assert_eq!(taken.place(None, false, [at(2.0)].into_iter()), None, "no place without `must`");
    taken.take_arrow(7, &Arrow { from: (100.0, 5.0), bend: (110.0, 5.0), to: (120.0, 5.0) });
    assert_eq!(taken.place(None, true, [at(100.0), at(200.0)].into_iter()), Some(at(200.0)));
    assert_eq!(taken.place(Some(7), true, [at(100.0), at(300.0)].into_iter()), Some(at(100.0)));
}

const UNIT: u64 = 1_000_000_000;

/// In each time unit p0 sends a message to p1, and p1 holds a slot for half of it.
fn long_run(units: u64) -> Vec<Record> {
    let of = |unit: u64| {
        let t = unit * UNIT;
        let granted =
            Event::Granted { slots: vec![].into(), fence: None, stamp: None, grant: None };
        vec![
            (t, 1, Event::Acquire { weight: 1 }),
            (t, 0, send(1)),
            (t + UNIT / 4, 1, deliver(0)),
            (t + UNIT / 4, 1, granted),
            (t + UNIT * 3 / 4, 1, Event::Release { grant: None }),
        ]
    };
    record((0..units).flat_map(of).collect())
}

fn picture(record: &[Record], window: &str, shown: &str) -> Result<String, DiagramError> {
    let part = |text: &str| !text.is_empty();
    let view = View {
        window: if part(window) {
            window.parse().expect("a window")
        } else {
            View::default().window
        },
        shown: if part(shown) { shown.parse().expect("processes") } else { View::default().shown },
    };
    let mut canvas = Canvas::new(&run(), &view)?;
    let _ = record.iter().take_while(|record| canvas.see(record)).count();
    canvas.finish("title")
}

/// Every message, wait and grant within the window is drawn once, whether or not it ends there;
/// nothing else is.
#[test]
fn a_window_has_exactly_its_events() {
    let record = long_run(20);
    let count = |svg: &str, part: &str| svg.matches(part).count();
    let [inside, waits] =
        [super::svg::INSIDE, super::svg::WAITING].map(|colour| format!("fill=\"{colour}\""));
    let all = picture(&record, "", "").expect("it fits");
    assert_eq!(
        (count(&all, "class=\"message\""), count(&all, &inside), count(&all, &waits)),
        (20, 20 + 1, 20 + 1),
        "one bar of each is the legend's"
    );
    // Sent at 5, 6, 7 and 8; the first is in transit when the window opens, the last when it
    // closes.
    let part = picture(&record, "5.1..8.1", "").expect("it fits");
    assert_eq!((count(&part, "class=\"message\""), count(&part, &inside)), (4, 3 + 1));
    assert!(
        part.contains("sent at 5, delivered at 5.25")
            && part.contains("sent at 8, delivered at 8.25")
    );
    let heads = count(&part, "marker-end") - 1;
    assert_eq!(heads, 3, "the last one is delivered outside the window");
    let alone = picture(&record, "", "1..2").expect("it fits");
    assert_eq!((count(&alone, "class=\"message\""), count(&alone, &inside)), (0, 20 + 1));
    assert!(!alone.contains(">p0<") && alone.contains(">p1<") && alone.contains(">p2<"));
    assert!(picture(&[], "", "").expect("an empty run").ends_with("</svg>\n"));
}

/// A run that does not fit is rejected, and the window that the error names fits.
#[test]
fn the_error_names_a_window_that_fits() {
    let record = long_run(5000);
    let why = picture(&record, "100..", "").expect_err("too much");
    let DiagramError::Signs { signs, window: Some((from, until)), processes: None, .. } = &why
    else {
        panic!("{why}")
    };
    assert!(*signs > MOST_SIGNS as u64 && from.0 == 100 * UNIT, "{why}");
    assert!(why.to_string().contains(&format!("--window 100..{until} fits")), "{why}");
    picture(&record, &format!("{from}..{until}"), "").expect("it fits, as the error says");
    assert!(until.0 > 500 * UNIT, "and is not needlessly short: {until}");
    assert_eq!(picture(&record, "", "7..9"), Err(DiagramError::NoProcess(3)));
}
