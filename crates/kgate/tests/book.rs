//! Every command of the book is run, and its output is as the chapter says.
//!
//! The commands of a `sh` block are run, line by line or as a whole loop, in a directory that looks
//! like the repository. A command exits with 0, or with 1 if it is marked `# wrong`. The lines of
//! the following `text` block are lines of its output, in that order; `...` stands for any lines. A
//! diagram must equal the one in `docs/book/src/img`; with `KGATE_BOOK_UPDATE=1` it is written
//! there instead. `kgate lab`, which takes minutes, and `cargo` are not run.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One test per chapter, so that they run in parallel.
macro_rules! chapters {
    ($($test:ident: $chapter:literal),+ $(,)?) => {
        const CHAPTERS: &[&str] = &[$($chapter),+];
        $(
            #[doc = concat!("The commands of `", $chapter, "` print what it says.")]
            #[test]
            fn $test() {
                let text = fs::read_to_string(book().join($chapter)).expect("a chapter");
                if let Err(wrong) = check($chapter, &text) {
                    panic!("docs/book/src/{}: {wrong}", $chapter);
                }
            }
        )+
    };
}

chapters! {
    about: "about.md",
    introduction: "introduction.md",
    permissions_and_tokens: "permissions-and-tokens.md",
    failures: "failures.md",
    side_by_side: "side-by-side.md",
    raymond: "raymond.md",
    bas: "bas.md",
    robust: "robust.md",
    vcube: "vcube.md",
    timer_free: "timer-free.md",
    tree_token: "tree-token.md",
    stabilizing: "stabilizing.md",
    slots: "slots.md",
    own_protocol: "own-protocol.md",
    reproduction: "reproduction.md",
}

/// Every chapter has a test.
#[test]
fn every_chapter_is_run() {
    let names =
        fs::read_dir(book()).expect("the book").map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("a name in UTF-8"));
    for name in names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md") {
        assert!(CHAPTERS.contains(&name.as_str()), "{name} has no test: add it to the list above");
    }
}

/// A wrong number, a wrong order, a wrong exit code, an unknown flag and an outdated diagram are
/// found.
#[test]
fn wrong_chapters_are_found() {
    let sim = "```sh\nkgate sim --protocol raymond -n 4 -k 1 --duration 20\n```\n";
    let draw = "```sh\nkgate scenario scenarios/vcube/d1.txt \
                --diagram docs/book/src/img/raymond.svg\n```\n";
    for (text, says) in [
        (format!("{sim}\n```text\ngranted     123456 of 123456 requests\n```\n"), "does not print"),
        (
            format!(
                "{sim}\n```text\nverdict     PASS: never more than 1 slots in use, every request \
                 of a live process served\nprotocol    raymond: permissions of all but k, asked \
                 for directly\n```\n"
            ),
            "does not print",
        ),
        (sim.replace("20\n", "20   # wrong\n"), "exits with 0, and the book says 1"),
        (sim.replace("--duration", "--no-such-flag"), "exits with 2, and the book says 0"),
        (draw.into(), "draws another picture"),
    ] {
        let wrong = check("planted.md", &text).expect_err("it is not true");
        assert!(wrong.contains(says), "{wrong}");
    }
}

/// Runs the commands of a chapter and reports every difference.
fn check(chapter: &str, text: &str) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book").join(chapter);
    let pictures = folder.join("docs/book/src/img");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("an own folder");
    }
    fs::create_dir_all(&pictures).expect("a folder for temporary files");
    std::os::unix::fs::symlink(root().join("scenarios"), folder.join("scenarios")).expect("a link");
    let mut blocks = blocks(text).into_iter().peekable();
    while let Some((language, body)) = blocks.next() {
        if language != "sh" {
            continue;
        }
        let mut printed = String::new();
        for command in commands(body) {
            printed.push_str(&run(&folder, command)?);
        }
        if let Some((_, told)) = blocks.next_if(|&(language, _)| language == "text") {
            compare(body, told, &printed)?;
        }
    }
    for picture in fs::read_dir(&pictures).expect("the pictures") {
        let drawn = picture.expect("an entry").path();
        let kept = book().join("img").join(drawn.file_name().expect("a file"));
        if std::env::var_os("KGATE_BOOK_UPDATE").is_some() && chapter != "planted.md" {
            fs::copy(&drawn, &kept).expect("a picture of the book");
        } else if fs::read(&drawn).ok() != fs::read(&kept).ok() {
            return Err(format!(
                "its command draws another picture than {}: look at both, and put the new one \
                 there by KGATE_BOOK_UPDATE=1 cargo test -p kgate --test book",
                kept.display()
            ));
        }
    }
    Ok(())
}

/// What a command prints, if it exits as the book says.
fn run(folder: &Path, command: &str) -> Result<String, String> {
    let kgate = Path::new(env!("CARGO_BIN_EXE_kgate")).parent().expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(kgate.to_path_buf()).chain(std::env::split_paths(&path));
    let mut shell = Command::new("sh");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KGATE_OPT_")) {
        shell.env_remove(name); // A developer's own settings are not part of the test.
    }
    shell
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(paths).expect("paths"));
    let output = shell.output().expect("there is a shell");
    let told = i32::from(command.contains("# wrong"));
    match output.status.code() {
        Some(code) if code == told => Ok(String::from_utf8(output.stdout).expect("text")),
        Some(code) => Err(format!(
            "`{command}` exits with {code}, and the book says {told}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
        None => Err(format!("`{command}` was killed")),
    }
}

/// Whether the lines of the chapter are printed, in their order.
fn compare(commands: &str, told: &str, printed: &str) -> Result<(), String> {
    let mut lines = printed.lines();
    for line in told.lines().filter(|line| line.trim() != "...") {
        if !lines.any(|printed| printed.trim_end() == line.trim_end()) {
            return Err(format!(
                "`{}` does not print, or not here:\n{line}\nIt prints:\n{printed}",
                commands.trim()
            ));
        }
    }
    Ok(())
}

/// The commands of a block that are run: a loop as a whole, else each line.
fn commands(body: &str) -> Vec<&str> {
    if body.starts_with("for ") {
        return vec![body];
    }
    let not_run = ["cargo ", "kgate lab "];
    body.lines().filter(|line| !not_run.iter().any(|start| line.starts_with(start))).collect()
}

/// The blocks of a chapter with their languages, in order.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let fenced = text.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn book() -> PathBuf {
    root().join("docs/book/src")
}
