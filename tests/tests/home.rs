//! What `home` costs and what it needs, in the simulator (`docs/internals/home.md`).

#[allow(dead_code)] // It prints the rows itself, too.
#[path = "../examples/home_costs.rs"]
mod home_costs;

use kgate_core::{LogView, NodeId, Span};
use kgate_protocols::gates::Gates;
use kgate_protocols::home::Home;
use kgate_protocols::home::defects::H19;
use kgate_sim::{Crash, LinkCut, Report, Think};
use kgate_tests::{one_delay_a_message, t};

/// The home of the one gate of a run.
fn home(nodes: u32) -> NodeId {
    LogView::initial(nodes, 1).home().expect("there are members").node
}

/// A process that is not home.
fn other(nodes: u32) -> NodeId {
    NodeId((home(nodes).0 + 1) % nodes)
}

/// Without a cache at most 3 messages per grant (request, grant, return), whatever n is; at the
/// home itself none.
#[test]
fn three_messages_per_grant() {
    for nodes in [3, 8, 64, 1024] {
        let mut case = one_delay_a_message("home", nodes);
        case.config.slots.keep = false;
        case.config.load.hold = t("1");
        case.config.load.think = Think::Constant(t("10"));
        case.config.load.entries = Some(3);
        case.config.duration = t("12000");
        let report = case.run();
        let per_grant = report.messages_per_grant.expect("grants");
        let remote = f64::from(nodes - 1) / f64::from(nodes);
        assert_eq!(report.grants, u64::from(3 * nodes), "n = {nodes}");
        assert!(per_grant <= 3.0 && per_grant >= 1.9 * remote, "n = {nodes}: {per_grant}");
        println!("n = {nodes}: {per_grant:.3} messages per grant");
    }
}

/// One process again and again uses its cached slot: at most 0.1 messages per grant, whatever n is.
#[test]
fn a_cached_slot_costs_nothing() {
    for nodes in [3, 8, 64, 1024] {
        let mut case = one_delay_a_message("home", nodes);
        case.config.only = vec![other(nodes)];
        case.config.load.entries = Some(100);
        let report = case.run();
        let per_grant = report.messages_per_grant.expect("grants");
        assert_eq!(report.grants, 100, "n = {nodes}");
        assert!(per_grant > 0.0 && per_grant <= 0.1, "n = {nodes}: {per_grant}");
        println!("n = {nodes}: {per_grant:.3} messages per grant");
    }
}

/// Requests of two processes in turn, while a third one is paused.
fn with_a_pause(protocol: &str, nodes: u32, paused: Option<NodeId>) -> Report {
    let mut case = one_delay_a_message(protocol, nodes);
    case.config.only = vec![home(nodes), other(nodes)];
    case.config.load.hold = t("1");
    case.config.load.think = Think::Constant(t("3"));
    case.config.duration = t("200");
    let pause = |node: NodeId| format!("{}@5..200", node.0).parse().expect("a pause");
    case.config.disturbance.pauses = paused.map(pause).into_iter().collect();
    case.run()
}

/// A process that is neither home nor holder is paused until the end, and nobody notices: the same
/// grants after the same times. A pause of the home shows, so the test can fail.
#[test]
fn a_silent_bystander_delays_nobody() {
    for nodes in [3, 8, 64] {
        let bystander = NodeId((home(nodes).0 + 2) % nodes);
        let [calm, paused] =
            [None, Some(bystander)].map(|paused| with_a_pause("home", nodes, paused));
        assert!(calm.grants > 40 && paused.unanswered == 0, "n = {nodes}: {}", calm.grants);
        assert_eq!(
            (calm.grants, calm.messages.total, calm.obtaining),
            (paused.grants, paused.messages.total, paused.obtaining),
            "n = {nodes}"
        );
        let home_paused = with_a_pause("home", nodes, Some(home(nodes)));
        assert!(home_paused.grants < calm.grants, "n = {nodes}: {}", home_paused.grants);
    }
}

