//! Environment variables of options: `--down-for` takes its value from `KGATE_OPT_DOWN_FOR`, unless
//! the command line gives it. One rule for all commands, so no option spells its variable out.
//!
//! A variable that is set and empty is an error. Taken for unset, `KGATE_OPT_NODE=$NODE` with a
//! misspelt NODE would ask another node than was meant.

use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command};

use crate::Failure;

/// The beginning of the name of each variable.
const PREFIX: &str = "KGATE_OPT_";

/// Lets the variables of the environment set the options of all subcommands.
pub(crate) fn read(root: Command) -> Command {
    root.mut_subcommands(read_alone)
}

/// The same for one subcommand that is parsed alone.
pub(crate) fn read_alone(command: Command) -> Command {
    let name = command.get_name().to_owned();
    of(command, &name)
}

fn of(command: Command, top: &str) -> Command {
    command.mut_args(|arg| with_variable(arg, top)).mut_subcommands(|command| of(command, top))
}

/// Lets an option take a value such as `-1`, so that its own error says what it may be. Otherwise
/// it would be an unknown option, and the advice to write it behind `--`, where the command begins.
fn taking_any_number(arg: Arg) -> Arg {
    let is_option = arg.get_long().is_some() || arg.get_short().is_some();
    if !is_option || !arg.get_action().takes_values() {
        return arg;
    }
    let is_duration = arg.get_value_names().is_some_and(|names| names == ["DUR"]);
    // Not all: a missing value would take the next option for it.
    if is_duration { arg.allow_hyphen_values(true) } else { arg.allow_negative_numbers(true) }
}

fn with_variable(arg: Arg, command: &str) -> Arg {
    let arg = taking_any_number(arg);
    let flag = arg.get_long().map(str::to_owned).or(arg.get_short().map(String::from));
    let Some(flag) = flag.filter(|flag| has_variable(command, flag)) else { return arg };
    if arg.is_hide_set() || arg.get_env().is_some() {
        return arg;
    }
    let name = format!("{PREFIX}{}", flag.to_uppercase().replace('-', "_"));
    // A variable of a switch says yes or no: 1, true, 0, off ..
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let arg = arg.env(name);
    if is_switch { arg.value_parser(BoolishValueParser::new()) } else { arg }
}

/// Whether a variable may set the option. What one call does with its files is said at that call
/// alone: an inherited variable must not redirect or rewrite anything.
fn has_variable(command: &str, flag: &str) -> bool {
    // KGATE_OPT_NODE alone names a node, so that --node overrides it.
    if flag == "private" {
        return false;
    }
    match command {
        "lab" | "scenario" | "trace" => flag == "json",
        "run" => !matches!(flag, "command" | "once" | "once-ttl"),
        "man" => false,
        "node" => flag == "config",
        "setup" => false,
        "sim" => !matches!(flag, "swarm" | "seeds" | "save" | "window" | "show"),
        _ => true,
    }
}

/// Refuses a variable of an option that is set and empty.
pub(crate) fn check() -> Result<(), Failure> {
    let empty = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok()?;
        (value.is_empty() && name.starts_with(PREFIX)).then_some(name)
    };
    let Some(name) = std::env::vars_os().find_map(empty) else { return Ok(()) };
    Err(Failure::Usage(format!("{name} is set and empty: give it a value, or `unset {name}`")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn variable(path: &[&str], id: &str) -> Option<String> {
        let root = read(Cli::command());
        let command = path.iter().fold(&root, |command, name| {
            command.find_subcommand(name).expect("kgate has the command")
        });
        let arg = command.get_arguments().find(|arg| arg.get_id() == id).expect("and the option");
        arg.get_env().map(|name| name.to_string_lossy().into_owned())
    }

    /// Every option has the variable of its long name, or else of its short one, including
    /// flattened options and those of nested commands; an option that concerns the files of one
    /// call has none.
    #[test]
    fn variables_are_named_after_options() {
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(variable(&["sim"], "first_request"), named("KGATE_OPT_FIRST_REQUEST"));
        assert_eq!(variable(&["sim"], "keep"), named("KGATE_OPT_KEEP"));
        assert_eq!(variable(&["members", "add"], "node"), named("KGATE_OPT_NODE"));
        assert_eq!(variable(&["run"], "private"), None);
        assert_eq!(variable(&["node"], "machine"), None);
        assert_eq!(variable(&["set"], "k"), named("KGATE_OPT_K"));
        assert_eq!(variable(&["certs", "new"], "hosts"), named("KGATE_OPT_HOST"));
        assert_eq!(variable(&["sim"], "save"), None);
        assert_eq!(variable(&["run"], "shell_text"), None);
        assert_eq!(variable(&["scenario"], "trace"), None);
        assert_eq!(variable(&["node"], "local"), None);
    }
}
