//! Changes of home: what the next home knows, and when it grants.

use alloc::boxed::Box;

use kgate_core::{Adoption, Defects, Incarnation, Input, NodeId, Notice, Refusal, SlotOptions};

use super::fixture::{Fixture, Granted};
use crate::home::defects::H11_PAST;

/// The adoption of what `from` has granted, by this attempt.
fn adoption(all: &Fixture, from: u32, granted: &Granted, attempt: u32) -> Box<Adoption> {
    Box::new(Adoption {
        slots: granted.slots.clone().into(),
        fence: granted.fence,
        attempt,
        from: NodeId(from),
        incarnation: Incarnation(0),
        after: all.log.index,
    })
}

/// H8: after a planned change of home the table goes with one message, and what is free is
/// granted at once, though a member is silent.
#[test]
fn a_planned_move_costs_one_message() {
    let mut all = Fixture::new(4, 2);
    let (old, [one, two]) = all.home_and_others();
    let held = all.enter(one, 1);
    all.unfit(old);
    let before = all.messages();
    let new = all.placement().node.0;
    let silent = (0..4).find(|node| ![old, one, two, new].contains(node));
    all.apply((0..4).filter(|node| Some(*node) != silent));
    all.net.deliver_all();
    let holder = usize::from(one != new);
    assert_eq!(all.messages() - before, 1 + holder);
    let next = all.enter(two, 1);
    assert!(next.fence > held.fence && next.slots == [1]);
    all.release(one, &held);
    assert!(all.enter(two, 1).fence > held.fence);
}

/// H5: after the death of a home its members' slots are known at once; what it may have had
/// itself waits for its eviction, and so does everything that a silent founder may have.
#[test]
fn unknown_slots_wait_for_the_eviction() {
    let mut all = Fixture::new(3, 2);
    let (old, [one, two]) = all.home_and_others();
    let own = all.enter(old, 1);
    let held = all.enter(one, 1);
    all.net.crash(old);
    all.unfit(old);
    all.apply_everywhere();
    all.net.deliver_all();
    all.release(one, &held);
    let next = all.enter(two, 1); // Its client has returned it in this term (H9).
    assert_eq!(next.slots, held.slots);
    all.acquire(one, 1);
    all.net.deliver_all();
    assert_eq!(all.granted(one).len(), 1);
    all.evict(old);
    all.apply_everywhere();
    all.net.deliver_all();
    let last = all.granted(one).pop().unwrap();
    assert_eq!(last.slots, own.slots);
    assert!(last.fence > own.fence);
}

/// H5: a slot that nobody has claimed is not granted while one founder has not reported.
#[test]
fn a_silent_founder_may_have_it() {
    let mut all = Fixture::new(4, 1);
    let (old, [one, two, three]) = all.home_and_others();
    let held = all.enter(one, 1);
    all.net.crash(old);
    all.unfit(old);
    all.evict(old);
    let asker = if all.placement().node.0 == two { three } else { two };
    all.apply([two, three]); // The holder lags.
    all.acquire(asker, 1);
    all.net.deliver_all();
    assert!(all.granted(asker).is_empty());
    all.apply([one]);
    all.net.deliver_all();
    assert!(all.granted(asker).is_empty());
    all.release(one, &held);
    all.net.deliver_all();
    assert_eq!(all.granted(asker).len(), 1);
}

/// H1: an assignment of an older term is not taken in, so no home grants in two terms.
#[test]
fn an_order_of_an_older_term_is_late() {
    let mut all = Fixture::new(3, 1);
    let (old, [one, two]) = all.home_and_others();
    all.acquire(one, 1);
    all.net.deliver(one, old);
    all.unfit(old);
    all.apply([one, two]);
    all.net.deliver(old, one);
    assert!(all.granted(one).is_empty());
    all.apply([old]);
    all.net.deliver_all();
    assert_eq!(all.granted(one).len(), 1);
}

/// P3: requests that waited at the old home come before all of the new term, whichever report
/// arrives first.
#[test]
fn the_queue_survives_a_move() {
    let mut all = Fixture::new(5, 1);
    let (old, others) = all.home_and_others::<4>();
    let held = all.enter(old, 1);
    all.unfit(old);
    let new = all.placement().node.0;
    let waiting = others.into_iter().filter(|node| *node != new);
    for node in waiting.clone() {
        all.acquire(node, 1);
        all.net.deliver_all();
    }
    all.apply([old, new]);
    all.acquire(new, 1);
    all.apply(waiting.clone());
    all.net.deliver_all();
    all.release(old, &held);
    for _ in waiting {
        all.net.deliver_all();
        let next = all.net.inside()[0];
        assert_ne!(next, new);
        let granted = all.granted(next).pop().unwrap();
        all.release(next, &granted);
    }
    all.net.deliver_all();
    assert_eq!(all.net.inside(), [new]);
}

