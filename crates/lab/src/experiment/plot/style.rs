//! The style of a curve: colour, marker and dashes, all three different for each.

use plotters::style::RGBColor;

/// The style of a curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) colour: RGBColor,
    pub(super) marker: Marker,
    /// Whether the marker is filled with white.
    pub(super) open: bool,
    /// The distance from the centre of the marker to its edge.
    pub(super) size: i32,
    /// The width of the line.
    pub(super) width: u32,
    /// Lengths of dashes and gaps, in turn; empty for a solid line.
    pub(super) dashes: &'static [f64],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
}

/// Published curves are grey and dotted.
pub(super) const PUBLISHED: Style = Style {
    colour: RGBColor(110, 110, 110),
    marker: Marker::Diamond,
    open: true,
    size: 11,
    width: 4,
    dashes: &[4.0, 10.0],
};

/// Okabe and Ito, *Color Universal Design* (2008), without yellow, which is hardly visible on
/// white.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(86, 180, 233),
];
const DASHES: [&[f64]; 5] =
    [&[], &[22.0, 12.0], &[6.0, 10.0], &[28.0, 10.0, 6.0, 10.0], &[12.0, 8.0]];
const MARKERS: [(Marker, bool); 8] = [
    (Marker::Circle, false),
    (Marker::Square, false),
    (Marker::Triangle, false),
    (Marker::Diamond, false),
    (Marker::Circle, true),
    (Marker::Square, true),
    (Marker::Triangle, true),
    (Marker::Diamond, true),
];

impl Style {
    /// The style of the curve with this number. Later curves are thinner, so that those below them
    /// remain visible.
    pub(super) fn of(number: usize) -> Self {
        let (marker, open) = MARKERS[number % MARKERS.len()];
        let late = i32::try_from(number % 4).expect("less than four");
        Self {
            colour: COLOURS[number % COLOURS.len()],
            marker,
            open,
            size: 13 - 2 * late,
            width: 7 - late.unsigned_abs(),
            dashes: DASHES[number % DASHES.len()],
        }
    }

    /// The marker's corners relative to its centre; a circle has none.
    pub(super) fn corners(&self) -> Vec<(i32, i32)> {
        let s = self.size;
        match self.marker {
            Marker::Circle => vec![],
            Marker::Square => vec![(-s, -s), (s, -s), (s, s), (-s, s)],
            Marker::Triangle => vec![(0, -s - 2), (s + 1, s - 2), (-s - 1, s - 2)],
            Marker::Diamond => vec![(0, -s - 3), (s + 3, 0), (0, s + 3), (-s - 3, 0)],
        }
    }
}

/// A line cut into its dashes.
pub(super) fn dashed(line: &[(i32, i32)], dashes: &[f64]) -> Vec<Vec<(i32, i32)>> {
    if dashes.is_empty() || line.len() < 2 {
        return if line.len() < 2 { vec![] } else { vec![line.to_vec()] };
    }
    let mut pieces = Vec::new();
    let mut piece = vec![line[0]];
    let (mut part, mut left) = (0, dashes[0]);
    for ends in line.windows(2) {
        let (from, to) = (ends[0], ends[1]);
        let across = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = across.0.hypot(across.1);
        let mut gone = 0.0;
        while length - gone > left {
            gone += left;
            let at = between(from, across, gone / length);
            if part % 2 == 0 {
                piece.push(at);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![at];
            }
            part = (part + 1) % dashes.len();
            left = dashes[part];
        }
        left -= length - gone;
        if part % 2 == 0 {
            piece.push(to);
        }
    }
    if part % 2 == 0 && piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

#[allow(clippy::cast_possible_truncation)] // Within the sheet.
fn between(from: (i32, i32), across: (f64, f64), share: f64) -> (i32, i32) {
    let place = |start: i32, way: f64| (f64::from(start) + way * share).round() as i32;
    (place(from.0, across.0), place(from.1, across.1))
}
