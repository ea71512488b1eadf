//! The list as a table: who, what, whether.

use super::*;

const TOKEN: &str = "a-token-of-a-test";

fn sha256(token: &str) -> String {
    hexadecimal(digest(&SHA256, token.as_bytes()).as_ref())
}

fn policy(text: &str) -> Result<Policy, String> {
    #[derive(Deserialize)]
    struct File {
        allow: Vec<Allow>,
    }
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    Policy::new(&file.allow, |name| (name == "root").then_some(0))
}

fn example() -> Policy {
    policy(&format!(
        "[[allow]]\nclient = \"ci-*\"\ngates = [\"build/\", \"gpu\"]\n\
         [[allow]]\nclient = \"ci-7\"\ngates = [\"night*\"]\nmay = [\"see\"]\n\
         [[allow]]\ntoken = \"{}\"\nmay = [\"see\"]\n\
         [[allow]]\nuser = \"root\"\nmay = [\"acquire\", \"operate\"]\n\
         [[allow]]\nuser = 1000\ngates = [\"gpu\"]\nmay = [\"operate\"]\n",
        sha256(TOKEN)
    ))
    .expect("a list")
}

fn certificate(name: &str) -> Identity {
    Identity::Certificate(name.into())
}

/// Prefixes, single gates, rights that come with others, several entries for one name, and
/// everything else refused.
#[test]
fn who_may_what() {
    let policy = example();
    let bearer = policy.bearer(TOKEN).expect("it is in the list");
    let may = |who: &Identity, need| policy.authorise(who, need).is_ok();
    let table = [
        (certificate("ci-7"), Need::Acquire("gpu"), true),
        (certificate("ci-7"), Need::See("gpu"), true),
        (certificate("ci-7"), Need::Acquire("build/linux"), true),
        (certificate("ci-7"), Need::Acquire("build"), false),
        (certificate("ci-7"), Need::Acquire("gpu2"), false),
        (certificate("ci-7"), Need::See("nightly"), true),
        (certificate("ci-7"), Need::Acquire("nightly"), false),
        (certificate("ci-8"), Need::See("nightly"), false),
        (certificate("ci-7"), Need::SeeAll, false),
        (certificate("ci-7"), Need::Operate("gpu"), false),
        (certificate("xci-7"), Need::Acquire("gpu"), false),
        (certificate("ci"), Need::Acquire("gpu"), false),
        (bearer.clone(), Need::See("anything"), true),
        (bearer.clone(), Need::SeeAll, true),
        (bearer, Need::Acquire("gpu"), false),
        (Identity::User(0), Need::OperateAll, true),
        (Identity::User(0), Need::SeeAll, true),
        (Identity::User(1000), Need::Operate("gpu"), true),
        (Identity::User(1000), Need::OperateAll, false),
        (Identity::User(1000), Need::See("gpu"), false),
        (Identity::User(1), Need::See("gpu"), false),
        (certificate("root"), Need::OperateAll, false),
        (Identity::Stranger([127, 0, 0, 1].into()), Need::See("gpu"), false),
    ];
    for (who, need, expected) in table {
        assert_eq!(may(&who, need), expected, "{who}: {need:?}");
    }
}

/// No entry: everybody may everything. `anyone`: even strangers may that much.
#[test]
fn nobody_and_anybody() {
    let stranger = Identity::Stranger([10, 0, 0, 1].into());
    assert!(Policy::default().authorise(&stranger, Need::OperateAll).is_ok());
    let policy = policy("[[allow]]\nanyone = true\nmay = [\"see\"]\n").unwrap();
    assert!(policy.authorise(&stranger, Need::See("gpu")).is_ok());
    assert!(policy.authorise(&stranger, Need::Acquire("gpu")).is_err());
}

/// A refusal names who, what, and what is needed.
#[test]
fn a_refusal_says_what_is_needed() {
    let denied =
        example().authorise(&certificate("ci-7"), Need::Acquire("prod")).unwrap_err().to_string();
    for part in ["client ci-7", "acquire `prod`", "[[allow]]", "may = [\"acquire\"]"] {
        assert!(denied.contains(part), "{part}: {denied}");
    }
}

/// Only the token itself is taken: not its hash, not a beginning of it, not nothing.
#[test]
fn tokens() {
    let policy = example();
    for other in ["", "a-token-of-a-tes", "a-token-of-a-test ", &sha256(TOKEN)] {
        assert_eq!(policy.bearer(other), None, "{other:?}");
    }
    let shown = format!("{:?} {}", policy, policy.bearer(TOKEN).unwrap());
    assert!(!shown.contains(TOKEN), "{shown}");
}

/// What makes no sense is refused with its place and what to write instead.
#[test]
fn what_makes_no_sense() {
    let why =
        |text: &str| policy(&format!("[[allow]]\nuser = 1\n[[allow]]\n{text}\n")).unwrap_err();
    for (text, expected) in [
        ("may = [\"see\"]", "number 2: it needs exactly one of"),
        ("client = \"a\"\nuser = 1", "exactly one of"),
        ("client = \"a*b*\"", "at most one `*`"),
        ("token = \"secret\"", "never the token itself"),
        ("user = \"nobody-here\"", "write its number"),
        ("user = 1\nmay = []", "allows nothing"),
        ("user = 1\ngates = []", "names no gate"),
        ("user = 1\nmay = [\"everything\"]", "unknown variant"),
        ("usr = 1", "unknown field"),
    ] {
        assert!(why(text).contains(expected), "{text}: {}", why(text));
    }
}
