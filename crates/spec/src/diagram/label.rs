//! Short texts, and free places for them.

/// A rectangle of the diagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    /// The area of a one-line text around its centre.
    pub(super) fn of(text: &str, size: f64, x: f64, y: f64) -> Self {
        let (width, height) = (width(text, size), size + 3.0);
        Self { x: x - width / 2.0, y: y - height / 2.0, width, height }
    }

    fn holds(&self, (x, y): Point) -> bool {
        (self.x..self.x + self.width).contains(&x) && (self.y..self.y + self.height).contains(&y)
    }

    /// The area that another rectangle covers.
    fn overlap(&self, other: &Self) -> f64 {
        let along = |a: f64, b: f64, c: f64, d: f64| ((a + b).min(c + d) - a.max(c)).max(0.0);
        along(self.x, self.width, other.x, other.width)
            * along(self.y, self.height, other.y, other.height)
    }
}

/// A point of the diagram.
pub(super) type Point = (f64, f64);

/// From one point to another, with a bend.
pub(super) struct Arrow {
    pub(super) from: Point,
    pub(super) bend: Point,
    pub(super) to: Point,
}

impl Arrow {
    /// The point at that part of the arrow.
    pub(super) fn at(&self, part: f64) -> Point {
        let (a, b, c) = ((1.0 - part).powi(2), 2.0 * part * (1.0 - part), part.powi(2));
        let along = |from: f64, bend: f64, to: f64| a * from + b * bend + c * to;
        (along(self.from.0, self.bend.0, self.to.0), along(self.from.1, self.bend.1, self.to.1))
    }

    /// The approximate length.
    pub(super) fn length(&self) -> f64 {
        (self.to.0 - self.from.0).hypot(self.to.1 - self.from.1)
    }
}

/// The approximate width of a text: fonts differ.
#[allow(clippy::cast_precision_loss)] // Texts are short.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56 + 4.0
}

/// The occupied places.
#[derive(Default)]
pub(super) struct Taken {
    areas: Vec<Area>,
    /// Points along every arrow, with the arrow's number.
    arrows: Vec<(usize, Point)>,
}

/// The distance of the points along an arrow, and the cost of covering one, as an area.
const APART: f64 = 5.0;
const CROSSED: f64 = 12.0;

impl Taken {
    pub(super) fn take(&mut self, area: Area) {
        self.areas.push(area);
    }

    // A page is small.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn take_arrow(&mut self, number: usize, arrow: &Arrow) {
        let points = (arrow.length() / APART) as usize + 1;
        let along = |point| arrow.at(point as f64 / points as f64);
        self.arrows.extend((0..=points).map(|point| (number, along(point))));
    }

    /// Takes the first free place; with `must`, otherwise the one that covers least. A label may
    /// cover its own arrow.
    pub(super) fn place(
        &mut self,
        own: Option<usize>,
        must: bool,
        candidates: impl Iterator<Item = Area>,
    ) -> Option<Area> {
        let mut best: Option<(f64, Area)> = None;
        for area in candidates {
            let covered: f64 = self.areas.iter().map(|taken| taken.overlap(&area)).sum();
            let others = self
                .arrows
                .iter()
                .filter(|(number, point)| Some(*number) != own && area.holds(*point));
            #[allow(clippy::cast_precision_loss)] // Few points fit into a label.
            let covers = covered + CROSSED * others.count() as f64;
            if best.is_none_or(|(least, _)| covers < least) {
                best = Some((covers, area));
            }
            if covers == 0.0 {
                break;
            }
        }
        let (_, area) = best.filter(|(covers, _)| must || *covers == 0.0)?;
        self.take(area);
        Some(area)
    }
}

/// Largest number of characters of a message's text beside its kind.
const LONGEST: usize = 16;

/// The kind of a message and the plain fields of its outermost structure, as far as they fit.
pub(super) fn short(kind: &str, message: &str) -> String {
    let fields = plain_fields(inner(message));
    let mut said = match &fields[..] {
        [] => return kind.to_owned(),
        [(_, value)] => (*value).to_owned(),
        [(name, value), ..] => format!("{name} {value}.."),
    };
    if said.chars().count() > LONGEST {
        said = said.chars().take(LONGEST).chain("..".chars()).collect();
    }
    format!("{kind} {said}")
}

/// Without wrappers such as `Broadcast(..)`.
fn inner(text: &str) -> &str {
    match (text.find('('), text.find('{')) {
        (Some(open), brace) if brace.is_none_or(|brace| open < brace) && text.ends_with(')') => {
            inner(&text[open + 1..text.len() - 1])
        }
        _ => text,
    }
}

/// The fields of `Name { a: 1, b: Other { c: 2 } }` that are not structures; for `7`, itself.
fn plain_fields(text: &str) -> Vec<(&str, &str)> {
    let Some(open) = text.find('{') else {
        let plain = text.chars().all(|character| character.is_ascii_digit() || character == '@');
        return if plain && !text.is_empty() { vec![("", text)] } else { Vec::new() };
    };
    let body = text[open + 1..].trim_end();
    let body = body.strip_suffix('}').unwrap_or(body);
    let mut fields = Vec::new();
    let (mut depth, mut start) = (0u32, 0);
    let ends = body.char_indices().chain([(body.len(), ',')]);
    for (place, character) in ends {
        match character {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                fields.extend(body[start..place].split_once(": "));
                start = (place + 1).min(body.len());
            }
            _ => {}
        }
    }
    fields
        .into_iter()
        .map(|(name, value)| (name.trim(), value.trim()))
        .filter(|(_, value)| !value.contains(['{', '(', '[']))
        .collect()
}
