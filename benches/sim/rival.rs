//! The rival as a process: GPL code is never linked, and its global allocator stays its own.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The built program.
pub(crate) struct Rival(PathBuf);

/// Builds it; says why not, if it cannot be.
pub(crate) fn build() -> Option<Rival> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("dscale");
    let manifest = package.join("Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = package.join("target");
    let built = Command::new(cargo)
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&target)
        .status();
    match built {
        Ok(status) if status.success() => Some(Rival(target.join("release/kgate-dscale-rival"))),
        other => {
            println!("(benches/dscale could not be built, so its rows are missing: {other:?})\n");
            None
        }
    }
}

impl Rival {
    /// How many messages it delivered, and in how many seconds.
    pub(crate) fn run(&self, nodes: u32, k: u32, entries: u32, latency: &str) -> (u64, f64) {
        let output = Command::new(&self.0)
            .args(["--nodes", &nodes.to_string(), "--k", &k.to_string()])
            .args(["--entries", &entries.to_string(), "--latency", latency, "--seed", "1"])
            .output()
            .expect("the rival runs");
        assert!(
            output.status.success(),
            "the rival failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("the rival prints JSON");
        let delivered = report["delivered"].as_u64().expect("a count");
        (delivered, report["seconds"].as_f64().expect("a time"))
    }
}
