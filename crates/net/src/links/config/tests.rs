//! Checks of the configuration before links start.

use super::*;

fn config(address: &str, security: Security) -> LinkConfig {
    LinkConfig {
        cluster: "farm".into(),
        me: NodeId(0),
        incarnation: Incarnation(1),
        peers: vec![(NodeId(1), address.into())],
        security,
        limits: LinkLimits::default(),
        accepts_restarts: false,
        when_full: WhenFull::Break,
    }
}

const HERE: &str = "127.0.0.1:1";

/// Plain links leave the machine only if they are allowed explicitly.
#[test]
fn plain_links_stay_on_the_machine() {
    let plain = |is_explicit| Security::Plain { is_explicit };
    let check = |address, is_explicit, listening: &str| {
        check_plain(&config(address, plain(is_explicit)), listening.parse().unwrap()).is_ok()
    };
    for address in [HERE, "localhost:7", "[::1]:7", "127.9.9.9:7"] {
        assert!(check(address, false, HERE), "{address}");
    }
    for address in ["10.0.0.1:7", "db.example:7", "localhost.evil:7", "[::2]:7", "0.0.0.0:7"] {
        assert!(!check(address, false, HERE), "{address}");
        assert!(check(address, true, HERE), "{address}");
    }
    assert!(!check(HERE, false, "0.0.0.0:7"), "it listens on all addresses");
    let error = check_plain(&config("10.0.0.1:7", plain(false)), HERE.parse().unwrap());
    assert!(matches!(error, Err(StartError::Plain { address }) if address == "10.0.0.1:7"));
}

/// The name of a cluster is a label of a domain name.
#[test]
fn names_of_clusters() {
    for good in ["farm", "a", "build-farm-7"] {
        check_cluster(good).unwrap();
    }
    for bad in ["", "-a", "a-", "a.b", "Farm", "farm ", &"a".repeat(64)] {
        assert!(matches!(check_cluster(bad), Err(StartError::Cluster(_))), "{bad}");
    }
}

/// Duplicate ids, and limits that cannot work, are refused.
#[test]
fn invalid_settings_are_refused() {
    let listening = HERE.parse().unwrap();
    let good = config(HERE, Security::Plain { is_explicit: false });
    check(&good, listening).unwrap();
    let twice = LinkConfig { me: NodeId(1), ..good.clone() };
    assert!(matches!(check(&twice, listening), Err(StartError::DuplicateId(NodeId(1)))));
    let limits = [
        LinkLimits { frame_max: 10, ..good.limits },
        LinkLimits { silence: Duration::from_millis(1), ..good.limits },
        LinkLimits { in_handshake: 0, ..good.limits },
    ];
    for limits in limits {
        let checked = check(&LinkConfig { limits, ..good.clone() }, listening);
        assert!(matches!(checked, Err(StartError::Limits(_))), "{limits:?}");
    }
}
