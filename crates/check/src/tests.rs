//! Every schedule of small systems: repaired protocols satisfy all properties; as printed, the
//! model checker finds each defect without help.

use std::sync::Arc;

use kgate_core::{
    Defects, Explorable, Graph, InputOf, Never, NodeId, Observation, Outbox, Protocol, Refusal,
    Setup, Time,
};
use kgate_protocols::broadcast::{Direct, Sta, Tree};
use kgate_protocols::permission::Permission;
use kgate_protocols::timer_free::TimerFree;
use kgate_protocols::tree_token::TreeToken;
use kgate_protocols::{defects, timer_free, tree_token};
use kgate_spec::{AtMostK, EntryOrder, EveryoneServed, OneToken, Permissions};

use std::time::Duration;

use crate::{
    Bounds, Channels, Limits, Outcome, ProtocolModel, SearchOrder, Stopped, Tolerates, explore,
    explore_model, properties,
};

mod faults;
mod fingerprints;
mod log_model;
mod outdated;
mod slots;
mod spin;
mod symmetry;
mod toy;

fn search<P: Explorable>(
    nodes: u32,
    k: u32,
    entries: u32,
    crashes: u32,
    printed: Defects,
    order: SearchOrder,
) -> Outcome {
    explore_model(model::<P>(nodes, k, entries, crashes, printed), order)
}

fn model<P: Explorable>(
    nodes: u32,
    k: u32,
    entries: u32,
    crashes: u32,
    printed: Defects,
) -> ProtocolModel<P> {
    let setup = Setup { defects: printed, ..Setup::new(nodes, k) };
    let tolerates = Tolerates { crashes, ..Tolerates::default() };
    ProtocolModel::new(setup, Bounds { crashes, tolerates, ..Bounds::new(entries) })
}

/// Asserts that every state was visited and every property holds.
fn all_hold(outcome: &Outcome) {
    assert!(outcome.complete, "{outcome:?}");
    for finding in &outcome.properties {
        assert!(finding.holds, "{finding:?}");
    }
}

/// The properties of which a counterexample was found.
fn broken(outcome: &Outcome) -> Vec<&'static str> {
    let broken = outcome.properties.iter().filter(|finding| finding.counterexample.is_some());
    broken.map(|finding| finding.name).collect()
}

fn holds<P: Explorable>(nodes: u32, k: u32, entries: u32, crashes: u32) -> Outcome {
    let outcome = search::<P>(nodes, k, entries, crashes, Defects::NONE, SearchOrder::Depth);
    all_hold(&outcome);
    outcome
}

fn breaks<P: Explorable>(
    nodes: u32,
    k: u32,
    entries: u32,
    crashes: u32,
    printed: Defects,
    property: &'static str,
) {
    // Only that property is checked: another may be violated by a shorter schedule.
    let model = model::<P>(nodes, k, entries, crashes, printed).checking([property]);
    let outcome = explore_model(model, SearchOrder::Breadth);
    assert_eq!(broken(&outcome), [property], "{outcome:?}");
}

/// Raymond is Ricart and Agrawala's algorithm for k = 1. The numbers of states are pinned, so that
/// a change of the model shows.
#[test]
fn raymond_holds() {
    assert_eq!(holds::<Permission<Direct>>(3, 1, 2, 0).unique, 25_674);
    assert_eq!(holds::<Permission<Direct>>(3, 2, 1, 0).unique, 7_228);
}

/// With one crash, of which each process is notified at any time.
#[test]
fn crashes_are_tolerated() {
    holds::<Permission<Direct>>(3, 1, 1, 1);
    holds::<Permission<Tree>>(3, 1, 1, 1);
    holds::<Permission<Sta>>(3, 1, 1, 1);
}

/// Without suspicions, which would be false in some schedule.
#[test]
fn timer_free_holds() {
    holds::<TimerFree>(3, 1, 1, 0);
    holds::<TimerFree>(2, 1, 3, 0);
}

/// The model checker finds each printed defect from the code alone.
#[test]
fn printed_defects_are_found() {
    breaks::<Permission<Tree>>(2, 1, 2, 0, defects::D1, EveryoneServed::NAME);
    breaks::<Permission<Direct>>(3, 1, 1, 1, defects::D4, AtMostK::NAME);
    breaks::<Permission<Sta>>(2, 1, 2, 0, defects::D6, EveryoneServed::NAME);
    breaks::<Permission<Sta>>(3, 1, 1, 0, defects::D9, AtMostK::NAME);
    breaks::<TimerFree>(2, 1, 1, 0, timer_free::defects::T1, AtMostK::NAME);
    breaks::<TimerFree>(3, 2, 2, 0, timer_free::defects::T2, AtMostK::NAME);
    breaks::<TimerFree>(2, 1, 1, 0, timer_free::defects::T4, EveryoneServed::NAME);
}

