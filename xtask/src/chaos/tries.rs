//! x
use anyhow::Result;
use std::path::Path;
pub(crate) fn run(_: &Path, _: &[&str]) -> Result<()> {
    Ok(())
}
