//! `kgate completions`: scripts that complete command lines in bash, zsh and fish.
//!
//! The scripts come from the same definitions as the help. Each gets a function that completes the
//! names of gates by `kgate status --names`. Names come from other users: a script offers only
//! names that no shell interprets.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::{generate, shells};

use crate::Outcome;
use crate::cli::Cli;

/// Shown below `kgate completions --help`.
pub(crate) const HELP: &str = "\
Names of gates are those of the node that `kgate status` contacts.

Examples:
  For one user:
    mkdir -p ~/.local/share/bash-completion/completions ~/.zfunc ~/.config/fish/completions
    kgate completions bash > ~/.local/share/bash-completion/completions/kgate
    kgate completions zsh > ~/.zfunc/_kgate        # with ~/.zfunc in fpath
    kgate completions fish > ~/.config/fish/completions/kgate.fish
  In a package: the same files below share/bash-completion/completions, \
share/zsh/site-functions and share/fish/vendor_completions.d";

/// Arguments of `kgate completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The shells with completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &CompletionsArgs) -> Outcome {
    std::io::stdout().write_all(script(args.shell).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> String {
    let mut command = Cli::command();
    let gates = gate_commands(&command);
    let mut bytes = Vec::new();
    match shell {
        Shell::Bash => generate(shells::Bash, &mut command, "kgate", &mut bytes),
        Shell::Zsh => generate(shells::Zsh, &mut command, "kgate", &mut bytes),
        Shell::Fish => generate(shells::Fish, &mut command, "kgate", &mut bytes),
    }
    let generated = String::from_utf8(bytes).expect("a script is text");
    match shell {
        Shell::Bash => generated + &BASH.replace("COMMANDS", &gates.join("|")),
        Shell::Zsh => with_gates(&generated),
        Shell::Fish => generated + &FISH.replace("COMMANDS", &gates.join(" ")),
    }
}

/// The commands whose first argument is the name of a gate.
fn gate_commands(command: &Command) -> Vec<String> {
    let of_gate = |command: &&Command| {
        let mut positionals = command.get_positionals();
        positionals.next().is_some_and(|first| first.get_id() == "name")
    };
    command.get_subcommands().filter(of_gate).map(|command| command.get_name().into()).collect()
}

/// In zsh each argument names its completer: the generated script offers files for a gate.
fn with_gates(script: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in script.lines() {
        let is_gate =
            line.starts_with("':name -- The gate:") || line.starts_with("'::name -- The gate");
        lines.push(if is_gate {
            line.replace(":_default'", ":_kgate_gates'")
        } else {
            line.into()
        });
        if line == "autoload -U is-at-least" {
            lines.push(ZSH.into());
        }
    }
    lines.join("\n") + "\n"
}

/// Completes gates, and commands after `kgate run GATE`.
const BASH: &str = r#"
_kgate_gates() {
    timeout 1 kgate status --names 2>/dev/null | grep -xE '[A-Za-z0-9_.:/@+][A-Za-z0-9_.:/@+-]*'
}

_kgate_words() {
    local current="${COMP_WORDS[COMP_CWORD]}" word
    if [[ "$current" != -* && "$COMP_CWORD" == 2 ]]; then
        case "${COMP_WORDS[1]}" in
        COMMANDS)
            COMPREPLY=()
            while IFS= read -r word; do
                [[ "$word" == "$current"* ]] && COMPREPLY+=("$word")
            done < <(_kgate_gates)
            return 0
            ;;
        esac
    fi
    if [[ "$current" != -* && "$COMP_CWORD" == 3 && "${COMP_WORDS[1]}" == run ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
        return 0
    fi
    _kgate "$@"
}

complete -F _kgate_words -o bashdefault -o default kgate
"#;

const ZSH: &str = r#"
_kgate_gates() {
    local -a gates
    gates=(${(f)"$(timeout 1 kgate status --names 2>/dev/null |
        grep -xE '[A-Za-z0-9_.:/@+][A-Za-z0-9_.:/@+-]*')"})
    compadd -a gates
}
"#;

const FISH: &str = r#"
function __fish_kgate_wants_gate
    set -l words (commandline -opc)
    test (count $words) -eq 2; and contains -- $words[2] COMMANDS
end

function __fish_kgate_gates
    timeout 1 kgate status --names 2>/dev/null |
        string match -r '^[A-Za-z0-9_.:/@+][A-Za-z0-9_.:/@+-]*$'
end

complete -c kgate -n __fish_kgate_wants_gate -f -a '(__fish_kgate_gates)'
"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// Each script asks for gates at every command whose first argument is one.
    #[test]
    fn every_command_of_a_gate_completes_gates() {
        let commands = gate_commands(&Cli::command());
        for expected in ["run", "acquire", "status", "explain", "watch", "set"] {
            assert!(commands.iter().any(|command| command == expected), "{commands:?}");
        }
        assert_eq!(script(Shell::Zsh).matches(":_kgate_gates'").count(), commands.len());
        assert!(script(Shell::Bash).contains(&commands.join("|")));
        assert!(script(Shell::Fish).contains(&commands.join(" ")));
    }
}
