//! The command line that gives the same run again.

use super::state;
use crate::cli::{
    Asking, DaemonArg, Detector, DownArg, EngineArg, ModelArg, ReceiveCostArg, SendCostArg, SimArgs, StartArg,
};

/// Every option that a run depends on, spelled out, so that a later change of a default does not change the run.
pub(crate) fn command(args: &SimArgs, seed: u64) -> String {
    let mut words = match args.model {
        ModelArg::Messages => over_messages(args, seed),
        ModelArg::State => {
            vec![format!(
                "kgate sim --protocol {} -n {} -k {} --seed {seed:#x}",
                args.protocol, args.processes, args.units
            )]
        }
    };
    words.extend(faults(args));
    words.extend(network(args));
    if let Some(id) = &args.as_printed {
        words.push(format!("--as-printed {id}"));
    }
    words.join(" ")
}

fn over_messages(args: &SimArgs, seed: u64) -> Vec<String> {
    let mut words = vec![
        format!("kgate sim --protocol {} -n {} -k {}", args.protocol, args.processes, args.units),
        match args.load {
            Asking::Low => format!("--load first={}", args.units),
            Asking::High => "--load high".into(),
            Asking::First(count) => format!("--load first={count}"),
        },
        format!("--hold {} --first-request {}", args.hold, args.first_request),
        format!("--send {} --receive {}", args.send, args.receive),
        match args.send_cost {
            SendCostArg::Queue => "--send-cost queue".into(),
            SendCostArg::Staggered => "--send-cost staggered".into(),
            SendCostArg::Flat => "--send-cost flat".into(),
        },
        match args.receive_cost {
            ReceiveCostArg::Parallel => "--receive-cost parallel".into(),
            ReceiveCostArg::Queue => "--receive-cost queue".into(),
        },
        match (&args.latency, args.transmit) {
            (Some(latency), _) => format!("--latency {latency}"),
            (None, Some(transmit)) => format!("--latency constant={transmit}"),
            (None, None) => format!("--latency constant={}", super::DEFAULT_TRANSMIT),
        },
        format!("--duration {} --seed {seed:#x}", args.duration),
        format!("--detect-interval {} --detect-timeout {}", args.detect_interval, super::timeout(args)),
    ];
    if let Detector::Oracle(within) = args.detector {
        words.push(format!("--detector oracle={within}"));
    }
    if let Some(entries) = args.entries {
        words.push(format!("--entries {entries}"));
    }
    if !args.ask_inside {
        words.push(format!("--think {}", super::think(args)));
    }
    if args.fifo {
        words.push("--fifo".into());
    }
    if !args.crash.is_empty() {
        let crashes: Vec<String> = args
            .crash
            .iter()
            .map(|c| match c.back {
                None => format!("{}@{}", c.node.0, c.at),
                Some(back) => format!("{}@{}..{back}", c.node.0, c.at),
            })
            .collect();
        words.push(format!("--crash {}", crashes.join(",")));
    }
    if args.random_crashes > 0 {
        words.push(format!("--random-crashes {}", args.random_crashes));
    }
    if args.engine == EngineArg::Heap {
        words.push("--engine heap".into());
    }
    words
}

/// What only some protocols know of: recoveries and transient faults.
fn faults(args: &SimArgs) -> Vec<String> {
    let mut words = Vec::new();
    if args.random_recoveries > 0 {
        words.push(format!("--random-recoveries {} --down-for {}", args.random_recoveries, args.down_for));
    }
    if args.down == DownArg::Kept {
        words.push("--down kept".into());
    }
    if args.start == StartArg::Random {
        words.push("--start random".into());
    }
    if !args.corrupt.is_empty() {
        let strikes: Vec<String> = args.corrupt.iter().map(|(node, at)| format!("{}@{at}", node.0)).collect();
        words.push(format!("--corrupt {}", strikes.join(",")));
    }
    let over_messages = args.model == ModelArg::Messages;
    if over_messages && (args.start == StartArg::Random || !args.corrupt.is_empty()) {
        words.push(format!("--forged {}", args.forged));
    }
    words
}

/// The network, the model, and what a protocol is told.
fn network(args: &SimArgs) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(args.graph.as_ref().map(|graph| format!("--graph {graph}")));
    words.extend(args.tolerate.map(|tolerate| format!("--tolerate {tolerate}")));
    words.extend(args.refresh.map(|every| format!("--refresh {every}")));
    if args.ask_inside {
        words.push("--ask-inside".into());
    }
    if args.model == ModelArg::State {
        let daemon = match state::daemon(args) {
            DaemonArg::Synchronous => "synchronous",
            DaemonArg::Central => "central",
            DaemonArg::Distributed => "distributed",
            DaemonArg::Unfair => "unfair",
        };
        words.push(format!("--model state --daemon {daemon} --rounds {}", state::rounds(args)));
    }
    words
}
