//! Numbered slots: several grants a process, weights, a changing k, new incarnations, and a planted
//! bug for each checker of them.

use std::collections::BTreeSet;

use kgate_core::{Defects, NodeId, Setup};
use kgate_spec::history::NOTHING_FROM_NOTHING;
use kgate_spec::{AtMostK, EveryoneServed, NoResidue, SlotFences, StrictOrder, WithinK};
use stateright::Model;

use super::broken;
use super::toy::{self, Toy};
use crate::properties::{NOT_LEFT_LYING, NOT_REFUSED};
use crate::state::{State, digest};
use crate::{
    Bounds, Channels, CrashNotifications, Order, Outcome, ProtocolModel, Tolerates, explore_model,
};

fn model(nodes: u32, k: u32, bounds: Bounds, printed: Defects) -> ProtocolModel<Toy> {
    let tolerates = Tolerates { crashes: nodes - 1, ..Tolerates::default() };
    let notifications = if bounds.notifications == CrashNotifications::InOrder {
        CrashNotifications::AnyOrder
    } else {
        CrashNotifications::Log
    };
    let bounds = Bounds { returns: true, tolerates, notifications, ..bounds };
    ProtocolModel::new(Setup { defects: printed, ..Setup::new(nodes, k) }, bounds)
}

fn search(k: u32, bounds: Bounds, printed: Defects) -> Outcome {
    explore_model(model(2, k, bounds, printed), Order::Breadth)
}

/// By that property alone.
fn breaks(k: u32, bounds: Bounds, printed: Defects, property: &'static str) -> bool {
    let model = model(2, k, bounds, printed).checking([property]);
    broken(&explore_model(model, Order::Breadth)) == [property]
}

/// All was tried; that k are ever inside is not asked of the toy.
fn nothing_breaks(found: &Outcome) {
    assert!(found.complete && broken(found).is_empty(), "{found:?}");
}

/// All states.
fn states(model: &ProtocolModel<Toy>) -> Vec<State<Toy>> {
    let (mut seen, mut ahead, mut all) = (BTreeSet::new(), vec![model.first_state()], Vec::new());
    while let Some(state) = ahead.pop() {
        if seen.insert(digest(&state)) {
            ahead.extend(model.next_steps(&state).into_iter().map(|(_, next)| next));
            all.push(state);
        }
    }
    all
}

/// A client that asks again while inside goes in twice, and comes out of either first. Before;
/// inside; out; inside twice, with the first alone and with the second alone; inside again with the
/// same slot; and two ends, which fences tell apart.
#[test]
fn a_process_holds_several_grants() {
    let twice = |asks_inside| Bounds { entries: vec![2, 0], asks_inside, ..Bounds::new(2) };
    let found = search(4, twice(true), Defects::NONE);
    assert_eq!((found.unique, broken(&found)), (9, vec![]));
    let inside = |asks_inside| {
        let states = states(&model(2, 4, twice(asks_inside), Defects::NONE));
        states.iter().map(|state| state.clients[0].inside.len()).max()
    };
    assert_eq!((inside(true), inside(false)), (Some(2), Some(1)));
}

/// With several clients, so many wait at once; who asked last gives up first.
#[test]
fn several_clients_wait_at_once() {
    let bounds =
        Bounds { entries: vec![3, 0], clients: 2, weight_max: 2, withdrawals: 1, ..Bounds::new(1) };
    let all = states(&model(2, 4, bounds, Defects::NONE));
    let waiting = |state: &State<Toy>| state.clients[0].waiting.len();
    assert_eq!(all.iter().map(waiting).max(), Some(2));
    assert!(all.iter().any(|state| state.spent.withdrawals == 1 && waiting(state) == 1));
}

/// The planted bugs of "one holder and increasing fences per slot": granted to two; under an old
/// fence, that of an earlier incarnation; shown by two.
#[test]
fn a_slot_with_two_holders_or_an_old_fence_is_found() {
    let once = Bounds::new(1);
    assert!(breaks(2, once.clone(), toy::SHARES, SlotFences::NAME));
    assert!(breaks(1, once.clone(), toy::SHARES, AtMostK::NAME));
    let again = Bounds { entries: vec![2, 0], restarts: 1, ..Bounds::new(1) };
    assert!(breaks(2, again.clone(), toy::FORGETS, SlotFences::NAME));
    let clings = toy::SHARES.with(toy::CLINGS);
    let found =
        explore_model(model(2, 1, once, clings).checking([SlotFences::NAME]), Order::Breadth);
    let schedule = found.properties[0].counterexample.as_ref().expect("found");
    assert_eq!(schedule.len(), 2, "the shortest has both inside");
    nothing_breaks(&search(2, again, Defects::NONE));
}

