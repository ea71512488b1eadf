//! Withdrawals at each stage of a request (`docs/internals/slots.md`, `withdraw()` and S7).

use kgate_core::Refusal;

use super::*;
use crate::slots::defects::S7;

/// A process that does not wait has nothing to withdraw, even if it holds.
#[test]
fn nothing_to_withdraw() {
    let mut net = net(3, 1, flat());
    assert_eq!(net.refusal(0, Input::Withdraw), Refusal::NoSuchRequest);
    enter(&mut net, 0, 1, &[0]);
    assert_eq!(net.refusal(0, Input::Withdraw), Refusal::NoSuchRequest);
}

/// The last request is withdrawn, and those before it keep waiting.
#[test]
fn the_last_request() {
    let mut net = net(3, 3, plain());
    enter(&mut net, 1, 3, &[0, 1, 2]);
    acquire(&mut net, 0, 1);
    acquire(&mut net, 0, 2);
    acquire(&mut net, 0, 3);
    withdraw(&mut net, 0);
    net.release(1);
    net.deliver_all();
    let slots: Vec<_> = grants(&net, 0).into_iter().map(|(_, slots, _)| slots).collect();
    assert_eq!(slots, [[0].to_vec(), [1, 2].to_vec()]);
}

/// Section 3, `withdraw()`: the requests behind continue, at whatever stage the withdrawn one was:
/// just sent, known to some, known to all, answered.
#[test]
fn requests_behind_continue() {
    for options in [flat(), tree(), plain()] {
        for stage in 0..14 {
            let mut net = net(4, 2, options);
            enter(&mut net, 3, 1, &[0]);
            acquire(&mut net, 0, 2);
            for _ in 0..stage {
                if !net.flights.is_empty() {
                    net.deliver_nth(0);
                }
            }
            acquire(&mut net, 1, 1);
            for _ in 0..stage {
                if !net.flights.is_empty() {
                    net.deliver_nth(net.flights.len() - 1);
                }
            }
            withdraw(&mut net, 0);
            net.deliver_all();
            assert_eq!(last(&net, 1).0, [1], "stage {stage} {options:?}");
            net.release(1);
            net.release(3);
            net.deliver_all();
            nothing_is_left(&net);
            enter(&mut net, 0, 2, &[0, 1]);
        }
    }
}

/// S7: if a withdrawal is not announced, the requests behind it wait for ever.
#[test]
fn s7_as_it_was() {
    let mut net = defects(3, 2, plain(), S7);
    enter(&mut net, 2, 1, &[0]);
    acquire(&mut net, 0, 2);
    net.deliver_all();
    acquire(&mut net, 1, 1);
    net.deliver_all();
    withdraw(&mut net, 0);
    net.deliver_all();
    assert!(grants(&net, 1).is_empty());
}

/// A batch shrinks by the client that withdraws; the request ends with its last one.
#[test]
fn part_of_a_batch() {
    let mut net = net(2, 2, SlotOptions { batch: 2, ..plain() });
    net.notify_gone([0], 0, 0);
    acquire(&mut net, 0, 1);
    acquire(&mut net, 0, 1);
    net.notify_joined([0, 1], 0, 1);
    assert_eq!(net.sent("request").len(), 1);
    withdraw(&mut net, 0);
    assert!(net.nodes[0].observe().stamp.is_some(), "one is left");
    withdraw(&mut net, 0);
    assert_eq!(net.nodes[0].observe().stamp, None);
    assert_eq!(net.refusal(0, Input::Withdraw), Refusal::NoSuchRequest);
    net.deliver_all();
    nothing_is_left(&net);
}

/// A client that waits until its process becomes a member may withdraw before.
#[test]
fn before_it_takes_part() {
    let mut net = net(2, 1, flat());
    net.crash(0);
    net.return_in(0, 1);
    acquire(&mut net, 0, 1);
    withdraw(&mut net, 0);
    net.notify_gone([0, 1], 0, 0);
    net.notify_joined([0, 1], 0, 1);
    assert!(net.sent.is_empty());
}
