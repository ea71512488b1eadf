//! Each rule catches an offence that is planted for it, and leaves its neighbours alone.

use super::*;

#[test]
fn a_clean_tree_has_no_offence() {
    assert_eq!(offences(&clean()), [""; 0]);
}

#[test]
fn a_long_source_file_is_caught() {
    let longest = "//! x\n".repeat(LINES_MAX);
    assert_eq!(planted("crates/sim/src/lib.rs", &longest), [""; 0]);
    let too_long = longest + "//! x\n";
    for path in [
        "crates/sim/src/lib.rs",
        "xtask/src/main.rs",
        "tests/tests/papers.rs",
        "benches/src/lib.rs",
    ] {
        assert_eq!(planted(path, &too_long).len(), 1, "{path}");
    }
    assert_eq!(planted("docs/long.md", &too_long), [""; 0]);
}

#[test]
fn unfinished_code_is_caught() {
    for mark in
        [concat!("to", "do!()"), concat!("unim", "plemented!(\"later\")"), concat!("#[", "ignore]")]
    {
        let text = format!("//! Story.\nfn f() {{}}\n{mark}\n");
        let found = planted("crates/sim/tests/run.rs", &text);
        assert!(
            found.len() == 1 && found[0].starts_with("crates/sim/tests/run.rs:3: unfinished"),
            "{found:?}"
        );
        assert_eq!(planted("docs/STYLE.md", &text), [""; 0]);
    }
}

#[test]
fn a_source_file_without_its_story_is_caught() {
    for text in ["", "use core::fmt;\n", "// Story.\n", "/// Story.\n", "\n//! Story.\n"] {
        assert_eq!(planted("crates/sim/src/queue/bucket.rs", text).len(), 1, "{text:?}");
        assert_eq!(planted("crates/sim/tests/run.rs", text), [""; 0]);
    }
}

#[test]
fn space_at_the_end_of_a_line_is_caught() {
    for end in [" ", "\t", "\r"] {
        let found = planted("docs/page.md", &format!("first\nsecond{end}\nthird\n"));
        assert!(
            found.len() == 1 && found[0].starts_with("docs/page.md:2: white space"),
            "{found:?}"
        );
    }
    assert_eq!(planted("docs/page.md", "the last line ").len(), 1);
}

#[test]
fn a_path_of_one_machine_is_caught() {
    for path in
        [concat!("/wo", "rk/kgate"), concat!("/ro", "ot/.cargo"), concat!("/ho", "me/me/kgate")]
    {
        for text in [
            path.to_owned(),
            format!("see `{path}`"),
            format!("DIR={path}"),
            format!("file://{path}"),
        ] {
            assert_eq!(planted("docs/page.md", &text).len(), 1, "{text}");
        }
        for text in
            [format!("https://example.org{path}"), format!("..{path}"), format!("web/src{path}")]
        {
            assert_eq!(planted("docs/page.md", &text), [""; 0]);
        }
    }
}

#[test]
fn a_missing_lock_file_is_caught() {
    let found = offences(&clean_without("Cargo.lock"));
    assert!(found.len() == 1 && found[0].starts_with("Cargo.lock: missing"), "{found:?}");
}

#[test]
fn a_change_log_without_its_open_heading_is_caught() {
    assert_eq!(offences(&clean_without("CHANGELOG.md")).len(), 1);
    for text in
        ["# Changes\n", "# Changes\n## [0.1.0]\n", "### [Unreleased]\n", "see ## [Unreleased]\n"]
    {
        let mut files = clean_without("CHANGELOG.md");
        files.push(file("CHANGELOG.md", text));
        let found = offences(&files);
        assert!(found.len() == 1 && found[0].starts_with("CHANGELOG.md: no heading"), "{found:?}");
    }
}

/// The walk sees hidden folders and sources, but neither what cargo builds nor what git keeps.
#[test]
fn the_walk_sees_the_project_and_not_what_is_built_from_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    walk(root, "", &mut files).unwrap();
    for path in ["Cargo.lock", ".cargo/config.toml", "xtask/src/tidy/tests.rs"] {
        assert!(files.iter().any(|file| file.path == path), "{path}");
    }
    for folder in ["target/", "benches/dscale/target/", ".git"] {
        let built = |file: &&File| file.path.starts_with(folder) && file.path != ".gitignore";
        assert!(files.iter().find(built).is_none(), "{folder}");
    }
}

/// The offences of a clean tree with one more file.
fn planted(path: &str, text: &str) -> Vec<String> {
    let mut files = clean();
    files.push(file(path, text));
    offences(&files)
}

fn clean_without(path: &str) -> Vec<File> {
    clean().into_iter().filter(|file| file.path != path).collect()
}

fn clean() -> Vec<File> {
    vec![
        file("Cargo.lock", "version = 4\n"),
        file("CHANGELOG.md", "# Changes\n\n## [Unreleased]\n- A gate.\n"),
        file("crates/core/src/lib.rs", "//! The core.\n#![no_std]\n"),
        file("xtask/src/main.rs", "fn main() {}\n"),
    ]
}

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}
