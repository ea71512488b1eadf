//! The folders of a node: nobody but its user, or root, may put files there. In a folder that
//! another user can change, a symbolic link would lead the node to a file of that user's choice.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Makes a folder that belongs to this user, and gives it this mode. No symbolic link is followed,
/// also none of this user's.
pub(crate) fn make_own(folder: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().recursive(true).mode(mode).create(folder) {
        // Something else is there: the next step says what.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = open(folder, flags, Mode::empty());
    let opened = File::from(opened.map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR => refused("it is no folder (a link, or a file)"),
        other => other.into(),
    })?);
    if opened.metadata()?.uid() != geteuid().as_raw() {
        return Err(refused("it belongs to another user"));
    }
    opened.set_permissions(Permissions::from_mode(mode))
}

/// Checks that no other user can put files into a folder. It may be a link of root's or of this
/// user's: data may be on another disk.
pub(crate) fn check_own(folder: &Path) -> io::Result<()> {
    let is_own = |user: u32| user == 0 || user == geteuid().as_raw();
    let (named, found) = (fs::symlink_metadata(folder)?, fs::metadata(folder)?);
    if !found.is_dir() {
        return Err(refused("it is no folder"));
    }
    if !is_own(named.uid()) || !is_own(found.uid()) {
        return Err(refused("it belongs to another user"));
    }
    if found.mode() & 0o002 != 0 {
        return Err(refused("every user may write to it"));
    }
    Ok(())
}

fn refused(why: &str) -> io::Error {
    let user = geteuid().as_raw();
    let text = format!(
        "{why}: make it a folder of user {user}, who starts this node, that other users cannot \
         write to, or remove it"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use kgate_testkit::TempFolder;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// A folder is made, and gets its mode; a link in its place is refused, and where it leads
    /// keeps its mode.
    #[test]
    fn a_link_is_not_followed() {
        let folder = TempFolder::new("folders");
        let (own, target, link) = (folder.join("own"), folder.join("target"), folder.join("link"));
        for _ in 0..2 {
            make_own(&own, 0o711).unwrap();
            assert_eq!(mode(&own), 0o711);
        }
        fs::create_dir(&target).unwrap();
        fs::set_permissions(&target, Permissions::from_mode(0o700)).unwrap();
        symlink(&target, &link).unwrap();
        let refused = make_own(&link, 0o711).unwrap_err().to_string();
        assert!(refused.contains("it is no folder"), "{refused}");
        assert_eq!(mode(&target), 0o700);
        fs::write(folder.join("file"), "").unwrap();
        assert!(make_own(&folder.join("file"), 0o711).is_err());
    }

    /// A folder that others can write to is refused, also behind a link of this user's.
    #[test]
    fn a_folder_of_all_users() {
        let folder = TempFolder::new("folders-open");
        let (open, link) = (folder.join("open"), folder.join("link"));
        fs::create_dir(&open).unwrap();
        symlink(&open, &link).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        check_own(&open).unwrap();
        check_own(&link).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        for path in [&open, &link] {
            let refused = check_own(path).unwrap_err().to_string();
            assert!(refused.contains("every user may write"), "{refused}");
        }
    }
}
