//! docs/reference/cli.md: the help of every command, as `--help` prints it.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::cli::{Cli, without_environment};
use crate::variables;

/// Every command that is not hidden has its help in the reference.
#[test]
fn the_reference_is_up_to_date() {
    let mut page = String::from(
        "# Command line\n\n\
         The help of every command, as `kgate COMMAND --help` prints it. This page is generated: \
         `cargo xtask reference`.\n",
    );
    let mut root = without_environment(variables::read(Cli::command()).term_width(100));
    root.build();
    write(&mut page, &mut root);
    kgate_testkit::assert_reference("cli.md", &page);
}

fn write(page: &mut String, command: &mut Command) {
    let name = command.get_bin_name().unwrap_or("kgate").to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = writeln!(page, "\n## {name}\n\n```text\n{}\n```", help.join("\n").trim_end());
    let shown = |command: &&mut Command| !command.is_hide_set() && command.get_name() != "help";
    for command in command.get_subcommands_mut().filter(shown) {
        write(page, command);
    }
}
