//! What the tests share: the laboratory's cases, by their short names.

pub use kgate_lab::{Case, claims_of, command, generate, generate_disturbed, graph, t};

use kgate_core::Span;
use kgate_sim::{Latency, SendCost};

/// One gate with one slot that all processes want, where every message takes one time unit and
/// nothing else takes time.
pub fn one_delay_a_message(protocol: &str, nodes: u32) -> Case {
    let mut case = Case::vcube_2018(protocol, nodes);
    let config = &mut case.config;
    config.cost.send = Span::ZERO;
    config.cost.receive = Span::ZERO;
    config.cost.send_cost = SendCost::Flat;
    config.cost.latency = Latency::Constant(Span::UNIT);
    config.k = 1;
    config.tolerate = 0;
    config.load.requesters = nodes;
    config.detection.interval = t("1");
    case.config.claims = case.claims();
    case
}
