//! Writes the SVG file.

use std::fmt::Write;

use kgate_core::{NodeId, Time};

use super::label::{Area, Taken, width};
use super::legend;
use super::scale::{LEFT, Scale};
use super::timeline::{Absence, Sign, Timeline};

/// The first line, below title and times.
const TOP: f64 = 116.0;
/// Half the height of a bar.
pub(super) const BAR: f64 = 6.0;
/// The size of labels, and of the smaller print.
pub(super) const SIZE: f64 = 11.0;
pub(super) const SMALL: f64 = 9.5;

/// The colours of Okabe and Ito, which colour-blind readers can tell apart, without those that look
/// like a violation or vanish on white.
const COLOURS: [&str; 6] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#000000"];
/// The same, darker, for messages.
pub(super) const INKS: [&str; 6] =
    ["#005A8E", "#8F6300", "#00694C", "#8E3F69", "#1F6E9C", "#000000"];
pub(super) const WAITING: &str = "#CFCFCF";
pub(super) const INSIDE: &str = "#3D3D3D";
pub(super) const WRONG: &str = "#C00000";
const LINE: &str = "#8A8A8A";

/// Dashes, so that kinds can be told apart without colours.
const DASHES: [&str; 6] = ["", "7 3", "2 2.5", "10 3 2 3", "14 4", "4 2 1 2"];

/// The colour and the dashes of a message kind; both differ for the first six kinds, the pair for
/// the first 36.
pub(super) fn style(kind: usize) -> (&'static str, &'static str) {
    (COLOURS[kind % COLOURS.len()], DASHES[(kind + kind / COLOURS.len()) % DASHES.len()])
}

pub(super) fn escape(text: &str) -> String {
    // XML cannot contain these characters, not even escaped.
    let never = |c: char| c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}');
    text.replace(never, "\u{FFFD}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Writes a one-line text; `anchor` is start, middle or end.
pub(super) fn text(
    out: &mut String,
    x: f64,
    y: f64,
    size: f64,
    colour: &str,
    anchor: &str,
    said: &str,
) {
    let said = escape(said);
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\" \
         text-anchor=\"{anchor}\">{said}</text>"
    );
}

/// On a linear scale with more messages than this, arrows have no labels: the legend shows the
/// kinds.
pub(super) const MOST_LABELS: usize = 150;

pub(super) fn draw(timeline: &Timeline, scale: Scale, title: &str, last: Option<Time>) -> String {
    let mut picture = SvgWriter::new(timeline, scale);
    picture.after(last);
    picture.violations();
    picture.lines();
    picture.bars();
    picture.stops();
    picture.messages();
    picture.marks();
    picture.mark_labels();
    if !picture.scale.is_even() || timeline.messages.len() <= MOST_LABELS {
        picture.message_labels();
    }
    picture.page(title)
}

pub(super) struct SvgWriter<'a> {
    pub(super) timeline: &'a Timeline,
    pub(super) scale: Scale,
    lane: f64,
    body: String,
    /// Texts are written last, above everything.
    texts: String,
    pub(super) taken: Taken,
}

impl<'a> SvgWriter<'a> {
    fn new(timeline: &'a Timeline, scale: Scale) -> Self {
        let lane = match timeline.shown.len() {
            0..=3 => 116.0,
            4..=6 => 96.0,
            7..=10 => 76.0,
            11..=20 => 60.0,
            _ => 40.0,
        };
        let lane = if timeline.moves { 64.0 } else { lane };
        let (body, texts) = (String::new(), String::new());
        Self { timeline, scale, lane, body, texts, taken: Taken::default() }
    }

    pub(super) fn x(&self, time: Time) -> f64 {
        self.scale.x(time)
    }

    /// The position of a process's line.
    #[allow(clippy::cast_precision_loss)] // Lines are few.
    pub(super) fn line(&self, node: NodeId) -> f64 {
        self.timeline.shown.partition_point(|other| *other < node) as f64
    }

    pub(super) fn y(&self, node: NodeId) -> f64 {
        TOP + self.lane * self.line(node)
    }

    pub(super) fn right(&self) -> f64 {
        self.scale.right()
    }

    fn bottom(&self) -> f64 {
        self.timeline.shown.last().map_or(TOP, |last| self.y(*last)) + 34.0
    }

