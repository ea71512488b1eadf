//! `kgate man`: the manual pages, one for each command, from the definitions of the help.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command, CommandFactory, ValueHint};
use clap_mangen::Man;

use crate::cli::{Cli, without_environment};
use crate::{Failure, Outcome, variables};

/// Shown below `kgate man --help`.
pub(crate) const HELP: &str = "\
The pages name the version and no date, so that two builds of a package are equal.

Examples:
  In a package:
    kgate man --dir \"$DESTDIR/usr/share/man/man1\"
  For one user, without a directory in the path of man:
    kgate man --dir ~/.local/share/man/man1
    man -M ~/.local/share/man kgate-run";

/// Arguments of `kgate man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory for the pages: kgate.1, kgate-run.1 and so on. Created if necessary
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

pub(crate) fn run(args: &ManArgs) -> Outcome {
    let folder = &args.dir;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut root =
        without_environment(variables::read(Cli::command())).disable_help_subcommand(true);
    root.build();
    write_pages(root, folder)?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(command: Command, folder: &Path) -> Result<(), Failure> {
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        write_pages(part.clone(), folder)?;
    }
    // An empty date would be left out of the title, and what follows it taken for one.
    let page = Man::new(command).date(env!("CARGO_PKG_VERSION")).source("kgate");
    let path = folder.join(page.get_filename());
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).replace("\n.SH EXTRA\n", "\n.SH NOTES\n");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}
