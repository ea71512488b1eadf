//! Rows, results and the table, each from its text alone.

use super::results::{Found, Property};
use super::rows::{Expected, Limits};
use super::*;

const TEXT: &str = "# what is run\n\nholds | kgate check --protocol raymond  -n 3 -k 1\n\
                    violated \"at most k slots in use\" | minutes=3 gibibytes=2 was=435680 | \
                    kgate check --protocol robust -n 3 -k 1 --as-printed D9 --shortest\n";

fn rows() -> Vec<Row> {
    rows::parse(TEXT).unwrap()
}

/// What a search of `command` found; violated in five steps, if anything is.
fn outcome(command: &str, complete: bool, violated: Option<&str>) -> Outcome {
    let property = |name: &str| Property {
        name: name.to_owned(),
        holds: violated != Some(name),
        steps: (violated == Some(name)).then_some(5),
        schedule: if violated == Some(name) { vec!["p0 requests".to_owned()] } else { Vec::new() },
    };
    let properties = vec![property("at most k slots in use"), property("served")];
    let found =
        Found { states: 5_489, unique: 2_049, depth: 19, complete, properties, seconds: 0.2 };
    Outcome {
        command: command.to_owned(),
        commit: "abc1234".to_owned(),
        method: "every schedule".to_owned(),
        stopped: (!complete && violated.is_none()).then(|| "stopped after 10 min".to_owned()),
        found,
    }
}

#[test]
fn rows_are_read_with_what_is_expected_and_their_limits() {
    let rows = rows();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].expected.clone(), rows[0].limits.minutes, rows[0].limits.gibibytes),
        (Expected::Holds, 10, 16)
    );
    assert_eq!(
        rows[0].command, "kgate check --protocol raymond -n 3 -k 1",
        "however many spaces are typed"
    );
    assert_eq!(rows[1].expected, Expected::Violated("at most k slots in use".to_owned()));
    assert_eq!((rows[1].limits.minutes, rows[1].limits.gibibytes), (3, 2));
    assert_eq!((rows[0].was, rows[1].was), (None, Some(435_680)));
}

