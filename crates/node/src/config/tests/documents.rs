//! What the documents show as a node's configuration is one.

use std::path::Path;

use kgate_core::Incarnation;

use super::Config;
use crate::serve::access::AccessControl;

/// The blocks of a document that are whole configurations: they say where nodes are, or how this
/// one joins.
fn configurations(document: &str) -> impl Iterator<Item = &str> {
    let blocks = document.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| {
        block.lines().any(|line| line.starts_with("nodes =") || line.starts_with("join ="))
    })
}

/// Whether a node would start with it, as far as that can be said without its files.
fn starts(text: &str) -> Result<(), String> {
    let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
    config.settings(Incarnation(0), 0).map_err(|error| error.to_string())?;
    AccessControl::new(&config).map(drop).map_err(|error| error.to_string())
}

/// A node starts with each configuration that docs/ and the module docs of `config.rs` show; the
/// checker sees one that lacks something.
#[test]
fn documented_configurations_start() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let shelves = ["guide", "reference", "internals"].map(|shelf| docs.join(shelf));
    let entries = shelves.iter().flat_map(|shelf| std::fs::read_dir(shelf).expect("a shelf"));
    let mut found = 0;
    for entry in entries {
        let path = entry.expect("a document").path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let document = std::fs::read_to_string(&path).expect("a text");
        for block in configurations(&document) {
            starts(block).unwrap_or_else(|why| panic!("{}: {why}\n{block}", path.display()));
            found += 1;
        }
    }
    assert!(found > 0, "docs/guide/fleet.md has one");
    let ours = include_str!("../../config.rs").lines().filter_map(|line| line.strip_prefix("//!"));
    let ours: String =
        ours.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect();
    let whole = configurations(&ours).next().expect("config.rs shows one");
    starts(whole).unwrap();
    assert!(
        starts(&whole.replace("data =", "name =")).unwrap_err().contains("leases need a folder")
    );
}
