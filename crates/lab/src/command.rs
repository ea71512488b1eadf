//! The command line that replays a run.

use std::fmt::Display;

use kgate_core::{Dissemination, MembershipSource, NodeId, Span};
use kgate_sim::{Agreement, Chance, Crash, Disturbance, Down, ReceiveCost, SendCost};

use crate::Case;

/// The command line with every option that the run depends on, so that a later change of a default
/// does not change the run.
pub fn command(case: &Case) -> String {
    let mut words = vec!["kgate sim".to_owned()];
    for part in [
        size(case),
        load(case),
        cost(case),
        detection(case),
        faults(case),
        slots(case),
        agreement(case),
        extras(case),
    ] {
        words.extend(part);
    }
    words.join(" ")
}

fn size(case: &Case) -> Vec<String> {
    let config = &case.config;
    [
        format!("--protocol {} -n {} -k {}", case.entry.name, config.nodes, config.k),
        format!("--seed {:#x} --duration {}", config.seed, config.duration),
    ]
    .into_iter()
    .chain((config.warmup > Span::ZERO).then(|| format!("--warmup {}", config.warmup)))
    .collect()
}

fn load(case: &Case) -> Vec<String> {
    let load = &case.config.load;
    let mut words = vec![
        if !case.config.only.is_empty() {
            let only: Vec<String> =
                case.config.only.iter().map(|node| node.0.to_string()).collect();
            format!("--load only={}", only.join("+"))
        } else if load.requesters == case.config.nodes {
            "--load high".into()
        } else {
            format!("--load first={}", load.requesters)
        },
        format!("--hold {} --first-request {}", load.hold, load.first_request),
        if load.ask_inside { "--ask-inside".into() } else { format!("--think {}", load.think) },
    ];
    words.extend(load.entries.map(|entries| format!("--entries {entries}")));
    words
}

fn cost(case: &Case) -> Vec<String> {
    let cost = &case.config.cost;
    let send_cost = match cost.send_cost {
        SendCost::Queue => "queue",
        SendCost::Staggered => "staggered",
        SendCost::Flat => "flat",
    };
    let receive_cost = match cost.receive_cost {
        ReceiveCost::Parallel => "parallel",
        ReceiveCost::Queue => "queue",
    };
    let mut words = vec![
        format!("--latency {} --send {} --receive {}", cost.latency, cost.send, cost.receive),
        format!("--send-cost {send_cost} --receive-cost {receive_cost}"),
    ];
    words.extend(cost.fifo.then(|| "--fifo".into()));
    words
}

fn detection(case: &Case) -> Vec<String> {
    let detection = &case.config.detection;
    let times =
        format!("--detect-interval {} --detect-timeout {}", detection.interval, detection.timeout);
    let oracle = detection.oracle.map(|within| format!("--detector oracle={within}"));
    [Some(times), oracle].into_iter().flatten().collect()
}

fn faults(case: &Case) -> Vec<String> {
    let config = &case.config;
    let mut words = Vec::new();
    let crash = |crash: &Crash| match crash.back {
        None => at(crash.node, crash.at),
        Some(back) => at(crash.node, format!("{}..{back}", crash.at)),
    };
    words.extend(list("--crash", &config.crashes, crash));
    if config.random_crashes > 0 {
        words.push(format!("--random-crashes {}", config.random_crashes));
    }
    if config.random_recoveries > 0 {
        words.push(format!(
            "--random-recoveries {} --down-for {}",
            config.random_recoveries, config.down_for
        ));
    }
    if config.random_recoveries > 0 || config.crashes.iter().any(|crash| crash.back.is_some()) {
        words.push(match config.down {
            Down::Lost => "--down lost".into(),
            Down::Kept => "--down kept".into(),
        });
    }
    words.extend(disturbance(&config.disturbance));
    let transient = &config.transient;
    words.extend(transient.start.then(|| "--start random".into()));
    words.extend(list("--corrupt", &transient.strikes, |&(node, when)| at(node, when)));
    if transient.start || !transient.strikes.is_empty() {
        words.push(format!("--forged {}", transient.forged));
    }
    words
}