#[test]
fn a_row_that_cannot_be_run_or_checked_is_an_error() {
    for text in [
        "kgate check -n 3",
        "fine | kgate check -n 3",
        "violated at most k slots in use | kgate check -n 3",
        "holds | hours=1 | kgate check -n 3",
        "holds | minutes=x | kgate check -n 3",
        "holds | was=many | kgate check -n 3",
        "holds | rm -r target",
        "holds | kgate check -n 3\nholds | kgate check  -n 3",
    ] {
        assert!(rows::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_result_survives_its_line() {
    let cut =
        Outcome { stopped: Some("stopped at 16 GiB".to_owned()), ..outcome("c", false, None) };
    for outcome in [outcome("a", true, None), outcome("b", false, Some("served")), cut] {
        let line = serde_json::to_string(&outcome).unwrap();
        assert_eq!(results::parse(&line).unwrap(), [outcome], "{line}");
    }
    assert!(results::parse("{}").is_err());
}

#[test]
fn what_kgate_check_prints_is_understood() {
    let text = r#"{"states": 9, "unique": 7, "depth": 4, "complete": false, "seconds": 0.5,
        "properties":
        [{"name": "served", "holds": false, "counterexample": [{"step": "p0 requests"},
            {"step": "p0 -> p1: ask", "message": "Ask"}]},
        {"name": "k", "holds": true, "counterexample": null}]}"#;
    let found = process::found(text).unwrap();
    assert_eq!((found.states, found.unique, found.depth, found.complete), (9, 7, 4, false));
    let steps: Vec<_> = found.properties.iter().map(|property| property.steps).collect();
    assert_eq!(steps, [Some(2), None]);
    assert_eq!(found.properties[0].schedule, ["p0 requests", "p0 -> p1: ask                Ask"]);
    assert!(process::found("{}").is_err());
}

#[test]
fn a_result_that_is_not_as_expected_is_an_offence_and_so_is_none() {
    let rows = rows();
    let (holding, broken) = (&rows[0], &rows[1]);
    let result =
        |row: &Row, violated: Option<&str>| outcome(&row.command, violated.is_none(), violated);
    let good = [result(holding, None), result(broken, Some("at most k slots in use"))];
    assert!(offences(&rows, &good).is_empty());
    assert_eq!(offences(&rows, &good[..1]).len(), 1, "a row without a result");
    assert!(offence(holding, Some(&result(holding, Some("served")))).is_some());
    assert!(offence(broken, Some(&result(broken, None))).is_some(), "the defect was not found");
    assert!(offence(broken, Some(&result(broken, Some("served")))).is_some(), "another one was");
    let unfinished = outcome(&holding.command, false, None);
    assert!(offence(holding, Some(&unfinished)).is_none(), "not exhaustive, and said to be so");
    let unfinished = outcome(&broken.command, false, None);
    assert!(offence(broken, Some(&unfinished)).is_some(), "cut off before the defect was found");
}

/// A search tells which limit stopped it; the table says so with the limit's size.
#[test]
fn the_limit_that_stopped_a_search_is_told() {
    let limits = Limits { minutes: 10, gibibytes: 16 };
    let stopped =
        |why: &str| process::stopped(&format!(r#"{{"stopped": {why}}}"#), limits).unwrap();
    assert_eq!(stopped(r#""time""#).as_deref(), Some("stopped after 10 min"));
    assert_eq!(stopped(r#""memory""#).as_deref(), Some("stopped at 16 GiB"));
    assert_eq!((stopped(r#""found""#), stopped("null")), (None, None));
}

/// What must be reached and was not is wrong only if everything was visited.
#[test]
fn what_was_never_reached_counts_when_the_search_is_complete() {
    let mut reached = outcome("a", true, None);
    reached.found.properties[0] = Property {
        name: "sometimes k slots in use".to_owned(),
        holds: false,
        steps: None,
        schedule: Vec::new(),
    };
    assert!(!reached.meets(&Expected::Holds));
    reached.found.complete = false;
    assert!(reached.meets(&Expected::Holds));
}

#[test]
fn the_table_replaces_what_stands_between_the_marks_and_nothing_else() {
    let rows = rows();
    let results = [outcome(&rows[0].command, true, None)];
    let table = table::render(&rows, &results);
    let line = "| `raymond` | `-n 3 -k 1` | all hold | every schedule | 2,049 |  | yes | 0.2 s \
                | abc1234 |";
    assert!(table.contains(line), "{table}");
    let missing = "| `robust` as printed, D9 | `-n 3 -k 1` | not run yet |  |  | 435,680 |";
    assert!(table.contains(missing), "{table}");
    let marked = "before\n<!-- table -->\nold\n<!-- table -->\nafter\n\
                  <!-- schedules -->\n<!-- schedules -->\n";
    let page = table::put_into(marked, &table, "steps").unwrap();
    assert!(page.starts_with("before\n<!-- table -->\n\n| protocol"), "{page}");
    assert!(
        page.ends_with("<!-- table -->\nafter\n<!-- schedules -->\n\nsteps\n<!-- schedules -->\n"),
        "{page}"
    );
    assert_eq!(table::put_into(&page, &table, "steps").unwrap(), page);
    assert!(table::put_into("no marks", &table, "steps").is_err());
}

#[test]
fn a_schedule_stands_under_its_command() {
    let rows = rows();
    let printed =
        rows.iter().find(|row| row.option("--as-printed").is_some()).expect("a printed one");
    let results = [outcome(&printed.command, false, Some("at most k slots in use"))];
    let text = table::schedules(&rows, &results);
    assert!(text.contains(&format!("$ {}\n  1  p0 requests\n", printed.command)), "{text}");
}

#[test]
fn the_last_result_of_a_command_counts() {
    let rows = rows();
    let results =
        [outcome(&rows[0].command, false, Some("served")), outcome(&rows[0].command, true, None)];
    assert_eq!(results::of(&results, &rows[0]), Some(&results[1]));
}

#[test]
fn only_what_has_no_result_is_run_unless_again() {
    let rows = rows();
    let known = [outcome(&rows[0].command, true, None)];
    let chosen = |words: &[&str]| {
        let options = Options::parse(words).unwrap();
        rows.iter().filter(|row| options.chooses(row, &known)).count()
    };
    assert_eq!([chosen(&[]), chosen(&["--again"]), chosen(&["--only", "raymond"])], [1, 2, 0]);
    assert_eq!(chosen(&["--only", "raymond", "--again", "--minutes", "1"]), 1);
    assert!(Options::parse(&["--only"]).is_err() && Options::parse(&["--minutes", "x"]).is_err());
    assert!(Options::parse(&["--all"]).is_err());
}
