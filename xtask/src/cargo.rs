//! The checks that are one cargo command each, and how such a command is printed and run.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(crate) fn fmt(root: &Path) -> Result<()> {
    run(root, &[], &["fmt", "--all", "--check"])
}

pub(crate) fn clippy(root: &Path) -> Result<()> {
    run(root, &[], &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

pub(crate) fn doc(root: &Path) -> Result<()> {
    run(root, &[("RUSTDOCFLAGS", "-D warnings")], &["doc", "--workspace", "--no-deps", "--locked"])
}

/// The command of the README, word for word.
pub(crate) fn test(root: &Path) -> Result<()> {
    run(root, &[], &["test", "--workspace", "--locked"])
}

pub(crate) fn metadata(root: &Path) -> Result<String> {
    let mut command =
        announce(root, &[], &["metadata", "--format-version", "1", "--no-deps", "--locked"]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    String::from_utf8(output.stdout).context("cargo metadata is not UTF-8")
}

/// Builds the binary in release mode and returns its path.
pub(crate) fn kgate(root: &Path) -> Result<PathBuf> {
    let mut command = announce(
        root,
        &[],
        &[
            "build",
            "--release",
            "--locked",
            "--package",
            "kgate",
            "--message-format",
            "json-render-diagnostics",
        ],
    );
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo build: {}", output.status);
    let text = String::from_utf8(output.stdout).context("cargo build is not UTF-8")?;
    executable(&text).context("cargo build made no `kgate`")
}

fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut paths =
        messages.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    paths.rfind(|path| path.file_stem().is_some_and(|stem| stem == "kgate"))
}

/// Writes the generated pages of docs/reference. The tests of the same name compare them.
pub(crate) fn reference(root: &Path, words: &[&str]) -> Result<()> {
    ensure!(words.is_empty(), "`cargo xtask reference` takes no options");
    let packages = ["--package", "kgate", "--package", "kgate-node"];
    let test = ["the_reference_is_up_to_date"];
    let arguments =
        [&["test", "--locked", "--quiet", "--lib", "--bins"], &packages[..], &test].concat();
    run(root, &[("KGATE_REFERENCE_UPDATE", "1")], &arguments)
}

/// Becomes the chaos suite; returns only if it cannot be started.
pub(crate) fn chaos(root: &Path, words: &[&str]) -> Result<()> {
    become_kgate_chaos(root, "suite", words)
}

/// Becomes the partition tries; returns only if they cannot be started.
pub(crate) fn partition_tries(root: &Path, words: &[&str]) -> Result<()> {
    become_kgate_chaos(root, "partition-tries", words)
}

/// Signals reach the suite itself: no process stands between.
fn become_kgate_chaos(root: &Path, command: &str, words: &[&str]) -> Result<()> {
    let run = ["run", "--quiet", "--locked", "--package", "kgate-chaos", "--", command];
    let error = announce(root, &[], &[&run[..], words].concat()).exec();
    Err(error).context("cannot start cargo")
}

fn run(root: &Path, env: &[(&str, &str)], args: &[&str]) -> Result<()> {
    let status = announce(root, env, args).status().context("cannot start cargo")?;
    ensure!(status.success(), "cargo {}: {status}", args[0]);
    Ok(())
}

/// Prints the command as a user would type it, and prepares it for the cargo that runs this
/// program.
fn announce(root: &Path, env: &[(&str, &str)], args: &[&str]) -> Command {
    println!("$ {}", as_typed(env, args));
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).envs(env.iter().copied()).args(args);
    command
}

fn as_typed(env: &[(&str, &str)], args: &[&str]) -> String {
    let env = env.iter().map(|(name, value)| format!("{name}='{value}' "));
    env.chain(["cargo ".to_owned(), args.join(" ")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_among_cargos_messages() {
        let messages = "not JSON\n{\"executable\":null}\n\
                        {\"executable\":\"out/release/kgate\"}\n{\"success\":true}";
        assert_eq!(executable(messages), Some(PathBuf::from("out/release/kgate")));
        assert_eq!(executable("{\"executable\":\"out/xtask\"}"), None);
    }

    #[test]
    fn a_printed_command_can_be_pasted_into_a_shell() {
        assert_eq!(
            as_typed(&[("FLAGS", "-D warnings")], &["doc", "--locked"]),
            "FLAGS='-D warnings' cargo doc --locked"
        );
    }
}
