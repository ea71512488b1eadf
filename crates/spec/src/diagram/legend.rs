//! The legend below the diagram: the meaning of the signs that occur in it.

use super::label::width;
use super::svg::{INSIDE, SIZE, WAITING, WRONG, style, text};
use super::timeline::{End, Sign, Timeline};

/// A sign with its meaning.
type Line = (String, String);

/// Draws the legend from `y` on; returns where it ends.
pub(super) fn draw(out: &mut String, timeline: &Timeline, y: f64, wide: f64) -> f64 {
    let (mut x, mut y) = (16.0, y + 6.0);
    for (sign, meaning) in lines(timeline) {
        let room = 34.0 + width(&meaning, SIZE) + 12.0;
        if x + room > wide {
            (x, y) = (16.0, y + 20.0);
        }
        out.push_str(&format!(
            "<g fill=\"none\" transform=\"translate({x:.1} {y:.1})\">{sign}</g>\n"
        ));
        text(out, x + 32.0, y + 4.0, SIZE, "#222222", "start", &meaning);
        x += room;
    }
    y + 16.0
}

fn lines(timeline: &Timeline) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let drawn = |place: usize| timeline.messages.iter().any(|message| message.kind == place);
    for (place, kind) in timeline.kinds.iter().enumerate().filter(|(place, _)| drawn(*place)) {
        let (colour, dashes) = style(place);
        let arrow = format!(
            "<path d=\"M0 0H24\" stroke=\"{colour}\" stroke-width=\"1.8\" \
             stroke-dasharray=\"{dashes}\" marker-end=\"url(#head{place})\"/>"
        );
        lines.push((arrow, kind.clone()));
    }
    let mut add = |seen: bool, sign: String, meaning: &str| {
        if seen {
            lines.push((sign, meaning.to_owned()));
        }
    };
    let bar = |colour: &str| {
        format!("<rect x=\"0\" y=\"-6\" width=\"24\" height=\"12\" fill=\"{colour}\"/>")
    };
    let has = |inside: bool| timeline.bars.iter().any(|bar| bar.inside == inside);
    let sign = |sign: Sign| timeline.marks.iter().any(|mark| mark.sign == sign);
    let ended = |fits: fn(End) -> bool| timeline.messages.iter().any(|message| fits(message.end));
    add(has(false), bar(WAITING), if timeline.moves { "enabled" } else { "waits" });
    add(has(true), bar(INSIDE), if timeline.moves { "privileged" } else { "holds" });
    let cross = |arm: f64, colour: &str| {
        let (low, wide) = (12.0 - arm, 2.0 * arm);
        format!(
            "<path d=\"M{low} -{arm}l{wide} {wide}M{low} {arm}l{wide} -{wide}\" \
             stroke=\"{colour}\" stroke-width=\"2.2\"/>"
        )
    };
    add(sign(Sign::Crash), cross(8.0, "#000000"), "crashes");
    add(sign(Sign::Restart), restart(12.0, 0.0), "recovers");
    let stops = timeline.absences.iter().any(|absence| absence.stopped);
    add(stops, stopped(0.0, 24.0, 0.0), "paused");
    add(sign(Sign::Suspicion), suspicion(12.0, 0.0), "suspects a process");
    add(sign(Sign::Change), dot(12.0, 0.0), "learns of a recovery or of a new k");
    add(sign(Sign::Withdrawal), withdrawal(12.0, 0.0), "withdraws");
    add(sign(Sign::Fault), fault(12.0, 0.0), "transient fault");
    add(sign(Sign::Move), dot(12.0, 0.0), "moves: action and state after it");
    add(ended(|end| matches!(end, End::Lost(_))), cross(4.5, "#555555"), "message lost");
    let open = "<circle cx=\"12\" cy=\"0\" r=\"3.2\" fill=\"#FFFFFF\" stroke=\"#555555\" \
                stroke-width=\"1.6\"/>";
    // A scenario is complete; the trace of a run may not record the fate of a message to a crashed
    // process.
    let unended =
        if timeline.times.is_empty() { "delivery not recorded" } else { "message in transit" };
    add(ended(|end| end == End::Open), open.into(), unended);
    let band = format!(
        "<rect x=\"4\" y=\"-8\" width=\"16\" height=\"16\" fill=\"{WRONG}\" fill-opacity=\"0.22\"/>"
    );
    add(!timeline.violations.is_empty(), band, "violated here");
    lines
}

pub(super) fn restart(x: f64, y: f64) -> String {
    format!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"#FFFFFF\" stroke=\"#000000\" \
         stroke-width=\"2\"/>"
    )
}

pub(super) fn stopped(from: f64, until: f64, y: f64) -> String {
    format!(
        "<path d=\"M{from:.1} {y:.1}H{until:.1}\" stroke=\"#D55E00\" stroke-width=\"4\" \
         stroke-dasharray=\"2 4\"/>"
    )
}

pub(super) fn suspicion(x: f64, y: f64) -> String {
    format!(
        "<path d=\"M{x:.1} {y:.1}m-7 0l7 -7l7 7l-7 7Z\" fill=\"#FFFFFF\" \
         stroke=\"#D55E00\" stroke-width=\"2\"/>"
    )
}

pub(super) fn withdrawal(x: f64, y: f64) -> String {
    format!("<path d=\"M{x:.1} {y:.1}m0 -8v16\" stroke=\"#000000\" stroke-width=\"3\"/>")
}

pub(super) fn fault(x: f64, y: f64) -> String {
    format!("<path d=\"M{x:.1} {y:.1}m2 -9l-7 10h5l-2 8l7 -10h-5Z\" fill=\"#D55E00\"/>")
}

pub(super) fn dot(x: f64, y: f64) -> String {
    format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"#0072B2\"/>")
}
