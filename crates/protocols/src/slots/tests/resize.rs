//! k changes (`docs/internals/slots.md`, `set_k`, S9 and S11).

use kgate_core::Refusal;

use super::*;
use crate::slots::Lanes;
use crate::slots::defects::{S9, S11};

fn resize(net: &mut Net<Slots>, at: impl IntoIterator<Item = u32>, k: u32) {
    for at in at {
        net.input(at, Input::Resize(k)).unwrap();
    }
}

fn too_large(net: &Net<Slots>, of: u32) -> Vec<(u32, u32)> {
    let told = net.notices.iter().filter_map(|(_, node, notice)| match notice {
        Notice::TooLarge { weight, most } if node.0 == of => Some((*weight, *most)),
        Notice::TooLarge { .. }
        | Notice::Granted { .. }
        | Notice::Asked
        | Notice::Lost { .. }
        | Notice::Adopted { .. }
        | Notice::AdoptionRefused { .. }
        | Notice::Suspected { .. } => None,
    });
    told.collect()
}

/// No weight of 0, none above k, no k of 0.
#[test]
fn zero_weights_and_zero_k_are_refused() {
    let mut net = net(2, 2, flat());
    for weight in [0, 3] {
        assert_eq!(net.refusal(0, Input::Acquire { weight }), Refusal::Weight { weight, most: 2 });
    }
    let gate: Net<Lanes> = Net::with(setup(2, 2, Defects::NONE));
    assert_eq!(gate.refusal(0, Input::Resize(0)), Refusal::Weight { weight: 0, most: 0 });
    resize(&mut net, [0], 3);
    enter(&mut net, 0, 3, &[0, 1, 2]);
}

/// k grows: a waiting process takes the new slots as soon as it learns of them, in whatever order
/// the processes do.
#[test]
fn grows() {
    for options in [flat(), tree(), plain()] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            let mut net = net(3, 1, options);
            acquire(&mut net, 0, 1);
            acquire(&mut net, 1, 1);
            net.deliver_all();
            assert_eq!(net.inside(), [0]);
            resize(&mut net, order, 2);
            net.deliver_all();
            assert_eq!(net.inside(), [0, 1], "{order:?} {options:?}");
            assert_eq!(last(&net, 1).0, [1]);
        }
    }
}

/// S9: a decision that left nothing was not announced; when k grows it is. With the defect, no
/// process learns of it.
#[test]
fn s9_as_it_was_and_repaired() {
    for (switches, inside) in [(Defects::NONE, [0, 1].as_slice()), (S9, &[0])] {
        let mut net = defects(2, 1, SlotOptions { defer: false, ..flat() }, switches);
        acquire(&mut net, 0, 1);
        acquire(&mut net, 1, 1);
        net.deliver_all();
        assert!(net.sent("update").is_empty(), "nobody can use the decision");
        resize(&mut net, [0, 1], 2);
        net.deliver_all();
        assert_eq!(net.inside(), inside);
    }
}

/// k shrinks: a holder of a slot beyond it stays, does not hand it over and does not cache it; no
/// process takes it again.
#[test]
fn shrinks() {
    for options in [flat(), tree()] {
        let mut net = net(3, 3, options);
        enter(&mut net, 0, 1, &[0]);
        enter(&mut net, 1, 2, &[1, 2]);
        resize(&mut net, 0..3, 2);
        acquire(&mut net, 1, 2);
        net.deliver_all();
        assert_eq!(grants(&net, 1).len(), 1);
        let grant = grants(&net, 1)[0].0;
        release(&mut net, 1, grant);
        net.deliver_all();
        assert_eq!(grants(&net, 1).len(), 1, "not handed over: slot 2 is no more");
        net.release(0);
        net.deliver_all();
        assert_eq!(last(&net, 1).0, [0, 1]);
    }
}

/// k shrinks: a cached slot beyond it is given up at once, and one below it stays.
#[test]
fn kept_slots_beyond_k_are_dropped() {
    for (k, left) in [(2, 2), (1, 0)] {
        let mut net = net(2, 3, flat());
        enter(&mut net, 0, 2, &[0, 1]);
        net.release(0);
        resize(&mut net, [0], k);
        assert_eq!(net.nodes[0].observe().slots.len(), left, "k = {k}");
    }
}

/// S11: a request whose weight exceeds k fails, whether it is out or not, and those behind it
/// continue. With the defect, all wait for ever.
#[test]
fn s11_as_it_was_and_repaired() {
    let shrunk = |switches| {
        let mut net = defects(3, 2, plain(), switches);
        enter(&mut net, 2, 1, &[0]);
        acquire(&mut net, 0, 2);
        acquire(&mut net, 0, 2);
        acquire(&mut net, 0, 1);
        net.deliver_all();
        acquire(&mut net, 1, 1);
        net.deliver_all();
        resize(&mut net, 0..3, 1);
        net.deliver_all();
        net.release(2);
        net.deliver_all();
        net
    };
    let mut net = shrunk(Defects::NONE);
    assert_eq!(too_large(&net, 0), [(2, 1), (2, 1)]);
    assert_eq!(net.inside(), [1], "p1 asked before the last client of p0");
    net.release(1);
    net.deliver_all();
    assert_eq!(last(&net, 0).0, [0]);
    net.release(0);
    net.deliver_all();
    nothing_is_left(&net);
    assert!(shrunk(S11).inside().is_empty());
}

/// Section 6, quiet: a decision is useless to others only if every slot below k is held. Slots
/// beyond a k that has shrunk do not count.
#[test]
fn slots_beyond_k_do_not_keep_it_quiet() {
    let mut net = net(2, 3, SlotOptions { cohort: 0, ..flat() });
    enter(&mut net, 0, 1, &[0]);
    enter(&mut net, 0, 2, &[1, 2]);
    acquire(&mut net, 0, 2);
    net.deliver_all();
    acquire(&mut net, 1, 1);
    net.deliver_all();
    resize(&mut net, 0..2, 2);
    let grant = grants(&net, 0)[0].0;
    release(&mut net, 0, grant);
    withdraw(&mut net, 0);
    net.deliver_all();
    assert_eq!(last(&net, 1).0, [0], "p0 has as many slots as there are, but not all of them");
}
