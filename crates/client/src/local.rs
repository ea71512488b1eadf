//! The node of this machine or of this user: where its socket is.
//!
//! A machine's node listens on [`MACHINE_SOCKET`]. Without one, `kgate run` starts a node for its
//! user, which listens on `node.sock` in [`user_directory`].

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The socket of the node that serves all users of a machine.
pub const MACHINE_SOCKET: &str = "/run/kgate/node.sock";

/// The directory for the socket and the slot files of a user's own node: `$XDG_RUNTIME_DIR/kgate`,
/// else `kgate-UID` in the system's temporary directory.
pub fn user_directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("kgate"),
        None => {
            let user = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("kgate-{user}"))
        }
    }
}

/// Whether a path is a directory that only this user can access. A node in any other directory must
/// not be trusted: another user may have created it.
pub fn is_private(directory: &Path) -> bool {
    let user = rustix::process::getuid().as_raw();
    std::fs::symlink_metadata(directory)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

/// The socket of the node that runs on this machine, for all users or for this one.
pub fn running_node() -> Option<PathBuf> {
    let accepts = |path: &PathBuf| UnixStream::connect(path).is_ok();
    let of_machine = Some(PathBuf::from(MACHINE_SOCKET)).filter(accepts);
    let of_user = || {
        let directory = user_directory();
        is_private(&directory).then(|| directory.join("node.sock")).filter(accepts)
    };
    of_machine.or_else(of_user)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory that others can read, a link to a private one, and none are not private.
    #[test]
    fn private_directories_are_known() {
        let directory = std::env::temp_dir().join(format!("kgate-local-{}", std::process::id()));
        let link = directory.with_extension("link");
        std::fs::create_dir_all(&directory).unwrap();
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        for (mode, expected) in [(0o700, true), (0o750, false), (0o755, false)] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&directory, permissions).unwrap();
            assert_eq!(is_private(&directory), expected, "{mode:o}");
        }
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!is_private(&link));
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_dir(&directory).unwrap();
        assert!(!is_private(&directory));
    }
}
