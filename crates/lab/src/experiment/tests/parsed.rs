//! Reading experiments.

use super::{EXPERIMENT, small};
use crate::experiment::file::Word;
use crate::experiment::{Experiment, Taken};

/// An invalid experiment is refused with the place and what to do.
#[test]
fn what_does_not_fit_is_refused() {
    for (old, new, says) in [
        ("title =", "tittle =", "unknown field `tittle`"),
        (
            "name = \"small\"",
            "name = \"../small\"",
            "the experiment: the name '../small' becomes a file name",
        ),
        (
            "\"explored\"",
            "\"low\"",
            "the experiment: grid 'low' is defined twice: rename or remove one",
        ),
        (
            "grid = \"low\"\nx",
            "grid = \"lo\"\nx",
            "plot grants: there is no grid 'lo': choose one of low, explored",
        ),
        (
            "x = \"processes\"",
            "x = \"size\"",
            "plot grants: there is no parameter 'size': choose one of processes, protocol",
        ),
        ("series = \"protocol\"", "series = \"load\"", "plot grants: there is no parameter 'load'"),
        ("check = [{ grid = \"low\"", "check = [{ grid = \"hi\"", "fact F1: there is no grid 'hi'"),
        (
            "check = [{",
            "check = [{ only = { processes = 9 },",
            "fact F1: there is no value '9': choose one of 8, 16, 32",
        ),
        ("check = [{", "check = [{ along = \"time\",", "fact F1: there is no parameter 'time'"),
        ("\"greater\", value = 0.0", "\"greater\"", "fact F1: there is no right side"),
        ("\"greater\"", "\"grows\"", "fact F1: a trend or a peak needs an axis"),
        ("\"greater\"", "\"more\"", "unknown variant `more`"),
        ("check = [{", "check = []\nchecks = [{", "unknown field `checks`"),
        ("claim =", "cannot = \"no\"\nclaim =", "fact F1: it has both check and cannot"),
        ("k = 3", "processes = 3", "grid low: processes is in both set and vary"),
        ("[8, 16, 32] }", "[] }", "grid low: processes has no values"),
        ("[8, 16, 32] }", "[8, 8] }", "grid low: value of processes '8' is defined twice"),
        (
            "[8, 32]",
            "[9]",
            "grid low: there is no value '9': choose one of 8, 16, 32 of processes in grid low",
        ),
        (
            "vary = { processes = [8, 32] }",
            "vary = { size = [8] }",
            "grid low: there is no parameter 'size'",
        ),
        ("seeds = 3", "seeds = 0", "grid low: seeds = 0 makes no runs"),
        (
            "tool = \"check\"",
            "tool = \"check\"\nseeds = 2",
            "grid explored: kgate check has no seeds",
        ),
        ("k = 3", "seed = 3", "grid low: --seed: the laboratory sets the seeds"),
        ("k = 3", "trace = \"x\"", "grid low: --trace: it does not change what is run"),
        (
            "vary.case",
            "vary.processes = [2]\nvary.case",
            "grid explored: two parameters set --processes",
        ),
    ] {
        let text = EXPERIMENT.replacen(old, new, 1);
        assert_ne!(text, EXPERIMENT, "{old} is in the text");
        let error = Experiment::parse(&text).expect_err(new).to_string();
        assert!(error.contains(says), "{new}: {error}");
    }
}

/// The selection of an experiment is written into its text, once, and is read back.
#[test]
fn the_text_tells_what_was_taken() {
    let set = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let words = set(&["n=500", "--latency=uniform=0.1..\"2\"", "processes=100"]);
    let taken = Taken::from_words(true, &words).expect("flags and values");
    assert_eq!(taken.set["processes"], [Word("500".into()), Word("100".into())]);
    let experiment = small().taking(taken.clone());
    let again = Experiment::parse(&experiment.text).expect("an experiment");
    assert_eq!(again.taken, taken);
    assert_eq!(again.taking(taken).text, experiment.text);
    assert!(Taken::from_words(false, &set(&["n"])).is_err());
}
