//! `slots` on manually driven networks: costs, order, views, the tree, JOIN, malformed messages;
//! and a random harness.

mod costs;
mod harness;
mod join;
mod lanes;
mod malformed;
mod order;
mod random;
mod reserved;
mod reserved_explored;
mod resize;
mod suspend;
mod tree;
mod views;
mod withdraw;

use alloc::vec::Vec;

use kgate_core::{Defects, Dissemination, Fence, GrantId, Input, Notice, Protocol, SlotOptions};

use crate::harness::{Net, setup};
use crate::slots::Slots;

/// Flat dissemination, with every optimisation.
fn flat() -> SlotOptions {
    SlotOptions { dissemination: Dissemination::Flat, ..SlotOptions::default() }
}

/// Tree dissemination.
fn tree() -> SlotOptions {
    SlotOptions { dissemination: Dissemination::Tree, ..SlotOptions::default() }
}

/// Flat dissemination without optimisations.
fn plain() -> SlotOptions {
    SlotOptions { defer: false, quiet: false, keep: false, cohort: 0, ..flat() }
}

fn net(nodes: u32, k: u32, options: SlotOptions) -> Net<Slots> {
    defects(nodes, k, options, Defects::NONE)
}

fn defects(nodes: u32, k: u32, slots: SlotOptions, switches: Defects) -> Net<Slots> {
    let mut known = setup(nodes, k, switches);
    known.slots = slots;
    Net::with(known)
}

/// All grants of one process so far.
fn grants<P: Protocol>(net: &Net<P>, of: u32) -> Vec<(GrantId, Vec<u32>, Fence)> {
    let granted = net.notices.iter().filter_map(|(_, node, notice)| match notice {
        Notice::Granted { grant, slots: Some(slots), fence: Some(fence) } if node.0 == of => {
            Some((*grant, slots.to_vec(), *fence))
        }
        Notice::Granted { .. }
        | Notice::Asked
        | Notice::Lost { .. }
        | Notice::Adopted { .. }
        | Notice::AdoptionRefused { .. }
        | Notice::TooLarge { .. }
        | Notice::Suspected { .. } => None,
    });
    granted.collect()
}

/// The slots and the fence of its last grant.
fn last(net: &Net<Slots>, of: u32) -> (Vec<u32>, Fence) {
    let (_, slots, fence) = grants(net, of).pop().expect("something was granted");
    (slots, fence)
}

fn acquire(net: &mut Net<Slots>, at: u32, weight: u32) {
    net.input(at, Input::Acquire { weight }).unwrap();
}

fn release(net: &mut Net<Slots>, at: u32, grant: GrantId) {
    net.input(at, Input::Release { grant }).unwrap();
}

fn withdraw(net: &mut Net<Slots>, at: u32) {
    net.input(at, Input::Withdraw).unwrap();
}

/// Requests `weight`, delivers everything, and expects these slots.
fn enter(net: &mut Net<Slots>, at: u32, weight: u32, slots: &[u32]) {
    acquire(net, at, weight);
    net.deliver_all();
    assert_eq!(last(net, at).0, slots);
}

/// P5: no live process waits, relays or owes anything, except updates about slots that it caches.
fn nothing_is_left(net: &Net<Slots>) {
    for node in net.live() {
        let shown = net.nodes[node as usize].observe();
        assert_eq!(shown.stamp, None, "p{node} waits");
        let owing = if shown.slots.is_empty() { shown.owing.as_slice() } else { &[] };
        assert_eq!((owing, shown.relaying.as_slice()), (&[][..], &[][..]), "of p{node}");
    }
}

/// Law 6: an idle process is a few hundred bytes, so that a million fit into memory.
#[test]
fn an_idle_process_is_small() {
    assert!(size_of::<super::Lanes>() <= 512, "{}", size_of::<super::Lanes>());
}
