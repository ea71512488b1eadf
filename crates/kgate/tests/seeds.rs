//! Every stored seed is run again: a fixed bug leaves its seed behind and must stay fixed.
//!
//! A file of `verification/seeds/` has comment lines, one of them `# expect: correct` or `# expect:
//! VIOLATED
//! <property>` (a published defect that must show), and one command. Commands with `--as-printed`
//! must be correct without it.

use std::path::Path;
use std::process::Command;

/// Stored seeds have the expected verdict on both engines, with equal hashes.
#[test]
fn stored_seeds_have_the_expected_verdict() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../verification/seeds");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("seeds")
        .map(|file| file.expect("a file").path())
        .collect();
    files.sort();
    assert!(files.len() >= 4, "only {} stored seeds", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let find =
            |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).map(str::trim);
        let name = file.display();
        let line = find("kgate ").unwrap_or_else(|| panic!("{name}: no command"));
        let expected =
            match find("# expect: ").unwrap_or_else(|| panic!("{name}: no line `# expect: `")) {
                "correct" => None,
                other => Some(
                    other
                        .strip_prefix("VIOLATED ")
                        .unwrap_or_else(|| panic!("{name}: expects {other}?")),
                ),
            };
        let found = violated(line);
        match expected {
            None => assert_eq!(found, [""; 0], "{name}"),
            Some(property) => {
                assert!(found.iter().any(|name| name == property), "{name}: {found:?}")
            }
        }
        if let Some((before, after)) = line.split_once(" --as-printed ") {
            let after = after.split_once(' ').map_or("", |(_, after)| after);
            assert_eq!(violated(&format!("{before} {after}")), [""; 0], "{name}, repaired");
        }
    }
}

/// The violated properties of a run; both engines give the same run.
fn violated(line: &str) -> Vec<String> {
    let [once, again] =
        ["bucket", "heap"].map(|engine| report(&format!("{line} --engine {engine}")));
    assert_eq!(once["hash"], again["hash"], "{line}");
    assert!(once["requests"].as_u64() > Some(0), "{line}: no requests");
    let violations = once["violations"].as_array().expect("a list");
    violations
        .iter()
        .filter_map(|violation| Some(violation["property"].as_str()?.to_owned()))
        .collect()
}

fn report(line: &str) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kgate"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KGATE_OPT_")) {
        command.env_remove(name); // A developer's own settings are not part of the test.
    }
    let output = command.args(line.split_whitespace()).arg("--json").output().expect("kgate runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{line}: {error}: {}", String::from_utf8_lossy(&output.stderr))
    })
}