/// The home dies at 10; another process is inside until 21, a third one waits. Returns how long.
fn waits_after_the_home_died(suspect_after: &str, first: &str) -> f64 {
    let nodes = 8;
    let mut case = one_delay_a_message("home", nodes);
    let waits = NodeId((home(nodes).0 + 2) % nodes);
    case.config.only = vec![other(nodes), waits];
    case.config.load.hold = t("20");
    case.config.load.entries = Some(1);
    case.config.load.first_request = t(first);
    case.config.crashes = vec![Crash { node: home(nodes), at: t("10"), back: None }];
    case.config.agreement.suspect_after = t(suspect_after);
    case.config.agreement.evict_after = t("100");
    case.config.duration = t("300");
    let report = case.run();
    assert_eq!((report.grants, report.violations.len()), (2, 0));
    report.obtaining.max.expect("two grants")
}

/// A home that dies delays a slot that somebody holds until the suspicion only: the next client
/// enters a few delays after the holder has returned it, long before the eviction. A slot that
/// nobody holds is unknown, and waits for the eviction; so does everything without a suspicion.
#[test]
fn a_known_slot_waits_for_the_suspicion_only() {
    let known = waits_after_the_home_died("5", "0");
    assert!(known < 30.0, "{known}");
    let late = waits_after_the_home_died("100", "0");
    assert!(late > 90.0, "{late}");
    let unknown = waits_after_the_home_died("5", "12");
    assert!(unknown > 90.0, "{unknown}");
}

/// A process that does not use the gate takes at most 200 bytes; a million of them, of which three
/// ask, run.
#[test]
fn a_million_processes_with_one_gate() {
    assert!(size_of::<Gates<Home>>() <= 200, "{}", size_of::<Gates<Home>>());
    let mut case = one_delay_a_message("home", 1_000_000);
    case.config.load.requesters = 3;
    case.config.load.entries = Some(5);
    case.config.duration = t("100");
    let report = case.run();
    assert_eq!((report.grants, report.unanswered), (15, 0));
}

/// H19: a process that does not reach the home is served through another one as often as without
/// the cut, while a link is cut in each direction; without relays it waits for ever.
#[test]
fn a_cut_link_blocks_nobody() {
    let nodes = 5;
    let (home, cut) = (home(nodes), other(nodes));
    let mut case = one_delay_a_message("home", nodes);
    case.config.only = vec![cut];
    case.config.load.entries = Some(10);
    case.config.load.hold = t("1");
    case.config.slots.keep = false;
    case.config.slots.ask_again = Some(t("3"));
    case.config.claims = case.claims();
    let calm = case.run();
    case.config.disturbance.cuts = vec![
        LinkCut { from: home, to: cut, at: Span::ZERO },
        LinkCut { from: cut, to: home, at: t("20") },
    ];
    let relayed = case.run();
    assert_eq!((calm.grants, relayed.grants), (10, 10));
    assert!(relayed.violations.is_empty(), "{:?}", relayed.violations);
    assert!(relayed.lost > 0);
    case.config.printed = H19;
    assert!(!case.run().violations.is_empty(), "left out");
}

/// Many gates spread over their homes: each request is for one of them.
#[test]
fn gates_have_homes_of_their_own() {
    let mut case = one_delay_a_message("home", 16);
    case.config.gates = 1000;
    case.config.load.hold = t("1");
    case.config.load.think = Think::Constant(t("1"));
    case.config.load.entries = Some(20);
    let report = case.run();
    assert_eq!((report.grants, report.violations.len()), (320, 0));
    assert!(report.messages_per_grant <= Some(3.0), "{:?}", report.messages_per_grant);
    assert!(report.obtaining.max <= Some(10.0), "{:?}", report.obtaining.max);
}

/// The page shows what the example prints. The sizes beyond take longer and are left to it.
#[test]
fn the_page_shows_the_costs() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/internals/home.md")).expect("the page");
    for row in [3, 9, 33].into_iter().flat_map(home_costs::rows) {
        assert!(page.contains(&row), "not on the page: {row}");
    }
}
