//! The engine by itself: handlers that do nothing.

use kgate_core::{
    GrantId, Input, InputOf, Message, Never, NodeId, Notice, Observation, Outbox, Protocol,
    Refusal, Setup, Span, Time, To, TransientFaults,
};
use kgate_protocols::detect::NoDetector;
use kgate_sim::{Bucket, Latency, run};
use serde::{Deserialize, Serialize};

use crate::Rates;
use crate::raymond::config;

/// A message of the usual size that no handler reads.
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

/// Sends to all others on `Acquire`, and ignores every delivery. It requests `TIMES` times.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mute<const RECORDS: bool> {
    me: NodeId,
    nodes: u32,
}

const TIMES: u32 = 8;

impl<const RECORDS: bool> Protocol for Mute<RECORDS> {
    const NAME: &'static str = "mute";
    type Message = Noise;
    type Timer = Never;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        Self { me: setup.me, nodes: setup.nodes }
    }

    fn handle(
        &mut self,
        now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        if let Input::Acquire { .. } = input {
            let others = || (0..self.nodes).map(NodeId).filter(|&node| node != self.me);
            let to = if RECORDS { To::All } else { To::Many(others().collect()) };
            out.send_to(to, Noise(now.0));
            let grant = GrantId(now.0);
            out.notify(Notice::Granted { grant, slots: None, fence: None });
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        Observation::default()
    }
}

impl<const RECORDS: bool> TransientFaults for Mute<RECORDS> {}

fn rates<const RECORDS: bool>(rounds: usize, latency: Latency) -> Rates {
    // Every process is always inside, and no checker objects: k is n-1, and one process does not
    // request.
    let mut config = config(1024, 1023, latency);
    config.k = 1023;
    config.load.entries = Some(TIMES);
    config.load.hold = Span::UNIT;
    let mut rates = Rates::new();
    for _ in 0..rounds {
        let report =
            run::<Mute<RECORDS>, NoDetector, Bucket>("mute", &config, None).expect("a run");
        assert_eq!(report.delivered, u64::from(TIMES) * 1023 * 1023);
        rates.add(report.delivered, report.wall_seconds);
    }
    rates
}

pub(crate) fn measure(rounds: usize) {
    println!(
        "bare engine, n = 1024, handlers that do nothing, {} messages",
        u64::from(TIMES) * 1023 * 1023
    );
    let constant = Latency::Constant(Span::UNIT);
    let uniform = Latency::Uniform(Span(500_000_000), Span(1_500_000_000));
    rates::<true>(rounds, constant).print("broadcasts as records, constant", None);
    rates::<false>(rounds, constant).print("an event a message, constant", None);
    rates::<false>(rounds, uniform).print("an event a message, uniform", None);
    println!();
}
