//! Witness (H21): what is free goes on when the home is found unfit, and what that costs.

use alloc::boxed::Box;

use kgate_core::{Adoption, Defects, Incarnation, Input, InputOf, NodeId, SlotOptions};

use super::fixture::{Fixture, Granted};
use crate::home::Home;
use crate::home::defects::H21_ADOPTED;

fn witnessed(k: u32, witness: bool, defects: Defects) -> Fixture {
    let slots = SlotOptions { keep: false, witness, ..SlotOptions::default() };
    let mut all = Fixture::with(4, k, slots, defects);
    all.net.deliver_all(); // The first note.
    all
}

/// The home, its witness, and the other two.
fn roles(all: &Fixture) -> (u32, u32, [u32; 2]) {
    let (home, others) = all.home_and_others::<3>();
    let witness = all.log.witness().expect("all are fit").node.0;
    let mut rest = others.into_iter().filter(|node| *node != witness);
    (home, witness, [rest.next().expect("four"), rest.next().expect("four")])
}

fn adoption(all: &Fixture, from: u32, granted: &Granted) -> InputOf<Home> {
    Input::Adopt(Box::new(Adoption {
        slots: granted.slots.clone().into(),
        fence: granted.fence,
        attempt: 1,
        from: NodeId(from),
        incarnation: Incarnation(0),
        after: all.log.index,
    }))
}

/// The home dies and is found unfit; everybody else applies that.
fn lose_home(all: &mut Fixture, home: u32) {
    all.net.crash(home);
    all.unfit(home);
    all.apply_everywhere();
    all.net.deliver_all();
}

/// The home's own client waits for one note per slot and period; others cost what they cost
/// without a witness.
#[test]
fn one_note_per_slot_and_period() {
    let mut all = witnessed(1, true, Defects::NONE);
    let (home, _, [one, _]) = roles(&all);
    let before = all.messages();
    all.acquire(home, 1);
    assert!(all.granted(home).is_empty());
    all.net.deliver_all();
    assert_eq!((all.granted(home).len(), all.messages() - before), (1, 2));
    for _ in 0..3 {
        let held = all.granted(home).pop().unwrap();
        all.release(home, &held);
        all.acquire(home, 1);
    }
    assert_eq!((all.granted(home).len(), all.messages() - before), (4, 2));
    let held = all.granted(home).pop().unwrap();
    all.release(home, &held);
    let held = all.enter(one, 1);
    all.release(one, &held);
    all.net.deliver_all();
    assert_eq!(all.messages() - before, 5);
}

/// A slot that is free when the home dies is granted as soon as the home is found unfit; without a
/// witness, only when it is evicted. What clients of the home have waits for that in any case.
#[test]
fn free_slots_survive_the_home() {
    let served = |witness| {
        let mut all = witnessed(2, witness, Defects::NONE);
        let (home, _, [one, two]) = roles(&all);
        let own = all.enter(home, 1);
        lose_home(&mut all, home);
        for node in [one, two] {
            all.acquire(node, 1);
            all.net.deliver_all();
        }
        let early = all.granted(one).len();
        assert!(all.granted(one).iter().all(|granted| granted.slots != own.slots));
        assert!(all.granted(two).is_empty());
        all.evict(home);
        all.apply_everywhere();
        all.net.deliver_all();
        assert_eq!((all.granted(one).len(), all.granted(two).len()), (1, 1));
        early
    };
    assert_eq!((served(true), served(false)), (1, 0));
}

/// A member that has not reported may have anything, so what is free waits for it.
#[test]
fn the_other_founders_must_have_reported() {
    let mut all = witnessed(1, true, Defects::NONE);
    let (home, witness, [one, two]) = roles(&all);
    let held = all.enter(two, 1);
    all.net.crash(home);
    all.unfit(home);
    all.apply([witness, one]);
    all.acquire(one, 1);
    all.net.deliver_all();
    assert!(all.granted(one).is_empty());
    all.apply([two]);
    all.net.deliver_all();
    assert!(all.granted(one).is_empty());
    all.release(two, &held);
    all.net.deliver_all();
    assert_eq!(all.granted(one).len(), 1);
}

/// An adoption at the home is told only when the witness knows of the slot. Left out, the slot is
/// free after the death of the home, whose client goes on.
#[test]
fn an_adoption_at_the_home_waits_for_the_witness() {
    let adopted_and_granted = |defects| {
        let mut all = witnessed(1, true, defects);
        let (home, witness, [one, two]) = roles(&all);
        let held = all.enter(one, 1);
        let request = adoption(&all, one, &held);
        all.net.input(home, request).unwrap();
        let adopted = all.adopted(home).map(|(grant, ..)| {
            all.net.input(home, Input::Confirm { grant }).unwrap();
        });
        all.net.lose(home, witness);
        all.net.input(one, Input::Lapse { grant: held.grant }).unwrap();
        lose_home(&mut all, home);
        all.acquire(two, 1);
        all.net.deliver_all();
        (adopted.is_some(), !all.granted(two).is_empty())
    };
    assert_eq!(adopted_and_granted(Defects::NONE), (false, true));
    assert_eq!(adopted_and_granted(H21_ADOPTED), (true, true)); // Two holders.
}
