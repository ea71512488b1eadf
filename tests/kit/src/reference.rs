//! Generated pages of the reference.

use std::path::Path;

/// Asserts that `docs/reference/FILE` is `page`. With `KGATE_REFERENCE_UPDATE=1`, as
/// `cargo xtask reference` sets it, the file is written instead.
pub fn assert_reference(file: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(file);
    if std::env::var_os("KGATE_REFERENCE_UPDATE").is_some() {
        std::fs::write(&path, page).expect("the page is written");
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(page.lines()).position(|(old, new)| old != new);
    let line = differs.unwrap_or_else(|| found.lines().count().min(page.lines().count())) + 1;
    assert!(
        found == page,
        "docs/reference/{file} differs from the code at line {line}: run `cargo xtask reference`"
    );
}
