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
fn a_long_readme_is_caught() {
    let longest = "word\n".repeat(README_WORDS_MAX);
    assert_eq!(planted("README.md", &longest), [""; 0]);
    assert_eq!(planted("README.md", &(longest.clone() + "word\n")).len(), 1);
    assert_eq!(planted("docs/README.md", &(longest + "word\n")), [""; 0]);
}

#[test]
fn unfinished_code_is_caught() {
    for mark in
        [concat!("to", "do!()"), concat!("unim", "plemented!(\"later\")"), concat!("#[", "ignore]")]
    {
        let text = format!("//! Purpose.\nfn f() {{}}\n{mark}\n");
        let found = planted("crates/sim/tests/run.rs", &text);
        assert!(
            found.len() == 1 && found[0].starts_with("crates/sim/tests/run.rs:3: unfinished"),
            "{found:?}"
        );
        assert_eq!(planted("docs/STYLE.md", &text), [""; 0]);
    }
}

#[test]
fn a_source_file_without_its_heading_is_caught() {
    for text in ["", "use core::fmt;\n", "// Purpose.\n", "/// The purpose.\n", "\n//! Purpose.\n"]
    {
        assert_eq!(planted("crates/sim/src/queue/bucket.rs", text).len(), 1, "{text:?}");
        assert_eq!(planted("crates/sim/tests/run.rs", text), [""; 0]);
    }
}

#[test]
fn a_doc_comment_of_one_word_is_caught() {
    for text in ["/// Who.\nnode: NodeId,\n", "x\n    /// What\n    /// \n", "/// Gate.\n"] {
        let found = planted("verified/lib.rs", &text.replace("/// \n", "y\n"));
        assert_eq!(found.len(), 1, "{text:?} {found:?}");
    }
    for text in
        ["/// The node.\n", "/// Long\n/// text.\n", "/// Long text\n/// ends.\n", "// Who.\n"]
    {
        assert_eq!(planted("verified/lib.rs", text), [""; 0], "{text:?}");
    }
}

#[test]
fn a_wide_line_of_rust_is_caught() {
    for start in ["", "// ", "    /// ", "let text = \""] {
        let line = |width: usize| format!("{start}a {}", "é".repeat(width - 2 - start.len()));
        assert_eq!(planted("verified/lib.rs", &line(100)), [""; 0]);
        let found = planted("verified/lib.rs", &line(101));
        assert!(found.len() == 1 && found[0].contains("100 columns"), "{found:?}");
    }
    let address = format!("// https://example.org/{}", "x".repeat(100));
    assert_eq!(planted("verified/lib.rs", &address), [""; 0]);
}

#[test]
fn a_wide_paragraph_of_several_lines_is_caught() {
    let wide = "word ".repeat(25).trim_end().to_owned();
    for whole in [
        format!("text\n\n{wide}\n\ntext\n"),
        format!("# Heading\n{wide}\n- {wide}\n- {wide}\n  - {wide}\n1. {wide}\n"),
        format!("| {wide} |\n| {wide} |\ntext\n"),
        format!("```text\n{wide}\n{wide}\n```\n{wide}\n"),
    ] {
        assert_eq!(planted("text.md", &whole), [""; 0], "{whole}");
    }
    for split in [
        format!("{wide}\nmore\n"),
        format!("first\n{wide}\n"),
        format!("- {wide}\n  more\n"),
        format!("- first\n  {wide}\n"),
    ] {
        let found = planted("text.md", &split);
        assert!(found.len() == 1 && found[0].contains("100 columns"), "{split} {found:?}");
    }
}

/// Each refused word, as prose, as a part of a name and as the name of a file.
#[test]
fn a_private_word_is_caught() {
    for (path, text) in [
        ("text.md", "The node's former life ends."),
        ("text.md", "Whoever asks waits."),
        ("text.md", "A node held for crashed."),
        ("x.proto", "message PeerLetter {}"),
        ("x.toml", "courier = 1"),
        ("scenario.txt", "# the story"),
        ("verified/lib.rs", "struct LeaseDeed;"),
        ("verified/lib.rs", "fn bury_node() {}"),
        ("verified/lib.rs", "fn a(only_say: bool) {}"),
        ("verified/lib.rs", "let x = Why::Closed;"),
        ("verified/lib.rs", "fn f(door: &Door) {}"),
        ("verified/told.rs", "//! Reads a trace."),
        ("verified/desk/mod.rs", "//! A handle."),
        ("verified/junk.rs", "//! Malformed messages."),
    ] {
        assert_eq!(planted(path, text).len(), 1, "{path}: {text}");
    }
}

/// Other words, words within words, plain meanings, and the migration table.
#[test]
fn the_fields_words_are_not_caught() {
    for (path, text) in [
        ("text.md", "Why a lifetime? Ask the node; the door is open."),
        ("text.md", "A bearer token, a controller, history, lively."),
        ("verified/lib.rs", "// Ask the node. Why?\nlet text = \"Why\"; std::cmp::Ordering::Less;"),
        ("verified/lib.rs", "fn told(ask: u32) {}"),
        ("verified/handle.rs", "//! A handle."),
    ] {
        assert_eq!(planted(path, text), [""; 0], "{path}: {text}");
    }
    let mut files = clean_without("CHANGELOG.md");
    let table = "## [Unreleased]\n| life | incarnation |\n";
    files.push(file("CHANGELOG.md", table));
    assert_eq!(offences(&files), [""; 0]);
}

#[test]
fn space_at_the_end_of_a_line_is_caught() {
    for end in [" ", "\t", "\r"] {
        let found = planted("docs/guide.md", &format!("first\nsecond{end}\nthird\n"));
        assert!(
            found.len() == 1 && found[0].starts_with("docs/guide.md:2: white space"),
            "{found:?}"
        );
    }
    assert_eq!(planted("docs/guide.md", "the last line ").len(), 1);
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
            assert_eq!(planted("docs/guide.md", &text).len(), 1, "{text}");
        }
        for text in
            [format!("https://example.org{path}"), format!("..{path}"), format!("web/src{path}")]
        {
            assert_eq!(planted("docs/guide.md", &text), [""; 0]);
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