/// `--flag 0.1`; none if it never happens.
fn chance(flag: &str, chance: Chance) -> Option<String> {
    (chance > Chance::NEVER).then(|| format!("{flag} {chance}"))
}

fn disturbance(disturbance: &Disturbance) -> Vec<String> {
    let words = [
        list("--pause", &disturbance.pauses, ToString::to_string),
        list("--partition", &disturbance.partitions, ToString::to_string),
        list("--cut", &disturbance.cuts, ToString::to_string),
        chance("--loss", disturbance.loss),
        chance("--duplicates", disturbance.duplicates),
    ];
    words.into_iter().flatten().collect()
}

/// Options of numbered slots.
fn slots(case: &Case) -> Vec<String> {
    let (config, load) = (&case.config, &case.config.load);
    if !case.entry.slots {
        return Vec::new();
    }
    let on = |flag: &str, on: bool| format!("--{flag} {}", if on { "on" } else { "off" });
    let options = &config.slots;
    let mut words = vec![format!("--clients {} --weight-max {}", load.clients, load.weight_max)];
    if load.withdraw > Chance::NEVER {
        words.push(format!("--withdraw {} --patience {}", load.withdraw, load.patience));
    }
    words.extend(list("--resize", &config.resizes, |&(at, k)| format!("{k}@{at}")));
    let cohort = format!("--cohort {}", options.cohort);
    let ask_again = options.ask_again.map(|after| format!("--ask-again {after}"));
    if case.entry.follows_log {
        words.extend([on("keep", options.keep), cohort]);
        words.extend(options.pass.then(|| on("pass", true)));
        words.extend(options.witness.then(|| on("witness", true)));
        words.extend(ask_again);
        return words;
    }
    words.extend(match options.dissemination {
        Dissemination::Auto => None,
        Dissemination::Flat => Some("--dissemination flat".into()),
        Dissemination::Tree => Some("--dissemination tree".into()),
    });
    words.push(match options.membership {
        MembershipSource::Log => "--membership log".into(),
        MembershipSource::Join => "--membership join".into(),
    });
    words.extend([
        on("defer", options.defer),
        on("quiet", options.quiet),
        on("keep", options.keep),
    ]);
    words.push(format!("{cohort} --batch {} --lanes {}", options.batch, options.lanes));
    words.extend(ask_again);
    words
}

/// The decisions of the agreed log.
fn agreement(case: &Case) -> Vec<String> {
    let agreement = &case.config.agreement;
    if !case.entry.follows_log {
        return Vec::new();
    }
    let Agreement { suspect_after, evict_after, session, .. } = agreement;
    let times =
        format!("--suspect-after {suspect_after} --evict-after {evict_after} --session {session}");
    let gates = case.config.gates;
    let words = [
        (gates > 1).then(|| format!("--gates {gates}")),
        Some(times),
        list("--unfit", &agreement.unfit, ToString::to_string),
        list("--evict", &agreement.evictions, ToString::to_string),
        list("--no-lease", &agreement.leaseless, ToString::to_string),
        chance("--adopt", agreement.adopt),
        chance("--dying-clients", agreement.dying_clients),
        chance("--durable", agreement.durable),
    ];
    words.into_iter().flatten().collect()
}

/// Options of single protocols, and the defect that is switched on.
fn extras(case: &Case) -> Vec<String> {
    let config = &case.config;
    let mut words = Vec::new();
    words.extend(case.graph.as_ref().map(|graph| format!("--graph {graph}")));
    words.extend(case.entry.needs_crash_bound.then(|| format!("--tolerate {}", config.tolerate)));
    words.extend(config.refresh.map(|every| format!("--refresh {every}")));
    let printed = case.entry.published_defects().find(|defect| config.printed.has(defect.switch));
    words.extend(printed.map(|defect| format!("--as-printed {}", defect.id)));
    words
}

fn at(node: NodeId, when: impl Display) -> String {
    format!("{}@{when}", node.0)
}

/// `--flag a,b,c`; none if the list is empty.
fn list<T>(flag: &str, items: &[T], word: impl Fn(&T) -> String) -> Option<String> {
    let words: Vec<String> = items.iter().map(word).collect();
    (!words.is_empty()).then(|| format!("{flag} {}", words.join(",")))
}
