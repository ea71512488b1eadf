//! Each view has the events of the trace.

use std::collections::BTreeMap;

use super::shiviz::{Clock, Clocks};
use super::*;
use crate::trace::reader::{Event, Lines};

/// A small run with a broadcast, a reply, a loss, a crash, and an event of an unknown kind.
const TRACE: &str = r#"{"run":{"protocol":"x","n":3,"k":1},"trace":1}
{"t":0,"node":0,"event":"acquire"}
{"t":0,"node":0,"event":"send","kind":"request","to":null,"copies":2,"message":"Request { c: 1 }"}
{"t":100000000,"node":2,"event":"crash"}
{"t":900000000,"node":1,"event":"deliver","kind":"request","from":0,"message":"Request { c: 1 }"}
{"t":900000000,"node":1,"event":"send","kind":"reply","to":0,"copies":1,"message":"Reply"}
{"t":900000000,"node":2,"event":"lost","kind":"request","from":0,"message":"Request { c: 1 }"}
{"t":1500000000,"node":0,"event":"sneezed","loudly":true}
{"t":1800000000,"node":0,"event":"deliver","kind":"reply","from":1,"message":"Reply"}
{"t":12000000001,"node":0,"event":"suspected","whom":2}
{"t":12000000001,"node":0,"event":"granted","slots":[0],"fence":"0x3"}
{"t":13000000000,"node":0,"event":"release"}
"#;

type Bytes = io::Cursor<Vec<u8>>;
type Show = fn(Reader<Bytes>, &View, &mut dyn io::Write) -> Result<(), ViewError>;

fn seen(show: Show, trace: &str, view: &View) -> Result<String, ViewError> {
    let mut bytes = Vec::new();
    show(Reader::new(io::Cursor::new(trace.as_bytes().to_vec()))?, view, &mut bytes)?;
    Ok(String::from_utf8(bytes).expect("text"))
}

fn view(window: &str, shown: &str) -> View {
    View { window: window.parse().expect("a window"), shown: shown.parse().expect("processes") }
}

/// The text has exactly one line per event.
#[test]
fn text_has_one_line_per_event() {
    let expected = "\
x, n = 3, k = 1; time in t.u.
     0            p0  requests
     0            p0  -> p1 p2  request: Request { c: 1 }
     0.1          p2  CRASHES
     0.9          p1  <- p0  request: Request { c: 1 }
     0.9          p1  -> p0  reply
     0.9          p2  x- p0  request: Request { c: 1 } is lost
     1.8          p0  <- p1  reply
    12.000000001  p0  suspects p2
    12.000000001  p0  acquires slot 0, fence 0x3
    13            p0  releases
";
    assert_eq!(seen(text, TRACE, &View::default()).expect("a trace"), expected);
    let part = seen(text, TRACE, &view("0.5..2", "0,2")).expect("a trace");
    assert_eq!(part.lines().count(), 1 + 2, "{part}");
}

/// The log for ShiViz, message for message; in a window, every process counts from one.
#[test]
fn shiviz_has_vector_clocks() {
    let expected = r#"(?<host>\S+) (?<clock>\{.*\}) (?<time>\S+)\n(?<event>.*)

p0 {"p0":1} 0
requests
p0 {"p0":2} 0
-> p1 p2  request: Request { c: 1 }
p2 {"p2":1} 0.1
CRASHES
p1 {"p0":2,"p1":1} 0.9
<- p0  request: Request { c: 1 }
p1 {"p0":2,"p1":2} 0.9
-> p0  reply
p0 {"p0":3,"p1":2} 1.8
<- p1  reply
p0 {"p0":4,"p1":2} 12.000000001
suspects p2
p0 {"p0":5,"p1":2} 12.000000001
acquires slot 0, fence 0x3
p0 {"p0":6,"p1":2} 13
releases
"#;
    assert_eq!(seen(shiviz, TRACE, &View::default()).expect("a trace"), expected);
    let part = seen(shiviz, TRACE, &view("0.5..2", "0..2")).expect("a trace");
    assert!(
        part.contains("p1 {\"p1\":1} 0.9") && part.contains("p0 {\"p0\":1,\"p1\":2} 1.8"),
        "{part}"
    );
    let through = seen(shiviz, TRACE, &view("0..", "0")).expect("a trace");
    assert!(!through.contains("p1 {"), "{through}");
}