    pub(super) fn put(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// Sets off the events after the last step of a scenario.
    fn after(&mut self, last: Option<Time>) {
        let after = |last: Time| self.timeline.times.iter().find(|time| **time > last);
        let (Some(&first), Scale::Columns { wide, .. }) = (last.and_then(after), &self.scale)
        else {
            return;
        };
        let (x, top) = (self.x(first) - wide / 2.0, TOP - 50.0);
        let (wide, high) = (self.right() - x, self.bottom() - top);
        self.put(&format!(
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" \
             fill=\"#F6F6F6\"/>"
        ));
        text(
            &mut self.texts,
            x + 4.0,
            TOP - 50.0 - 3.0,
            SMALL,
            "#666666",
            "start",
            "after the last step",
        );
    }

    /// Draws a red band through all lines at each violation.
    fn violations(&mut self) {
        let mut times: Vec<Time> = self.timeline.violations.iter().map(|(time, _)| *time).collect();
        times.dedup();
        for time in times {
            let (x, top, height) = (self.x(time) - 9.0, TOP - 34.0, self.bottom() - TOP + 40.0);
            self.put(&format!(
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"18\" height=\"{height:.1}\" \
                 fill=\"{WRONG}\" fill-opacity=\"0.22\"/>"
            ));
        }
    }

    /// Draws the lines of the processes, solid while they are up and dashed while they are down,
    /// and the time axis above.
    fn lines(&mut self) {
        let (left, right) = (LEFT, self.right());
        for time in self.scale.ticks() {
            let (x, bottom) = (self.x(time), self.bottom());
            let top = TOP - 30.0;
            self.put(&format!(
                "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#F0F0F0\" stroke-width=\"1\"/>"
            ));
            text(&mut self.texts, x, TOP - 36.0, SMALL, LINE, "middle", &time.to_string());
        }
        if self.scale.is_even() {
            text(&mut self.texts, LEFT - 12.0, TOP - 36.0, SMALL, LINE, "end", "t.u.");
            // Labels stay between the names and the edge.
            let (first, last) = self.scale.edges();
            let high = self.bottom();
            self.taken.take(Area { x: 0.0, y: 0.0, width: first - 4.0, height: high });
            self.taken.take(Area { x: last + 4.0, y: 0.0, width: 1000.0, height: high });
        }
        for &node in &self.timeline.shown {
            let y = self.y(node);
            text(&mut self.texts, LEFT - 12.0, y + 4.0, 14.0, "#000000", "end", &node.to_string());
            let mut from = left;
            let down = |absence: &&Absence| absence.node == node && !absence.stopped;
            for absence in self.timeline.absences.iter().filter(down) {
                let crash = self.x(absence.from).clamp(left, right);
                let back = absence.until.map_or(right, |until| self.x(until).min(right));
                self.put(&format!(
                    "<path d=\"M{from:.1} {y:.1}H{crash:.1}\" stroke=\"{LINE}\" \
                     stroke-width=\"1.5\"/>"
                ));
                self.put(&format!(
                    "<path d=\"M{crash:.1} {y:.1}H{back:.1}\" stroke=\"#C8C8C8\" \
                     stroke-width=\"1.2\" stroke-dasharray=\"2 5\"/>"
                ));
                from = back;
            }
            if from < right {
                self.put(&format!(
                    "<path d=\"M{from:.1} {y:.1}H{right:.1}\" stroke=\"{LINE}\" \
                     stroke-width=\"1.5\"/>"
                ));
            }
            self.taken.take(Area {
                x: 0.0,
                y: y - BAR - 1.0,
                width: right,
                height: 2.0 * BAR + 2.0,
            });
        }
    }

    fn bars(&mut self) {
        for bar in &self.timeline.bars {
            let (first, last) = self.scale.edges();
            let (from, y) = (self.x(bar.from).max(first), self.y(bar.node) - BAR);
            let until = if bar.open { self.right() } else { self.x(bar.until).min(last) };
            let (wide, high) = ((until - from).max(3.0), 2.0 * BAR);
            let colour = if bar.inside { INSIDE } else { WAITING };
            self.put(&format!(
                "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" \
                 fill=\"{colour}\"/>"
            ));
        }
    }

    /// Draws pauses above the bars: a paused process may wait or hold a slot.
    fn stops(&mut self) {
        let (first, last) = self.scale.edges();
        for absence in self.timeline.absences.iter().filter(|absence| absence.stopped) {
            let from = self.x(absence.from).clamp(first, last);
            let until = absence.until.map_or(last, |until| self.x(until).min(last));
            self.put(&legend::stopped(from, until, self.y(absence.node)));
        }
    }

    pub(super) fn cross(&mut self, x: f64, y: f64, arm: f64, colour: &str) {
        let wide = 2.0 * arm;
        let (left, top, bottom) = (x - arm, y - arm, y + arm);
        self.put(&format!(
            "<path d=\"M{left:.1} {top:.1}l{wide} {wide}M{left:.1} {bottom:.1}l{wide} -{wide}\" \
             stroke=\"{colour}\" stroke-width=\"2.2\"/>"
        ));
    }

    fn marks(&mut self) {
        for mark in &self.timeline.marks {
            let (x, y) = (self.x(mark.at), self.y(mark.node));
            let said = mark.label.as_deref().unwrap_or_default();
            self.put(&format!("<g><title>{} at {}: {}</title>", mark.node, mark.at, escape(said)));
            match mark.sign {
                Sign::Crash => self.cross(x, y, 8.0, "#000000"),
                Sign::Restart => self.put(&legend::restart(x, y)),
                Sign::Suspicion => self.put(&legend::suspicion(x, y)),
                Sign::Withdrawal => self.put(&legend::withdrawal(x, y)),
                Sign::Fault => self.put(&legend::fault(x, y)),
                Sign::Recovery | Sign::Move | Sign::Change => self.put(&legend::dot(x, y)),
            }
            self.put("</g>");
        }
    }

    /// Places the labels of marks. On a linear scale, labels without room are left out: they are
    /// shown when the pointer is on the mark.
    fn mark_labels(&mut self) {
        let must = !self.scale.is_even();
        for mark in &self.timeline.marks {
            let Some(label) = &mark.label else { continue };
            let (x, y) = (self.x(mark.at), self.y(mark.node));
            let (above, below) = (y - BAR - 8.0, y + BAR + 9.0);
            let wide = width(label, SMALL) / 2.0;
            let places = if mark.sign == Sign::Move {
                vec![(x, above), (x, below)]
            } else {
                vec![
                    (x + wide, above),
                    (x - wide, above),
                    (x + wide, below),
                    (x - wide, below),
                    (x, above - 12.0),
                ]
            };
            let places = places.into_iter().map(|(x, y)| Area::of(label, SMALL, x, y));
            if let Some(place) = self.taken.place(None, must, places) {
                self.label(place, SMALL, "#333333", label);
            }
        }
    }

    /// Writes a label on a white background, so that it stays readable on arrows.
    pub(super) fn label(&mut self, place: Area, size: f64, colour: &str, said: &str) {
        let (x, y, said) = (place.x + place.width / 2.0, place.y + 1.5 + size * 0.85, escape(said));
        let Area { x: left, y: top, width, height } = place;
        let _ = writeln!(
            self.texts,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             rx=\"3\" fill=\"#FFFFFF\" fill-opacity=\"0.8\"/><text x=\"{x:.1}\" y=\"{y:.1}\" \
             font-size=\"{size}\" fill=\"{colour}\" text-anchor=\"middle\" stroke=\"#FFFFFF\" \
             stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\">{said}</text>"
        );
    }

    /// The line below the heading.
    fn title(&self, title: &str) -> String {
        let timeline = self.timeline;
        let mut parts: Vec<String> =
            Some(title.to_owned()).filter(|title| !title.is_empty()).into_iter().collect();
        if self.scale.is_even() {
            parts.push("time in t.u. (think of seconds)".into());
        }
        if timeline.shown.len() < timeline.run.n as usize {
            parts.push(format!(
                "{} of {} processes and the messages among them",
                timeline.shown.len(),
                timeline.run.n
            ));
        }
        parts.join("; ")
    }

    fn page(mut self, title: &str) -> String {
        let run = &self.timeline.run;
        let title = &self.title(title);
        let wide = self.right().max(560.0).max(width(title, 12.0) + 16.0) + 16.0;
        let heading = format!("{}, n = {}, k = {}", run.protocol, run.n, run.k);
        text(&mut self.texts, 16.0, 26.0, 16.0, "#000000", "start", &heading);
        text(&mut self.texts, 16.0, 46.0, 12.0, "#444444", "start", title);
        let mut y = self.bottom() + 24.0;
        for (time, said) in &self.timeline.violations {
            for (row, line) in
                wrapped(&format!("VIOLATED at {time}: {said}"), wide - 32.0).iter().enumerate()
            {
                let indent = if row == 0 { 16.0 } else { 32.0 };
                text(&mut self.texts, indent, y, 12.0, WRONG, "start", line);
                y += 16.0;
            }
        }
        y = legend::draw(&mut self.texts, self.timeline, y + 8.0, wide);
        let mut heads = String::new();
        for kind in 0..self.timeline.kinds.len() {
            let (colour, _) = style(kind);
            let _ = writeln!(
                heads,
                "<marker id=\"head{kind}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" \
                 markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
                 <path d=\"M0 1L10 5L0 9Z\" fill=\"{colour}\"/></marker>"
            );
        }
        let high = y + 12.0;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide:.0}\" height=\"{high:.0}\" \
             viewBox=\"0 0 {wide:.0} {high:.0}\" font-family=\"Helvetica, Arial, \
             'Liberation Sans', 'DejaVu Sans', sans-serif\">\n<defs>\n{heads}</defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>\n<g fill=\"none\">\n{}</g>\n{}\
             </svg>\n",
            self.body, self.texts
        )
    }
}

/// Wraps a text into lines of about that width.
fn wrapped(said: &str, most: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in said.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && width(line, 12.0) + width(word, 12.0) > most {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// XML 1.0, section 2.2: control characters are no characters of a document.
    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(
            escape("a\u{1}\u{1b}[K\u{ffff}<\"&é"),
            "a\u{FFFD}\u{FFFD}[K\u{FFFD}&lt;&quot;&amp;é"
        );
    }
}
