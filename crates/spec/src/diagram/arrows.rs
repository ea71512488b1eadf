//! The messages of the diagram: their arrows, and labels along them.

use super::label::{Area, Arrow, Point};
use super::svg::{BAR, INKS, MOST_LABELS, SIZE, SvgWriter, escape, style};
use super::timeline::{End, Message};

impl SvgWriter<'_> {
    /// The arrow of a message, and whether it ends within the diagram.
    fn way(&self, message: &Message) -> (Arrow, bool) {
        let (from, to) = (self.y(message.from), self.y(message.to));
        let down = (to - from).signum();
        let start = (self.x(message.sent), from + down * BAR);
        let (column, share) = match message.end {
            End::Arrived(time) => (self.x(time), 1.0),
            End::Lost(time) => (self.x(time), 0.8),
            // On a linear scale the speed of the message is unknown.
            End::Open if self.scale.is_even() => ((start.0 + 60.0).min(self.right()), 0.4),
            End::Open => (self.right() - 8.0, 0.6),
        };
        let end = (column, to - down * (BAR + 1.0));
        let end = (part(start.0, end.0, share), part(start.1, end.1, share));
        if self.scale.is_even() {
            return self.cut(start, end);
        }
        // An arrow that passes other lines bends a little, so that it does not cover arrows to
        // them.
        let passed = ((self.line(message.from) - self.line(message.to)).abs() - 1.0).max(0.0);
        let bend =
            (part(start.0, end.0, 0.5) + (18.0 * passed).min(48.0), part(start.1, end.1, 0.5));
        (Arrow { from: start, bend, to: end }, true)
    }

    /// A straight arrow, cut to the diagram.
    fn cut(&self, start: Point, end: Point) -> (Arrow, bool) {
        let (first, last) = self.scale.edges();
        let at = |x: f64| (x, part(start.1, end.1, (x - start.0) / (end.0 - start.0)));
        let (from, to) = (
            if start.0 < first { at(first) } else { start },
            if end.0 > last { at(last) } else { end },
        );
        (
            Arrow { from, bend: (part(from.0, to.0, 0.5), part(from.1, to.1, 0.5)), to },
            end.0 <= last,
        )
    }

    pub(super) fn messages(&mut self) {
        for (number, message) in self.timeline.messages.iter().enumerate() {
            let (arrow, ends) = self.way(message);
            self.taken.take_arrow(number, &arrow);
            let Arrow { from: (ax, ay), bend: (cx, cy), to: (bx, by) } = arrow;
            let (colour, dashes) = style(message.kind);
            let head = match message.end {
                End::Arrived(_) if ends => format!(" marker-end=\"url(#head{})\"", message.kind),
                End::Arrived(_) | End::Lost(_) | End::Open => String::new(),
            };
            let wide = if self.timeline.messages.len() > MOST_LABELS { 1.1 } else { 1.6 };
            let said = escape(&said(&self.timeline.kinds[message.kind], message));
            self.put(&format!(
                "<path class=\"message\" d=\"M{ax:.1} {ay:.1}Q{cx:.1} {cy:.1} {bx:.1} {by:.1}\" \
                 stroke=\"{colour}\" stroke-width=\"{wide}\" \
                 stroke-dasharray=\"{dashes}\"{head}><title>{said}</title></path>"
            ));
            match message.end {
                End::Lost(_) if ends => self.cross(bx, by, 4.5, colour),
                End::Arrived(_) | End::Lost(_) => {}
                End::Open => self.put(&format!(
                    "<circle cx=\"{bx:.1}\" cy=\"{by:.1}\" r=\"3.2\" fill=\"#FFFFFF\" \
                     stroke=\"{colour}\" stroke-width=\"1.6\"/>"
                )),
            }
        }
    }

    /// Places the labels along the arrows.
    pub(super) fn message_labels(&mut self) {
        let must = !self.scale.is_even();
        // Short arrows first: they have fewer places for a label.
        let mut order: Vec<(usize, &Message)> = self.timeline.messages.iter().enumerate().collect();
        let length = |message: &Message| self.way(message).0.length();
        order.sort_by(|a, b| length(a.1).total_cmp(&length(b.1)));
        for (number, message) in order {
            let (arrow, _) = self.way(message);
            let along = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82, 0.1, 0.9]
                .map(|part| arrow.at(part));
            let aside = [0.0, 14.0, -14.0, 26.0, -26.0];
            let label = &message.label;
            let places = aside.iter().flat_map(|aside| {
                along.iter().map(move |(x, y)| Area::of(label, SIZE, x + aside, *y))
            });
            if let Some(place) = self.taken.place(Some(number), must, places) {
                self.label(place, SIZE, INKS[message.kind % INKS.len()], label);
            }
        }
    }
}

fn part(from: f64, to: f64, share: f64) -> f64 {
    from + (to - from) * share
}

/// The full text of a message, shown when the pointer is on its arrow.
fn said(kind: &str, message: &Message) -> String {
    let Message { from, to, sent, text, .. } = message;
    let end = match message.end {
        End::Arrived(time) => format!("delivered at {time}"),
        End::Lost(time) => format!("lost at {time}"),
        End::Open => "in transit".into(),
    };
    format!("{kind} from {from} to {to}, sent at {sent}, {end}: {text}")
}
