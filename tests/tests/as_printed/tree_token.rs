//! R1 to R11, of tree-token-2019.

use kgate_sim::Latency;
use kgate_tests::{Case, t};

use super::{LIVENESS, SAFETY, found, small};

/// One token among eight processes. Each requests it and holds it for longer than a message takes.
fn one_token() -> Case {
    let mut case = small("tree-token", 8, 1);
    case.config.load.hold = t("2");
    case.config.duration = t("200");
    case
}

/// The same with crashes and recoveries; messages to the down are lost, and messages overtake each
/// other.
fn recovering() -> Case {
    let mut case = one_token();
    case.config.random_recoveries = 15;
    case.config.down_for = t("5");
    case.config.cost.latency = Latency::Uniform(t("0.1"), t("2"));
    case
}

/// R1 (`using` never set): two inside.
#[test]
fn r1_the_token_leaves_its_user() {
    found(&one_token(), "R1", SAFETY, 1);
}

/// R2 (the own entry is never popped): the token is stuck.
#[test]
fn r2_the_own_entry_stays() {
    found(&one_token(), "R2", LIVENESS, 1);
}

/// R3 (Algorithm 3 pops an empty queue): the token is gone.
#[test]
fn r3_the_token_goes_to_nobody() {
    let mut case = one_token();
    case.config.load.think = kgate_sim::Think::Constant(t("40")); // So that sometimes nobody waits.
    found(&case, "R3", LIVENESS, 1);
}

/// R4 (Algorithm 2 ignores `using`): a client that asks while it is inside goes in twice.
#[test]
fn r4_in_twice() {
    let mut case = one_token();
    case.config.load.ask_inside = true;
    found(&case, "R4", SAFETY, 1);
}

/// R5 (an own request queued while inside): it is never served.
#[test]
fn r5_the_own_next_request_is_never_served() {
    let mut case = one_token();
    case.config.load.ask_inside = true;
    found(&case, "R5", LIVENESS, 1);
}

/// R6 (Algorithm 4 does not set `asked`): it is asked for twice, so there are more requests than
/// tokens sent.
#[test]
fn r6_asked_for_twice() {
    let surplus = |case: &Case| {
        let report = case.run();
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        report.messages.by_kind["request"] - report.messages.by_kind["token"]
    };
    let (printed, repaired) = (surplus(&one_token().as_printed("R6")), surplus(&one_token()));
    assert!(repaired < 8 && printed > 50, "{printed} and {repaired}");
}

/// R7 (the holder is not in stable storage): adjacent recoveries make a second token, or lose the
/// one.
#[test]
fn r7_the_holder_is_guessed() {
    let mut case = recovering();
    case.config.random_recoveries = 40;
    found(&case, "R7", SAFETY, 300);
    found(&case, "R7", LIVENESS, 300);
}

/// R8 (nothing is done at the end of a recovery): starvation.
#[test]
fn r8_nothing_goes_on() {
    found(&recovering(), "R8", LIVENESS, 20);
}

/// R9 (the own request is lost): starvation.
#[test]
fn r9_the_request_is_forgotten() {
    found(&recovering(), "R9", LIVENESS, 5);
}

/// R10 (a stashed request beside the rebuilt one): tokens go to processes that have not requested
/// one; there is no other harm.
#[test]
fn r10_asked_for_beside_the_rebuilt() {
    let mut case = recovering();
    case.config.down = kgate_sim::Down::Kept;
    let tokens = |case: &Case| {
        let report = case.run();
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        report.messages.by_kind["token"]
    };
    let more = (1..=50)
        .map(|seed| case.clone().seed(seed))
        .filter(|case| tokens(&case.clone().as_printed("R10")) > tokens(case));
    assert!(more.count() > 5);
}

/// R11 (a RESTART lost at a neighbour that is down): starvation.
#[test]
fn r11_restart_is_lost() {
    found(&recovering(), "R11", LIVENESS, 50);
}
