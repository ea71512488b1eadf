//! Plots as SVG in the style of figures in papers.
//!
//! White background, thin axes with units, a light grid, 95 % confidence intervals as error bars,
//! and a legend outside the plot area. Curves differ by colour (Okabe and Ito's palette, which
//! colour-blind readers can distinguish), by marker and by dashes, so that they remain
//! distinguishable in black and white. A curve that covers another is thinner, so that both are
//! visible.
//!
//! - `curves.rs`: the contents; `axis.rs`: scales and ticks; `style.rs`: colours, markers, dashes.
//!   The drawing is here. The same runs give the same bytes.

mod axis;
mod curves;
mod style;

#[cfg(test)]
mod tests;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::file::Plot;
use super::summary::Cell;
use curves::{Curve, Figure, figure};
use style::{PUBLISHED, Style};

type Sheet<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A drawn plot.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The SVG.
    pub svg: String,
    /// A note for the reader about points that could not be drawn.
    pub note: Option<String>,
}

/// Coordinates are integers, so the plot is drawn at twice its size.
const SCALE: u32 = 2;
const INK: RGBColor = RGBColor(34, 34, 34);
const GRID: RGBColor = RGBColor(226, 226, 226);
const FRAME: RGBColor = RGBColor(90, 90, 90);
/// Font sizes, in coordinates.
const SMALL: f64 = 32.0;
const MIDDLE: f64 = 35.0;
const LARGE: f64 = 40.0;

/// The layout of the sheet.
struct Layout {
    width: i32,
    height: i32,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    /// The legend's corner, and the distance between its lines.
    legend: (i32, i32),
    line: i32,
    /// The heading, in as many lines as it needs.
    title: Vec<String>,
    /// The heading of the legend: the parameter that distinguishes the curves, unless their names
    /// contain it.
    heading: Option<String>,
}

impl Layout {
    /// The legend is on the right, or below if its names are long.
    fn of(plot: &Plot, figure: &Figure) -> Self {
        const PLOT: (i32, i32) = (1160, 640);
        const MESSAGE: i32 = 15;
        const TITLE_MESSAGE: i32 = 22;
        let messages = |text: &String| i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 64);
        let ticks = figure.y.ticks.iter().map(|(_, label)| messages(label)).max().unwrap_or(1);
        let heading = (plot.series != "protocol")
            .then(|| plot.series_label.clone().unwrap_or(plot.series.clone()));
        let names = figure.curves.iter().map(|curve| messages(&curve.name)).max().unwrap_or(0);
        let names = names.max(heading.as_ref().map_or(0, messages) - 6);
        let lines = i32::try_from(figure.curves.len()).unwrap_or(0) + i32::from(heading.is_some());
        let (left, line) = (100 + ticks * MESSAGE, 46);
        let right = left + PLOT.0;
        let beside = names <= 22;
        let width = if beside { right + 156 + names * 16 } else { right + 40 };
        let title = wrapped(&plot.title, (width - left) / TITLE_MESSAGE);
        let top = 50 + 46 * i32::try_from(title.len()).unwrap_or(1);
        let bottom = top + PLOT.1;
        let (height, legend) = if beside {
            ((bottom + 140).max(top + lines * line + 40), (right + 36, top + 24))
        } else {
            (bottom + 160 + lines * line, (left, bottom + 156))
        };
        Self { width, height, left, right, top, bottom, legend, line, title, heading }
    }

    #[allow(clippy::cast_possible_truncation)] // Within the sheet.
    fn at(&self, across: f64, up: f64) -> (i32, i32) {
        let x = f64::from(self.left) + across * f64::from(self.right - self.left);
        let y = f64::from(self.bottom) - up * f64::from(self.bottom - self.top);
        (x.round() as i32, y.round() as i32)
    }
}

