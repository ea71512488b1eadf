//! Requests down the tree, answers back up (`docs/internals/slots.md`, section 3 and S1, S8, S13).

use kgate_core::Span;

use super::*;
use crate::slots::SlotsTimer;
use crate::slots::defects::{S1, S8, S13};

/// Tree dissemination without optimisations.
fn bare() -> SlotOptions {
    SlotOptions { dissemination: Dissemination::Tree, ..plain() }
}

fn lossy(options: SlotOptions) -> SlotOptions {
    SlotOptions { ask_again: Some(Span::UNIT), ..options }
}

/// Section 3, `cover?`: an inner node crashes before or after it has forwarded the request; the
/// processes below it are asked directly.
#[test]
fn an_inner_node_dies() {
    for passed_on in [false, true] {
        let mut net = net(8, 1, bare());
        acquire(&mut net, 0, 1);
        if passed_on {
            net.deliver(0, 4);
        }
        net.crash(4);
        net.deliver_all();
        assert!(net.inside().is_empty(), "p4 .. p7 have not answered");
        net.sent.clear();
        net.notify_crashed([0, 1, 2, 3, 5, 6, 7], 4);
        assert_eq!(net.sent("request"), [(0, 5), (0, 6), (0, 7)]);
        net.deliver_all();
        assert_eq!(net.inside(), [0]);
        assert_eq!(net.sent.len(), 6);
        nothing_is_left(&net);
    }
}

/// S13: without that, the processes below it are never asked.
#[test]
fn s13_as_it_was() {
    let mut net = defects(8, 1, bare(), S13);
    acquire(&mut net, 0, 1);
    net.crash(4);
    net.deliver_all();
    net.notify_crashed([0, 1, 2, 3, 5, 6, 7], 4);
    net.deliver_all();
    assert!(net.inside().is_empty());
}

/// Section 5: a relay that knows of a loss before the requester does forwards the request to the
/// next member; the requester misses the crashed one alone.
#[test]
fn a_relay_knows_more() {
    let mut net = net(8, 1, bare());
    net.crash(6);
    net.notify_crashed([4, 5, 7], 6);
    acquire(&mut net, 0, 1);
    net.deliver_all();
    assert_eq!(net.sent("request"), [(0, 1), (0, 2), (0, 4), (0, 6), (2, 3), (4, 5), (4, 7)]);
    assert!(
        net.inside().is_empty(),
        "p6 was asked straight when the tree was done, and does not answer"
    );
    net.notify_crashed([0, 1, 2, 3], 6);
    assert_eq!(net.inside(), [0]);
}

/// S1: an UPDATE overtakes the answer that it corrects, which a relay still has. The newest report
/// counts; with the defect, the requester waits for ever.
#[test]
fn s1_as_it_was_and_repaired() {
    for (switches, inside) in [(Defects::NONE, [0].as_slice()), (S1, &[])] {
        let mut net = defects(4, 1, bare(), switches);
        enter(&mut net, 3, 1, &[0]);
        acquire(&mut net, 0, 1);
        net.deliver(0, 2);
        net.deliver(2, 3);
        net.release(3);
        net.deliver(3, 0);
        assert_eq!(net.sent("update"), [(3, 0)]);
        net.deliver_all();
        assert_eq!(net.inside(), inside);
    }
}

/// A relay whose requester has moved on drains: a newer request supersedes it, and a late answer
/// finds nothing.
#[test]
fn a_relay_is_superseded() {
    let mut net = net(4, 1, bare());
    acquire(&mut net, 0, 1);
    net.deliver(0, 2);
    assert_eq!(net.nodes[2].observe().relaying.len(), 1);
    withdraw(&mut net, 0);
    acquire(&mut net, 0, 1);
    net.deliver(0, 2);
    assert_eq!(net.nodes[2].observe().relaying.len(), 1, "the newer one alone");
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
    nothing_is_left(&net);
}

