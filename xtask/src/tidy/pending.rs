//! Files that do not keep the rules of width, words and doc comments yet. The list only becomes
//! shorter; when it is empty, it goes.

use super::{File, width, words};

/// Files and folders.
const PENDING: &[&str] = &[
    "crates/api/",
    "crates/client/",
    "crates/control/",
    "crates/core/",
    "crates/kgate/",
    "crates/lab/",
    "crates/net/",
    "crates/node/",
    "crates/protocols/",
    "crates/sim/",
    "crates/spec/",
    "docs/",
    "experiments/",
    "scenarios/",
    "tests/",
];

pub(super) fn not_pending(file: &File) -> Vec<String> {
    rules(file, false)
}

/// The offences of a file against the rules of width, words and doc comments.
pub(super) fn rules(file: &File, even_if_pending: bool) -> Vec<String> {
    let is_pending = PENDING.iter().any(|path| file.path.starts_with(path));
    if is_pending && !even_if_pending {
        return Vec::new();
    }
    let rules = [super::one_word_doc, width::rust, width::markdown, words::check];
    rules.iter().flat_map(|rule| rule(file)).collect()
}
