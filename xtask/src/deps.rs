//! The dependency rule: which package of the workspace may depend on which.
//!
//! A protocol that cannot name a socket cannot use one, and a simulator that cannot name a protocol
//! treats all protocols alike. Therefore the allowed dependencies between packages are a list, and
//! every other one is an offence. Normal and build dependencies count; dev-dependencies are free.
//! The two packages of pure state machines are `no_std`, and the lowest one has almost no external
//! dependencies.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

pub(crate) fn check(root: &Path) -> Result<()> {
    let packages = parse(&cargo_metadata(root)?)?;
    let mut offences = forbidden(&packages);
    for name in NO_STD {
        let library = packages.iter().find(|p| p.name == *name).and_then(|p| p.library.as_deref());
        let text = match library {
            Some(path) => {
                std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?
            }
            None => String::new(),
        };
        offences.extend(not_no_std(name, &text));
    }
    crate::report(&offences)
}

enum May {
    Use(&'static [&'static str]),
    UseAnything,
}

const RULE: &[(&str, May)] = &[
    ("kgate-core", May::Use(&[])),
    ("kgate-protocols", May::Use(&["kgate-core"])),
    ("kgate-spec", May::Use(&["kgate-core"])),
    ("kgate-sim", May::Use(&["kgate-core", "kgate-spec"])),
    ("kgate-check", May::Use(&["kgate-core", "kgate-spec"])),
    (
        "kgate-lab",
        May::Use(&["kgate-core", "kgate-spec", "kgate-sim", "kgate-check", "kgate-protocols"]),
    ),
    ("kgate-net", May::Use(&["kgate-core"])),
    ("kgate-api", May::Use(&[])),
    ("kgate-control", May::Use(&["kgate-core"])),
    (
        "kgate-node",
        May::Use(&[
            "kgate-core",
            "kgate-spec",
            "kgate-protocols",
            "kgate-net",
            "kgate-api",
            "kgate-control",
        ]),
    ),
    ("kgate-client", May::Use(&["kgate-api"])),
    ("kgate", May::UseAnything),
    ("kgate-tests", May::UseAnything),
    ("kgate-testkit", May::Use(&["kgate-core"])),
    ("kgate-benches", May::UseAnything),
    ("kgate-chaos", May::UseAnything),
    ("xtask", May::UseAnything),
];

const NO_STD: &[&str] = &["kgate-core", "kgate-protocols"];

/// The external dependencies that `kgate-core` may have.
const OUTSIDE_OF_CORE: &[&str] = &["serde", "thiserror"];

const WHERE: &str = "the rule is in docs/internals/architecture.md, the check in xtask/src/deps.rs";

#[derive(Debug, PartialEq)]
struct Package {
    name: String,
    /// The root file of its library, if it has one.
    library: Option<String>,
    /// Normal and build dependencies.
    edges: Vec<Edge>,
}

#[derive(Debug, PartialEq)]
struct Edge {
    to: String,
    /// A path dependency: a package of the workspace.
    local: bool,
}

fn forbidden(packages: &[Package]) -> Vec<String> {
    packages.iter().flat_map(forbidden_from).collect()
}

fn forbidden_from(package: &Package) -> Vec<String> {
    let from = &package.name;
    let Some((_, may)) = RULE.iter().find(|(name, _)| name == from) else {
        return vec![format!("{from}: no dependency rule for this package; {WHERE}")];
    };
    let allowed = |edge: &Edge| match may {
        _ if !edge.local => from != "kgate-core" || OUTSIDE_OF_CORE.contains(&edge.to.as_str()),
        May::Use(targets) => targets.contains(&edge.to.as_str()),
        May::UseAnything => RULE.iter().any(|(name, _)| *name == edge.to),
    };
    let offences = package.edges.iter().filter(|edge| !allowed(edge));
    offences.map(|edge| format!("{from} -> {}: a forbidden dependency; {WHERE}", edge.to)).collect()
}

/// A comment or a conditional attribute does not count: both would let `std` in.
fn not_no_std(package: &str, library: &str) -> Option<String> {
    let found = library.lines().any(|line| line.trim_end() == "#![no_std]");
    (!found).then(|| format!("{package}: its lib.rs must say #![no_std]; {WHERE}"))
}

fn cargo_metadata(root: &Path) -> Result<Value> {
    serde_json::from_str(&crate::cargo::metadata(root)?).context("cargo metadata is not JSON")
}

fn parse(metadata: &Value) -> Result<Vec<Package>> {
    list(metadata, "packages")?.iter().map(package).collect()
}

fn package(value: &Value) -> Result<Package> {
    let is_library = |target: &&Value| {
        target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"lib".into()))
    };
    let library =
        list(value, "targets")?.iter().find(is_library).map(|target| text(target, "src_path"));
    let counts = |dependency: &&Value| dependency["kind"] != "dev";
    let edges = list(value, "dependencies")?.iter().filter(counts).map(edge);
    Ok(Package {
        name: text(value, "name")?,
        library: library.transpose()?,
        edges: edges.collect::<Result<_>>()?,
    })
}

fn edge(dependency: &Value) -> Result<Edge> {
    Ok(Edge { to: text(dependency, "name")?, local: dependency["path"].is_string() })
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("cargo metadata has no list `{key}`"))
}

fn text(value: &Value, key: &str) -> Result<String> {
    Ok(value[key]
        .as_str()
        .with_context(|| format!("cargo metadata has no text `{key}`"))?
        .to_owned())
}

#[cfg(test)]
mod tests;
