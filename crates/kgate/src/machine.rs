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
    let config = Config::machine(Path::new(MACHINE_SOCKET), file)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    prepare_folder(Path::new(MACHINE_SOCKET).parent().unwrap_or(usual))?;
    Ok(config)
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
