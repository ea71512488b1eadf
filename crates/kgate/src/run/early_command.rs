//! Where CMD begins in a command line of `kgate run` that is not parsed yet.
//!
//! The guard is started with CMD before the command line is parsed, which takes about as long. This
//! is a guess for that purpose only: the front compares it with the result of parsing, and starts
//! another guard if they differ.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Options without a value.
const SWITCHES: [&str; 10] = [
    "--detached",
    "--exclusive",
    "--help",
    "--no-wait",
    "--nonblock",
    "--private",
    "--shared",
    "--verbose",
    "--quiet",
    "--version",
];
/// Short options without a value. Any other short option has one: the rest of its word, or the next
/// word.
const SHORT_SWITCHES: &[u8] = b"hnsvxqV";

/// What is probably CMD and its arguments, if it is a `kgate run` that starts its guard early.
pub(super) fn likely_command(arguments: &[OsString]) -> Option<&[OsString]> {
    if arguments.get(1)? != "run" {
        return None;
    }
    let mut named = false;
    let mut at = 2;
    while let Some(word) = arguments.get(at) {
        let bytes = word.as_bytes();
        if word == "--detached" {
            return None;
        } else if word == "--" {
            // Without a name before it, the name is the next word.
            at += 1 + usize::from(!named);
            return arguments.get(at..).filter(|command| !command.is_empty());
        } else if bytes.starts_with(b"--") {
            let alone = bytes.contains(&b'=') || SWITCHES.iter().any(|switch| word == switch);
            at += if alone { 1 } else { 2 };
        } else if let [b'-', options @ ..] = bytes
            && !options.is_empty()
        {
            let valued = options.iter().position(|option| !SHORT_SWITCHES.contains(option));
            at += if valued == Some(options.len() - 1) { 2 } else { 1 };
        } else if named {
            return arguments.get(at..);
        } else {
            (named, at) = (true, at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::{ArgAction, Args};

    use super::*;

    fn guess(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let command = likely_command(&words)?;
        Some(command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    /// CMD is found with and without `--`, whatever its own words look like.
    #[test]
    fn the_command_is_found_without_parsing() {
        for (line, command) in [
            ("kgate run gpu -k 3 -- make -j4", Some("make -j4")),
            ("kgate run gpu make -- x", Some("make -- x")),
            ("kgate run gpu -k3 -nv make -k 5", Some("make -k 5")),
            ("kgate run -k 3 gpu --node=x -vk 3 make", Some("make")),
            ("kgate run gpu --wait 5 --nonblock make", Some("make")),
            ("kgate run -- gpu make", Some("make")),
            ("kgate run gpu", None),
            ("kgate run gpu --", None),
            ("kgate run --detached gpu make", None),
            ("kgate acquire gpu make", None),
        ] {
            assert_eq!(guess(line).as_deref(), command, "{line}");
        }
    }

    /// The lists of options without a value are those of the definition.
    #[test]
    fn the_switches_are_those_of_the_definition() {
        let run = super::super::options::RunArgs::augment_args(clap::Command::new("run"));
        for arg in run.get_arguments() {
            let is_switch = !arg.get_action().takes_values();
            assert!(!matches!(arg.get_action(), ArgAction::Count), "{arg}");
            for long in arg.get_long_and_visible_aliases().unwrap_or_default() {
                let listed = SWITCHES.contains(&format!("--{long}").as_str());
                assert_eq!(listed, is_switch, "--{long}");
            }
            if let Some(short) = arg.get_short() {
                let listed = SHORT_SWITCHES.contains(&u8::try_from(short).expect("ASCII"));
                assert_eq!(listed, is_switch, "-{short}");
            }
        }
    }
}
