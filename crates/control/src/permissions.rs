//! Access to a node's files: only their owner may read and write them.

use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes a folder, and the folders above it, that only its owner can read. The permissions of a
/// folder that exists already are not changed: its owner may have chosen them.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Lets only the owner read and write a file from now on.
pub fn private_file(path: &Path) -> io::Result<()> {
    set_permissions(path, Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the umask of the process is, no other user may read.
    #[test]
    fn only_the_owner_may_read() {
        let folder = std::env::temp_dir().join(format!("kgate-private-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        private_folder(&folder).unwrap();
        let file = folder.join("file");
        std::fs::write(&file, "x").unwrap();
        private_file(&file).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