/// Perfetto's form is JSON. Its slices are the waiting processes and those inside; every arrow has
/// both ends, in the order of time, at slices that exist.
#[test]
fn perfetto_output_is_complete() {
    for (view, flows) in
        [(View::default(), 2), (view("0.5..2", "0..2"), 1), (view("0..", "0,2"), 0)]
    {
        let text = seen(perfetto, TRACE, &view).expect("a trace");
        let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let events = all["traceEvents"].as_array().expect("a list");
        let of =
            |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
        let ends = |phase: &str| {
            let ends = of(phase)
                .into_iter()
                .map(|event| (event["id"].as_u64().expect("an id"), event["ts"].as_f64()));
            ends.collect::<BTreeMap<_, _>>()
        };
        let (starts, stops) = (ends("s"), ends("f"));
        assert_eq!((starts.len(), of("s").len(), of("f").len()), (flows, flows, flows), "{text}");
        assert!(starts.iter().all(|(id, at)| stops[id] >= *at));
        let slice = |place: &serde_json::Value| {
            let same = |key: &str, slice: &serde_json::Value| slice[key] == place[key];
            of("X").into_iter().any(|slice| ["pid", "tid", "ts"].iter().all(|key| same(key, slice)))
        };
        assert!(of("s").into_iter().chain(of("f")).all(slice), "{text}");
    }
    let text = seen(perfetto, TRACE, &View::default()).expect("a trace");
    assert!(
        text.contains(r#""tid":1,"ts":12000000.001,"dur":999999.999,"name":"inside""#),
        "{text}"
    );
    assert!(text.contains(r#""tid":2,"ts":0.000,"dur":12000000.001,"name":"waits""#), "{text}");
    assert!(text.contains(r#""name":"CRASHES""#), "{text}");
    let nothing = seen(perfetto, TRACE, &view("50..60", "0")).expect("a trace");
    serde_json::from_str::<serde_json::Value>(&nothing).expect("JSON of nothing");
}

/// For any view: an arrival's clock is greater than its send's, a process's own count increases by
/// one, and no clock counts an event that has not happened. The checks catch the planted bug:
/// clocks that do not travel with messages.
#[test]
fn a_send_happens_before_its_arrival() {
    let wrong = (0..200).filter(|seed| !clocks_are_right(*seed, false)).count();
    assert_eq!(wrong, 0);
    assert!((0..200).any(|seed| !clocks_are_right(seed, true)), "the checker sees what is wrong");
}

/// A random run of four processes, in which messages of few texts overtake each other, are
/// duplicated and lost. `planted`: the clocks of sends are forgotten.
fn clocks_are_right(seed: u64, planted: bool) -> bool {
    let mut rng = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |sides: u64| {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        u32::try_from(rng % sides).expect("few sides")
    };
    let mut lines = Lines::new(r#"{"run":{"n":4,"k":1},"trace":1}"#).expect("a header");
    let mut clocks = Clocks::default();
    // Event an independent reader keeps: the clock of each message under way, by channel and text,
    // in the order of sending.
    let mut under_way: Vec<(u32, u32, u32, Clock)> = Vec::new();
    let mut counts: Clock = Clock::new();
    for t in 0..120 {
        let (node, word) = (draw(4), draw(2));
        let text = format!("\"kind\":\"m\",\"message\":\"{word}\"");
        let event = match draw(4) {
            0 => "\"event\":\"acquire\"".to_owned(),
            1 => format!("\"event\":\"send\",\"to\":null,\"copies\":3,{text}"),
            2 => format!("\"event\":\"send\",\"to\":{},\"copies\":1,{text}", (node + 1) % 4),
            _ => {
                if under_way.is_empty() {
                    continue;
                }
                let (from, to, word, _) = under_way[draw(under_way.len() as u64) as usize].clone();
                let fate = if draw(5) == 0 { "lost" } else { "deliver" };
                let line = format!(
                    "{{\"t\":{t},\"node\":{to},\"event\":\"{fate}\",\"from\":{from},\"kind\":\"m\",\
                     \"message\":\"{word}\"}}"
                );
                let record = lines.next(&line).expect("an event");
                let first =
                    under_way.iter().position(|way| (way.0, way.1, way.2) == (from, to, word));
                let (.., sent) = under_way.remove(first.expect("it is there"));
                *counts.entry(NodeId(to)).or_default() += 1;
                let clock = clocks.see(&record, 4, true);
                let below = sent
                    .iter()
                    .all(|(node, count)| clock.get(node).is_some_and(|known| known >= count));
                if clock.get(&NodeId(to)) != counts.get(&NodeId(to)) || fate == "deliver" && !below
                {
                    return false;
                }
                continue;
            }
        };
        let record =
            lines.next(&format!("{{\"t\":{t},\"node\":{node},{event}}}")).expect("an event");
        *counts.entry(NodeId(node)).or_default() += 1;
        let clock = clocks.see(&record, 4, true).clone();
        if clock
            .iter()
            .any(|(node, count)| counts.get(node).is_none_or(|happened| count > happened))
        {
            return false;
        }
        under_way
            .extend(record.receivers(4).into_iter().map(|to| (node, to.0, word, clock.clone())));
        if planted && matches!(record.event, Event::Send { .. }) {
            clocks.forget();
        }
    }
    true
}

/// A malformed line is rejected with its number in every view, up to the end of the window.
#[test]
fn a_broken_line_is_named() {
    let broken = TRACE.replace("\"event\":\"release\"", "\"even");
    for show in [text as Show, shiviz, perfetto] {
        let error = seen(show, &broken, &View::default()).expect_err("broken");
        assert!(error.to_string().starts_with("line 12 is not an event"), "{error}");
        seen(show, &broken, &view("0..5", "0..2")).expect("the window closes before it");
        let error = seen(show, TRACE, &view("0..", "3..9")).expect_err("no such process");
        assert!(error.to_string().contains("0..2"), "{error}");
    }
    let unknown = TRACE.replace("\"whom\":2", "\"whom\":7");
    assert!(matches!(
        seen(text, &unknown, &View::default()),
        Err(ViewError::Trace(TraceError::UnknownNode(10, ..)))
    ));
}

/// Windows and processes are parsed as they are typed; malformed ones are rejected.
#[test]
fn windows_and_processes_are_parsed() {
    let unit = |units: u64| Time(units * 1_000_000_000);
    assert_eq!("10..20".parse(), Ok(Window { from: unit(10), until: unit(20) }));
    assert_eq!("..20".parse(), Ok(Window { from: Time::ZERO, until: unit(20) }));
    assert_eq!("10..".parse(), Ok(Window { from: unit(10), until: Time::NEVER }));
    for wrong in ["", "10", "x..", "1..2..3", "20..10", "5..5"] {
        assert!(
            wrong.parse::<Window>().is_err_and(|why| why.to_string().contains("10..20")),
            "{wrong:?}"
        );
    }
    let shown: Shown = "p0..2,7".parse().expect("processes");
    assert!(shown.of(8).map(|node| node.0).eq([0, 1, 2, 7]));
    for wrong in ["", "x", "3..1", "1,", "1..2..3"] {
        assert!(
            wrong.parse::<Shown>().is_err_and(|why| why.to_string().contains("0..7")),
            "{wrong:?}"
        );
    }
}
