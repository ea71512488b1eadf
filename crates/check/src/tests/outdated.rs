//! Messages that mean nothing any more: whoever says so of one is held to it in every state.

use std::collections::BTreeSet;

use kgate_core::{Explorable, Input, NodeId, Outbox, Protocol, Setup, SlotOptions, Time};
use kgate_protocols::slots::{Lanes, LanesMessage, SlotsMessage};
use stateright::Model;

use crate::state::{Flying, State, digest};
use crate::{Bounds, Channels, News, Tolerates, World};

/// Says of a process whether a message to it is outdated.
type Says = fn(&Lanes, NodeId, &LanesMessage) -> bool;

fn bare() -> SlotOptions {
    SlotOptions { defer: false, quiet: false, keep: false, cohort: 0, ..SlotOptions::default() }
}

fn world(nodes: u32, bounds: Bounds, slots: SlotOptions) -> World<Lanes> {
    let tolerates = Tolerates { crashes: nodes - 1, ..Tolerates::default() };
    let bounds = Bounds {
        channels: Channels::Unordered,
        news: News::Log,
        returns: true,
        tolerates,
        ..bounds
    };
    // Nothing is taken off its way.
    World::new(Setup { slots, ..Setup::new(nodes, 1) }, bounds).as_sent()
}

/// Whether `message` changes nothing at `process` and nothing comes of it.
fn is_ignored(process: &Lanes, from: NodeId, message: &LanesMessage) -> bool {
    let (mut after, mut out) = (process.clone(), Outbox::new());
    let message = message.clone();
    let taken = after.handle(Time::ZERO, Input::Deliver { from, message }, &mut out);
    taken.is_ok() && after == *process && out.pop().is_none()
}

/// How many outdated messages there are in all states; none if one of them is not ignored, or is
/// outdated no more after a step.
fn outdated(world: &World<Lanes>, says: Says) -> Option<usize> {
    let whom = |state: &State<Lanes>| {
        let flying = state.flying.clone().into_iter().filter(|flying| state.is_up(flying.to));
        let process = |to: NodeId| state.processes[to.index()].protocol();
        flying.filter(|it| says(process(it.to), it.from, &it.message.value)).collect::<Vec<_>>()
    };
    let (mut seen, mut ahead, mut count) = (BTreeSet::new(), vec![world.first_state()], 0);
    while let Some(state) = ahead.pop() {
        if !seen.insert(digest(&state)) {
            continue;
        }
        let here = whom(&state);
        count += here.len();
        for (_, next) in world.next_steps(&state) {
            let still = |it: &Flying<Lanes>| {
                let process = next.processes[it.to.index()].protocol();
                !next.is_up(it.to) || says(process, it.from, &it.message.value)
            };
            if !here.iter().all(still) {
                return None;
            }
            ahead.push(next);
        }
        let process = |to: NodeId| state.processes[to.index()].protocol();
        if !here.iter().all(|it| is_ignored(process(it.to), it.from, &it.message.value)) {
            return None;
        }
    }
    Some(count)
}

/// `slots`, with requests that end in each way and incarnations that end: what it calls outdated is
/// ignored, and stays so.
#[test]
fn what_is_outdated_is_ignored_for_ever() {
    let once = || Bounds::new(1);
    let worlds = [
        world(2, Bounds { restarts: 1, withdrawals: 1, entries: vec![2, 1], ..once() }, bare()),
        world(
            2,
            Bounds { asks_inside: true, withdrawals: 1, ..Bounds::new(2) },
            SlotOptions::default(),
        ),
        world(3, Bounds { crashes: 1, entries: vec![1, 1, 0], ..once() }, bare()),
        world(2, Bounds { duplicates: 1, entries: vec![2, 1], ..once() }, bare()),
    ];
    for world in worlds {
        let count = outdated(&world, Lanes::is_outdated);
        assert!(count.is_some_and(|count| count > 0), "{count:?} of {:?}", world.bounds);
    }
}

/// The planted bugs: answers that are still awaited, and those that are awaited later, are not
/// outdated.
#[test]
fn what_is_called_outdated_too_early_is_found() {
    let small = || world(2, Bounds::new(1), bare());
    let answers: Says = |_, _, message| matches!(message.message, SlotsMessage::Agg { .. });
    assert_eq!(outdated(&small(), answers), None);
    let requests: Says = |process, _, message| {
        let waits = process.observe().stamp.is_some();
        !waits && matches!(message.message, SlotsMessage::Request { .. })
    };
    assert_eq!(outdated(&small(), requests), None);
}
