//! Planted infinite schedules: one that starves a process is found, an unfair one is not held
//! against a protocol.

use kgate_core::{
    Explorable, GrantId, Input, InputOf, Never, NodeId, Notice, Observation, Outbox, Phase,
    Protocol, Refusal, Setup, Time,
};
use serde::{Deserialize, Serialize};

use super::*;
use crate::{Bounds, Limits};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Ball {
    Thrown,
    Grant,
}
kgate_core::kinds!(Ball { Thrown => "thrown", Grant => "grant" });

/// A process that asks throws a ball to the other one, which throws it back, and so on. With
/// `GRANTS`, process 1 also answers the first ball with a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Throw<const GRANTS: bool> {
    me: NodeId,
    phase: Phase,
    grants: u64,
}

impl<const GRANTS: bool> Protocol for Throw<GRANTS> {
    const NAME: &'static str = "throw";
    type Message = Ball;
    type Timer = Never;
    type Durable = Never;
    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        Self { me: setup.me, phase: Phase::Idle, grants: 0 }
    }
    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        let other = NodeId(1 - self.me.0);
        match input {
            Input::Acquire { .. } => {
                self.phase = Phase::Waiting;
                out.send(other, Ball::Thrown);
            }
            Input::Deliver { message: Ball::Thrown, .. } => {
                // The grant is sent beside another message, which is in flight until it is
                // delivered.
                if GRANTS && self.me == NodeId(1) && self.grants == 0 {
                    self.grants = 1;
                    out.send(other, Ball::Grant);
                }
                out.send(other, Ball::Thrown);
            }
            Input::Deliver { message: Ball::Grant, .. } if self.phase == Phase::Waiting => {
                self.phase = Phase::Holding;
                out.notify(Notice::Granted { grant: GrantId(1), slots: None, fence: None });
            }
            Input::Release { .. } => self.phase = Phase::Idle,
            Input::Deliver { .. }
            | Input::Withdraw
            | Input::Resize(_)
            | Input::Reserved(_)
            | Input::Applied(_)
            | Input::Lapse { .. }
            | Input::Adopt(_)
            | Input::Confirm { .. }
            | Input::Lease(_)
            | Input::Expire(_)
            | Input::Crashed { .. }
            | Input::Joined { .. } => {}
        }
        Ok(())
    }
    fn observe(&self) -> Observation {
        Observation { phase: self.phase, ..Observation::default() }
    }
}

impl<const GRANTS: bool> Explorable for Throw<GRANTS> {}

fn throw<const GRANTS: bool>(channels: crate::Channels) -> Finding {
    let bounds = Bounds { channels, ..Bounds { entries: vec![1, 0], ..Bounds::new(1) } };
    let (finding, _, _) = search(&ProtocolModel::<Throw<GRANTS>>::new(Setup::new(2, 1), bounds));
    finding
}

/// The planted bug: messages go back and forth forever and no request is ever granted. Events never
/// end, so no other checker sees it.
#[test]
fn an_endless_exchange_that_starves_is_found() {
    let found = throw::<false>(crate::Channels::Fifo);
    let steps: Vec<String> = found
        .counterexample
        .expect("it starves")
        .iter()
        .map(|entry| entry.step.to_string())
        .collect();
    assert_eq!(
        (steps, found.cycle),
        (
            ["p0 requests", "p0 -> p1: thrown", "p1 -> p0: thrown"].map(String::from).to_vec(),
            Some(1),
        )
    );
    let whole = crate::explore::<Throw<false>>(
        Setup::new(2, 1),
        Bounds { entries: vec![1, 0], ..Bounds::new(1) },
        Limits::default(),
        crate::SearchOrder::Depth,
    );
    assert!(whole.properties.iter().all(|finding| finding.counterexample.is_none()), "{whole:?}");
}

/// The only cycles in which the process waits leave a grant undelivered forever: they are unfair,
/// so nothing is wrong.
#[test]
fn an_unfair_cycle_is_no_starvation() {
    assert!(throw::<true>(crate::Channels::Unordered).holds);
    assert!(throw::<true>(crate::Channels::Fifo).holds);
}

/// A search stopped by a limit does not claim that the property holds.
#[test]
fn a_limited_search_reports_its_limit() {
    let limits = Limits { states: Some(1), ..Limits::default() };
    let (_, stopped, _) = search(
        &ProtocolModel::<Throw<false>>::new(Setup::new(2, 1), Bounds::new(1)).with_limits(limits),
    );
    assert_eq!(stopped, Some(Stopped::States));
}
