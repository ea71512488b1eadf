//! What is refused before anything starts.

use super::*;

fn config(address: &str, security: Security) -> LinkConfig {
    LinkConfig {
        cluster: "farm".into(),
        me: NodeId(0),
        incarnation: Incarnation(1),
        peers: vec![(NodeId(1), address.into())],
        security,
        limits: LinkLimits::default(),
        accepts_returns: false,
        when_full: WhenFull::Break,
    }
}

const HERE: &str = "127.0.0.1:1";

/// Plain links leave the machine only if somebody asked for that by name.
#[test]
fn plain_links_stay_on_the_machine() {
    let plain = |asked_for| Security::Plain { asked_for };
    let check = |address, asked_for, listening: &str| {
        check_plain(&config(address, plain(asked_for)), listening.parse().unwrap()).is_ok()
    };
    for address in [HERE, "localhost:7", "[::1]:7", "127.9.9.9:7"] {
        assert!(check(address, false, HERE), "{address}");
    }
    for address in ["10.0.0.1:7", "db.example:7", "localhost.evil:7", "[::2]:7", "0.0.0.0:7"] {
        assert!(!check(address, false, HERE), "{address}");
        assert!(check(address, true, HERE), "{address}");
    }
    assert!(!check(HERE, false, "0.0.0.0:7"), "listens for everybody");
    let error =
        check_plain(&config("10.0.0.1:7", plain(false)), HERE.parse().unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("10.0.0.1:7") && error.to_string().contains("kgate certs new")
    );
}

/// A cluster's name is a label of a domain name.
#[test]
fn names_of_clusters() {
    for good in ["farm", "a", "build-farm-7"] {
        check_cluster(good).unwrap();
    }
    for bad in ["", "-a", "a-", "a.b", "Farm", "farm ", &"a".repeat(64)] {
        check_cluster(bad).unwrap_err();
    }
}

/// An id that stands twice, and limits that cannot work, are refused.
#[test]
fn senseless_settings_are_refused() {
    let listening = HERE.parse().unwrap();
    let good = config(HERE, Security::Plain { asked_for: false });
    check(&good, listening).unwrap();
    let twice = LinkConfig { me: NodeId(1), ..good.clone() };
    assert!(matches!(check(&twice, listening), Err(NotStarted::Twice(NodeId(1)))));
    let limits = [
        LinkLimits { frame_max: 10, ..good.limits },
        LinkLimits { silence: Duration::from_millis(1), ..good.limits },
        LinkLimits { in_handshake: 0, ..good.limits },
    ];
    for limits in limits {
        check(&LinkConfig { limits, ..good.clone() }, listening).unwrap_err();
    }
}
