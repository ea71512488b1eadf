//! What `home` costs beside `slots` and a bare coordinator, by the number of processes: the table
//! of `docs/internals/home.md`. Every message takes one time unit and nothing else takes time.
//!
//! *Alone*: one process, which is not home, requests again and again without a cache. *In turn*:
//! all processes request without a pause, and each holds for two units. *Hand-over*: from a release
//! to the next grant. *Busiest*: what the busiest process sends and receives per grant, in turn.

use kgate_core::{LogView, NodeId, Span};
use kgate_protocols::detect::NoDetector;
use kgate_sim::{Bucket, Config, Report, Think, run};
use kgate_tests::{one_delay_a_message, t};

#[allow(dead_code)] // It has drivers of its own.
mod coordinator;
use coordinator::Coordinator;

/// One process only, neither home nor coordinator.
fn alone(config: &mut Config) {
    let home = LogView::initial(config.nodes, 1).home().expect("there are members").node;
    config.only = vec![if home == NodeId(1) { NodeId(2) } else { NodeId(1) }];
    config.load.think = Think::Constant(t("10"));
    config.duration = t("1000");
}

/// All processes at once, again and again. Measured once the requests of the beginning are over.
fn in_turn(config: &mut Config) {
    config.load.think = Think::Constant(Span::ZERO);
    config.warmup = Span::UNIT.times(4 * u64::from(config.nodes));
    config.duration = config.warmup + t("1000");
}

fn report(name: &str, nodes: u32, load: fn(&mut Config)) -> Report {
    let mut case = one_delay_a_message(if name == "slots" { name } else { "home" }, nodes);
    case.config.load.hold = t("2");
    case.config.slots.keep = false;
    case.config.slots.pass = name == "home, pass";
    load(&mut case.config);
    case.config.claims = case.claims();
    if name == "coordinator" {
        // It has no numbered slots, so nothing is known of them.
        case.config.claims = Config::new(nodes, 1).claims;
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
    // A holder is inside for two units.
    let hand_over = 1.0 / in_turn.cs_bandwidth - 2.0;
    let busiest = f64::from(in_turn.traffic.busiest_total) / in_turn.grants as f64;
    format!(
        "| {nodes} | `{name}` | {:.2} | {:.2} | {:.2} | {hand_over:.2} | {busiest:.2} |",
        per_grant(&alone),
        alone.obtaining.mean.expect("grants"),
        per_grant(&in_turn),
    )
}

/// The rows of that many processes.
pub(crate) fn rows(nodes: u32) -> Vec<String> {
    ["home", "home, pass", "slots", "coordinator"].map(|name| row(name, nodes)).into()
}

fn main() {
    println!(
        "| n | protocol | alone: messages | delay | in turn: messages | hand-over | busiest |"
    );
    println!("|---|---|---|---|---|---|---|");
    for row in [3, 9, 33, 129, 1024].into_iter().flat_map(rows) {
        println!("{row}");
    }
}
