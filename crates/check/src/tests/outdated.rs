//! Outdated messages: what a protocol declares outdated is checked in every state.

use std::collections::BTreeSet;

use kgate_core::{Explorable, Input, NodeId, Outbox, Protocol, Setup, SlotOptions, Span, Time};
use kgate_protocols::home::{Home, HomeMessage};
use kgate_protocols::slots::{Lanes, LanesMessage, SlotsMessage};
use stateright::Model;

use crate::log_model::LogState;
use crate::state::{InFlight, State, digest};
use crate::{Bounds, Channels, CrashNotifications, LogBounds, LogModel, ProtocolModel, Tolerates};

/// Whether a message to a process is outdated.
type IsOutdated = fn(&Lanes, NodeId, &LanesMessage) -> bool;

fn bare() -> SlotOptions {
    SlotOptions { defer: false, quiet: false, keep: false, cohort: 0, ..SlotOptions::default() }
}

fn model(nodes: u32, bounds: Bounds, slots: SlotOptions) -> ProtocolModel<Lanes> {
    let tolerates = Tolerates { crashes: nodes - 1, ..Tolerates::default() };
    let bounds = Bounds {
        channels: Channels::Unordered,
        notifications: CrashNotifications::Log,
        returns: true,
        tolerates,
        ..bounds
    };
    // Outdated messages are not removed.
    ProtocolModel::new(Setup { slots, ..Setup::new(nodes, 1) }, bounds).as_sent()
}

/// Whether `message` neither changes `process` nor causes effects.
fn is_ignored<P: Protocol>(process: &P, from: NodeId, message: &P::Message) -> bool {
    let (mut after, mut out) = (process.clone(), Outbox::new());
    let message = message.clone();
    let taken = after.handle(Time::ZERO, Input::Deliver { from, message }, &mut out);
    taken.is_ok() && after == *process && out.pop().is_none()
}

/// The number of outdated messages in all states; none if one of them is not ignored, or stops
/// being outdated after a step.
fn outdated(model: &ProtocolModel<Lanes>, is_outdated: IsOutdated) -> Option<usize> {
    let whom = |state: &State<Lanes>| {
        let in_flight =
            state.in_flight.clone().into_iter().filter(|in_flight| state.is_up(in_flight.to));
        let process = |to: NodeId| state.processes[to.index()].protocol();
        in_flight
            .filter(|it| is_outdated(process(it.to), it.from, &it.message.value))
            .collect::<Vec<_>>()
    };
    let (mut seen, mut ahead, mut count) = (BTreeSet::new(), vec![model.first_state()], 0);
    while let Some(state) = ahead.pop() {
        if !seen.insert(digest(&state)) {
            continue;
        }
        let here = whom(&state);
        count += here.len();
        for (_, next) in model.next_steps(&state) {
            let still = |it: &InFlight<Lanes>| {
                let process = next.processes[it.to.index()].protocol();
                !next.is_up(it.to) || is_outdated(process, it.from, &it.message.value)
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

/// `slots`, with requests that end in each way and incarnations that end: a message declared
/// outdated is ignored, and stays so.
#[test]
fn outdated_messages_are_ignored_forever() {
    let once = || Bounds::new(1);
    let worlds = [
        model(2, Bounds { restarts: 1, withdrawals: 1, entries: vec![2, 1], ..once() }, bare()),
        model(
            2,
            Bounds { asks_inside: true, withdrawals: 1, ..Bounds::new(2) },
            SlotOptions::default(),
        ),
        model(3, Bounds { crashes: 1, entries: vec![1, 1, 0], ..once() }, bare()),
        model(2, Bounds { duplicates: 1, entries: vec![2, 1], ..once() }, bare()),
    ];
    for model in worlds {
        let count = outdated(&model, Lanes::is_outdated);
        assert!(count.is_some_and(|count| count > 0), "{count:?} of {:?}", model.bounds);
    }
}

/// The planted bugs: answers that are still awaited, now or later, are not outdated.
#[test]
fn a_message_declared_outdated_too_early_is_found() {
    let small = || model(2, Bounds::new(1), bare());
    let answers: IsOutdated = |_, _, message| matches!(message.message, SlotsMessage::Agg { .. });
    assert_eq!(outdated(&small(), answers), None);
    let requests: IsOutdated = |process, _, message| {
        let waits = process.observe().stamp.is_some();
        !waits && matches!(message.message, SlotsMessage::Request { .. })
    };
    assert_eq!(outdated(&small(), requests), None);
}

/// The same for a protocol that follows the log.
fn outdated_at_home(
    model: &LogModel<Home>,
    is_outdated: fn(&Home, NodeId, &HomeMessage) -> bool,
) -> Option<usize> {
    let is_it = |state: &LogState<Home>, it: &InFlight<Home>| {
        let process = state.processes[it.to.index()].protocol();
        state.is_up(it.to) && is_outdated(process, it.from, &it.message.value)
    };
    let (mut seen, mut ahead, mut count) = (BTreeSet::new(), model.init_states(), 0);
    while let Some(state) = ahead.pop() {
        if !seen.insert(digest(&state)) {
            continue;
        }
        let all = state.in_flight.iter();
        let here: Vec<_> = all.filter(|in_flight| is_it(&state, in_flight)).collect();
        count += here.len();
        for (_, next) in model.next_steps(&state) {
            if !here.iter().all(|it| !next.is_up(it.to) || is_it(&next, it)) {
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

/// `home`, with terms, incarnations and repeated messages: the same; and the
/// planted bug, reports that count are declared outdated.
#[test]
fn outdated_messages_of_home_are_ignored_forever() {
    let again = SlotOptions { ask_again: Some(Span::UNIT), ..SlotOptions::default() };
    let model = |nodes, slots, bounds| {
        LogModel::<Home>::new(Setup { slots, ..Setup::new(nodes, 1) }, bounds).with_outdated()
    };
    let few = || LogBounds { entries: vec![0, 0, 1], faulty: vec![0], ..LogBounds::new(1) };
    let cuts = vec![(NodeId(1), NodeId(0))];
    let worlds = [
        model(3, SlotOptions::default(), LogBounds { suspicions: 1, ..few() }),
        model(2, SlotOptions::default(), LogBounds { duplicates: 1, ..LogBounds::new(1) }),
        model(2, SlotOptions::default(), LogBounds { restarts: 1, ..LogBounds::new(1) }),
        model(2, again, LogBounds { losses: 1, ..LogBounds::new(1) }),
        model(3, again, LogBounds { entries: vec![0, 1, 0], cuts, ..LogBounds::new(1) }),
    ];
    for model in &worlds {
        let count = outdated_at_home(model, Home::is_outdated);
        assert!(count.is_some_and(|count| count > 0), "{count:?}");
    }
    let too_early = |_: &Home, _, message: &HomeMessage| matches!(message, HomeMessage::Report(_));
    assert_eq!(outdated_at_home(&worlds[0], too_early), None);
}
