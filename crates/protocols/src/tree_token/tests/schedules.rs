//! The published defects R1 to R11, each by a schedule in which it goes wrong as printed and does
//! not repaired.

use super::*;
use crate::tree_token::defects::*;

/// R1 (section V-A-4): a token in use is not passed on. n = 2, no fault.
#[test]
fn r1_a_token_in_use_stays() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net = path(2, 1, defects);
        net.acquire(0);
        net.acquire(1);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(R1), [0, 1]);
    assert_eq!(inside(Defects::NONE), [0]);
}

/// R2 (section V-A-4): a process that has entered no longer waits. n = 2, no fault. As printed, the
/// token is stuck.
#[test]
fn r2_the_own_entry_goes_when_it_is_served() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net = path(2, 1, defects);
        net.acquire(0);
        net.release(0);
        net.acquire(1);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(R2), []);
    assert_eq!(inside(Defects::NONE), [1]);
}

/// R3 (Algorithm 3 line 2): a token without a request for it stays. n = 2, no fault. As printed, no
/// process is its holder.
#[test]
fn r3_an_empty_queue_is_not_popped() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net = path(2, 1, defects);
        net.acquire(0);
        net.release(0);
        net.acquire(1);
        net.acquire(0);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(R3), []);
    assert_eq!(inside(Defects::NONE), [0]);
}

/// R4 (Algorithm 2): a request made inside waits. n = 1, no fault. As printed, one process is
/// inside twice.
#[test]
fn r4_a_request_made_inside_waits() {
    fn granted(defects: Defects) -> usize {
        let mut net = path(1, 1, defects);
        net.acquire(0);
        net.acquire(0);
        grants(&net).len()
    }
    assert_eq!(granted(R4), 2);
    assert_eq!(granted(Defects::NONE), 1);
}

/// R4: both grants can be released, and the token is as before.
#[test]
fn r4_both_grants_can_be_released() {
    let mut net = path(2, 1, R4);
    net.acquire(0);
    let first = net.nodes[0].observe().grant.unwrap();
    net.acquire(0);
    net.input(0, Input::Release { grant: first }).unwrap();
    net.release(0);
    net.acquire(1);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// R5 (section V-A-5): a request made inside is served after. n = 2, no fault. As printed, it waits
/// for ever, and all behind it.
#[test]
fn r5_a_request_made_inside_is_served() {
    fn granted(defects: Defects) -> Vec<u32> {
        let mut net = path(2, 1, defects);
        net.acquire(0);
        net.acquire(0);
        net.acquire(1);
        for _ in 0..2 {
            net.deliver_all();
            net.inside().iter().for_each(|&node| net.release(node));
        }
        net.deliver_all();
        grants(&net)
    }
    assert_eq!(granted(R5), [0]);
    assert_eq!(granted(Defects::NONE), [0, 0, 1]);
}

/// R6 (Algorithm 4): a token that was asked back is not asked back again. A star of four, no fault.
/// As printed, one REQUEST more.
#[test]
fn r6_an_ask_back_counts() {
    fn requests(defects: Defects) -> usize {
        let mut net = tree(&Shape::Star.build(4, &mut |_| 0).unwrap(), 1, defects);
        net.acquire(0);
        net.acquire(1);
        net.acquire(2);
        net.deliver_all();
        net.release(0); // TOKEN to p1, and REQUEST for p2.
        net.deliver_all();
        net.acquire(3);
        for inside in [1, 2, 3] {
            net.deliver_all();
            assert_eq!(net.inside(), [inside]);
            net.release(inside);
        }
        net.sent("request").len()
    }
    assert_eq!(requests(R6), requests(Defects::NONE) + 1);
}

/// R7 (section V-B): a token that left before the crash is not rebuilt beside it. n = 3, one crash.
/// As printed, two are inside.
#[test]
fn r7_a_token_on_its_way_is_not_rebuilt() {
    fn inside(defects: Defects) -> Vec<u32> {
        let middle = Shape::Path.build(3, &mut |_| 0).unwrap().with_root(NodeId(1)).unwrap();
        let mut net = tree(&middle, 1, defects);
        net.acquire(2);
        net.deliver(2, 1); // The TOKEN is on its way to p2.
        net.acquire(0);
        net.crash(1);
        net.deliver(0, 1); // Lost.
        net.restart(1);
        net.deliver(1, 0); // p0 says that p1 has the token, and asks for it;
        net.deliver(0, 1);
        let restart = net.flights.values().position(|copy| copy.message.kind() == 3).unwrap();
        net.deliver_nth(restart); // and p2 does as well, which is true of neither.
        net.deliver(2, 1);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(R7), [0, 2]);
    assert_eq!(inside(Defects::NONE), [2]);
}

/// R7: two neighbours recover together. n = 2. As printed, each holds the other for the holder, and
/// the token is gone.
#[test]
fn r7_two_neighbours_may_recover_together() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net = path(2, 1, defects);
        net.crash(0);
        net.crash(1);
        net.restart(0);
        net.restart(1);
        net.deliver_all();
        net.acquire(1);
        net.acquire(0);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(R7), []);
    assert_eq!(inside(Defects::NONE), [0]);
}

