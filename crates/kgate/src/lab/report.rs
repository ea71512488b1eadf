//! `kgate lab report`: writes summary, verdicts, plots and reports again, from the existing runs.

use std::io::{self, Write};
use std::process::ExitCode;

use kgate_lab::experiment::results;

use super::ReportArgs;
use crate::Outcome;

pub(super) fn run(args: &ReportArgs) -> Outcome {
    let mut stdout = io::stdout().lock();
    for (dir, results) in results::read_all(&args.dir)? {
        results.write(&dir)?;
        writeln!(stdout, "{}", dir.join(results::REPORT).display())?;
    }
    if let Some(index) = results::write_index(&args.dir)? {
        writeln!(stdout, "{}", index.display())?;
    }
    Ok(ExitCode::SUCCESS)
}
