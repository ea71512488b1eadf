//! Every relation is accepted where it holds and rejected where it does not; missing or incorrect
//! runs are never green.

use super::super::summary::{summarise, tests::row};
use super::super::{Mean, Row};
use super::*;

/// Three protocols at four sizes; `y` falls for the first, grows for the second, peaks at 32 for
/// the third.
fn rows() -> Vec<Row> {
    let curves = [
        ("ray", [9.0, 7.0, 4.0, 1.0]),
        ("bas", [1.0, 2.0, 4.0, 8.0]),
        ("vcube", [2.0, 6.0, 5.0, 3.0]),
    ];
    let mut rows = Vec::new();
    for (protocol, values) in curves {
        for (n, value) in ["8", "32", "128", "512"].into_iter().zip(values) {
            let measured = [("y", value), ("double", 2.0 * value), ("same", 5.0)];
            rows.push(row("low", &[("protocol", protocol), ("n", n)], 1, &measured));
            rows.push(row(
                "high",
                &[("protocol", protocol), ("n", n), ("load", "high")],
                1,
                &[("y", value + 1.0)],
            ));
        }
    }
    rows
}

fn fact(checks: &str) -> Fact {
    let text = format!("id = 'F'\nplace = 'figure 1'\nclaim = 'so it is'\ncheck = [{checks}]");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn verdict(checks: &str) -> Verdict {
    evaluate(&fact(checks), &summarise(&rows()))
}

const GREEN: Outcome = Outcome::Reproduced;
const RED: Outcome = Outcome::NotReproduced;
const GREY: Outcome = Outcome::Cannot;

/// Every relation, once where it holds and (planted) once where it does not: a check must be able
/// to fail.
#[test]
fn every_relation_can_be_true_and_false() {
    let cases = [
        (
            "left = { protocol = 'ray' }, is = 'greater', right = { protocol = 'bas' }, \
             only = { n = [8, 32] }",
            GREEN,
        ),
        ("left = { protocol = 'ray' }, is = 'greater', right = { protocol = 'bas' }", RED),
        (
            "left = { protocol = 'ray' }, is = 'less', right = { protocol = 'bas' }, \
             only = { n = 512 }",
            GREEN,
        ),
        (
            "left = { protocol = 'ray' }, is = 'less', right = { protocol = 'bas' }, \
             only = { n = 128 }",
            RED,
        ),
        (
            "left = { protocol = 'ray' }, is = 'equal', right = { protocol = 'bas' }, \
             only = { n = 128 }",
            GREEN,
        ),
        (
            "left = { protocol = 'ray' }, is = 'equal', right = { protocol = 'bas' }, \
             only = { n = 32 }",
            RED,
        ),
        (
            "left = { protocol = 'ray' }, is = 'equal', value = 4.1, within = 0.05, \
             only = { n = 128 }",
            GREEN,
        ),
        (
            "left = { protocol = 'ray' }, is = 'equal', value = 4.1, within = 0.01, \
             only = { n = 128 }",
            RED,
        ),
        ("is = 'most', value = 9", GREEN),
        ("is = 'most', value = 8.9", RED),
        ("is = 'least', value = 1", GREEN),
        ("is = 'least', value = 1.1", RED),
        ("only = { protocol = 'bas' }, is = 'grows', along = 'n'", GREEN),
        ("only = { protocol = 'vcube' }, is = 'grows', along = 'n'", RED),
        (
            "only = { protocol = 'vcube', n = [8, 32, 128] }, is = 'grows', within = 0.2, \
             along = 'n'",
            GREEN,
        ),
        ("only = { protocol = 'ray' }, is = 'falls', along = 'n'", GREEN),
        ("only = { protocol = ['ray', 'vcube'] }, is = 'falls', along = 'n'", RED),
        (
            "only = { protocol = 'vcube', n = [32, 128] }, is = 'flat', within = 0.1, along = 'n'",
            GREEN,
        ),
        (
            "only = { protocol = 'vcube', n = [32, 128] }, is = 'flat', within = 0.05, along = 'n'",
            RED,
        ),
        ("only = { protocol = 'vcube' }, is = 'peaks', along = 'n', between = [16, 64]", GREEN),
        (
            "only = { protocol = 'vcube' }, is = 'peaks', within = 0.1, along = 'n', \
             between = [16, 64]",
            GREEN,
        ),
        (
            "only = { protocol = 'vcube' }, is = 'peaks', within = 0.2, along = 'n', \
             between = [16, 64]",
            RED,
        ),
        ("only = { protocol = 'bas' }, is = 'peaks', along = 'n', between = [16, 64]", RED),
        ("is = 'equal', right_metric = 'double', times = 0.5", GREEN),
        ("is = 'equal', right_metric = 'double'", RED),
        ("left = { protocol = 'bas' }, is = 'less', right_grid = 'high'", GREEN),
        ("left = { protocol = 'bas' }, is = 'equal', right_grid = 'high'", RED),
    ];
    for (check, outcome) in cases {
        let verdict = verdict(&format!("{{ grid = 'low', metric = 'y', {check} }}"));
        assert_eq!(verdict.outcome, outcome, "{check}: {}", verdict.measured);
        assert!(!verdict.places.is_empty() && !verdict.measured.is_empty());
    }
}

/// `always` fails by one place; `mostly` needs more than half, and half is not more than half.
#[test]
fn always_and_mostly() {
    let ahead = "grid = 'low', metric = 'y', left = { protocol = 'vcube' }, is = 'greater', \
                 right = { protocol = 'bas' }";
    assert_eq!(verdict(&format!("{{ {ahead} }}")).outcome, RED);
    assert_eq!(verdict(&format!("{{ {ahead}, how_often = 'mostly' }}")).outcome, GREEN, "3 of 4");
    assert_eq!(
        verdict(&format!("{{ {ahead}, how_often = 'mostly', only = {{ n = [128, 512] }} }}"))
            .outcome,
        RED
    );
}

/// A tie with a place outside is no peak.
#[test]
fn a_plateau_is_no_peak() {
    let check = "{ grid = 'low', metric = 'same', only = { protocol = 'ray' }, is = 'peaks', \
                 along = 'n', between = [16, 64] }";
    assert_eq!(verdict(check).outcome, RED);
}

/// One failing check makes the fact fail, and a check without runs keeps the fact from being green.
#[test]
fn all_checks_must_hold() {
    let good = "{ grid = 'low', metric = 'y', is = 'most', value = 9 }";
    let bad = "{ grid = 'low', metric = 'y', is = 'most', value = 2 }";
    let grey = "{ grid = 'low', metric = 'y', only = { n = 1024 }, is = 'most', value = 9 }";
    assert_eq!(verdict(&format!("{good}, {bad}, {grey}")).outcome, RED);
    assert_eq!(verdict(&format!("{good}, {grey}")).outcome, GREY);
    assert_eq!(verdict("").outcome, GREY);
}

/// Without runs a fact cannot be checked, and its text names what is missing, also where only a
/// part is missing.
#[test]
fn missing_runs_are_not_green() {
    let cases = [
        (
            "grid = 'low', metric = 'y', only = { n = [1024, 2048] }, is = 'least', value = 0",
            "n=1024, n=2048",
        ),
        ("grid = 'none', metric = 'y', is = 'least', value = 0", "no run of the grid none"),
        (
            "grid = 'low', metric = 'y', is = 'less', right = { protocol = 'slots' }",
            "protocol=slots",
        ),
        (
            "grid = 'low', metric = 'y', only = { n = 8 }, is = 'grows', along = 'n'",
            "at least two points",
        ),
        ("grid = 'low', metric = 'y', is = 'grows', along = 'load'", "does not vary load"),
        ("grid = 'low', metric = 'y', is = 'grows', along = 'protocol'", "is not a number"),
        (
            "grid = 'low', metric = 'y', is = 'peaks', along = 'n', between = [600, 900]",
            "no runs between",
        ),
        (
            "grid = 'low', metric = 'y', is = 'peaks', along = 'n', between = [1, 900]",
            "no runs outside",
        ),
    ];
    for (check, why) in cases {
        let verdict = verdict(&format!("{{ {check} }}"));
        assert_eq!(verdict.outcome, GREY, "{check}: {}", verdict.measured);
        assert!(verdict.measured.contains(why), "{}", verdict.measured);
    }
    let some = verdict(
        "{ grid = 'low', metric = 'y', only = { n = [8, 1024] }, is = 'least', value = 0 }",
    );
    assert_eq!(some.outcome, GREEN);
    assert!(some.measured.contains("n=1024 not run"), "{}", some.measured);
}

/// A metric that is absent, or not a number, is never green, whether everywhere, at one place, or
/// in one seed.
#[test]
fn an_absent_metric_is_not_green() {
    for relation in ["greater", "less", "equal", "most", "least"] {
        let check = format!("{{ grid = 'low', metric = 'z', is = '{relation}', value = 0 }}");
        assert_eq!(verdict(&check).outcome, GREY, "{relation}");
    }
    for relation in ["grows", "falls", "flat"] {
        let check =
            format!("{{ grid = 'low', metric = 'z', is = '{relation}', within = 9, along = 'n' }}");
        assert_eq!(verdict(&check).outcome, GREY, "{relation}");
    }
    let mut rows = rows();
    rows[0].measured.insert("y".into(), f64::NAN);
    let cells = summarise(&rows);
    for check in ["is = 'least', value = 0", "is = 'flat', within = 9, along = 'n'"] {
        let verdict =
            evaluate(&fact(&format!("{{ grid = 'low', metric = 'y', {check} }}")), &cells);
        assert_eq!(verdict.outcome, RED, "{check}: {}", verdict.measured);
    }
    let mut second = rows[2].clone();
    second.seed = 2;
    second.measured.remove("y");
    let cells = summarise(&[rows[2].clone(), second]);
    let verdict =
        evaluate(&fact("{ grid = 'low', metric = 'y', is = 'least', value = 0 }"), &cells);
    assert_eq!(verdict.outcome, GREY, "{}", verdict.measured);
    // The file has a number that is NaN.
    assert_eq!(
        self::verdict("{ grid = 'low', metric = 'y', is = 'most', value = nan }").outcome,
        RED
    );
    assert_eq!(
        self::verdict("{ grid = 'low', metric = 'y', is = 'grows', within = nan, along = 'n' }")
            .outcome,
        RED
    );
}

/// Planted: a run with a violation. No fact that uses it is green, except facts about the metric
/// `correct`.
#[test]
fn a_run_that_is_not_correct_is_not_green() {
    let mut rows = rows();
    rows[0].correct = false;
    let cells = summarise(&rows);
    for check in
        ["is = 'least', value = 0", "only = { protocol = 'ray' }, is = 'falls', along = 'n'"]
    {
        let verdict =
            evaluate(&fact(&format!("{{ grid = 'low', metric = 'y', {check} }}")), &cells);
        assert_eq!(verdict.outcome, RED);
        assert!(verdict.measured.contains("1 of its runs are incorrect"), "{}", verdict.measured);
    }
    let asked = "{ grid = 'low', metric = 'correct', only = { protocol = 'ray', n = 8 }, \
                 is = 'equal', value = 0 }";
    assert_eq!(evaluate(&fact(asked), &cells).outcome, GREEN);
}

/// A fact that the file declares uncheckable is not checked, whatever the runs show.
#[test]
fn cannot_stays_cannot() {
    let mut fact = fact("{ grid = 'low', metric = 'y', is = 'most', value = 9 }");
    fact.cannot = Some("the paper does not give the interval".into());
    let verdict = evaluate(&fact, &summarise(&rows()));
    assert_eq!(
        (verdict.outcome, verdict.measured.as_str()),
        (GREY, "the paper does not give the interval")
    );
}

/// A time series is a curve too.
#[test]
fn a_course_grows() {
    let mut row = row("low", &[("protocol", "ray")], 1, &[("u.window", 10.0)]);
    row.series.insert("u.series".into(), vec![1.0, 2.0, 2.0, 5.0]);
    let cells = summarise(&[row]);
    let check = |is: &str| {
        fact(&format!("{{ grid = 'low', metric = 'u.series', along = 'time', is = '{is}' }}"))
    };
    assert_eq!(evaluate(&check("grows"), &cells).outcome, GREEN);
    assert_eq!(evaluate(&check("falls"), &cells).outcome, RED);
    let late = fact("{ grid = 'low', metric = 'u.series.3', is = 'equal', value = 5 }");
    assert_eq!(evaluate(&late, &cells).outcome, GREEN);
}

/// The text lists the numbers with their intervals: first the places where the relation fails, then
/// those where it holds, and it marks overlapping intervals.
#[test]
fn a_verdict_tells_the_numbers() {
    let ahead = "{ grid = 'low', metric = 'y', left = { protocol = 'ray' }, is = 'greater', \
                 right = { protocol = 'bas' } }";
    let text = verdict(ahead).measured;
    assert_eq!(
        text,
        "y of ray against bas: holds at 2 of 4: n=128: 4 against 4, n=512: 1 against 8, n=8: 9 \
         against 1, n=32: 7 against 2"
    );
    let mut cells = summarise(&rows());
    for cell in &mut cells {
        for mean in cell.means.values_mut() {
            *mean = Mean { half: Some(3.0), ..*mean };
        }
    }
    let text =
        evaluate(&fact(&ahead.replace("metric", "only = { n = 32 }, metric")), &cells).measured;
    assert_eq!(text, "y of ray against bas: 7 ± 3 against 2 ± 3 (the intervals overlap)");
}