/// R8 (section V-B-3): a process acts on what it learns in recovery. n = 2, one crash, messages to
/// the crashed process are lost.
#[test]
fn r8_recovery_goes_on() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net = path(2, 1, defects);
        net.acquire(1);
        net.crash(0);
        net.deliver_all(); // The REQUEST is lost.
        net.restart(0);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(R8), []);
    assert_eq!(inside(Defects::NONE), [1]);
}

/// R9 (section V-C): a client that waits is remembered. n = 2, one crash.
#[test]
fn r9_the_request_is_remembered() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net = path(2, 1, defects);
        net.acquire(0);
        net.acquire(1);
        net.deliver_all();
        net.crash(1);
        net.restart(1);
        net.deliver_all();
        net.release(0);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(R9), []);
    assert_eq!(inside(Defects::NONE), [1]);
}

/// R10 (section V-B, the stash): a request from before the crash counts once. n = 2, one crash,
/// messages to the crashed process are kept. As printed, the token is sent to a process that has
/// not requested it.
#[test]
fn r10_a_rebuilt_request_counts_once() {
    fn messages(defects: Defects) -> usize {
        let mut net = path(2, 1, defects);
        net.acquire(1); // Its REQUEST is on its way for long.
        net.crash(0);
        net.restart(0);
        net.deliver(0, 1);
        let advise = net.flights.values().position(|copy| copy.message.kind() == 4).unwrap();
        net.deliver_nth(advise);
        net.deliver_all();
        assert_eq!(net.inside(), [1]);
        net.release(1);
        net.deliver_all();
        count(&net, &["request", "token"])
    }
    assert_eq!(messages(Defects::NONE), 2);
    assert_eq!(
        messages(R10),
        5,
        "asked back from p1, which sends the token, which is sent to p1 again"
    );
}

/// R11 (section V-B-2): a RESTART that was lost at a neighbour that is down is made good by that
/// neighbour's own. n = 2, two crashes. As printed, p0 never hears that p1 is back.
#[test]
fn r11_a_lost_restart_is_made_good() {
    fn inside(defects: Defects) -> Vec<u32> {
        let mut net = path(2, 1, defects);
        net.crash(0);
        net.crash(1);
        net.restart(0);
        net.deliver_all(); // The RESTART is lost.
        net.restart(1);
        net.deliver_all();
        net.acquire(1);
        net.deliver_all();
        net.inside()
    }
    assert_eq!(inside(R11), []);
    assert_eq!(inside(Defects::NONE), [1]);
}

/// Every defect is a switch of its own, in its place, and its number tells which.
#[test]
fn the_defects_are_numbered() {
    for (number, defect) in (1u32..).zip(ALL) {
        assert_eq!(defect.switch, Defects::bit(32 + number));
        assert_eq!(defect.id, alloc::format!("R{number}"));
    }
}
