//! The list as a table: client, operation, allowed or not.

use super::*;

const TOKEN: &str = "a-token-of-a-test";

fn sha256(token: &str) -> String {
    hexadecimal(digest(&SHA256, token.as_bytes()).as_ref())
}

fn parse(text: &str) -> Vec<Allow> {
    #[derive(Deserialize)]
    struct File {
        allow: Vec<Allow>,
    }
    toml::from_str::<File>(text).expect("valid TOML").allow
}

fn policy(text: &str) -> Result<Policy, InvalidPolicy> {
    let user = |name: &str| (name == "root").then_some(0);
    let group = |group: &UserOrGroup| {
        let known = *group == UserOrGroup::Name("render".into());
        known.then(|| GroupMembers { group: 50, users: vec![1001] })
    };
    Policy::new(&parse(text), UserDatabase { user, group })
}

fn example() -> Policy {
    policy(&format!(
        "[[allow]]\nclient = \"ci-*\"\ngates = [\"build/\", \"gpu\"]\n\
         [[allow]]\nclient = \"ci-7\"\ngates = [\"night*\"]\nmay = [\"see\"]\n\
         [[allow]]\ntoken = \"{}\"\nmay = [\"see\"]\n\
         [[allow]]\nuser = \"root\"\nmay = [\"acquire\", \"operate\"]\n\
         [[allow]]\nuser = 1000\ngates = [\"gpu\"]\nmay = [\"operate\"]\n\
         [[allow]]\ngroup = \"render\"\ngates = [\"film/\"]\n",
        sha256(TOKEN)
    ))
    .expect("a valid list")
}

fn user(user: u32) -> Identity {
    Identity::User(LocalUser { user, group: user })
}

fn certificate(name: &str) -> Identity {
    Identity::Certificate(name.into())
}

/// Prefixes, single gates, implied rights and several entries for one name are allowed; everything
/// else is denied.
#[test]
fn rights_follow_the_list() {
    let policy = example();
    let bearer = policy.bearer(TOKEN).expect("the token is in the list");
    let may = |who: &Identity, need| policy.authorise(who, need).is_ok();
    let table = [
        (certificate("ci-7"), Privilege::Acquire("gpu"), true),
        (certificate("ci-7"), Privilege::See("gpu"), true),
        (certificate("ci-7"), Privilege::Acquire("build/linux"), true),
        (certificate("ci-7"), Privilege::Acquire("build"), false),
        (certificate("ci-7"), Privilege::Acquire("gpu2"), false),
        (certificate("ci-7"), Privilege::See("nightly"), true),
        (certificate("ci-7"), Privilege::Acquire("nightly"), false),
        (certificate("ci-8"), Privilege::See("nightly"), false),
        (certificate("ci-7"), Privilege::SeeAll, false),
        (certificate("ci-7"), Privilege::Operate("gpu"), false),
        (certificate("xci-7"), Privilege::Acquire("gpu"), false),
        (certificate("ci"), Privilege::Acquire("gpu"), false),
        (bearer.clone(), Privilege::See("anything"), true),
        (bearer.clone(), Privilege::SeeAll, true),
        (bearer, Privilege::Acquire("gpu"), false),
        (user(0), Privilege::OperateAll, true),
        (user(0), Privilege::SeeAll, true),
        (user(1000), Privilege::Operate("gpu"), true),
        (user(1000), Privilege::OperateAll, false),
        (user(1000), Privilege::OperateSome, true),
        (user(1001), Privilege::OperateSome, false),
        (user(1000), Privilege::See("gpu"), false),
        (user(1), Privilege::See("gpu"), false),
        (user(1001), Privilege::Acquire("film/1"), true),
        (user(1001), Privilege::Acquire("gpu"), false),
        (user(50), Privilege::Acquire("film/1"), true),
        (user(51), Privilege::Acquire("film/1"), false),
        (certificate("root"), Privilege::OperateAll, false),
        (Identity::Anonymous([127, 0, 0, 1].into()), Privilege::See("gpu"), false),
    ];
    for (who, need, expected) in table {
        assert_eq!(may(&who, need), expected, "{who}: {need:?}");
    }
}

/// An empty list allows everything to every client; `anyone` gives its rights to every client.
#[test]
fn empty_list_and_anyone() {
    let anonymous = Identity::Anonymous([10, 0, 0, 1].into());
    assert!(Policy::default().authorise(&anonymous, Privilege::OperateAll).is_ok());
    let policy = policy("[[allow]]\nanyone = true\nmay = [\"see\"]\n").unwrap();
    assert!(policy.authorise(&anonymous, Privilege::See("gpu")).is_ok());
    assert!(policy.authorise(&anonymous, Privilege::Acquire("gpu")).is_err());
}

/// A denial names the client, the operation and the entry that would allow it.
#[test]
fn a_denial_names_the_missing_entry() {
    let denied = example()
        .authorise(&certificate("ci-7"), Privilege::Acquire("prod"))
        .unwrap_err()
        .to_string();
    for part in ["client ci-7", "acquire `prod`", "[[allow]]", "may = [\"acquire\"]"] {
        assert!(denied.contains(part), "{part}: {denied}");
    }
}

/// Only the token itself is accepted: not its hash, a prefix of it or an empty text.
#[test]
fn only_the_whole_token_is_accepted() {
    let policy = example();
    for other in ["", "a-token-of-a-tes", "a-token-of-a-test ", &sha256(TOKEN)] {
        assert_eq!(policy.bearer(other), None, "{other:?}");
    }
    let shown = format!("{:?} {}", policy, policy.bearer(TOKEN).unwrap());
    assert!(!shown.contains(TOKEN), "{shown}");
}

/// An invalid entry is refused with its position and the cause.
#[test]
fn invalid_entries_are_refused() {
    let invalid =
        |text: &str| policy(&format!("[[allow]]\nuser = 1\n[[allow]]\n{text}\n")).unwrap_err();
    for (text, error) in [
        ("may = [\"see\"]", InvalidEntry::Subject),
        ("client = \"a\"\nuser = 1", InvalidEntry::Subject),
        ("client = \"a*b*\"", InvalidEntry::Pattern("a*b*".into())),
        ("token = \"secret\"", InvalidEntry::Token),
        ("user = \"nobody-here\"", InvalidEntry::User("nobody-here".into())),
        ("group = \"gone\"", InvalidEntry::Group(UserOrGroup::Name("gone".into()))),
        ("group = 1\nuser = 1", InvalidEntry::Subject),
        ("user = 1\nmay = []", InvalidEntry::NoRight),
        ("user = 1\ngates = []", InvalidEntry::NoGate),
    ] {
        assert_eq!(invalid(text), InvalidPolicy { entry: 2, error }, "{text}");
    }
    assert!(!InvalidEntry::Token.to_string().contains("secret"), "the token is not repeated");
    for unknown in ["user = 1\nmay = [\"everything\"]", "usr = 1"] {
        assert!(toml::from_str::<Allow>(unknown).is_err(), "{unknown}");
    }
}

/// Two processes of one user in different groups are one client, so quotas count them together.
#[test]
fn a_group_makes_no_second_client() {
    let of = |group: u32| Identity::User(LocalUser { user: 7, group });
    assert_eq!(of(1), of(2));
    assert_ne!(user(7), user(8));
}