/// Two that show one slot are found though nobody is granted what another uses.
#[test]
fn a_slot_that_two_show_is_found() {
    let one_after_the_other = |printed| {
        let model = model(2, 2, Bounds { entries: vec![1, 1], ..Bounds::new(1) }, printed);
        let mut state = model.first_state();
        for words in ["p0 asks", "p0 comes out", "p1 asks"] {
            let steps = model.next_steps(&state).into_iter();
            state = steps
                .map(|step| (format!("{:?}", step.0), step.1))
                .find(|step| step.0 == words)
                .unwrap()
                .1;
        }
        state.ghost.value.has_broken(SlotFences::NAME)
    };
    assert!(!one_after_the_other(toy::SHARES));
    assert!(one_after_the_other(toy::SHARES.with(toy::CLINGS)));
}

/// The planted bug of the strict order: p1 goes in with a later stamp while p0 waits. Handed over,
/// a slot is outside the order.
#[test]
fn who_overtakes_is_found() {
    assert!(breaks(2, Bounds::new(1), toy::OVERTAKES, StrictOrder::NAME));
    assert!(!breaks(2, Bounds::new(1), toy::HANDS_OVER, StrictOrder::NAME));
    assert!(!breaks(2, Bounds::new(1), Defects::NONE, StrictOrder::NAME));
}

/// The planted bug of a k that shrinks: a slot beyond it is taken. Who was inside before may stay,
/// and does not count.
#[test]
fn a_slot_beyond_k_is_found() {
    let shrinks = || Bounds { entries: vec![1, 1], resizes: vec![2], ..Bounds::new(1) };
    assert!(breaks(4, shrinks(), toy::GRASPS, WithinK::NAME));
    assert!(!breaks(4, Bounds::new(1), toy::GRASPS, WithinK::NAME));
    assert!(!breaks(4, shrinks(), toy::GRASPS, AtMostK::NAME));
    nothing_breaks(&search(4, shrinks(), Defects::NONE));
}

/// A request that has become too large ends; else whoever waits for it waits for ever. The planted
/// bug: it waits on.
#[test]
fn a_request_that_is_too_large_ends() {
    let shrinks =
        || Bounds { entries: vec![1, 0], weight_max: 2, resizes: vec![1], ..Bounds::new(1) };
    assert!(!breaks(2, shrinks(), Defects::NONE, EveryoneServed::NAME));
    assert!(breaks(2, shrinks(), toy::WAITS_ON, EveryoneServed::NAME));
}