/// S8: a request reaches a relay late; its child has received a newer one. It answers with an empty
/// answer; with the defect, the relay waits for ever.
#[test]
fn s8_as_it_was_and_repaired() {
    for (switches, left) in [(Defects::NONE, 0), (S8, 1)] {
        let mut net = defects(4, 1, bare(), switches);
        enter(&mut net, 3, 1, &[0]);
        acquire(&mut net, 0, 1);
        let late = net.flights.pop_last().expect("the request to p2");
        assert_eq!(late.1.to.0, 2);
        withdraw(&mut net, 0);
        acquire(&mut net, 0, 1);
        net.deliver_all();
        net.flights.insert(late.0, late.1);
        net.deliver_all();
        assert_eq!(net.nodes[2].observe().relaying.len(), left);
        net.release(3);
        net.deliver_all();
        assert_eq!(net.inside(), [0]);
    }
}

/// Where messages may be lost: whichever one is lost, request, answer or update, timers repair it.
#[test]
fn any_message_may_be_lost() {
    for options in [lossy(bare()), lossy(tree()), lossy(plain()), lossy(flat())] {
        for lost in 0.. {
            let mut net = net(4, 1, options);
            enter(&mut net, 3, 1, &[0]);
            let before = net.sent.len();
            acquire(&mut net, 0, 1);
            let lose_one = |net: &mut Net<Slots>| {
                while !net.flights.is_empty() {
                    let sent = net.sent.len() - before;
                    if sent - net.flights.len() == lost {
                        net.lose_nth(0)
                    } else {
                        net.deliver_nth(0)
                    }
                }
            };
            lose_one(&mut net);
            net.release(3);
            lose_one(&mut net);
            let all = net.sent.len() - before;
            for _ in 0..4 {
                let timers: Vec<_> = net.timers.keys().copied().collect();
                timers.into_iter().for_each(|(node, timer)| net.expire(node.0, timer));
                net.deliver_all();
            }
            assert_eq!(net.inside(), [0], "message {lost} lost, {options:?}");
            assert!(net.timers.is_empty(), "{:?}", net.timers);
            net.release(0);
            nothing_is_left(&net);
            if lost >= all {
                break;
            }
        }
    }
}

/// `SlotsTimer::PassOn`: a relay forwards the answers so far at the second expiry, not at the
/// first; the requester asks the remaining processes itself.
#[test]
fn passed_on_at_the_second_expiry() {
    let mut net = net(4, 1, lossy(bare()));
    acquire(&mut net, 0, 1);
    net.deliver(0, 1);
    net.deliver(0, 2);
    net.deliver(1, 0);
    net.lose(2, 3);
    net.expire(2, SlotsTimer::PassOn);
    assert!(net.flights.is_empty());
    net.expire(2, SlotsTimer::PassOn);
    net.deliver_kind(2, 0, "agg");
    net.deliver_kind(0, 3, "request");
    net.deliver_kind(3, 0, "agg");
    assert_eq!(net.inside(), [0]);
    assert!(net.timers.is_empty(), "{:?}", net.timers);
}

/// S9 on the tree: a request that arrives twice while the first is still forwarded is not answered
/// a second time, so no second answer counts as sent. A decision that was not announced still is
/// when k grows.
#[test]
fn an_unanswered_copy_counts_as_no_answer() {
    let mut net = net(4, 1, tree());
    acquire(&mut net, 2, 1);
    net.deliver(2, 0);
    net.deliver(0, 1);
    net.deliver(1, 0); // The answer of p0 and p1 is under way to p2.
    acquire(&mut net, 0, 1);
    let asks = |copy: &crate::harness::Copy<_>| (copy.from.0, copy.to.0) == (0, 2);
    net.double_nth(net.flights.values().rposition(asks).expect("its request"));
    net.deliver_kind(0, 2, "request"); // p2 is ahead, and passes it on to p3.
    net.deliver_kind(0, 2, "agg");
    net.deliver(2, 3);
    net.deliver(3, 2);
    assert_eq!(net.inside(), [2], "decided, and nothing is left for p0: it is not told");
    net.deliver_kind(0, 2, "request");
    net.deliver_all();
    for node in 0..4 {
        net.input(node, Input::Resize(2)).unwrap();
    }
    net.deliver_all();
    assert_eq!(net.inside(), [0, 2]);
}
