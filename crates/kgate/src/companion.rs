//! The other program of the package, `kgate-full`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::Failure;
use crate::run::exit::FAILED;

/// The name of its file.
const NAME: &str = "kgate-full";

/// The file of `kgate-full`: beside this program (it may be this one), or in `../lib/kgate`.
pub(crate) fn full() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| {
        format!("cannot find the folder of this program, in which {NAME} is: {error}; mount /proc")
    })?;
    let beside = own.with_file_name(NAME);
    // Of /usr/bin it is /usr/lib/kgate.
    let prefix = own.parent().and_then(|folder| folder.parent());
    let packaged = prefix.unwrap_or(&own).join("lib/kgate").join(NAME);
    if let Some(found) = [&beside, &packaged].into_iter().find(|file| file.exists()) {
        return Ok(found.clone());
    }
    Err(format!(
        "{NAME} is missing, the part of kgate with this command: it is neither {} nor {}; install \
         it beside kgate",
        beside.display(),
        packaged.display()
    ))
}

/// Becomes `kgate-full`, with the same arguments. Returns only if that is not possible.
pub(crate) fn become_full(arguments: &[OsString]) -> Failure {
    let full = match full() {
        Ok(full) => full,
        Err(text) => return Failure::Exit(FAILED, text),
    };
    let mut command = Command::new(&full);
    if let [name, words @ ..] = arguments {
        command.arg0(name).args(words);
    }
    let error = command.exec();
    Failure::Exit(FAILED, format!("cannot start {}: {error}", full.display()))
}
