//! The checks that are one cargo command each, and how such a command is printed and run.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

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
    let mut command = announce(root, &[], &["metadata", "--format-version", "1", "--no-deps", "--locked"]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    String::from_utf8(output.stdout).context("cargo metadata is not UTF-8")
}

fn run(root: &Path, env: &[(&str, &str)], args: &[&str]) -> Result<()> {
    let status = announce(root, env, args).status().context("cannot start cargo")?;
    ensure!(status.success(), "cargo {}: {status}", args[0]);
    Ok(())
}

/// Prints the command as one would type it, and makes it ready to run with the cargo that runs us.
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
    fn a_printed_command_can_be_pasted_into_a_shell() {
        assert_eq!(
            as_typed(&[("FLAGS", "-D warnings")], &["doc", "--locked"]),
            "FLAGS='-D warnings' cargo doc --locked"
        );
    }
}
