//! What a node keeps is for its own user: who holds what, who may come back, what was promised.

use std::fs::{DirBuilder, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes a folder, and those above it, that others cannot look into. One that is there already
/// stays as it is: its owner may have had reasons.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// From now on only its owner reads and writes it.
pub fn private_file(path: &Path) -> io::Result<()> {
    set_permissions(path, Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the mask of the process: nobody else may read.
    #[test]
    fn only_for_its_owner() {
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
