//! The command as a process, for all tests of the command line.
#![allow(dead_code)] // Not every test needs all of it.

use std::process::{Command, Output};

pub(crate) fn kgate(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kgate"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KGATE_OPT_")) {
        command.env_remove(name); // A developer's own settings are not part of the test.
    }
    command.args(line.split_whitespace()).output().expect("kgate runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

pub(crate) fn json(line: &str) -> serde_json::Value {
    let output = kgate(line);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{line}: {error}: {}", stderr(&output)))
}
