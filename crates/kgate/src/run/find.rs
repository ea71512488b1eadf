//! Is there such a command? Asked before a permit is, so that a slip of the pen costs nobody a
//! slot.
//!
//! The same search as `execvp`, which has the last word.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Why a command cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There is none of that name: 127.
    NotFound,
    /// There is, but it cannot be run: 126.
    NotExecutable,
}

/// Looks where `execvp` will.
pub(crate) fn find(command: &OsStr) -> Result<(), Missing> {
    let default = || "/bin:/usr/bin".into();
    find_in(command, &env::var_os("PATH").unwrap_or_else(default))
}

fn find_in(command: &OsStr, path: &OsStr) -> Result<(), Missing> {
    if command.as_bytes().contains(&b'/') {
        return look(Path::new(command));
    }
    let mut found = Err(Missing::NotFound);
    if command.is_empty() {
        return found;
    }
    for folder in env::split_paths(path) {
        // An empty part of PATH is the current directory.
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        match look(&folder.join(command)) {
            Ok(()) => return Ok(()),
            Err(Missing::NotExecutable) => found = Err(Missing::NotExecutable),
            Err(Missing::NotFound) => {}
        }
    }
    found
}

fn look(file: &Path) -> Result<(), Missing> {
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

    /// As the shell tells them apart: 127 is not there, 126 is there and cannot be run.
    #[test]
    fn what_is_missing_is_told_from_what_cannot_run() {
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