/// H11: a client whose node has died goes on elsewhere, with its slot and its fence; only then
/// may its node be evicted, which frees nothing of it.
#[test]
fn a_permit_outlives_its_node() {
    let mut all = Fixture::new(4, 1);
    let (_, [one, two, three]) = all.home_and_others();
    let held = all.enter(one, 1);
    all.net.crash(one);
    all.net.input(two, Input::Adopt(adoption(&all, one, &held, 1))).unwrap();
    all.net.deliver_all();
    let (grant, fence, attempt) = all.adopted(two).expect("adopted");
    assert_eq!(attempt, 1);
    assert_eq!(fence, held.fence);
    all.net.input(two, Input::Confirm { grant }).unwrap();
    all.evict(one);
    all.apply_everywhere();
    all.acquire(three, 1);
    all.net.deliver_all();
    assert!(all.granted(three).is_empty());
    all.net.input(two, Input::Release { grant }).unwrap();
    all.net.deliver_all();
    assert!(all.granted(three).pop().unwrap().fence > fence);
}

/// H11, H17: what another has is refused; a confirmation needs a lease and the latest attempt.
#[test]
fn adoptions_that_are_refused() {
    let mut all = Fixture::new(3, 1);
    let (_, [one, two]) = all.home_and_others();
    let held = all.enter(one, 1);
    all.release(one, &held);
    all.net.deliver_all();
    let request = adoption(&all, one, &held, 1);
    all.net.input(two, Input::Adopt(request.clone())).unwrap();
    all.net.deliver_all();
    let refused = Notice::AdoptionRefused { fence: held.fence, attempt: 1 };
    assert!(all.was_told(two, &refused));
    let held = all.enter(one, 1);
    all.net.input(two, Input::Adopt(adoption(&all, one, &held, 1))).unwrap();
    all.net.deliver_all();
    let (grant, ..) = all.adopted(two).expect("adopted");
    all.net.input(two, Input::Lease(false)).unwrap();
    let confirm = Input::Confirm { grant };
    assert!(matches!(all.net.refusal(two, confirm.clone()), Refusal::Unconfirmed(_)));
    all.net.input(two, Input::Lease(true)).unwrap();
    all.net.input(two, Input::Adopt(adoption(&all, one, &held, 2))).unwrap();
    assert!(matches!(all.net.refusal(two, confirm), Refusal::Unconfirmed(_)));
    // Until it is confirmed, nobody releases it.
    assert_eq!(all.net.refusal(two, Input::Release { grant }), Refusal::NoSuchRequest);
}

/// H11: a node that is behind the one that let the client in does not ask for it, since in an older
/// term the slot may be another's: here it is home of that term itself, and knows nothing of it.
#[test]
fn no_adoption_in_the_past() {
    let adopts = |defects| {
        let slots = SlotOptions { keep: false, ..SlotOptions::default() };
        let mut all = Fixture::with(5, 1, slots, defects);
        let first = all.placement().node.0;
        all.unfit(first);
        let behind = all.placement().node.0;
        let behind_view = all.log.clone();
        all.unfit(behind);
        let home = all.placement().node.0;
        let mut others = (0..5).filter(|node| ![first, behind, home].contains(node));
        let (one, two) = (others.next().unwrap(), others.next().unwrap());

        let held = all.enter(one, 1);
        all.net.crash(first);
        all.net.input(behind, Input::Applied(behind_view)).unwrap();
        all.apply([home, one, two]);
        all.net.deliver_all();
        all.release(one, &held);
        let held = all.enter(two, 1);
        all.net.crash(two);
        all.net.input(behind, Input::Adopt(adoption(&all, two, &held, 1))).unwrap();
        let at_once = all.adopted(behind).is_some();
        all.apply([behind]);
        all.net.deliver_all();
        assert!(all.adopted(behind).is_some());
        at_once
    };
    assert!(!adopts(Defects::NONE));
    assert!(adopts(H11_PAST));
}

/// H12: a lapse is no release: the slot is free once the home is sure of it, and nobody here
/// uses it again.
#[test]
fn a_lapse_frees_the_slot() {
    let mut all = Fixture::new(3, 1);
    let (_, [one, two]) = all.home_and_others();
    let held = all.enter(one, 1);
    all.acquire(one, 1);
    all.acquire(two, 1);
    all.net.deliver_all();
    all.net.input(one, Input::Lapse { grant: held.grant }).unwrap();
    assert_eq!(all.granted(one).len(), 1);
    all.net.deliver_all();
    let next = all.net.inside();
    let fence = all.granted(next[0]).pop().unwrap().fence;
    assert!(fence > held.fence && fence.count() == 0);
    let again = Input::Lapse { grant: held.grant };
    assert_eq!(all.net.refusal(one, again), Refusal::NoSuchRequest);
}

/// An evicted process tells its clients to stop, and asks again when it is a member again.
#[test]
fn an_evicted_process_comes_back() {
    let mut all = Fixture::new(3, 1);
    let (_, [one, two]) = all.home_and_others();
    let held = all.enter(one, 1);
    all.acquire(one, 1);
    all.evict(one);
    all.apply_everywhere();
    assert!(all.was_told(one, &Notice::Lost { grant: held.grant }));
    let next = all.enter(two, 1);
    all.change_members(|members| members.join(NodeId(one)));
    all.apply_everywhere();
    all.net.deliver_all();
    all.release(two, &next);
    all.net.deliver_all();
    assert!(all.granted(one).pop().unwrap().fence > next.fence);
}
