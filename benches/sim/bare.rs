//! The engine by itself: handlers that do nothing.

use kgate_core::{
    Input, InputOf, Message, Never, NodeId, Observation, Outbox, Protocol, Refusal, Setup, Span, Time, To,
};
use kgate_protocols::detect::NoDetector;
use kgate_sim::{Bucket, Latency, run};
use serde::{Deserialize, Serialize};

use crate::Rates;
use crate::raymond::config;

/// A message of the usual size that nobody cares about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Noise(u64);

impl Message for Noise {
    const KINDS: usize = 1;
    fn kind(&self) -> usize {
        0
    }
    fn kind_name(_kind: usize) -> &'static str {
        "noise"
    }
}

/// On `Acquire` sends to everybody, several times over; on delivery does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mute<const RECORDS: bool> {
    me: NodeId,
    nodes: u32,
}

const TIMES: u64 = 4;

impl<const RECORDS: bool> Protocol for Mute<RECORDS> {
    const NAME: &'static str = "mute";
    type Message = Noise;
    type Timer = Never;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        Self { me: setup.me, nodes: setup.nodes }
    }

    fn handle(&mut self, _now: Time, input: InputOf<Self>, out: &mut Outbox<Self>) -> Result<(), Refusal> {
        if let Input::Acquire { .. } = input {
            for time in 0..TIMES {
                let others = || (0..self.nodes).map(NodeId).filter(|&node| node != self.me);
                let to = if RECORDS { To::All } else { To::Many(others().collect()) };
                out.send_to(to, Noise(time));
            }
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        Observation::default()
    }
}

fn rates<const RECORDS: bool>(rounds: usize, latency: Latency) -> Rates {
    let mut config = config(1024, 1024, latency);
    config.bears = 0;
    config.duration = Span::UNIT.times(10);
    let mut rates = Rates::new();
    for _ in 0..rounds {
        let report = run::<Mute<RECORDS>, NoDetector, Bucket>("mute", &config, None).expect("a run");
        assert_eq!(report.delivered, TIMES * 1024 * 1023);
        rates.add(report.delivered, report.wall_seconds);
    }
    rates
}

pub(crate) fn measure(rounds: usize) {
    println!("bare engine, n = 1024, handlers that do nothing, {} messages", TIMES * 1024 * 1023);
    let constant = Latency::Constant(Span::UNIT);
    let uniform = Latency::Uniform(Span(500_000_000), Span(1_500_000_000));
    rates::<true>(rounds, constant).print("broadcasts as records, constant", None);
    rates::<false>(rounds, constant).print("an event a message, constant", None);
    rates::<false>(rounds, uniform).print("an event a message, uniform", None);
    println!();
}
