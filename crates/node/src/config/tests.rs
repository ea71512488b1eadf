//! The configuration: what is checked in it, and that the documents say what it is.

mod documents;
mod reference;

use super::*;

fn read(text: &str) -> Config {
    toml::from_str(text).expect("a configuration")
}

/// A small configuration gets defaults for the rest.
#[test]
fn most_can_be_left_out() {
    let config =
        read("id = 1\nnodes = [\"a:1\", \"b:1\"]\ndata = \"d\"\n[[gate]]\nname = \"gpu\"\nk = 3\n");
    let settings = config.settings(Incarnation(1), 1).unwrap();
    assert_eq!((settings.me, settings.nodes, settings.fixed[0].k), (NodeId(1), 2, 3));
    assert_eq!((settings.detection, config.accepts_restarts()), (Detection::VCube, false));
}

/// An invalid value is refused with the reason: an id beyond the list, an unknown detector
/// or protocol, an unknown word.
#[test]
fn invalid_values() {
    let nodes = "nodes = [\"a:1\", \"b:1\"]\nfaults = \"crash-stop\"\n";
    let why = |text: &str| {
        read(&format!("{nodes}{text}")).settings(Incarnation(1), 1).unwrap_err().to_string()
    };
    assert!(why("id = 2").contains("id = 2 is not in the list of 2 nodes"));
    assert!(why("id = 0\ndetector = \"x\"").contains("choose auto"));
    assert!(why("id = 0\nprotocol = \"x\"").contains("unknown protocol"));
    let gate = |text: &str| why(&format!("id = 0\n[[gate]]\nname = \"g\"\n{text}"));
    assert!(
        gate("k = 0")
            .contains("gate `g`: k must be between 1 and 65536, not 0; `kgate set g -k 0` closes")
    );
    assert!(gate("k = 65537").contains("not 65537"));
    assert!(gate("k = 1\nprotocol = \"x\"").contains("gate `g`: unknown protocol"));
    assert!(toml::from_str::<Config>(&format!("{nodes}id = 0\nkk = 1")).is_err());
}

/// The slots of a gate are a number, an expression or names; what contradicts itself is refused.
#[test]
fn slots_of_a_gate() {
    let text = |gate: &str| format!("id = 0\nnodes = [\"a:1\"]\n[[gate]]\nname = \"g\"\n{gate}");
    let slots = |gate: &str| read(&text(gate)).settings(Incarnation(1), 1);
    let of = |gate: &str| slots(gate).unwrap().fixed[0].slots();
    let named = Slots::named(["a", "b"].map(str::to_owned).to_vec());
    assert_eq!(of("names = [\"a\", \"b\"]"), named);
    assert_eq!(of("k = 2\nnames = [\"a\", \"b\"]"), named);
    let one = Slots { k: 1, source: KSource::Expression("cores/100000".to_owned()) };
    assert_eq!(of("k = \"cores/100000\""), one);
    for (gate, says) in [
        ("", "k is missing"),
        ("k = 3\nnames = [\"a\"]", "leave k out"),
        ("k = \"cores\"\nnames = [\"a\"]", "give one of them"),
        ("k = \"nproc\"", "write 3, cores"),
        ("names = []", "the name of a slot"),
        ("names = [\"a\", \"a\"]", "two slots are named `a`"),
    ] {
        let text = slots(gate).unwrap_err().to_string();
        assert!(text.contains("gate `g`") && text.contains(says), "{gate}: {text}");
    }
    let error = toml::from_str::<Config>(&text("k = -1")).unwrap_err().to_string();
    assert!(error.contains("k must be a number"), "{error}");
}

/// Only `tree-token` recovers after a crash, and it needs no detector.
#[test]
fn who_may_come_back() {
    let gate = "[[gate]]\nname = \"g\"\nk = 1\nprotocol = \"tree-token\"\n";
    let text = format!(
        "id = 0\nnodes = [\"a:1\"]\ndata = \"d\"\nfaults = \"crash-stop\"\nnew_gates = false\n\
         {gate}"
    );
    let config = read(&text);
    assert!(config.accepts_restarts());
    assert_eq!(config.settings(Incarnation(1), 1).unwrap().detection, Detection::Off);
    assert!(!read(&text.replace("false", "true")).accepts_restarts());
    assert!(
        !read(&text.replace("data = \"d\"", "")).accepts_restarts(),
        "it would have forgotten all"
    );
}