/// The two defects that need four processes. The numbers of requests keep the search short. Breadth
/// first gives a shortest schedule.
#[test]
fn printed_defects_of_four_processes_are_found() {
    let run = |k, entries: &[u32], crashes, printed, checked| {
        let setup = Setup { defects: printed, ..Setup::new(4, k) };
        let tolerates = Tolerates { crashes, ..Tolerates::default() };
        let bounds = Bounds { entries: entries.to_vec(), crashes, tolerates, ..Bounds::new(1) };
        let model = ProtocolModel::<Permission<Tree>>::new(setup, bounds).checking(checked);
        let outcome = explore_model(model, SearchOrder::Breadth);
        let schedules =
            outcome.properties.iter().filter_map(|finding| finding.counterexample.as_ref());
        (broken(&outcome), schedules.map(Vec::len).collect::<Vec<_>>())
    };
    const SAFETY: &[&str] = &[AtMostK::NAME];
    const LIVENESS: &[&str] = &[EveryoneServed::NAME];
    const MECHANISM: &[&str] = &[Permissions::NAME];
    assert_eq!(run(2, &[2, 1, 1, 0], 0, defects::D2, SAFETY), (SAFETY.to_vec(), vec![25]));
    assert_eq!(run(2, &[2, 1, 1, 0], 0, defects::D2, MECHANISM), (MECHANISM.to_vec(), vec![14]));
    assert_eq!(run(1, &[2, 0], 1, defects::D3, LIVENESS), (LIVENESS.to_vec(), vec![22]));
}

/// The property checkers of mechanisms find them too, each on its own: a permission that counts for
/// another request or after a crash, a later request that is granted first.
#[test]
fn printed_defects_are_found_by_their_mechanism() {
    breaks::<Permission<Direct>>(3, 1, 1, 1, defects::D4, Permissions::NAME);
    breaks::<Permission<Direct>>(3, 1, 1, 1, defects::D4, EntryOrder::NAME);
    breaks::<TimerFree>(3, 2, 2, 0, timer_free::defects::T2, Permissions::NAME);
    breaks::<Permission<Sta>>(3, 1, 1, 0, defects::D9, EntryOrder::NAME);
}

/// R1 creates two tokens, one in use and one in flight. Repaired, there is one; with that property
/// switched off, nothing is reported.
#[test]
fn a_second_token_is_found() {
    let graph = Graph::new(2, &[(NodeId(0), NodeId(1))], NodeId(0)).expect("a tree");
    let checked = |printed, names: Option<Vec<&'static str>>| {
        let mut model = model::<TreeToken>(2, 1, 1, 0, printed);
        model.setup.graph = Some(Arc::new(graph.clone()));
        model.checked = names;
        explore_model(model, SearchOrder::Depth)
    };
    let wrong = |outcome: &Outcome| outcome.properties.iter().any(|finding| !finding.holds);
    assert!(wrong(&checked(tree_token::defects::R1, Some(vec![OneToken::NAME]))));
    assert!(!wrong(&checked(tree_token::defects::R1, Some(vec![]))), "switched off");
    let repaired = checked(Defects::NONE, None);
    assert!(repaired.complete && !wrong(&repaired), "{repaired:?}");
}

/// A search that is stopped by a limit reports the limit.
#[test]
fn limits_are_reported() {
    let bounds = Bounds { channels: Channels::Unordered, ..Bounds::new(4) };
    let run = |nodes, limits| {
        let found = explore::<Permission<Direct>>(
            Setup::new(nodes, 1),
            bounds.clone(),
            limits,
            SearchOrder::Depth,
        );
        (found.complete, found.stopped)
    };
    let few = Limits { states: Some(1000), ..Limits::default() };
    assert_eq!(run(3, few), (false, Some(Stopped::States)));
    assert_eq!(run(2, Limits::default()), (true, None));
    let no_time = Limits { time: Some(Duration::ZERO), ..Limits::default() };
    assert_eq!(run(3, no_time), (false, Some(Stopped::Time)));
    let no_room = Limits { memory: Some(1), ..Limits::default() };
    assert_eq!(run(3, no_room), (false, Some(Stopped::Memory)));
}

/// The planted bug of non-vacuity: if no client ever asks, every property holds except that k are
/// inside at some time.
#[test]
fn a_vacuous_search_is_reported() {
    let outcome = search::<Permission<Direct>>(2, 1, 0, 0, Defects::NONE, SearchOrder::Depth);
    let broken: Vec<&str> =
        outcome.properties.iter().filter(|f| !f.holds).map(|f| f.name).collect();
    assert_eq!((outcome.complete, broken), (true, vec![properties::K_INSIDE]));
}

/// The planted bug of refusals: a crash notification to a process that takes none.
#[test]
fn a_refusal_is_caught() {
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Deaf;
    impl Protocol for Deaf {
        const NAME: &'static str = "deaf";
        type Message = Never;
        type Timer = Never;
        type Durable = Never;
        fn start(_setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
            Self
        }
        fn handle(
            &mut self,
            _now: Time,
            _input: InputOf<Self>,
            _out: &mut Outbox<Self>,
        ) -> Result<(), Refusal> {
            Err(Refusal::Unsupported { protocol: Self::NAME, what: "anything" })
        }
        fn observe(&self) -> Observation {
            Observation::default()
        }
    }

    impl Explorable for Deaf {}
    breaks::<Deaf>(2, 1, 0, 1, Defects::NONE, properties::NOT_REFUSED);
}
