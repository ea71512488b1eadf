//! Short texts, and places on paper where they hide nothing.

/// A rectangle on paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    /// The area of a text of one line around its middle.
    pub(super) fn of(text: &str, size: f64, x: f64, y: f64) -> Self {
        let width = width(text, size);
        Self { x: x - width / 2.0, y: y - size / 2.0, width, height: size }
    }

    /// How much of it another one covers.
    fn overlap(&self, other: &Self) -> f64 {
        let along = |a: f64, b: f64, c: f64, d: f64| ((a + b).min(c + d) - a.max(c)).max(0.0);
        along(self.x, self.width, other.x, other.width) * along(self.y, self.height, other.y, other.height)
    }
}

/// How wide a text is, about: fonts differ.
#[allow(clippy::cast_precision_loss)] // Texts are short.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56 + 4.0
}

/// The areas that are taken.
#[derive(Default)]
pub(super) struct Taken(Vec<Area>);

impl Taken {
    pub(super) fn take(&mut self, area: Area) {
        self.0.push(area);
    }

    /// The first of these places that covers nothing, or the one that covers least; it is taken from now on.
    pub(super) fn place(&mut self, candidates: impl Iterator<Item = Area>) -> Area {
        let mut best: Option<(f64, Area)> = None;
        for area in candidates {
            let covers: f64 = self.0.iter().map(|taken| taken.overlap(&area)).sum();
            if best.is_none_or(|(least, _)| covers < least) {
                best = Some((covers, area));
            }
            if covers == 0.0 {
                break;
            }
        }
        let (_, area) = best.expect("a text has some place");
        self.take(area);
        area
    }
}

/// So much of what a message says stands beside its kind.
const LONGEST: usize = 16;

/// A message's kind and a little of what it says: the plain fields of its outermost part, as long as they fit.
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

/// Without wrappers such as `Spread(..)`.
fn inner(text: &str) -> &str {
    match (text.find('('), text.find('{')) {
        (Some(open), brace) if brace.is_none_or(|brace| open < brace) && text.ends_with(')') => {
            inner(&text[open + 1..text.len() - 1])
        }
        _ => text,
    }
}

/// The fields of `Name { a: 1, b: Other { c: 2 } }` that are no structures themselves; of `7`, itself.
fn plain_fields(text: &str) -> Vec<(&str, &str)> {
    let Some(open) = text.find('{') else {
        let plain = text.chars().all(|letter| letter.is_ascii_digit() || letter == '@');
        return if plain && !text.is_empty() { vec![("", text)] } else { Vec::new() };
    };
    let body = text[open + 1..].trim_end();
    let body = body.strip_suffix('}').unwrap_or(body);
    let mut fields = Vec::new();
    let (mut depth, mut start) = (0u32, 0);
    let ends = body.char_indices().chain([(body.len(), ',')]);
    for (place, letter) in ends {
        match letter {
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
