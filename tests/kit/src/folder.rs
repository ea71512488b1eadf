//! Temporary folders.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An empty folder that is removed, with its contents, when it is dropped.
#[derive(Debug)]
pub struct TempFolder(PathBuf);

impl TempFolder {
    /// Creates a folder; `name` appears in its path, which is unique.
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("kgate-test-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        // An earlier process with the same id may have been killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }
}

impl Deref for TempFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TempFolder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two folders of the same name have different paths, and a dropped folder is deleted.
    #[test]
    fn a_folder_is_deleted_with_its_value() {
        let (one, two) = (TempFolder::new("same"), TempFolder::new("same"));
        assert_ne!(*one, *two);
        std::fs::write(one.join("file"), "text").expect("written");
        let path = one.to_path_buf();
        drop(one);
        assert!(!path.exists() && two.is_dir());
    }
}
