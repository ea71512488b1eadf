//! The points of grids.

use super::{flags, small};
use crate::experiment::grid::{count, plan};
use crate::experiment::{Experiment, Taken};

fn commands(experiment: &Experiment) -> Vec<String> {
    let plan = plan(experiment, &flags()).expect("a plan");
    plan.points.iter().map(|point| point.command()).collect()
}

fn taking(quick: bool, words: &[&str]) -> Experiment {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    small().taking(Taken::from_words(quick, &words).expect("flags and values"))
}

/// Points are sorted by parameter name, values as in the file, seeds last. A flag that is true has
/// no value, and a flag that is false is omitted.
#[test]
fn points_in_a_fixed_order() {
    let all = commands(&small());
    assert_eq!(all.len(), 2 * 3 * 3 + 2);
    assert_eq!(count(&small(), false), all.len());
    assert_eq!(
        all[0],
        "kgate sim --protocol raymond --processes 8 --k 3 --fifo --load low --seed 1"
    );
    assert_eq!(
        all[1],
        "kgate sim --protocol raymond --processes 8 --k 3 --fifo --load low --seed 2"
    );
    assert_eq!(all[3], "kgate sim --protocol vcube --processes 8 --k 3 --fifo --load low --seed 1");
    assert_eq!(
        all[6],
        "kgate sim --protocol raymond --processes 16 --k 3 --fifo --load low --seed 1"
    );
    assert_eq!(all[18], "kgate check --processes 2");
    assert_eq!(all[19], "kgate check --processes 3 --crashes 1");
}

/// `--quick` takes fewer values and seeds, and other flags.
#[test]
fn quick_takes_less() {
    let quick = commands(&taking(true, &[]));
    assert_eq!(quick.len(), 2 * 2 * 2 + 2);
    assert_eq!(count(&small(), true), quick.len());
    assert!(
        quick[0].contains("--duration 10")
            && !quick.iter().any(|line| line.contains("--processes 16"))
    );
}

/// `--set` replaces a parameter, a fixed flag and a flag of a named value, and reports that; it
/// adds a flag only where the command has it.
#[test]
fn set_replaces_flags() {
    let experiment = taking(false, &["n=500", "k=10", "latency=uniform=1..2 x"]);
    let plan = plan(&experiment, &flags()).expect("a plan");
    let commands: Vec<String> = plan.points.iter().map(|point| point.command()).collect();
    assert_eq!(commands.len(), 2 * 3 + 2);
    let first = "kgate sim --protocol raymond --processes 500 --k 10 --fifo \
                 --latency 'uniform=1..2 x' --load low --seed 1";
    assert_eq!(commands[0], first);
    assert_eq!(commands[7], "kgate check --processes 500 --k 10 --crashes 1");
    assert_eq!(plan.points[0].at["processes"], "500");
    assert!(
        plan.notes.contains(&"grid low: processes = 500 instead of 8, 16, 32".to_owned()),
        "{:?}",
        plan.notes
    );
    assert!(plan.notes.contains(&"grid low: k = 10 instead of 3".to_owned()));
    assert!(
        plan.notes
            .contains(&"grid low: latency = uniform=1..2 x, which was not set before".to_owned())
    );
}

/// A fixed flag that is set to several values becomes a parameter.
#[test]
fn set_makes_a_flag_vary() {
    let commands = commands(&taking(false, &["load=low", "load=high"]));
    assert_eq!(commands.len(), 2 * 18 + 2);
    assert!(commands.iter().any(|line| line.contains("--load high")));
}

/// An unknown flag, in the file or in `--set`, is refused before the first run.
#[test]
fn unknown_flags_are_refused() {
    let error =
        plan(&taking(false, &["latencies=1"]), &flags()).expect_err("no such flag").to_string();
    assert!(error.starts_with("--set latencies: none of the commands"), "{error}");
    let text = small().text.replace("k = 3", "unit = 3");
    let error = plan(&Experiment::parse(&text).expect("a text"), &flags())
        .expect_err("no such flag")
        .to_string();
    assert_eq!(error, "grid low: kgate sim has no flag --unit: see kgate sim --help");
}
