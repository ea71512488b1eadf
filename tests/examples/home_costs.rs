//! What `home` costs beside `slots` and a bare coordinator, by the number of processes: the table
//! of `docs/internals/home.md`. Every message takes one time unit and nothing else takes time.
//!
//! *Alone*: one process after the other requests, and finds the slot free. *In turn*: all processes
//! request without a pause, and each holds for one unit. *Hand-over*: from a release to the next
//! grant. *Busiest*: what the busiest process sends and receives per grant, in turn.

use kgate_core::Span;
use kgate_lab::Case;
use kgate_protocols::detect::NoDetector;
use kgate_sim::{Bucket, Config, Latency, Report, SendCost, Think, run};
use kgate_tests::t;

#[allow(dead_code)] // It has drivers of its own.
mod coordinator;
use coordinator::Coordinator;

/// A gate with one slot, where only messages take time.
fn case(protocol: &str, nodes: u32) -> Case {
    let mut case = Case::vcube_2018(protocol, nodes);
    let config = &mut case.config;
    config.cost.send = Span::ZERO;
    config.cost.receive = Span::ZERO;
    config.cost.send_cost = SendCost::Flat;
    config.cost.latency = Latency::Constant(Span::UNIT);
    config.k = 1;
    config.tolerate = 0;
    config.load.requesters = nodes;
    config.load.hold = t("1");
    config.slots.keep = false;
    case
}

/// One process after the other.
fn alone(config: &mut Config) {
    let round = u64::from(config.nodes) * 10;
    // Every process requests the same number of times, and about 300 times in all.
    config.load.entries = Some(300_u32.div_ceil(config.nodes));
    config.load.think = Think::Constant(Span::UNIT.times(round));
    config.load.first_request = Span::UNIT.times(round);
    config.duration = Span::UNIT.times(round * 500);
}

/// All processes at once, again and again.
fn in_turn(config: &mut Config) {
    config.load.think = Think::Constant(Span::ZERO);
    config.duration = t("1000");
}

fn report(name: &str, nodes: u32, load: fn(&mut Config)) -> Report {
    let mut case = case(if name == "slots" { name } else { "home" }, nodes);
    case.config.slots.pass = name == "home, pass";
    load(&mut case.config);
    case.config.claims = case.claims();
    if name == "coordinator" {
        return run::<Coordinator<true>, NoDetector, Bucket>(name, &case.config, None)
            .expect("a setting that can run");
    }
    case.run()
}

/// The row of one protocol: messages and delays alone, messages and the delay of a hand-over in
/// turn, and the share of the busiest process.
fn row(name: &str, nodes: u32) -> String {
    let [alone, in_turn] = [alone, in_turn].map(|load| report(name, nodes, load));
    for report in [&alone, &in_turn] {
        assert!(report.violations.is_empty() && report.unanswered == 0, "{name}, n = {nodes}");
    }
    let per_grant = |report: &Report| report.messages_per_grant.expect("grants");
    // A holder is inside for one unit.
    let hand_over = 1.0 / in_turn.cs_bandwidth - 1.0;
    let busiest = f64::from(in_turn.traffic.busiest_total) / in_turn.grants as f64;
    format!(
        "| {nodes} | `{name}` | {:.2} | {:.2} | {:.2} | {hand_over:.2} | {busiest:.2} |",
        per_grant(&alone),
        alone.obtaining.mean.expect("grants"),
        per_grant(&in_turn),
    )
}

fn main() {
    println!(
        "| n | protocol | alone: messages | delay | in turn: messages | hand-over | busiest |"
    );
    println!("|---|---|---|---|---|---|---|");
    for nodes in [3, 9, 33, 129, 1024] {
        for name in ["home", "home, pass", "slots", "coordinator"] {
            println!("{}", row(name, nodes));
        }
    }
}