/// Wraps the words into lines of at most `most` characters.
fn wrapped(text: &str, most: i32) -> Vec<String> {
    let most = usize::try_from(most).unwrap_or(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Draws a plot of these cells.
pub fn draw(plot: &Plot, cells: &[Cell]) -> Result<Drawing, String> {
    let figure = figure(plot, cells);
    let layout = Layout::of(plot, &figure);
    let mut svg = String::new();
    let size = (layout.width.unsigned_abs(), layout.height.unsigned_abs());
    {
        let sheet = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        on_sheet(&sheet, plot, &figure, &layout)
            .map_err(|error| format!("the plot {}: {error}", plot.name))?;
    }
    let note = if figure.curves.is_empty() && figure.left_out.is_empty() {
        Some("No runs for this plot.".into())
    } else if figure.left_out.is_empty() {
        None
    } else {
        let text = figure.left_out.iter().map(|(name, points)| format!("{points} of {name}"));
        let text = text.collect::<Vec<_>>().join(", ");
        Some(format!("A logarithmic axis cannot show zero, so some points are missing: {text}."))
    };
    Ok(Drawing { svg: described(&svg, plot, &figure, size), note })
}

fn on_sheet(sheet: &Sheet<'_>, plot: &Plot, figure: &Figure, layout: &Layout) -> Drawn {
    sheet.fill(&WHITE)?;
    axes(sheet, plot, figure, layout)?;
    for curve in &figure.curves {
        draw_curve(sheet, figure, layout, curve)?;
    }
    legend(sheet, figure, layout)?;
    if figure.curves.is_empty() {
        let middle = layout.at(0.5, 0.5);
        text(sheet, "no runs for this plot", middle, MIDDLE, (HPos::Center, VPos::Center))?;
    }
    sheet.present()
}

fn axes(sheet: &Sheet<'_>, plot: &Plot, figure: &Figure, layout: &Layout) -> Drawn {
    let grid = GRID.stroke_width(2);
    let frame = FRAME.stroke_width(2);
    for (value, label) in &figure.x.ticks {
        let Some(place) = figure.x.place(*value) else { continue };
        let (x, bottom) = layout.at(place, 0.0);
        sheet.draw(&PathElement::new(vec![(x, layout.top), (x, bottom)], grid))?;
        sheet.draw(&PathElement::new(vec![(x, bottom), (x, bottom + 10)], frame))?;
        text(sheet, label, (x, bottom + 18), SMALL, (HPos::Center, VPos::Top))?;
    }
    for (value, label) in &figure.y.ticks {
        let Some(place) = figure.y.place(*value) else { continue };
        let (left, y) = layout.at(0.0, place);
        sheet.draw(&PathElement::new(vec![(left, y), (layout.right, y)], grid))?;
        sheet.draw(&PathElement::new(vec![(left - 10, y), (left, y)], frame))?;
        text(sheet, label, (left - 18, y), SMALL, (HPos::Right, VPos::Center))?;
    }
    let corners =
        [(layout.left, layout.top), (layout.left, layout.bottom), (layout.right, layout.bottom)];
    sheet.draw(&PathElement::new(corners, frame))?;
    let middle = ((layout.left + layout.right) / 2, (layout.top + layout.bottom) / 2);
    let title =
        TextStyle::from(("sans-serif", LARGE).into_font().style(FontStyle::Bold)).color(&INK);
    let title = title.pos(Pos::new(HPos::Left, VPos::Top));
    for (line, y) in layout.title.iter().zip((26..).step_by(46)) {
        sheet.draw(&Text::new(line.clone(), (layout.left, y), title.clone()))?;
    }
    text(sheet, &plot.x_label, (middle.0, layout.bottom + 72), MIDDLE, (HPos::Center, VPos::Top))?;
    let upright = ("sans-serif", MIDDLE).into_font().transform(FontTransform::Rotate270);
    let upright = TextStyle::from(upright).color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
    sheet.draw(&Text::new(plot.y_label.clone(), (22, middle.1), upright))
}

fn draw_curve(sheet: &Sheet<'_>, figure: &Figure, layout: &Layout, curve: &Curve) -> Drawn {
    let style = style_of(curve);
    let place = |x: f64, y: f64| Some(layout.at(figure.x.place(x)?, figure.y.place(y)?));
    let line: Vec<_> = curve.points.iter().filter_map(|point| place(point.x, point.y)).collect();
    for piece in style::dashed(&line, style.dashes) {
        sheet.draw(&PathElement::new(piece, style.colour.stroke_width(style.width)))?;
    }
    if curve.course {
        // A few markers distinguish the curves without covering them.
        let every = (line.len() / 8).max(1);
        let from = (curve.style * every / 8).min(every - 1);
        return line.iter().skip(from).step_by(every).try_for_each(|&at| marker(sheet, at, style));
    }
    for point in &curve.points {
        let half = point.half.unwrap_or(0.0);
        let ends = (
            place(point.x, point.y + half),
            place(point.x, point.y - half).or(place(point.x, f64::MIN_POSITIVE)),
        );
        if let (true, (Some(top), Some(bottom))) = (half > 0.0, ends) {
            let thin = style.colour.stroke_width(3);
            sheet.draw(&PathElement::new(vec![top, bottom], thin))?;
            for (x, y) in [top, bottom] {
                sheet.draw(&PathElement::new(vec![(x - 9, y), (x + 9, y)], thin))?;
            }
        }
    }
    line.iter().try_for_each(|&at| marker(sheet, at, style))
}

fn legend(sheet: &Sheet<'_>, figure: &Figure, layout: &Layout) -> Drawn {
    let (left, mut y) = layout.legend;
    if let Some(heading) = &layout.heading {
        text(sheet, heading, (left, y), SMALL, (HPos::Left, VPos::Center))?;
        y += layout.line;
    }
    for curve in &figure.curves {
        let style = style_of(curve);
        for piece in style::dashed(&[(left, y), (left + 76, y)], style.dashes) {
            sheet.draw(&PathElement::new(piece, style.colour.stroke_width(style.width)))?;
        }
        marker(sheet, (left + 38, y), style)?;
        text(sheet, &curve.name, (left + 92, y), SMALL, (HPos::Left, VPos::Center))?;
        y += layout.line;
    }
    Ok(())
}

fn style_of(curve: &Curve) -> Style {
    if curve.published { PUBLISHED } else { Style::of(curve.style) }
}

fn marker(sheet: &Sheet<'_>, (x, y): (i32, i32), style: Style) -> Drawn {
    let corners: Vec<_> = style.corners().into_iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    let edge = style.colour.stroke_width(4);
    if corners.is_empty() {
        let radius = style.size.unsigned_abs();
        sheet.draw(&Circle::new(
            (x, y),
            radius,
            if style.open { WHITE.filled() } else { style.colour.filled() },
        ))?;
        return sheet.draw(&Circle::new((x, y), radius, edge));
    }
    let fill = if style.open { WHITE } else { style.colour };
    sheet.draw(&Polygon::new(corners.clone(), fill.filled()))?;
    let closed: Vec<_> = corners.iter().chain(corners.first()).copied().collect();
    sheet.draw(&PathElement::new(closed, edge))
}

fn text(sheet: &Sheet<'_>, words: &str, at: (i32, i32), size: f64, (h, v): (HPos, VPos)) -> Drawn {
    let style = TextStyle::from(("sans-serif", size).into_font()).color(&INK).pos(Pos::new(h, v));
    sheet.draw(&Text::new(words.to_owned(), at, style))
}

/// The SVG at its final size, with a title and a description for screen readers.
fn described(svg: &str, plot: &Plot, figure: &Figure, (width, height): (u32, u32)) -> String {
    let escape = super::report::escape;
    let names: Vec<_> = figure.curves.iter().map(|curve| curve.name.as_str()).collect();
    let head = format!(
        "<svg width=\"{}\" height=\"{}\" viewBox=\"0 0 {width} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"{name}-title \
         {name}-desc\">\n<title id=\"{name}-title\">{}</title>\n\
         <desc id=\"{name}-desc\">{} over {}; curves: {}</desc>\n",
        width / SCALE,
        height / SCALE,
        escape(&plot.title),
        escape(&plot.y_label),
        escape(&plot.x_label),
        escape(&names.join(", ")),
        name = escape(&plot.name),
    );
    let body = svg.split_once(">\n").map_or(svg, |(_, body)| body);
    head + body
}
