//! Messages per entry (`docs/internals/home.md`), cached slots, hand-over, order, weights, k.

use kgate_core::{Defects, Input, Notice, Refusal, SlotOptions};

use super::fixture::Fixture;
use crate::home::defects::H_FIFO;

fn keeping(nodes: u32, k: u32) -> Fixture {
    Fixture::with(nodes, k, SlotOptions::default(), Defects::NONE)
}

/// Costs: an entry costs request, grant and return, whatever the number of members; 2
/// messages if the member asks again with the return; none at the home.
#[test]
fn three_messages_per_entry() {
    for nodes in [2, 3, 8, 64, 1024] {
        let mut all = Fixture::new(nodes, 1);
        let (home, [other]) = all.home_and_others();
        let first = all.enter(other, 1);
        assert_eq!(all.messages(), 2);
        all.release(other, &first);
        all.net.deliver_all();
        assert_eq!(all.messages(), 3);
        let second = all.enter(home, 1);
        all.release(home, &second);
        assert_eq!(all.messages(), 3);
        assert!(second.fence > first.fence);
    }
}

/// H10: a slot that the same member had last is cached there, and used again without a
/// message; a request of another member recalls it: 4 messages and the return.
#[test]
fn a_cached_slot_costs_nothing() {
    let mut all = keeping(3, 1);
    let (_, [one, two]) = all.home_and_others();
    let first = all.enter(one, 1);
    all.release(one, &first);
    let second = all.enter(one, 1);
    all.release(one, &second); // Cached: it was the last holder, too.
    all.net.deliver_all();
    let before = all.messages();
    let third = all.enter(one, 1);
    all.release(one, &third);
    assert_eq!((all.messages(), third.fence.count()), (before, 1));
    assert!(third.fence > second.fence);
    let elsewhere = all.enter(two, 1);
    assert_eq!(all.messages(), before + 4);
    assert!(elsewhere.fence > third.fence);
}

/// H10: while others wait, a slot goes to the next client here at most `cohort` times.
#[test]
fn others_wait_for_a_cohort_only() {
    let slots = SlotOptions { cohort: 2, ..SlotOptions::default() };
    let mut all = Fixture::with(3, 1, slots, Defects::NONE);
    let (_, [one, two]) = all.home_and_others();
    let mut held = all.enter(one, 1);
    all.acquire(two, 1);
    all.net.deliver_all();
    (0..4).for_each(|_| all.acquire(one, 1));
    for handed_over in 1..=3 {
        all.release(one, &held);
        held = all.granted(one).pop().unwrap();
        assert_eq!(held.fence.count(), handed_over.min(2));
    }
    all.net.deliver_all();
    assert_eq!(all.granted(two).len(), 1);
}

/// P3: first come, first served; a request of greater weight is not overtaken.
#[test]
fn a_heavy_request_is_not_overtaken() {
    let served = |defects| {
        let slots = SlotOptions { keep: false, ..SlotOptions::default() };
        let mut all = Fixture::with(4, 2, slots, defects);
        let (home, [one, two]) = all.home_and_others();
        all.enter(home, 1);
        for (node, weight) in [(one, 2), (two, 1)] {
            all.acquire(node, weight);
            all.net.deliver_all();
        }
        (all.granted(one).len(), all.granted(two).len())
    };
    assert_eq!(served(Defects::NONE), (0, 0));
    assert_eq!(served(H_FIFO), (0, 1));
}

/// H15, H16: the home grants below its k, a member refuses by a newer one, and a request that
/// has become too large ends; a returned request is served first when there is room.
#[test]
fn k_shrinks_and_grows() {
    let mut all = Fixture::new(3, 2);
    let (home, [one, two]) = all.home_and_others();
    let low = all.enter(home, 1);
    all.acquire(one, 1);
    all.net.deliver(one, home);
    all.append(|log| log.k = 1);
    all.apply([one]);
    all.acquire(two, 2);
    all.net.deliver_all(); // It does not take slot 1, and says so.
    assert!(all.granted(one).is_empty());
    all.apply_everywhere();
    assert!(all.was_told(two, &Notice::TooLarge { weight: 2, most: 1 }));
    assert_eq!(
        all.net.refusal(one, Input::Acquire { weight: 2 }),
        Refusal::Weight { weight: 2, most: 1 }
    );
    all.acquire(two, 1);
    all.net.deliver_all();
    all.release(home, &low);
    all.net.deliver_all();
    assert_eq!((all.granted(one).len(), all.granted(two).len()), (1, 0));
    all.append(|log| log.k = 2);
    all.apply_everywhere();
    all.net.deliver_all();
    assert_eq!(all.granted(two).pop().unwrap().slots, [1]);
}

/// A driver matches grants to clients by weight: a grant to the second of two requests is refused
/// while the first waits, because k has shrunk here, and both are served in their order later.
#[test]
fn requests_of_one_weight_are_served_in_their_order() {
    let mut all = Fixture::new(3, 3);
    let (home, [one]) = all.home_and_others();
    let low = all.enter(home, 1);
    let middle = all.enter(home, 1);
    all.acquire(one, 1);
    all.net.deliver(one, home); // Slot 2 is on its way.
    all.release(home, &low);
    all.acquire(one, 1);
    all.net.deliver(one, home); // So is slot 0.
    all.append(|log| log.k = 1);
    all.apply([one]);
    all.net.deliver_all();
    assert!(all.granted(one).is_empty());
    all.net.input(one, Input::Withdraw).unwrap();
    all.apply_everywhere();
    all.net.deliver_all();
    assert_eq!(all.granted(one).pop().unwrap().slots, [0]);
    all.release(home, &middle);
    all.net.deliver_all();
    assert_eq!((all.granted(one).len(), all.net.inside()), (1, [one].into()));
}

/// H17: without a lease no client is let in and nothing stays cached.
#[test]
fn no_entry_without_a_lease() {
    let mut all = keeping(3, 1);
    let (_, [one, two]) = all.home_and_others();
    for _ in 0..2 {
        let granted = all.enter(one, 1);
        all.release(one, &granted);
        all.net.deliver_all();
    }
    all.acquire(two, 1);
    all.net.input(two, Input::Lease(false)).unwrap();
    all.net.input(one, Input::Lease(false)).unwrap();
    assert!(all.net.nodes[one as usize].member.holds.is_empty());
    all.net.deliver_all();
    assert!(all.granted(two).is_empty());
    all.net.input(two, Input::Lease(true)).unwrap();
    all.net.deliver_all();
    assert_eq!(all.granted(two).len(), 1);
}

/// H14: a slot that the log holds is granted to no client until it is freed.
#[test]
fn a_durable_permit_keeps_its_slot() {
    let mut all = keeping(3, 1);
    let (home, [one, two]) = all.home_and_others();
    let held = all.enter(one, 1);
    all.append(|log| log.reserved = [0].into());
    all.apply([home, one]);
    all.release(one, &held);
    all.acquire(two, 1);
    all.net.deliver_all();
    assert!(all.granted(two).is_empty());
    all.append(|log| log.reserved = [].into());
    all.apply_everywhere();
    all.net.deliver_all();
    assert_eq!(all.granted(two).len(), 1);
}

/// Law 6: an idle process is small, so that many fit into memory.
#[test]
fn an_idle_process_is_small() {
    assert!(size_of::<super::Home>() <= 400, "{}", size_of::<super::Home>());
}
