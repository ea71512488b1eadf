//! `kgate-full`: the program with all commands, which `kgate` becomes.

use std::process::ExitCode;

fn main() -> ExitCode {
    kgate::full()
}
