//! Words: the project uses the field's words. The first version had words of its own; none of them
//! comes back.
//!
//! Names are read as their parts: `LeaseDeed` and `lease_deed` contain `deed`. Words with a plain
//! meaning of their own are refused only as names of types and files.

use super::File;

/// Refused everywhere, in each form that is listed, with the word to use instead.
const WORDS: &[(&str, &[&str])] = &[
    ("incarnation", &["life", "lives"]),
    ("message", &["letter", "letters"]),
    ("effect", &["deed", "deeds"]),
    ("tolerates", &["bears"]),
    ("a noun: the node, client or process that ..", &["whoever", "whomever", "whosever"]),
    ("rng", &["dice"]),
    ("checker", &["judge", "judges", "judged", "judging"]),
    ("scenario", &["story", "stories"]),
    ("request, options", &["wish", "wishes", "wished"]),
    ("check, follow, handle", &["heed", "heeds", "heeded"]),
    ("ban", &["shun", "shuns", "shunned"]),
    ("confirm dead", &["bury", "buries", "buried"]),
    ("transport", &["courier", "couriers"]),
    ("forced eviction", &["condemn", "condemns", "condemned"]),
    ("eviction request", &["plea", "pleas"]),
    ("membership", &["roll"]),
    ("mutation", &["flaw", "flaws"]),
    ("malformed message", &["junk"]),
    ("unknown node", &["stranger", "strangers"]),
    ("suspended", &["parked", "unparked"]),
    ("handshake", &["greet", "greets", "greeted", "greeting", "greetings"]),
    ("unconfirmed, not yet known to", &["untold"]),
];

/// Refused everywhere, as a text of several words.
const PHRASES: &[(&str, &str)] =
    &[(concat!("held for ", "crashed"), "declared dead"), (concat!("only_", "say"), "dry run")];

/// Refused as the whole name of a type in Rust code.
const TYPES: &[(&str, &str)] = &[
    ("Ask", "ClientMessage"),
    ("Tell", "ServerMessage"),
    ("Say", "ServerMessage"),
    ("Why", "ErrorCode"),
    ("Order", "Input"),
    ("Unplaced", "PendingAcquire"),
    ("Desk", "CoreHandle"),
    ("Door", "Listener"),
    ("Visit", "ClientStream"),
    ("Met", "Established"),
    ("Look", "StatusQuery"),
    ("Seen", "StatusReply"),
    ("Who", "NodeStatus"),
    ("News", "AppliedEntry or KeeperEvent"),
    ("Post", "RpcClient"),
    ("Mail", "a channel"),
    ("Void", "Rejected"),
    ("NotDone", "ProposeError"),
    ("Founding", "Bootstrap or InitialMembers"),
    ("Standing", "the lease's status or the member's state"),
    ("Hand", "PermitTable"),
    ("Ticket", "SessionToken"),
    ("Page", "DeadlineCell"),
    ("Printed", "Defects"),
    ("Means", "Mechanism"),
    ("Cargo", "Carried"),
    ("Spread", "Broadcast"),
    ("World", "a harness, named after what it simulates"),
    ("Scene", "a fixture, named after what it sets up"),
    ("Hall", "a fixture, named after what it sets up"),
];

/// Refused as the name of a file without its extension, or of a folder.
const FILES: &[&str] = &[
    "told", "drawn", "words", "desk", "door", "visit", "hall", "scene", "world", "look", "hand",
    "page", "mail",
];

/// A refused word that is meant plainly: in which file or folder (empty for all), with which text
/// around it, and why.
struct Allowed {
    word: &'static str,
    path: &'static str,
    text: &'static str,
    #[allow(dead_code, reason = "for the reader")]
    why: &'static str,
}

const ALLOWED: &[Allowed] = &[
    Allowed {
        word: "letters",
        path: "",
        text: "letters, digits",
        why: "the rule for a name: characters of the alphabet",
    },
    Allowed {
        word: "letters",
        path: "",
        text: "lower-case letters",
        why: "the rule for a name: characters of the alphabet",
    },
];

/// These files contain the words as the subject.
const SUBJECT: &[&str] = &["xtask/src/tidy/words.rs", "xtask/src/tidy/tests.rs"];

pub(super) fn check(file: &File) -> Vec<String> {
    let checked = [".rs", ".md", ".toml", ".proto", ".txt", ".pml", ".sh"];
    let is_text = checked.iter().any(|end| file.path.ends_with(end));
    if !is_text || SUBJECT.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let mut found: Vec<String> = named(file).into_iter().collect();
    for (index, line) in file.text.lines().enumerate() {
        let migration = file.path == "CHANGELOG.md" && line.starts_with('|');
        if !migration {
            let hits = hits(line, super::is_rust(file));
            let hits = hits.into_iter().filter(|(word, _)| !is_allowed(file, line, word));
            found.extend(hits.map(|(word, instead)| {
                format!("{}:{}: `{word}`: the field says {instead}", file.path, index + 1)
            }));
        }
    }
    found
}

fn is_allowed(file: &File, line: &str, word: &str) -> bool {
    ALLOWED.iter().any(|allowed| {
        allowed.word == word && file.path.starts_with(allowed.path) && line.contains(allowed.text)
    })
}

/// The refused words of a line, each with the field's.
fn hits(line: &str, is_rust: bool) -> Vec<(&'static str, &'static str)> {
    let parts = parts(line);
    let words = WORDS.iter().flat_map(|(instead, forms)| {
        let found = forms.iter().filter(|form| parts.iter().any(|part| part == *form));
        found.map(|form| (*form, *instead))
    });
    let phrases = PHRASES.iter().filter(|(phrase, _)| line.contains(phrase));
    let code = if is_rust { code(line) } else { String::new() };
    let is_name =
        |name: &str| code.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|it| it == name);
    let types = TYPES.iter().filter(|(name, _)| is_name(name));
    words.chain(phrases.copied()).chain(types.copied()).collect()
}

/// A folder or file with a refused name.
fn named(file: &File) -> Option<String> {
    let stem = |part: &str| part.split('.').next().unwrap_or(part).to_owned();
    let mut names = file.path.split('/').map(stem);
    let refused = |name: &String| FILES.contains(&name.as_str()) || !hits(name, false).is_empty();
    let name = names.find(refused)?;
    Some(format!("{}:1: a file or folder named `{name}`: name it after what it holds", file.path))
}

/// The parts of all words and names of a line, in lower case.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for c in line.chars() {
        let starts = !c.is_alphabetic() || (c.is_uppercase() && before.is_lowercase());
        if starts {
            parts.push(String::new());
        }
        if c.is_alphabetic() {
            parts.last_mut().expect("never empty").extend(c.to_lowercase());
        }
        before = c;
    }
    parts
}

/// The line without its comment and without the text of its strings.
fn code(line: &str) -> String {
    let line = line.split("//").next().unwrap_or(line);
    line.split('"').step_by(2).collect::<Vec<_>>().join("\"")
}
