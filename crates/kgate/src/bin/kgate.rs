//! `kgate`: the program that users start.

use std::process::ExitCode;

fn main() -> ExitCode {
    kgate::quick()
}
