//! Each part of the dependency rule catches an offence that is planted for it.

use serde_json::json;

use super::*;

#[test]
fn every_edge_of_the_list_is_allowed() {
    let using = |name: &str, targets: &[&str]| planted(name, targets, true);
    let packages: Vec<Package> = RULE
        .iter()
        .map(|(name, may)| match may {
            May::Use(targets) => using(name, targets),
            May::UseAnything => {
                using(name, &RULE.iter().map(|(name, _)| *name).collect::<Vec<_>>())
            }
        })
        .collect();
    assert_eq!(forbidden(&packages), [""; 0]);
}

#[test]
fn a_forbidden_edge_is_caught_and_named() {
    let offences = forbidden(&[planted("kgate-sim", &["kgate-core", "kgate-protocols"], true)]);
    assert_eq!(offences.len(), 1, "{offences:?}");
    assert!(offences[0].contains("kgate-sim -> kgate-protocols"), "{offences:?}");
    assert!(offences[0].contains("docs/internals/architecture.md"), "{offences:?}");
}

#[test]
fn an_edge_against_the_direction_of_the_list_is_caught() {
    for (from, to) in [
        ("kgate-core", "kgate-spec"),
        ("kgate-protocols", "kgate-spec"),
        ("kgate-client", "kgate-net"),
    ] {
        assert_eq!(forbidden(&[planted(from, &[to], true)]).len(), 1, "{from} -> {to}");
    }
}

#[test]
fn a_package_without_a_rule_is_caught() {
    let offences = forbidden(&[planted("kgate-misc", &[], true)]);
    assert!(offences[0].starts_with("kgate-misc: "), "{offences:?}");
}

/// The rival in the benchmark has another licence and a workspace of its own: nobody may link it by
/// its path.
#[test]
fn a_local_package_outside_the_workspace_is_caught_even_where_anything_is_allowed() {
    assert_eq!(forbidden(&[planted("kgate-benches", &["kgate-dscale-rival"], true)]).len(), 1);
}

#[test]
fn only_the_core_is_bound_in_what_it_takes_from_outside() {
    assert_eq!(forbidden(&[planted("kgate-core", &["serde", "thiserror"], false)]), [""; 0]);
    assert_eq!(forbidden(&[planted("kgate-sim", &["rand"], false)]), [""; 0]);
    let offences = forbidden(&[planted("kgate-core", &["serde", "rand"], false)]);
    assert!(offences[0].starts_with("kgate-core -> rand: "), "{offences:?}");
}

#[test]
fn a_library_that_may_use_std_is_caught() {
    assert_eq!(not_no_std("kgate-core", "//! Core.\n#![no_std]\nextern crate alloc;\n"), None);
    for text in ["", "//! Core.\n", "// #![no_std]\n", "#![cfg_attr(not(test), no_std)]\n"] {
        assert!(not_no_std("kgate-core", text).is_some(), "{text:?}");
    }
}

/// A dependency counts by its kind and by the name of its package, whatever it is called in the
/// code.
#[test]
fn metadata_is_read_without_dev_dependencies() {
    let metadata = json!({ "packages": [{
        "name": "kgate-sim",
        "targets": [
            { "kind": ["test"], "src_path": "sim/tests/run.rs" },
            { "kind": ["lib"], "src_path": "sim/src/lib.rs" },
        ],
        "dependencies": [
            { "name": "kgate-core", "rename": "c", "kind": null, "path": "core" },
            { "name": "protox", "kind": "build" },
            { "name": "kgate-protocols", "kind": "dev", "path": "protocols" },
        ],
    }] });
    let edges = vec![
        Edge { to: "kgate-core".to_owned(), local: true },
        Edge { to: "protox".to_owned(), local: false },
    ];
    let library = Some("sim/src/lib.rs".to_owned());
    assert_eq!(
        parse(&metadata).unwrap(),
        [Package { name: "kgate-sim".to_owned(), library, edges }]
    );
}

#[test]
fn metadata_of_another_shape_is_an_error_and_not_an_empty_graph() {
    assert!(parse(&json!({})).is_err());
    assert!(parse(&json!({ "packages": [{ "name": "kgate-sim", "targets": [] }] })).is_err());
}

fn planted(name: &str, targets: &[&str], local: bool) -> Package {
    let edges = targets.iter().map(|to| Edge { to: (*to).to_owned(), local }).collect();
    Package { name: name.to_owned(), library: None, edges }
}
