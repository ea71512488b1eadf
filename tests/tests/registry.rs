//! What the registry says of a protocol is what is measured.

use kgate_protocols::registry::ENTRIES;
use kgate_sim::{Latency, SendCost};
use kgate_tests::{Case, t};

/// A lone requester in a quiet system: messages an entry and delays are those of `kgate protocols`.
#[test]
fn costs_are_as_listed() {
    for entry in ENTRIES {
        for nodes in [4, 16, 64] {
            let mut case = Case::vcube_2018(entry.name, nodes);
            case.config.load.requesters = 1;
            case.config.load.entries = Some(1);
            case.config.permits = 1;
            case.config.tolerate = 0;
            case.config.cost.send = t("0");
            case.config.cost.receive = t("0");
            case.config.cost.send_cost = SendCost::Flat;
            case.config.cost.latency = Latency::Constant(t("1"));
            let report = case.run();
            let messages = match entry.messages {
                "2(n-1)" => 2 * (nodes - 1),
                "3(n-1)" => 3 * (nodes - 1),
                other => panic!("how many are {other}?"),
            };
            let delays = match entry.delays {
                "2" => 2,
                "log2(n) + 1" => nodes.ilog2() + 1,
                other => panic!("how many are {other}?"),
            };
            assert_eq!((report.grants, report.messages.total), (1, u64::from(messages)), "{}", entry.name);
            assert_eq!(report.obtaining.mean, Some(f64::from(delays)), "{}, n={nodes}", entry.name);
        }
    }
}
