//! Rules of style that no lint knows, as a check over the text of all files.
//!
//! The files are found by walking the tree, not by asking git, so that an unpacked archive is
//! checked as a checkout is. Each rule is a function from a file to its offences. The patterns here
//! are put together with `concat!`, because this file is checked too.

mod width;
mod words;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

pub(crate) fn check(root: &Path) -> Result<()> {
    let files = read(root)?;
    println!("reading {} text files", files.len());
    crate::report(&offences(&files))
}

fn read(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    walk(root, "", &mut files).with_context(|| format!("cannot read {}", root.display()))?;
    Ok(files)
}

/// A text file of the project; its path is relative to the root, with `/` between the parts.
struct File {
    path: String,
    text: String,
}

fn offences(files: &[File]) -> Vec<String> {
    let rules = [
        too_long,
        long_readme,
        unfinished,
        without_heading,
        one_word_doc,
        trailing_space,
        machine_path,
        width::rust,
        width::markdown,
        words::check,
    ];
    let mut found: Vec<String> =
        files.iter().flat_map(|file| rules.iter().flat_map(|rule| rule(file))).collect();
    found.extend(no_lock_file(files));
    found.extend(no_unreleased_heading(files));
    found
}

const LINES_MAX: usize = 700;

fn too_long(file: &File) -> Vec<String> {
    let ours = ["crates/", "xtask/", "tests/", "benches/", "verification/"]
        .iter()
        .any(|folder| file.path.starts_with(folder));
    let lines = file.text.lines().count();
    if ours && is_rust(file) && lines > LINES_MAX {
        return vec![format!(
            "{}: {lines} lines, at most {LINES_MAX}: give its parts files of their own",
            file.path
        )];
    }
    Vec::new()
}

const README_WORDS_MAX: usize = 700;

/// The front page is read in three minutes, or not at all; everything else has a page in `docs/`.
fn long_readme(file: &File) -> Vec<String> {
    let words = file.text.split_whitespace().count();
    if file.path == "README.md" && words > README_WORDS_MAX {
        return vec![format!("README.md: {words} words, at most {README_WORDS_MAX}")];
    }
    Vec::new()
}

/// Placeholders and ignored tests are refused.
fn unfinished(file: &File) -> Vec<String> {
    const MARKS: [&str; 3] =
        [concat!("to", "do!("), concat!("unim", "plemented!("), concat!("#[", "ignore")];
    if !(file.path.starts_with("crates/") && is_rust(file)) {
        return Vec::new();
    }
    lines_where(file, "unfinished: write it, or take it out", |line| {
        MARKS.iter().any(|mark| line.contains(mark))
    })
}

/// A module opens with its purpose.
fn without_heading(file: &File) -> Vec<String> {
    let in_src = matches!(file.path.split('/').collect::<Vec<_>>()[..], ["crates", _, "src", ..]);
    if in_src && is_rust(file) && !file.text.starts_with("//!") {
        return vec![format!("{}:1: a source file opens with `//!` and its purpose", file.path)];
    }
    Vec::new()
}

/// A doc comment of one word says less than the name that it stands at.
fn one_word_doc(file: &File) -> Vec<String> {
    if !is_rust(file) {
        return Vec::new();
    }
    let doc = |line: &str| line.trim_start().starts_with("///");
    let one_word = |line: &str| {
        line.trim_start()
            .strip_prefix("/// ")
            .is_some_and(|text| text.trim_end_matches('.').chars().all(char::is_alphanumeric))
    };
    let lines: Vec<&str> = file.text.lines().collect();
    let alone = |at: usize| {
        (at == 0 || !doc(lines[at - 1])) && !lines.get(at + 1).is_some_and(|next| doc(next))
    };
    let found = lines.iter().enumerate().filter(|(at, line)| one_word(line) && alone(*at));
    let why = "a doc comment of one word: write a sentence, or leave it out";
    found.map(|(at, _)| format!("{}:{}: {why}", file.path, at + 1)).collect()
}

fn trailing_space(file: &File) -> Vec<String> {
    lines_where(file, "white space at the end of the line", |line| {
        line.ends_with(char::is_whitespace)
    })
}

/// A path that exists on one machine only.
fn machine_path(file: &File) -> Vec<String> {
    const HOMES: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    lines_where(file, "an absolute path of one machine", |line| {
        HOMES.iter().any(|home| holds_absolute(line, home))
    })
}

/// Whether the line contains the path as an absolute one. After an alphabetic character, a digit or
/// another character of a name it is the middle of a relative path or of an address.
fn holds_absolute(line: &str, path: &str) -> bool {
    let continues_a_name = |before: char| before.is_alphanumeric() || "._-~}".contains(before);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(continues_a_name))
}

fn no_lock_file(files: &[File]) -> Option<String> {
    let found = files.iter().any(|file| file.path == "Cargo.lock");
    (!found).then(|| "Cargo.lock: missing; every command runs with --locked".to_owned())
}

fn no_unreleased_heading(files: &[File]) -> Option<String> {
    let is_heading = |line: &str| line.trim_end() == "## [Unreleased]";
    let found =
        files.iter().any(|file| file.path == "CHANGELOG.md" && file.text.lines().any(is_heading));
    (!found).then(|| {
        "CHANGELOG.md: no heading `## [Unreleased]`, where the next change is written down"
            .to_owned()
    })
}

fn is_rust(file: &File) -> bool {
    file.path.ends_with(".rs")
}

/// Split at `\n` alone, so that a carriage return counts as part of its line.
fn lines_where(file: &File, why: &str, offends: impl Fn(&str) -> bool) -> Vec<String> {
    let numbered = file.text.split('\n').enumerate().filter(|(_, line)| offends(line));
    numbered.map(|(index, _)| format!("{}:{}: {why}", file.path, index + 1)).collect()
}

/// Sorted by name. Links are not followed; a file that is not UTF-8 is not text.
fn walk(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let is_package = entries.iter().any(|entry| entry.file_name() == "Cargo.toml");
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        // In a second worktree `.git` is a file. A folder `target` is cargo's only beside a
        // manifest. A fuzz corpus is bytes, whatever they look like.
        if [".git", "__fuzz__"].contains(&name.as_str()) || (is_package && name == "target") {
            continue;
        }
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).with_context(|| path.clone())?;
            files.extend(String::from_utf8(bytes).ok().map(|text| File { path, text }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
