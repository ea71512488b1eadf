//! The paths in `docs/internals/architecture.md` name functions that exist.

use std::fs;
use std::path::Path;

const PAGE: &str = "docs/internals/architecture.md";

/// Every `file:function` of the page, with its line.
fn places(page: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    (1..).zip(page.lines()).flat_map(|(number, line)| {
        line.split('`').filter_map(move |cell| {
            let (file, function) = cell.split_once(".rs:")?;
            Some((number, &cell[..file.len() + 3], function))
        })
    })
}

/// Whether that source defines a function of that name.
fn defines(source: &str, function: &str) -> bool {
    source.lines().any(|line| {
        let after = line.split_once("fn ").map_or("", |(_, after)| after);
        after.strip_prefix(function).is_some_and(|rest| rest.starts_with(['(', '<']))
    })
}

/// A reader who follows the tables finds each function in the file that they name.
#[test]
fn every_function_on_the_map_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join(PAGE)).expect("the page exists");
    let missing: Vec<String> = places(&page)
        .filter(|(_, file, function)| {
            let source = fs::read_to_string(root.join(file)).unwrap_or_default();
            !defines(&source, function)
        })
        .map(|(number, file, function)| format!("{PAGE}:{number}: no fn {function} in {file}"))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
    assert!(places(&page).count() >= 25, "the tables of the main paths are there");
}

/// Planted: a function that does not exist is noticed, and so is a file that does not.
#[test]
fn a_function_that_moved_is_noticed() {
    let page = "| the call | `crates/client/src/gate.rs:acquire` |";
    let found: Vec<_> = places(page).collect();
    assert_eq!(found, [(1, "crates/client/src/gate.rs", "acquire")]);
    assert!(defines("    pub async fn acquire(self) {}", "acquire"));
    assert!(!defines("    pub async fn acquire_all(self) {}\n// fn acquired", "acquire"));
}
