//! The contents of the reports; `browser.rs` opens one in a real browser.

#[cfg(feature = "browser")]
mod browser;

use super::super::plot::draw;
use super::super::summary::tests::row;
use super::*;

const TEXT: &str = r#"
name = "small"
title = "A <small> one"
paper = "Somebody & others"
about = "First.\n\nSecond."

[[grid]]
name = "low"
vary = { protocol = ["raymond", "vcube"], processes = [8, 16] }

[[plot]]
name = "grants"
title = "Units"
figure = "6(a)"
grid = "low"
x = "processes"
y = "grants"
series = "protocol"
x_label = "processes"
y_label = "slots"

[[fact]]
id = "A1"
place = "figure 6"
claim = "raymond is ahead"
[[fact.check]]
grid = "low"
metric = "grants"
left = { protocol = "raymond" }
is = "greater"
right = { protocol = "vcube" }

[[fact]]
id = "A2"
place = "figure 6"
claim = "vcube is ahead"
[[fact.check]]
grid = "low"
metric = "grants"
left = { protocol = "vcube" }
is = "greater"
right = { protocol = "raymond" }

[[fact]]
id = "A3"
place = "figure 7"
claim = "unknown"
cannot = "no setting is given"
"#;

fn results() -> Results {
    let mut rows = Vec::new();
    for (protocol, grants) in [("raymond", 9.0), ("vcube", 4.0)] {
        for n in ["8", "16"] {
            rows.push(row(
                "low",
                &[("protocol", protocol), ("processes", n)],
                1,
                &[("grants", grants)],
            ));
        }
    }
    Results::of(Experiment::parse(TEXT).unwrap(), &rows)
}

fn small() -> String {
    let results = results();
    let drawings: Vec<_> =
        results.experiment.plot.iter().map(|plot| draw(plot, &results.cells).unwrap()).collect();
    page(&results, &drawings)
}

/// A report contains claim, numbers, all three verdicts, the figure, and the command of every
/// point.
#[test]
fn a_page_is_complete() {
    let page = small();
    let words = [
        "A &lt;small&gt; one",
        "Somebody &amp; others",
        "<p>First.</p>",
        "<p>Second.</p>",
        "raymond is ahead",
        "9 against 4",
        "class=\"verdict reproduced\"",
        "class=\"verdict not-reproduced\"",
        "class=\"verdict cannot-be-checked\"",
        "no setting is given",
        "<svg",
        "figure 6(a)",
        "kgate sim --processes 16 --protocol vcube --seed 1",
        "kgate lab run small",
        "3 published facts: 1 reproduced, 1 not reproduced, 1 that cannot be checked.",
    ];
    for word in words {
        assert!(page.contains(word), "{word}");
    }
    assert_eq!(page, small());
}

/// A report loads nothing: no script, no link to a style or a picture, and no address but the
/// namespace of SVG.
#[test]
fn a_page_needs_nothing() {
    let page = small().replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "<script", "<link", "<img", "@import", "url(", "src="] {
        assert!(!page.contains(word), "{word}");
    }
}

/// The index has every experiment with its verdicts and a link.
#[test]
fn an_index_links_to_its_pages() {
    let results = results();
    let page = index(&[("small".into(), &results)]);
    assert!(
        page.contains("<a href=\"small/report.html\">small</a>") && page.contains("vcube is ahead")
    );
}
