//! Joining shards.

use std::path::PathBuf;

use kgate_testkit::TempFolder;

use super::{files, flags, options, run_in, runner, small};
use crate::experiment::merge::merge;
use crate::experiment::run::{Shard, run};
use crate::experiment::store::RUNS;
use crate::experiment::{Experiment, Taken};

fn shards(folder: &TempFolder, of: usize) -> Vec<PathBuf> {
    let shard = |index| {
        let dir = folder.join(format!("part-{index}"));
        run(&dir, &small(), &flags(), options(Some(Shard { index, of })), &runner).expect("runs");
        dir
    };
    (1..=of).map(shard).collect()
}

/// Joined shards equal, byte for byte, the results of one machine; a missing shard is counted.
#[test]
fn shards_make_the_whole() {
    let folder = TempFolder::new("shards");
    let whole = folder.join("whole");
    run_in(&whole, &small()).expect("runs");
    let mut parts = shards(&folder, 3);
    parts.reverse();
    let joined = folder.join("joined");
    let done = merge(&parts, &joined, &flags()).expect("a whole");
    assert_eq!((done.there, done.all), (20, 20));
    assert_eq!(files(&joined), files(&whole));
    let two = merge(&parts[1..], &folder.join("two"), &flags()).expect("a part");
    assert_eq!((two.there, two.all), (14, 20));
    let again = merge(&parts, &joined, &flags()).expect_err("it is there").to_string();
    assert!(again.contains("there are results already"), "{again}");
}

/// Shards of different experiments, or with different measurements, are not joined.
#[test]
fn what_differs_is_not_joined() {
    let folder = TempFolder::new("differ");
    let parts = shards(&folder, 2);
    let other = folder.join("other");
    run_in(&other, &small().taking(Taken { quick: true, ..Taken::default() })).expect("runs");
    let error = merge(&[parts[0].clone(), other], &folder.join("a"), &flags())
        .expect_err("two")
        .to_string();
    assert!(error.contains("different experiments or settings"), "{error}");
    let copy = folder.join("copy");
    run(&copy, &small(), &flags(), options(Some(Shard { index: 1, of: 2 })), &runner)
        .expect("runs");
    let text = std::fs::read_to_string(copy.join(RUNS)).expect("runs");
    std::fs::write(copy.join(RUNS), text.replacen("\"grants\":", "\"grants\":1", 1))
        .expect("a file");
    let error =
        merge(&[parts[0].clone(), copy], &folder.join("b"), &flags()).expect_err("two").to_string();
    assert!(
        error.contains("they measured different things for kgate sim --protocol raymond"),
        "{error}"
    );
}

/// A shard is `I/N` with 1 <= I <= N, and nothing else.
#[test]
fn shards_are_counted_from_one() {
    assert_eq!("2/3".parse(), Ok(Shard { index: 2, of: 3 }));
    for text in ["0/3", "4/3", "1", "1/0", "a/b", "1/2/3"] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }
    assert!(Experiment::parse("").is_err());
}
