//! Looks for the command before a permit is requested, so that a typing error takes no slot.
//!
//! The search is that of `execvp`, which decides in the end.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Why a command cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// No such command: exit code 127.
    NotFound,
    /// The file is not executable: exit code 126.
    NotExecutable,
}

/// Searches like `execvp`.
pub(crate) fn find(command: &OsStr) -> Result<(), Missing> {
    let default = || "/bin:/usr/bin".into();
    find_in(command, &env::var_os("PATH").unwrap_or_else(default))
}

fn find_in(command: &OsStr, path: &OsStr) -> Result<(), Missing> {
    if command.as_bytes().contains(&b'/') {
        return check(Path::new(command));
    }
    let mut found = Err(Missing::NotFound);
    if command.is_empty() {
        return found;
    }
    for folder in env::split_paths(path) {
        // An empty part of PATH is the current directory.
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        match check(&folder.join(command)) {
            Ok(()) => return Ok(()),
            Err(Missing::NotExecutable) => found = Err(Missing::NotExecutable),
            Err(Missing::NotFound) => {}
        }
    }
    found
}

fn check(file: &Path) -> Result<(), Missing> {
    let absent = [std::io::ErrorKind::NotFound, std::io::ErrorKind::NotADirectory];
    let data = std::fs::metadata(file).map_err(|error| {
        if absent.contains(&error.kind()) { Missing::NotFound } else { Missing::NotExecutable }
    })?;
    if !data.is_file() || access(file, Access::EXEC_OK).is_err() {
        return Err(Missing::NotExecutable);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in a shell: 127 for a missing command, 126 for one that is not executable.
    #[test]
    fn a_missing_command_is_told_from_one_that_is_not_executable() {
        let find = |command: &str, path: &str| find_in(OsStr::new(command), OsStr::new(path));
        assert_eq!(find("sh", "/nowhere:/bin"), Ok(()));
        assert_eq!(find("/bin/sh", ""), Ok(()));
        assert_eq!(find("no-such-command", "/bin"), Err(Missing::NotFound));
        assert_eq!(find("", "/bin"), Err(Missing::NotFound));
        assert_eq!(find("/bin", ""), Err(Missing::NotExecutable));
        assert_eq!(find("passwd", "/etc"), Err(Missing::NotExecutable));
        assert_eq!(find("/etc/passwd/x", ""), Err(Missing::NotFound));
    }
}
