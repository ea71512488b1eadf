//! What `slots` costs, beside the papers' protocols (`docs/internals/slots.md`, Costs).

use kgate_core::{Dissemination, Span};
use kgate_lab::Case;
use kgate_sim::{Latency, Report, SendCost, Think};

/// One delay a message and nothing else; one process asks once.
fn alone(nodes: u32, how: Dissemination) -> Report {
    let mut case = plain(nodes, how);
    case.config.load.requesters = 1;
    case.config.load.entries = Some(1);
    case.run()
}

fn plain(nodes: u32, how: Dissemination) -> Case {
    let mut case = Case::vcube_2018("slots", nodes);
    case.config.slots.dissemination = how;
    case.config.cost.send = Span::ZERO;
    case.config.cost.receive = Span::ZERO;
    case.config.cost.send_cost = SendCost::Flat;
    case.config.cost.latency = Latency::Constant(Span::UNIT);
    case
}

/// Alone: exactly 2(n-1) messages by either way, two delays straight and 2 log2 n on the tree.
#[test]
fn an_uncontended_entry_has_the_stated_cost() {
    for nodes in [8_u32, 64, 256, 1024] {
        for (how, delays) in [(Dissemination::Flat, 2), (Dissemination::Tree, 2 * nodes.ilog2())] {
            let report = alone(nodes, how);
            let messages = u64::from(2 * (nodes - 1));
            assert_eq!((report.grants, report.messages.total), (1, messages), "n={nodes} {how:?}");
            assert_eq!(report.obtaining.mean, Some(f64::from(delays)), "n={nodes} {how:?}");
        }
    }
}

/// Saturated, k = 1, straight: at most 2(n-1)+1 messages an entry.
#[test]
fn saturated_it_is_ricart_and_agrawala_and_a_message() {
    for nodes in [4, 8, 16, 33] {
        let mut case = plain(nodes, Dissemination::Flat).high();
        case.config.k = 1;
        case.config.tolerate = 0;
        case.config.slots.cohort = 0;
        case.config.load.hold = Span::UNIT;
        case.config.load.think = Think::Constant(Span::ZERO);
        case.config.load.entries = Some(10);
        let report = case.run();
        assert_eq!(report.grants, u64::from(nodes * 10));
        assert!(
            report.messages.total <= report.grants * u64::from(2 * (nodes - 1) + 1),
            "n={nodes}"
        );
    }
}

/// vcube-2018's LOW setting: fewer messages an entry than `vcube` with and without keeping; with
/// keeping, a shorter mean obtaining time than `raymond` and `vcube`.
#[test]
fn low_load_needs_fewer_messages_than_vcube() {
    for nodes in [8, 32, 128, 256] {
        let run = |name| Case::vcube_2018(name, nodes).run();
        let each = |report: &Report| report.messages.total as f64 / report.grants as f64;
        let (raymond, vcube, keeping) = (run("raymond"), run("vcube"), run("slots"));
        let mut giving_back = Case::vcube_2018("slots", nodes);
        giving_back.config.slots.keep = false;
        let giving_back = giving_back.run();
        assert!(each(&giving_back) < each(&vcube) && each(&keeping) < each(&vcube), "n={nodes}");
        for other in [&raymond, &vcube] {
            assert!(keeping.obtaining.mean <= other.obtaining.mean, "n={nodes}");
        }
    }
}
