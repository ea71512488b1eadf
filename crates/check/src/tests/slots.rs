//! Numbered slots: several grants per process, weights, a changing k, new incarnations, and a
//! planted bug for each property.

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
    Bounds, Channels, CrashNotifications, Outcome, ProtocolModel, SearchOrder, Tolerates,
    explore_model,
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
    explore_model(model(2, k, bounds, printed), SearchOrder::Breadth)
}

/// Whether that property is violated, checking no other.
fn breaks(k: u32, bounds: Bounds, printed: Defects, property: &'static str) -> bool {
    let model = model(2, k, bounds, printed).checking([property]);
    broken(&explore_model(model, SearchOrder::Breadth)) == [property]
}

/// Every state was visited and no property is violated; the toy need not reach k inside.
fn nothing_breaks(found: &Outcome) {
    assert!(found.complete && broken(found).is_empty(), "{found:?}");
}

/// All states of the model.
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

/// A client that asks again while inside is granted twice and releases either grant first. The
/// states: idle; one inside; released; two inside, then the first alone or the second alone; one
/// inside again with the same slot; and two final states, which differ by their fences.
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

/// Several clients of a process wait at once; the last one to ask withdraws first.
#[test]
fn several_clients_wait_at_once() {
    let bounds =
        Bounds { entries: vec![3, 0], clients: 2, weight_max: 2, withdrawals: 1, ..Bounds::new(1) };
    let all = states(&model(2, 4, bounds, Defects::NONE));
    let waiting = |state: &State<Toy>| state.clients[0].waiting.len();
    assert_eq!(all.iter().map(waiting).max(), Some(2));
    assert!(all.iter().any(|state| state.spent.withdrawals == 1 && waiting(state) == 1));
}

/// The planted bugs of "one holder and increasing fences per slot": a slot granted to two
/// processes; a slot with a fence of an earlier incarnation; a slot shown by two processes.
#[test]
fn a_slot_with_two_holders_or_an_old_fence_is_found() {
    let once = Bounds::new(1);
    assert!(breaks(2, once.clone(), toy::SHARES, SlotFences::NAME));
    assert!(breaks(1, once.clone(), toy::SHARES, AtMostK::NAME));
    let again = Bounds { entries: vec![2, 0], restarts: 1, ..Bounds::new(1) };
    assert!(breaks(2, again.clone(), toy::FORGETS, SlotFences::NAME));
    let clings = toy::SHARES.with(toy::CLINGS);
    let found =
        explore_model(model(2, 1, once, clings).checking([SlotFences::NAME]), SearchOrder::Breadth);
    let schedule = found.properties[0].counterexample.as_ref().expect("found");
    assert_eq!(schedule.len(), 2, "the shortest has both inside");
    nothing_breaks(&search(2, again, Defects::NONE));
}

/// Two processes that show the same slot are found although no slot in use is granted.
#[test]
fn a_slot_that_two_show_is_found() {
    let in_sequence = |printed| {
        let model = model(2, 2, Bounds { entries: vec![1, 1], ..Bounds::new(1) }, printed);
        let mut state = model.first_state();
        for words in ["p0 requests", "p0 releases", "p1 requests"] {
            let steps = model.next_steps(&state).into_iter();
            state = steps
                .map(|step| (format!("{:?}", step.0), step.1))
                .find(|step| step.0 == words)
                .unwrap()
                .1;
        }
        state.ghost.value.has_broken(SlotFences::NAME)
    };
    assert!(!in_sequence(toy::SHARES));
    assert!(in_sequence(toy::SHARES.with(toy::CLINGS)));
}

/// The planted bug of the strict order: p1 enters with a later stamp while p0 waits. A slot that is
/// handed over is outside the order.
#[test]
fn overtaking_is_found() {
    assert!(breaks(2, Bounds::new(1), toy::OVERTAKES, StrictOrder::NAME));
    assert!(!breaks(2, Bounds::new(1), toy::HANDS_OVER, StrictOrder::NAME));
    assert!(!breaks(2, Bounds::new(1), Defects::NONE, StrictOrder::NAME));
}

/// The planted bug of a shrinking k: a slot beyond k is granted. Grants from before may stay and do
/// not count.
#[test]
fn a_slot_beyond_k_is_found() {
    let shrinks = || Bounds { entries: vec![1, 1], resizes: vec![2], ..Bounds::new(1) };
    assert!(breaks(4, shrinks(), toy::GRASPS, WithinK::NAME));
    assert!(!breaks(4, Bounds::new(1), toy::GRASPS, WithinK::NAME));
    assert!(!breaks(4, shrinks(), toy::GRASPS, AtMostK::NAME));
    nothing_breaks(&search(4, shrinks(), Defects::NONE));
}

