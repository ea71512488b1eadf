//! The book's example protocol is what the book shows, and does what the book says; what the book
//! points to exists. Its commands are run by the test of the same name in `crates/kgate`.

#[path = "../examples/coordinator.rs"]
mod coordinator;

use std::fs;
use std::path::{Path, PathBuf};

use coordinator::{Coordinator, CoordinatorMessage, explored, results, simulated};
use kgate_core::{Input, NodeId, Outbox, Protocol, Refusal, Setup, Time};

/// The chapter shows the whole protocol, as it stands in the file: its blocks follow each other
/// there, from the first type to the drivers.
#[test]
fn the_chapter_shows_the_example() {
    let (chapter, file) =
        (read("docs/book/src/own-protocol.md"), read("tests/examples/coordinator.rs"));
    let blocks = blocks_of(&chapter, "rust");
    assert!(!blocks.is_empty(), "the chapter shows no code");
    let mut rest = file.as_str();
    for (number, block) in blocks.iter().enumerate() {
        let at = rest
            .find(block)
            .unwrap_or_else(|| panic!("the example has no such code (any more):\n{block}"));
        let between = &rest[..at];
        let imports = number == 0 && between.lines().all(is_head);
        assert!(imports || between.trim().is_empty(), "the chapter leaves this out:\n{between}");
        rest = &rest[at + block.len()..];
    }
    assert!(
        rest.trim_start().starts_with("/// The results of both drivers"),
        "the chapter leaves this out:\n{rest}"
    );
}

/// The chapter prints what the example prints.
#[test]
fn the_chapter_shows_the_real_output() {
    let chapter = read("docs/book/src/own-protocol.md");
    assert_eq!(blocks_of(&chapter, "text"), [results()]);
}

/// Every schedule is right if an answer names its request, and the explorer finds the planted bug
/// if it does not.
#[test]
fn the_explorer_tells_right_from_wrong() {
    let right = explored::<true>();
    assert!(right.complete && right.properties.iter().all(|finding| finding.holds), "{right:?}");
    let wrong = explored::<false>();
    let broken: Vec<&str> =
        wrong.properties.iter().filter(|f| f.counterexample.is_some()).map(|f| f.name).collect();
    assert_eq!(broken, ["at most k slots in use"]);
}

/// Three messages per entry, but none for p0; and no request is left waiting.
#[test]
fn the_simulator_counts_three_messages() {
    for requesters in [3, 16] {
        let report = simulated(requesters);
        assert_eq!((report.violations.len(), report.unanswered), (0, 0));
        assert!(report.messages_per_grant.expect("grants") < 3.01, "{:?}", report.messages);
    }
}

/// Malformed messages are refused and change nothing: an unknown sender, a grant from a process
/// other than p0, a request to one, a second request.
#[test]
fn malformed_messages_are_refused() {
    let mut out = Outbox::new();
    let [mut server, mut other] = [0, 1].map(|me| {
        Coordinator::<true>::start(&Setup { me: NodeId(me), ..Setup::new(3, 1) }, None, &mut out)
    });
    let mut deliver = |to: &mut Coordinator<true>, from, message| {
        let before = to.clone();
        let taken = to.handle(Time::ZERO, Input::Deliver { from: NodeId(from), message }, &mut out);
        assert!(taken.is_ok() || (*to == before && out.is_empty()), "a refusal changed something");
        while out.pop().is_some() {}
        taken
    };
    assert_eq!(
        deliver(&mut server, 9, CoordinatorMessage::Request(1)),
        Err(Refusal::UnknownNode(NodeId(9)))
    );
    assert_eq!(
        deliver(&mut server, 0, CoordinatorMessage::Request(1)),
        Err(Refusal::UnknownNode(NodeId(0)))
    );
    assert_eq!(
        deliver(&mut other, 2, CoordinatorMessage::Grant(1)),
        Err(Refusal::Malformed("only p0 grants"))
    );
    assert_eq!(
        deliver(&mut other, 2, CoordinatorMessage::Request(1)),
        Err(Refusal::Malformed("only p0 keeps a queue"))
    );
    assert_eq!(deliver(&mut server, 1, CoordinatorMessage::Request(1)), Ok(()));
    assert_eq!(
        deliver(&mut server, 1, CoordinatorMessage::Request(2)),
        Err(Refusal::Malformed("one request at a time"))
    );
}

/// Every link of the book leads to a file, and every chapter is in the summary.
#[test]
fn links_lead_somewhere() {
    let folder = root().join("docs/book/src");
    let summary = read("docs/book/src/SUMMARY.md");
    for chapter in chapters(&folder) {
        let name = chapter.file_name().expect("a file").to_string_lossy().into_owned();
        assert!(
            name == "SUMMARY.md" || summary.contains(&format!("({name})")),
            "{name} is not in the summary"
        );
        for link in links_of(&fs::read_to_string(&chapter).expect("a chapter")) {
            let path = link.split('#').next().expect("a first part");
            assert!(folder.join(path).exists(), "{name}: there is no {link}");
        }
    }
}

/// A link to nowhere and a block that differs would be noticed.
#[test]
fn the_readers_of_the_book_read() {
    let text = "see [`this`](no/such.md) and [that](https://example.org)\n\n```rust\na\n\nb\n```\n\n```text\nc\n```\n";
    assert_eq!(links_of(text), ["no/such.md"]);
    assert_eq!(
        (blocks_of(text, "rust"), blocks_of(text, "text")),
        (vec!["a\n\nb\n".into()], vec!["c\n".into()])
    );
}

/// The table of verdicts has every published fact as its experiment tells it, and nothing else: who
/// changes one makes the table anew.
#[test]
fn the_table_has_every_fact() {
    let page = read("docs/book/src/reproduction.md");
    let rows = page.lines().filter(|line| {
        line.starts_with("| ") && line.ends_with("reproduced |")
            || line.ends_with("reproduced** |")
            || line.ends_with("checked** |")
    });
    let mut shown: Vec<&str> = rows.collect();
    for (name, text) in kgate_lab::experiment::builtin::ALL {
        let experiment = kgate_lab::experiment::Experiment::parse(text).expect("an experiment");
        for fact in &experiment.fact {
            let head = format!("| {} | {} ({}) | ", fact.id, fact.claim, fact.place);
            let found = shown.iter().position(|row| row.starts_with(&head));
            shown.remove(found.unwrap_or_else(|| panic!("{name}: {head} is not in the table")));
        }
    }
    assert_eq!(shown, [""; 0]);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests is a folder of the repository")
        .into()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn chapters(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("the book").map(|entry| entry.expect("an entry").path());
    let mut chapters: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    chapters.sort();
    chapters
}

/// Whether a line belongs to the head of a file: its documentation and imports.
fn is_head(line: &str) -> bool {
    ["//!", "use ", "    ", "};"].iter().any(|start| line.starts_with(start)) || line.is_empty()
}

/// The blocks of code in that language, without their fences.
fn blocks_of(text: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let parts = text.split(opening.as_str()).skip(1);
    parts.map(|part| part.split("```").next().expect("a first part").to_owned()).collect()
}

/// Where the links and pictures outside of code lead to, in this repository.
fn links_of(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let targets =
        prose.flat_map(|part| part.split("](").skip(1)).filter_map(|part| part.split_once(')'));
    targets.map(|(target, _)| target).filter(|target| !target.starts_with("http")).collect()
}
