//! Faults of the model: restarts, losses, duplicates, weights, a changing k, suspicions.

use std::sync::Arc;

use kgate_core::{
    Defects, Explorable, GrantId, Graph, Input, InputOf, Never, NodeId, Notice, Observation,
    Outbox, Phase, Protocol, Refusal, Setup, Time,
};
use kgate_protocols::broadcast::Direct;
use kgate_protocols::permission::Permission;
use kgate_protocols::timer_free::TimerFree;
use kgate_protocols::topology::graphs::Shape;
use kgate_protocols::tree_token::{TreeToken, defects as r};
use kgate_spec::{AtMostK, EveryoneServed, OneToken};

use super::{all_hold, broken};
use crate::{Bounds, CrashNotifications, Down, Limits, SearchOrder, Tolerates, explore};

fn path(nodes: u32, printed: Defects) -> Setup {
    let graph: Graph = Shape::Path.build(nodes, &mut |_| 0).expect("a path");
    Setup { graph: Some(Arc::new(graph)), defects: printed, ..Setup::new(nodes, 1) }
}

fn token(printed: Defects, bounds: Bounds) -> crate::Outcome {
    let bounds = Bounds { notifications: CrashNotifications::InOrder, ..bounds };
    explore::<TreeToken>(path(3, printed), bounds, Limits::default(), SearchOrder::Breadth)
}

/// tree-token-2019: a process that crashes and restarts keeps the token, its place in queues and
/// its own request.
#[test]
fn restarts_are_tolerated() {
    for down in [Down::Lost, Down::Kept] {
        all_hold(&token(Defects::NONE, Bounds { restarts: 2, down, ..Bounds::new(1) }));
    }
}

/// The printed recovery of tree-token, and clients that ask while inside: found from the printed
/// code alone.
#[test]
fn printed_tree_tokens_are_found() {
    let restarts = |entries| Bounds { restarts: 2, entries: vec![entries, 1], ..Bounds::new(1) };
    for (id, printed) in [("R7", r::R7), ("R8", r::R8), ("R9", r::R9), ("R11", r::R11)] {
        assert_eq!(broken(&token(printed, restarts(2))), [EveryoneServed::NAME], "{id}");
    }
    let inside = || Bounds { asks_inside: true, ..Bounds::new(2) };
    assert_eq!(broken(&token(r::R4, inside())), [AtMostK::NAME], "R4: inside twice");
    assert_eq!(broken(&token(r::R5, inside())), [EveryoneServed::NAME], "R5");
    assert_eq!(broken(&token(r::R1, inside())), [AtMostK::NAME, OneToken::NAME], "R1");
}

/// Permission-based protocols need reliable channels: a lost request deadlocks. Where tolerance is
/// not claimed, that is no violation.
#[test]
fn a_loss_is_checked_where_it_is_claimed() {
    let lossy = |loss| {
        let tolerates = Tolerates { loss, ..Tolerates::default() };
        let bounds = Bounds { losses: 1, tolerates, ..Bounds::new(1) };
        explore::<Permission<Direct>>(
            Setup::new(2, 1),
            bounds,
            Limits::default(),
            SearchOrder::Depth,
        )
    };
    all_hold(&lossy(false));
    assert_eq!(broken(&lossy(true)), [EveryoneServed::NAME]);
}

/// timer-free-2009: with f = 1 < k = 2 a crash is tolerated in every schedule in which no live
/// process is suspected.
#[test]
fn timer_free_tolerates_a_crash() {
    let setup = Setup { tolerate: 1, ..Setup::new(3, 2) };
    let tolerates = Tolerates { crashes: 1, ..Tolerates::default() };
    let bounds = Bounds {
        crashes: 1,
        tolerates,
        notifications: CrashNotifications::None,
        responsive: true,
        ..Bounds::new(1)
    };
    all_hold(&explore::<TimerFree>(setup, bounds, Limits::default(), SearchOrder::Depth));
}

/// Grants every request of a weight up to k: right for one process at a time, wrong for two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Generous {
    k: u32,
    held: u32,
}

impl Protocol for Generous {
    const NAME: &'static str = "generous";
    type Message = Never;
    type Timer = Never;
    type Durable = Never;
    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        Self { k: setup.k, held: 0 }
    }
    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        match input {
            Input::Acquire { weight } if weight <= self.k => {
                self.held = weight;
                out.notify(Notice::Granted { grant: GrantId(1), slots: None, fence: None });
            }
            Input::Release { .. } => self.held = 0,
            Input::Resize(k) => self.k = k,
            Input::Acquire { .. }
            | Input::Withdraw
            | Input::Lease(_)
            | Input::Reserved(_)
            | Input::Applied(_)
            | Input::Lapse { .. }
            | Input::Adopt(_)
            | Input::Confirm { .. }
            | Input::Deliver { .. }
            | Input::Expire(_)
            | Input::Crashed { .. }
            | Input::Joined { .. } => {}
        }
        Ok(())
    }
    fn observe(&self) -> Observation {
        let phase = if self.held > 0 { Phase::Holding } else { Phase::Idle };
        // While inside, it falsely suspects process 0.
        let crashed = if self.held > 0 { vec![NodeId(0)] } else { Vec::new() };
        Observation { phase, crashed, ..Observation::default() }
    }
}

impl Explorable for Generous {}

/// The planted bugs of weights and of a changing k: slots are counted, not clients, and a grant
/// must fit the largest k that any process believes in.
#[test]
fn slots_are_counted() {
    let run = |entries: Vec<u32>, weight_max, resizes| {
        let bounds = Bounds { entries, weight_max, resizes, ..Bounds::new(1) };
        broken(&explore::<Generous>(
            Setup::new(2, 2),
            bounds,
            Limits::default(),
            SearchOrder::Breadth,
        ))
    };
    assert_eq!(run(vec![1, 0], 2, vec![]), [""; 0]);
    assert_eq!(run(vec![1, 1], 1, vec![]), [""; 0]);
    assert_eq!(run(vec![1, 1], 2, vec![]), [AtMostK::NAME]);
    assert_eq!(
        run(vec![1, 1], 1, vec![1]),
        [AtMostK::NAME],
        "both believe in one slot, and both are inside"
    );
}

/// With `responsive`, schedules with a false suspicion are left out.
#[test]
fn suspicions_are_left_out() {
    let unique = |responsive| {
        let bounds = Bounds { entries: vec![0, 1], responsive, ..Bounds::new(1) };
        explore::<Generous>(Setup::new(2, 1), bounds, Limits::default(), SearchOrder::Depth).unique
    };
    assert_eq!((unique(false), unique(true)), (3, 1));
}

/// A duplicated message arrives twice, the second time behind what was sent meanwhile.
#[test]
fn duplicates_are_explored() {
    let once = Bounds { entries: vec![1, 0], ..Bounds::new(1) };
    let twice = Bounds { duplicates: 1, ..once.clone() };
    let unique = |bounds| {
        let found = explore::<Permission<Direct>>(
            Setup::new(2, 1),
            bounds,
            Limits::default(),
            SearchOrder::Depth,
        );
        assert!(found.complete);
        found.unique
    };
    // Idle, asked, replied to, inside, released. Each of the two messages may be duplicated in
    // flight.
    assert_eq!(unique(once), 5);
    assert!(unique(twice) > 10);
}
