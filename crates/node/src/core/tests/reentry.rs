//! Keys of grants: which permit they prove, and until when.

use super::fleet::granted;
use super::*;

fn fleet() -> Fleet {
    let terms = SessionTerms { valid_for: None, clock_error: 10, kill: Span(250_000_000) };
    let mut fleet = Fleet::new(&Settings { terms, ..settings(1) });
    for client in [1, 2] {
        fleet.hello(0, client);
    }
    fleet
}

/// The key of a grant.
fn acquire(fleet: &mut Fleet, client: u64, number: u64, gate: &str) -> ReentryKey {
    fleet.acquire(0, client, number, gate, None);
    let received = fleet.received(0, client);
    let key = received.iter().find_map(|it| {
        let ServerMessage::Granted { reentry_key, .. } = it else { return None };
        *reentry_key
    });
    key.unwrap_or_else(|| panic!("no grant: {received:?}"))
}

fn find(fleet: &mut Fleet, gate: &str, key: ReentryKey) -> Result<HeldPermit, ErrorCode> {
    match fleet.call(0, Call::FindPermit { gate: gate.to_owned(), key }) {
        Ok(CallReply::Permit(permit)) => Ok(permit),
        Ok(other) => panic!("{other:?}"),
        Err((code, _)) => Err(code),
    }
}

const NONE: Result<HeldPermit, ErrorCode> = Err(ErrorCode::PermitNotFound);

/// Issue 19.4: a key proves the permit that it came with, and no other one.
#[test]
fn a_key_proves_its_permit() {
    let mut fleet = fleet();
    let key = acquire(&mut fleet, 1, 3, "gpu");
    let found = find(&mut fleet, "gpu", key).unwrap();
    assert_eq!((found.client, found.slots, found.k), (ClientId(1), vec![0], 1));
    assert_eq!(find(&mut fleet, "other", key), NONE, "no such gate");
    let other = acquire(&mut fleet, 2, 3, "other");
    assert_eq!(find(&mut fleet, "gpu", other), NONE, "another gate's");
    assert_eq!(find(&mut fleet, "other", other).unwrap().client, ClientId(2));
    // The same session and request with the key of another one.
    let [mine, theirs] = [key, other].map(ReentryKey::to_text);
    let forged =
        format!("{}.{}", mine.rsplit_once('.').unwrap().0, theirs.rsplit_once('.').unwrap().1);
    let forged = ReentryKey::parse(&forged).unwrap();
    assert_eq!(find(&mut fleet, "gpu", forged), NONE);
}

/// A permit proves nothing any more once its loss is announced, its holder has no stream, or it is
/// released, also when the same request number is used again.
#[test]
fn a_key_ends_with_its_permit() {
    let mut fleet = fleet();
    let key = acquire(&mut fleet, 1, 3, "gpu");
    let holder = fleet.look(0, "gpu").seen[0].1[0].holders[0].id();
    fleet.evict(0, &holder).unwrap();
    assert_eq!(find(&mut fleet, "gpu", key), NONE, "its holder is stopping");
    fleet.ask(0, 1, ClientMessage::Release { number: 3 });
    fleet.acquire(0, 2, 3, "gpu", None);
    assert!(granted(&fleet.received(0, 2)).is_some());
    fleet.acquire(0, 1, 3, "gpu", None);
    assert_eq!(find(&mut fleet, "gpu", key), NONE, "it waits");
    let other = acquire(&mut fleet, 1, 4, "other");
    assert!(find(&mut fleet, "other", other).is_ok());
    fleet.gone(0, 1);
    assert_eq!(find(&mut fleet, "other", other), NONE, "no process is known to be alive");
}
