//! The switches that bring known defects back (`crates/core/src/defects.rs`) cannot be reached from
//! a node, even in the binary that contains the laboratory too.

use std::path::{Path, PathBuf};

use kgate_core::{Defects, Setup};

/// Every protocol of a node runs repaired. A set-up has no defects unless some code names them, and
/// no code of a node does, whatever features the binary is built with.
#[test]
fn no_code_of_a_node_names_a_defect() {
    assert_eq!(Setup::new(3, 1).defects, Defects::NONE);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in ["api", "client", "control", "net", "node"] {
        files.push(crates.join(name).join("Cargo.toml"));
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 100, "the sources of a node are found");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap().to_lowercase();
        assert!(!text.contains("defects"), "{} names the switches", file.display());
    }
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else {
            files.push(path);
        }
    }
}
