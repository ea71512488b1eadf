//! Members that do not reach each other (H19).

use kgate_core::{Defects, Incarnation, Input, LogIndex, NodeId, Refusal, SlotOptions, Span};

use super::fixture::Fixture;
use crate::home::defects::H19_INCARNATION;
use crate::home::{Head, HomeMessage, HomeTimer, Noted, Path};

/// Processes that lose messages, and a member that the home does not reach, nor the other way
/// round: the home, that member, and all others.
fn cut<const N: usize>(defects: Defects) -> (Fixture, u32, u32, [u32; N]) {
    let options =
        SlotOptions { keep: false, ask_again: Some(Span::UNIT), ..SlotOptions::default() };
    let mut all = Fixture::with(u32::try_from(N + 2).unwrap(), 1, options, defects);
    let (home, _) = all.home_and_others::<0>();
    let member = u32::from(home == 0);
    all.net.cuts.extend([(home, member), (member, home)]);
    let relays: alloc::vec::Vec<u32> =
        all.net.live().into_iter().filter(|node| ![home, member].contains(node)).collect();
    (all, home, member, relays.try_into().expect("as many"))
}

/// Fires every timer that is armed, and delivers what that sends. False if none was armed.
fn fire(all: &mut Fixture) -> bool {
    let armed: alloc::vec::Vec<_> = all.net.timers.keys().cloned().collect();
    for (node, timer) in &armed {
        if all.net.timers.contains_key(&(*node, *timer)) {
            all.net.expire(node.0, *timer);
        }
        all.net.deliver_all();
    }
    !armed.is_empty()
}

/// More rounds of timers than pass before all falls silent.
const MANY: u32 = 100;

fn rest(all: &mut Fixture) {
    let rounds = (0..MANY).take_while(|_| fire(all)).count();
    assert!(rounds < MANY as usize, "timers never stop");
}

/// H19: a member that the home does not reach is granted a slot through a relay, at the second
/// repetition; and from then on every message takes that relay at once.
#[test]
fn a_member_that_is_cut_off_from_the_home_is_served() {
    let (mut all, home, member, [relay]) = cut(Defects::NONE);
    all.acquire(member, 1);
    all.net.deliver_all();
    fire(&mut all);
    assert!(all.granted(member).is_empty(), "the first repetition goes directly");
    fire(&mut all);
    assert_eq!(all.granted(member).len(), 1);
    let before = all.messages();
    let granted = all.granted(member)[0].clone();
    all.release(member, &granted);
    all.acquire(member, 1);
    all.net.deliver_all();
    assert_eq!(all.granted(member).len(), 2, "without a timer");
    let ways = all.net.sent[before..].iter().map(|copy| (copy.from.0, copy.to.0));
    let mut ways: alloc::vec::Vec<_> = ways.collect();
    ways.dedup();
    let round = [(member, relay), (relay, home), (home, relay), (relay, member)];
    assert!(ways.iter().all(|way| round.contains(way)), "{ways:?}");
}

/// H19: nothing is sent while there is nothing to say, cut or not; then the link is tried again,
/// and one that works again is used directly.
#[test]
fn a_relay_is_given_up_in_silence() {
    let (mut all, home, member, [_]) = cut(Defects::NONE);
    all.acquire(member, 1);
    rest(&mut all);
    let granted = all.granted(member)[0].clone();
    all.net.cuts.clear();
    let before = all.messages();
    all.release(member, &granted);
    all.net.deliver_all();
    let ways: alloc::vec::Vec<_> =
        all.net.sent[before..].iter().map(|copy| (copy.from.0, copy.to.0)).collect();
    assert_eq!(ways, [(member, home)]);
}

/// H19: a relay that does not reach the home is passed over, and so is one that the home does not
/// reach.
#[test]
fn relays_are_tried_in_turn() {
    let (mut all, home, member, relays @ [first, second, third]) = cut(Defects::NONE);
    all.net.cuts.extend([(first, home), (home, second)]);
    all.acquire(member, 1);
    rest(&mut all);
    assert_eq!(all.granted(member).len(), 1);
    let granted = all.granted(member)[0].clone();
    all.release(member, &granted);
    all.acquire(home, 1);
    rest(&mut all);
    assert_eq!(all.granted(home).len(), 1, "{relays:?}: only p{third} reaches both");
}

/// H19: a relay keeps nothing of what it relays, and relays nothing twice.
#[test]
fn a_relay_keeps_nothing() {
    let (mut all, home, member, [relay, other]) = cut(Defects::NONE);
    let path = Some(Path { from: NodeId(member), to: NodeId(home) });
    let (from, to) = (Incarnation(7), Incarnation(0));
    let head = Head { term: all.placement().term, from, to, index: LogIndex(0), path };
    let message =
        HomeMessage::Noted(Noted { head, period: all.placement().term, version: 1 }.into());
    let before = all.net.nodes[relay as usize].clone();
    let input = Input::Deliver { from: NodeId(member), message: message.clone() };
    all.net.input(relay, input).unwrap();
    assert_eq!(all.net.nodes[relay as usize], before);
    assert_eq!(all.messages(), 1, "sent on, though its incarnation is none");
    let again = Input::Deliver { from: NodeId(other), message };
    assert!(matches!(all.net.refusal(relay, again), Refusal::Malformed(_)));
}

/// H3 by H19: a message to or from another incarnation does not count, whichever way it takes.
#[test]
fn a_relayed_message_of_another_incarnation_does_not_count() {
    assert_eq!(granted_by_a_late_report(Defects::NONE), Some(0));
    assert_eq!(granted_by_a_late_report(H19_INCARNATION), Some(1), "left out");
}

/// The slots that the home has granted after the report of a former incarnation has come through a
/// relay.
fn granted_by_a_late_report(defects: Defects) -> Option<usize> {
    let (mut all, home, member, [relay]) = cut(defects);
    all.acquire(member, 1);
    all.net.deliver_all();
    all.net.expire(member, HomeTimer::Repeat);
    all.net.expire(member, HomeTimer::Repeat);
    all.net.deliver(member, relay);
    // The report is on its way from the relay to the home while the member begins anew.
    all.net.crash(member);
    all.change_members(|members| {
        members.evict(NodeId(member), Incarnation(0));
        members.join(NodeId(member));
    });
    all.apply([home, relay]);
    all.net.deliver_all();
    all.net.nodes[home as usize].coordinator.as_ref().map(|home| home.holders().len())
}