/// A request that has become too large ends; otherwise its client waits forever. The planted bug:
/// it waits on.
#[test]
fn a_request_that_is_too_large_ends() {
    let shrinks =
        || Bounds { entries: vec![1, 0], weight_max: 2, resizes: vec![1], ..Bounds::new(1) };
    assert!(!breaks(2, shrinks(), Defects::NONE, EveryoneServed::NAME));
    assert!(breaks(2, shrinks(), toy::WAITS_ON, EveryoneServed::NAME));
}

/// The planted bug of unused slots: k grows while a client is inside, and the waiting request is
/// not reconsidered. While k stays, the same request waits rightly, until the release.
#[test]
fn a_request_that_waits_for_free_slots_is_found() {
    let schedule = |resizes| {
        let bounds = Bounds { entries: vec![2, 0], asks_inside: true, resizes, ..Bounds::new(1) };
        let model = model(2, 1, bounds, Defects::NONE).checking([NOT_LEFT_LYING]);
        let found = explore_model(model, SearchOrder::Breadth).properties.swap_remove(0);
        let schedule =
            found.counterexample.expect("the toy does not reconsider requests").into_iter();
        schedule.map(|entry| entry.step.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(schedule(vec![]), ["p0 requests", "p0 requests", "p0 releases"]);
    let grown = schedule(vec![2]);
    assert!(grown.len() == 4 && !grown.contains(&"p0 releases".to_owned()), "{grown:?}");
}

/// A pending notification of a new k counts as an event to come: no request is starved before.
#[test]
fn a_pending_resize_is_not_quiet() {
    let grows =
        Bounds { entries: vec![2, 0], asks_inside: true, resizes: vec![4], ..Bounds::new(1) };
    let model = model(2, 2, grows, Defects::NONE).checking([EveryoneServed::NAME]);
    let found = explore_model(model, SearchOrder::Breadth);
    let schedule =
        found.properties[0].counterexample.as_ref().expect("the toy does not reconsider requests");
    let resizes = schedule
        .iter()
        .filter(|entry| entry.step.to_string().contains("learns that k is 4"))
        .count();
    assert_eq!(resizes, 2);
}

/// The planted bug of "every grant answers a request": a request of weight 1 is granted two slots.
#[test]
fn more_than_was_asked_for_is_found() {
    assert!(breaks(4, Bounds::new(1), toy::TAKES_MORE, NOTHING_FROM_NOTHING));
    assert!(!breaks(4, Bounds::new(1), Defects::NONE, NOTHING_FROM_NOTHING));
}

/// No client asks for more than the widest lane has: such a request would rightly be refused.
#[test]
fn weights_fit_the_widest_lane() {
    let asked = |lanes| {
        let mut model = model(2, 3, Bounds { weight_max: 3, ..Bounds::new(1) }, Defects::NONE);
        model.setup.slots.lanes = lanes;
        let steps = model.next_steps(&model.first_state());
        steps.iter().filter(|(action, _)| format!("{action:?}").starts_with("p0 requests")).count()
    };
    assert_eq!((asked(1), asked(2), asked(3)), (3, 2, 1));
}

/// The planted bug of leftover state: a debt although no request is left.
#[test]
fn leftover_state_is_found() {
    assert!(breaks(2, Bounds::new(1), toy::OWES, NoResidue::NAME));
    assert!(!breaks(2, Bounds::new(1), Defects::NONE, NoResidue::NAME));
}

/// Every process is notified of one log, in its order; a restarted process from its beginning.
/// Incarnations are numbered across all processes. All processes may be down at once, and the log
/// continues.
#[test]
fn the_log_has_one_order() {
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
        let notified: Vec<&Toy> = up.map(|node| state.processes[node.index()].protocol()).collect();
        if (state.spent.restarts, state.down.len()) != (2, 0) {
            // No entry is dropped while a process may restart.
            assert!(notified.iter().all(|toy| log.starts_with(&toy.notifications)), "{state:?}");
            let added = log.iter().filter(|entry| entry.2).map(|entry| entry.1);
            assert!(
                added.eq(1..=u32::try_from(log.iter().filter(|entry| entry.2).count()).unwrap())
            );
        }
        let done = model.next_steps(state).is_empty();
        if done {
            ends += 1;
            assert!(log.is_empty(), "every process was notified");
            assert!(
                notified.windows(2).all(|two| two[0].notifications == two[1].notifications),
                "in one order"
            );
            assert_eq!(notified[0].notifications.len(), 5, "three were evicted, two added");
        }
    }
    assert!(ends > 0);
    assert!(
        all.iter().any(|state| state.down.len() + state.crashed.len() == 3),
        "all are down at once"
    );
    assert!(
        all.iter().any(|state| state.clients.iter().any(|client| client.incarnation == 2)),
        "the same process restarted twice"
    );
}

/// Without a log: a notification per incarnation, in any order, also to processes that restarted
/// since; one process never goes down.
#[test]
fn notifications_without_a_log_come_in_any_order() {
    let bounds =
        Bounds { restarts: 2, notifications: CrashNotifications::InOrder, ..Bounds::new(0) };
    let all = states(&model(3, 1, bounds, Defects::NONE));
    let notified =
        |state: &State<Toy>, node: usize| state.processes[node].protocol().notifications.clone();
    let (first, second) = ((NodeId(1), 0, false), (NodeId(1), 1, false));
    for order in [[first, second], [second, first]] {
        assert!(all.iter().any(|state| notified(state, 0) == order), "{order:?}");
    }
    let notified_again = all.iter().any(|state| {
        let toy = state.processes[0].protocol();
        toy.incarnation == 1 && toy.notifications == [first]
    });
    assert!(
        notified_again,
        "p0, restarted, is notified of p1's crash, of which its earlier incarnation may know"
    );
    let stays = |state: &State<Toy>| {
        state.ids().any(|node| state.is_up(node) && state.clients[node.index()].incarnation == 0)
    };
    assert!(all.iter().all(stays));
    assert!(all.iter().all(|state| {
        state
            .processes
            .iter()
            .all(|process| process.protocol().notifications.iter().all(|(_, _, back)| !back))
    }));
}

/// A crashed process keeps no state, whatever it was doing; its client is gone with it, and another
/// asks in the new incarnation.
#[test]
fn a_crashed_process_keeps_nothing() {
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

/// A restarted process is notified of every change of k again.
#[test]
fn a_new_incarnation_is_notified_of_k_again() {
    let bounds = Bounds { entries: vec![0], restarts: 1, resizes: vec![3], ..Bounds::new(0) };
    let all = states(&model(2, 2, bounds, Defects::NONE));
    let p0 = |incarnation, resized| {
        all.iter().any(|state| {
            (state.clients[0].incarnation, state.clients[0].resized) == (incarnation, resized)
        })
    };
    assert!(p0(0, 1) && p0(1, 0) && p0(1, 1));
}

/// A timer that is re-armed forever expires as often as the bounds allow; while it is armed, no
/// request is starved.
#[test]
fn timers_expire_a_bounded_number_of_times() {
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

/// In unordered channels the order of messages does not distinguish states; a schedule still counts
/// messages in the order of sending.
#[test]
fn schedules_count_messages_in_the_order_of_sending() {
    let steps = |printed| {
        let bounds =
            Bounds { entries: vec![1, 0], channels: Channels::Unordered, ..Bounds::new(1) };
        let model = model(2, 2, bounds, printed).checking([NOT_REFUSED]);
        let found = explore_model(model, SearchOrder::Breadth);
        let schedule = found.properties[0].counterexample.clone().expect("one is refused");
        schedule[1].step.to_string()
    };
    assert_eq!(steps(toy::REFUSES_FIRST), "p0 -> p1: note");
    assert_eq!(steps(toy::REFUSES_SECOND), "p0 -> p1: note 2");
}

/// Of several grants of one process, a schedule names the released one by the order of the grants.
#[test]
fn schedules_name_the_released_grant() {
    let bounds = Bounds { entries: vec![2, 0], asks_inside: true, ..Bounds::new(1) };
    let model = model(2, 4, bounds, Defects::NONE);
    let mut state = model.first_state();
    for _ in 0..2 {
        state = model.next_steps(&state).swap_remove(0).1;
    }
    let steps = model.next_steps(&state);
    let releases: Vec<String> =
        steps.iter().map(|(action, _)| crate::action::step(&state, action).to_string()).collect();
    assert_eq!(releases, ["p0 releases", "p0 releases #2"]);
}

/// Two messages sent in either order make one state.
#[test]
fn the_order_of_unordered_messages_is_no_state() {
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
