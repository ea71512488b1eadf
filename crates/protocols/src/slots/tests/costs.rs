//! Messages per entry (`docs/internals/slots.md` section 8).

use super::*;

/// Section 8: an entry without contention costs 2(n-1) messages, flat and on the tree, for every n.
#[test]
fn alone() {
    for nodes in 2..=33u32 {
        for options in [flat(), tree()] {
            for asker in [0, nodes / 2, nodes - 1] {
                let mut net = net(nodes, 1, options);
                enter(&mut net, asker, 1, &[0]);
                assert_eq!(
                    net.sent.len(),
                    2 * (nodes as usize - 1),
                    "n={nodes} p{asker} {options:?}"
                );
                assert_eq!(net.sent("request").len(), net.sent("agg").len());
                nothing_is_left(&net);
            }
        }
    }
}

/// Section 8: n-1 answers reach the requester with flat dissemination, log2 n on the tree.
#[test]
fn fan_in() {
    let reach = |nodes: u32, asker: u32, options| {
        let mut net = net(nodes, 1, options);
        enter(&mut net, asker, 1, &[0]);
        net.sent.iter().filter(|copy| copy.to.0 == asker).count()
    };
    for nodes in [2u32, 4, 8, 16, 32] {
        for asker in 0..nodes {
            assert_eq!(reach(nodes, asker, flat()), nodes as usize - 1);
            assert_eq!(reach(nodes, asker, tree()), nodes.ilog2() as usize, "n={nodes} p{asker}");
        }
    }
    assert_eq!(reach(33, 0, tree()), 6, "no power of two: the clusters that are not empty");
    assert_eq!(reach(33, 32, tree()), 1, "alone in its half, all answers come through one");
}

/// Section 6, idle keep: a slot that no other process requested is re-used without a message, under
/// a greater fence, any number of times.
#[test]
fn a_kept_slot_is_used_again_for_nothing() {
    for options in [flat(), tree()] {
        let mut net = net(8, 2, options);
        enter(&mut net, 3, 2, &[0, 1]);
        net.sent.clear();
        for count in 1..=20 {
            let (_, former) = last(&net, 3);
            net.release(3);
            assert!(net.inside().is_empty());
            acquire(&mut net, 3, 2);
            let (slots, fence) = last(&net, 3);
            assert_eq!((slots.as_slice(), fence.count()), (&[0, 1][..], count));
            assert!(fence > former && fence.stamp() == former.stamp());
        }
        assert!(net.sent.is_empty());
        net.release(3);
        acquire(&mut net, 3, 1);
        assert!(!net.sent.is_empty(), "only just as many slots are used again");
        net.deliver_all();
        assert_eq!(last(&net, 3).1.count(), 0);
    }
}

/// Section 6, idle keep: a process returns its cached slots before it answers a request, so that no
/// request waits for an idle slot.
#[test]
fn a_cached_slot_goes_to_the_requester() {
    for options in [flat(), tree()] {
        let mut net = net(4, 1, options);
        enter(&mut net, 3, 1, &[0]);
        net.release(3);
        net.sent.clear();
        enter(&mut net, 0, 1, &[0]);
        assert_eq!(net.sent.len(), 6, "as if nobody had had it");
        assert!(net.nodes[3].observe().slots.is_empty());
    }
}

/// Section 8: after a release one message lets the next process enter.
#[test]
fn a_hand_over_costs_one_message() {
    for options in [flat(), tree(), plain()] {
        let mut net = net(8, 1, options);
        enter(&mut net, 5, 1, &[0]);
        acquire(&mut net, 2, 1);
        net.deliver_all();
        assert_eq!(net.inside(), [5]);
        net.sent.clear();
        net.release(5);
        assert_eq!((net.sent.len(), net.sent("update")), (1, [(5, 2)].to_vec()));
        net.deliver(5, 2);
        assert_eq!(net.inside(), [2]);
        nothing_is_left(&net);
    }
}

/// Section 8, saturation, k = 1, flat with defer and quiet: at most 2(n-1) + 1 messages per entry.
#[test]
fn saturated() {
    for nodes in [2u32, 3, 5, 8, 16] {
        let mut net = net(nodes, 1, flat());
        (0..nodes).for_each(|node| net.acquire(node));
        net.deliver_all();
        let mut entries = 0;
        net.sent.clear();
        for _ in 0..10 * nodes {
            let inside = net.inside();
            // Only the holder does not wait; it requests again as soon as it has released.
            assert_eq!(inside.len(), 1, "n={nodes}");
            net.release(inside[0]);
            net.acquire(inside[0]);
            net.deliver_all();
            entries += 1;
        }
        let most = entries * (2 * (nodes as usize - 1) + 1);
        assert!(net.sent.len() <= most, "n={nodes}: {} messages, at most {most}", net.sent.len());
    }
}
