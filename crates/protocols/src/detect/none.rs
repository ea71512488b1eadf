//! No detector: for `raymond`, and for every protocol whose driver knows of crashes by itself.

use kgate_core::{InputOf, Never, Observation, Outbox, Protocol, Refusal, Setup, Suspend, Time};

use super::no_clients;

/// Sends nothing, suspects no process, takes no memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NoDetector;

impl Protocol for NoDetector {
    const NAME: &'static str = "none";
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
        Err(no_clients(Self::NAME))
    }

    fn observe(&self) -> Observation {
        Observation::default()
    }
}

impl Suspend for NoDetector {}