/// The planted bug of slots that are left lying: k grows while somebody is inside, and who waits is
/// not looked at again. As long as k stays, the same waits rightly, until the other comes out.
#[test]
fn who_waits_for_what_is_free_is_found() {
    let schedule = |resizes| {
        let bounds = Bounds { entries: vec![2, 0], asks_inside: true, resizes, ..Bounds::new(1) };
        let model = model(2, 1, bounds, Defects::NONE).checking([NOT_LEFT_LYING]);
        let found = explore_model(model, Order::Breadth).properties.swap_remove(0);
        let schedule = found.counterexample.expect("the toy does not look again").into_iter();
        schedule.map(|told| told.step.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(schedule(vec![]), ["p0 asks", "p0 asks", "p0 comes out"]);
    let grown = schedule(vec![2]);
    assert!(grown.len() == 4 && !grown.contains(&"p0 comes out".to_owned()), "{grown:?}");
}

/// Who is told later of another k is under way: nobody waits for ever before.
#[test]
fn a_change_of_k_is_news() {
    let grows =
        Bounds { entries: vec![2, 0], asks_inside: true, resizes: vec![4], ..Bounds::new(1) };
    let model = model(2, 2, grows, Defects::NONE).checking([EveryoneServed::NAME]);
    let found = explore_model(model, Order::Breadth);
    let schedule =
        found.properties[0].counterexample.as_ref().expect("the toy does not look again");
    let told = schedule.iter().filter(|told| told.step.to_string().contains("sets k to 4")).count();
    assert_eq!(told, 2);
}

/// The planted bug of "who goes in has asked": for one, and gets two.
#[test]
fn more_than_was_asked_for_is_found() {
    assert!(breaks(4, Bounds::new(1), toy::TAKES_MORE, NOTHING_FROM_NOTHING));
    assert!(!breaks(4, Bounds::new(1), Defects::NONE, NOTHING_FROM_NOTHING));
}

/// Nobody asks for more than the widest lane has: it would be refused, and rightly.
#[test]
fn nobody_asks_for_more_than_a_lane_has() {
    let asked = |lanes| {
        let mut model = model(2, 3, Bounds { weight_max: 3, ..Bounds::new(1) }, Defects::NONE);
        model.setup.slots.lanes = lanes;
        let steps = model.next_steps(&model.first_state());
        steps.iter().filter(|(action, _)| format!("{action:?}").starts_with("p0 asks")).count()
    };
    assert_eq!((asked(1), asked(2), asked(3)), (3, 2, 1));
}

/// The planted bug of what is left behind: a debt, when nobody wants anything any more.
#[test]
fn what_is_left_behind_is_found() {
    assert!(breaks(2, Bounds::new(1), toy::OWES, NoResidue::NAME));
    assert!(!breaks(2, Bounds::new(1), Defects::NONE, NoResidue::NAME));
}

/// Everybody is told one log, in its order; who comes back, from its beginning. Incarnations are
/// numbered through all processes. All may be down at once, and the log goes on.
#[test]
fn the_log_is_told_in_one_order() {
    let bounds = Bounds { crashes: 1, restarts: 2, ..Bounds::new(0) };
    let model = model(3, 1, bounds, Defects::NONE);
    let all = states(&model);
    let mut ends = 0;
    for state in &all {
        let log: Vec<_> = state
            .log
            .iter()
            .map(|entry| (entry.node, u32::from(entry.incarnation), entry.adds))
            .collect();
        let up = state.ids().filter(|&node| state.is_up(node));
        let heard: Vec<&Toy> = up.map(|node| state.processes[node.index()].protocol()).collect();
        if (state.spent.restarts, state.down.len()) != (2, 0) {
            // Nothing is forgotten as long as somebody may come back.
            assert!(heard.iter().all(|toy| log.starts_with(&toy.heard)), "{state:?}");
            let added = log.iter().filter(|entry| entry.2).map(|entry| entry.1);
            assert!(
                added.eq(1..=u32::try_from(log.iter().filter(|entry| entry.2).count()).unwrap())
            );
        }
        let done = model.next_steps(state).is_empty();
        if done {
            ends += 1;
            assert!(log.is_empty(), "everybody was told");
            assert!(heard.windows(2).all(|two| two[0].heard == two[1].heard), "in one order");
            assert_eq!(heard[0].heard.len(), 5, "three were evicted, two added");
        }
    }
    assert!(ends > 0);
    assert!(
        all.iter().any(|state| state.down.len() + state.crashed.len() == 3),
        "all are gone at once"
    );
    assert!(
        all.iter().any(|state| state.clients.iter().any(|client| client.incarnation == 2)),
        "twice the same"
    );
}

/// Without a log: news of each incarnation, in any order, also to who came back since; one process
/// never goes down.
#[test]
fn news_of_incarnations_come_in_any_order() {
    let bounds =
        Bounds { restarts: 2, notifications: CrashNotifications::InOrder, ..Bounds::new(0) };
    let all = states(&model(3, 1, bounds, Defects::NONE));
    let heard = |state: &State<Toy>, node: usize| state.processes[node].protocol().heard.clone();
    let (first, second) = ((NodeId(1), 0, false), (NodeId(1), 1, false));
    for order in [[first, second], [second, first]] {
        assert!(all.iter().any(|state| heard(state, 0) == order), "{order:?}");
    }
    let told_anew = all.iter().any(|state| {
        let toy = state.processes[0].protocol();
        toy.incarnation == 1 && toy.heard == [first]
    });
    assert!(
        told_anew,
        "p0, back again, hears of p1's crash, which its earlier incarnation may have heard of"
    );
    let stays = |state: &State<Toy>| {
        state.ids().any(|node| state.is_up(node) && state.clients[node.index()].incarnation == 0)
    };
    assert!(all.iter().all(stays));
    assert!(all.iter().all(|state| {
        state
            .processes
            .iter()
            .all(|process| process.protocol().heard.iter().all(|(_, _, back)| !back))
    }));
}

/// Of a process that has crashed nothing is left, whatever it was doing; its client is gone with
/// it, and another asks in the new incarnation.
#[test]
fn who_crashes_keeps_nothing() {
    let bounds = Bounds { entries: vec![2, 0], weight_max: 2, restarts: 1, ..Bounds::new(1) };
    let model = model(2, 4, bounds, Defects::NONE);
    let all = states(&model);
    let down: Vec<&State<Toy>> = all.iter().filter(|state| !state.down.is_empty()).collect();
    assert!(down.iter().all(|state| state.down[0].0 != 0 || state.clients[0].inside.is_empty()));
    let gone = down.iter().filter(|state| state.down[0].0 == 0);
    let processes: BTreeSet<u64> = gone.map(|state| digest(&state.processes[0])).collect();
    assert_eq!(processes.len(), 1);
    assert!(
        all.iter()
            .any(|state| state.clients[0].incarnation == 1 && !state.clients[0].inside.is_empty())
    );
    let waiting = all.iter().filter(|state| state.processes[0].protocol().incarnation == 1);
    assert!(
        waiting
            .clone()
            .all(|state| state.clients[0].waiting.len() == usize::from(state.waits(NodeId(0))))
    );
    assert!(waiting.clone().any(|state| !state.waits(NodeId(0)) && state.clients[0].asked == 1));
}

/// Who comes back is told of every change of k anew.
#[test]
fn a_new_incarnation_hears_of_k_again() {
    let bounds = Bounds { entries: vec![0], restarts: 1, resizes: vec![3], ..Bounds::new(0) };
    let all = states(&model(2, 2, bounds, Defects::NONE));
    let p0 = |incarnation, resized| {
        all.iter().any(|state| {
            (state.clients[0].incarnation, state.clients[0].resized) == (incarnation, resized)
        })
    };
    assert!(p0(0, 1) && p0(1, 0) && p0(1, 1));
}

/// A timer that is armed again and again runs out so often; while it runs, nobody waits for ever.
#[test]
fn timers_run_out_a_bounded_number_of_times() {
    let bounds = |expiries| Bounds {
        entries: vec![1, 0],
        weight_max: 2,
        expiries: Some(expiries),
        ..Bounds::new(1)
    };
    let unique = |expiries| {
        let found = search(2, bounds(expiries), toy::TICKS);
        nothing_breaks(&found);
        found.unique
    };
    assert_eq!((unique(0), unique(3)), (4, 7));
    assert!(
        breaks(2, bounds(3), Defects::NONE, EveryoneServed::NAME),
        "without the timer it waits for ever"
    );
}

/// Where the order of messages is nothing to anybody it tells no states apart; a schedule still
/// counts them in the order of sending.
#[test]
fn a_schedule_counts_messages_as_they_were_sent() {
    let steps = |printed| {
        let bounds =
            Bounds { entries: vec![1, 0], channels: Channels::Unordered, ..Bounds::new(1) };
        let model = model(2, 2, bounds, printed).checking([NOT_REFUSED]);
        let found = explore_model(model, Order::Breadth);
        let schedule = found.properties[0].counterexample.clone().expect("one is refused");
        schedule[1].step.to_string()
    };
    assert_eq!(steps(toy::REFUSES_FIRST), "p0 -> p1: note");
    assert_eq!(steps(toy::REFUSES_SECOND), "p0 -> p1: note 2");
}

/// Of several that are inside at one process, a schedule says which one comes out, by the order of
/// their grants.
#[test]
fn a_schedule_says_who_comes_out() {
    let bounds = Bounds { entries: vec![2, 0], asks_inside: true, ..Bounds::new(1) };
    let model = model(2, 4, bounds, Defects::NONE);
    let mut state = model.first_state();
    for _ in 0..2 {
        state = model.next_steps(&state).swap_remove(0).1;
    }
    let steps = model.next_steps(&state);
    let steps_out: Vec<String> =
        steps.iter().map(|(action, _)| crate::action::step(&state, action).to_string()).collect();
    assert_eq!(steps_out, ["p0 comes out", "p0 comes out 2"]);
}

/// In whatever order two messages were sent, they make one state.
#[test]
fn the_order_of_unordered_messages_makes_no_state() {
    let unique = |channels| {
        let bounds = Bounds { entries: vec![2, 0], asks_inside: true, channels, ..Bounds::new(1) };
        states(&model(2, 4, bounds, toy::REFUSES_FIRST)).len()
    };
    let distinct = |channels| {
        let bounds = Bounds { entries: vec![2, 0], asks_inside: true, channels, ..Bounds::new(1) };
        let multiset = |state: &State<Toy>| {
            let mut sorted = state.clone();
            sorted
                .in_flight
                .sort_by_key(|in_flight| (in_flight.channel(), in_flight.message.digest));
            digest(&sorted)
        };
        states(&model(2, 4, bounds, toy::REFUSES_FIRST))
            .iter()
            .map(multiset)
            .collect::<BTreeSet<_>>()
            .len()
    };
    assert_eq!(unique(Channels::Unordered), distinct(Channels::Unordered));
}
