//! `slots` by hand-driven networks: costs, order, views, the tree, JOIN, junk, and a world in which anything may happen.

mod random;
mod world;

/// Law 6: an idle process is a few hundred bytes, so that a million fit into memory.
#[test]
fn an_idle_process_is_small() {
    assert!(size_of::<super::Lanes>() <= 512, "{}", size_of::<super::Lanes>());
}
