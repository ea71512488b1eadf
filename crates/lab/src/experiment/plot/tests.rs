//! The contents of plots.

use super::super::summary::{summarise, tests::row};
use super::*;

fn plot(more: &str) -> Plot {
    let text = format!(
        "name = 'p'\ntitle = 'Units <allocated>'\ngrid = 'low'\ny = 'grants'\n\
         x_label = 'processes'\ny_label = 'units'\n{more}"
    );
    toml::from_str(&text).unwrap()
}

fn sizes() -> Vec<Cell> {
    let mut rows = Vec::new();
    for (protocol, factor) in [("raymond", 1.0), ("bas", 1.0), ("vcube", 0.4)] {
        for n in [8u32, 16, 32, 64, 128, 256, 512, 1024] {
            for seed in 1..=3u32 {
                let grants = factor * 9000.0 / f64::from(n) + f64::from(seed * n) / 10.0;
                let at = [("protocol", protocol), ("processes", &*n.to_string())];
                rows.push(row("low", &at, u64::from(seed), &[("grants", grants), ("none", 0.0)]));
            }
        }
    }
    summarise(&rows)
}

/// Every size is a tick, every protocol is in the legend, text is escaped, there is a description,
/// and the bytes are the same each time.
#[test]
fn sizes_on_a_logarithmic_axis() {
    let plot = plot("x = 'processes'\nseries = 'protocol'\nlog_x = true");
    let drawing = draw(&plot, &sizes()).unwrap();
    for word in [
        "\n8\n",
        "\n1024\n",
        "raymond",
        "bas",
        "vcube",
        "Units &lt;allocated&gt;",
        "<desc",
        "#0072B2",
    ] {
        assert!(drawing.svg.contains(word), "{word}");
    }
    assert_eq!(drawing.svg, draw(&plot, &sizes()).unwrap().svg);
    assert_eq!(drawing.note, None);
}

/// A protocol keeps its colour when others are left out.
#[test]
fn a_value_looks_alike_in_all_plots() {
    let all = figure(&plot("x = 'processes'\nseries = 'protocol'"), &sizes());
    let some = figure(
        &plot("x = 'processes'\nseries = 'protocol'\nonly = { protocol = 'vcube' }"),
        &sizes(),
    );
    assert_eq!((all.curves[2].name.as_str(), all.curves[2].style), ("vcube", 2));
    assert_eq!((some.curves.len(), some.curves[0].style), (1, 2));
}

/// Parameters other than axis and series get curves of their own instead of being averaged.
#[test]
fn nothing_is_mixed() {
    let figure = figure(&plot("x = 'protocol'\nseries = 'colour'"), &sizes());
    assert_eq!(figure.curves.len(), 8);
    assert_eq!(figure.curves[0].name, "processes 8");
    assert_eq!(figure.curves[0].points.len(), 3);
}

/// Zeros cannot be shown on a logarithmic axis, and a note says so. A plot without runs says so
/// too.
#[test]
fn points_that_cannot_be_drawn_are_noted() {
    let mut zero = plot("x = 'processes'\nseries = 'protocol'\nlog_y = true");
    zero.y = "none".into();
    let note = draw(&zero, &sizes()).unwrap().note.unwrap();
    assert!(note.ends_with("8 of raymond, 8 of bas, 8 of vcube."), "{note}");
    let nothing =
        draw(&plot("x = 'n'\nseries = 'protocol'\nonly = { protocol = 'slots' }"), &sizes())
            .unwrap();
    assert_eq!(nothing.note.as_deref(), Some("No runs for this plot."));
}

/// A time series is drawn at the midpoints of its windows.
#[test]
fn a_course_over_time() {
    let mut run = row("low", &[("protocol", "raymond")], 1, &[("u.window", 2.0)]);
    run.series.insert("u.series".into(), vec![3.0, 4.0]);
    let mut plot = plot("x = 'time'\nseries = 'protocol'");
    plot.y = "u.series".into();
    let figure = figure(&plot, &summarise(&[run]));
    let places: Vec<_> = figure.curves[0].points.iter().map(|point| (point.x, point.y)).collect();
    assert_eq!(places, [(1.0, 3.0), (3.0, 4.0)]);
}

/// Dashes follow the line: 10 on, 5 off along a line of 40 that bends.
#[test]
fn dashes_go_round_corners() {
    let pieces = style::dashed(&[(0, 0), (20, 0), (20, 20)], &[10.0, 5.0]);
    assert_eq!(
        pieces,
        [vec![(0, 0), (10, 0)], vec![(15, 0), (20, 0), (20, 5)], vec![(20, 10), (20, 20)]]
    );
}

/// A long title is wrapped within the sheet, and a legend of bare numbers has a heading.
#[test]
fn long_titles_and_bare_numbers() {
    let long = "Messages sent in each interval of five time units while a crash happens at the \
                beginning of each of them";
    let mut plot = plot("x = 'protocol'\nseries = 'processes'\nseries_label = 'how many'");
    plot.title = long.into();
    let cells = sizes();
    let layout = Layout::of(&plot, &figure(&plot, &cells));
    assert!(layout.title.len() == 2 && layout.title.join(" ") == long, "{:?}", layout.title);
    assert!(draw(&plot, &cells).unwrap().svg.contains("how many"));
}
