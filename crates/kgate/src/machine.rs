//! The node of a whole machine: the places that all its users know.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use anyhow::Context;
use kgate_client::local::{MACHINE_CONFIG, MACHINE_SOCKET};
use kgate_node::Config;

use crate::Failure;

/// The configuration of the machine's node: that file, or the usual one if it exists.
pub(crate) fn config(file: Option<&Path>) -> Result<Config, Failure> {
    let usual = Path::new(MACHINE_CONFIG);
    let file = file.or_else(|| std::fs::symlink_metadata(usual).is_ok().then_some(usual));
    let config = Config::machine(Path::new(MACHINE_SOCKET), file);
    config.map_err(|error| Failure::Usage(error.to_string()))
}

/// Prepares the places of the machine's node, before it has its socket.
pub(crate) fn prepare(file: Option<&Path>) -> anyhow::Result<()> {
    let usual = Path::new(MACHINE_CONFIG);
    prepare_folder(Path::new(MACHINE_SOCKET).parent().unwrap_or(usual))?;
    leave_mark(usual, file)
}

/// What a node writes that was started without a configuration.
pub(crate) const MARK: &str = "\
# Written by `kgate node --machine`. While this file exists, every user of this machine uses that
# node, and a command fails if it does not run. docs/guide/one-machine.md explains the fields.
";

/// Leaves the usual configuration behind, before the node has its socket: after a reboot, which
/// clears /run, it is all that tells users that this machine has a node. A configuration of another
/// name is linked, so that the next start without its name has the same rights.
fn leave_mark(usual: &Path, file: Option<&Path>) -> anyhow::Result<()> {
    if std::fs::symlink_metadata(usual).is_ok() {
        return Ok(());
    }
    let folder = usual.parent().unwrap_or(usual);
    let written =
        DirBuilder::new().recursive(true).mode(0o755).create(folder).and_then(|()| match file {
            Some(file) => std::os::unix::fs::symlink(std::fs::canonicalize(file)?, usual),
            None => std::fs::write(usual, MARK),
        });
    written.with_context(|| {
        format!(
            "cannot write {}, which tells users after a reboot that this machine has a node: \
             create it by hand (it may be empty), or run `kgate setup machine` as root",
            usual.display()
        )
    })
}

/// Creates the folder of the socket, which every user may enter and only this one may change.
fn prepare_folder(folder: &Path) -> anyhow::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder).with_context(|| {
        format!("cannot create {}: run `kgate node --machine` as root", folder.display())
    })?;
    let found = std::fs::symlink_metadata(folder)?;
    let user = rustix::process::geteuid().as_raw();
    anyhow::ensure!(
        found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0,
        "{} must be a directory of user {user}, who starts this node, that nobody else may change: \
         run `kgate node --machine` as root",
        folder.display()
    );
    Ok(())
}
