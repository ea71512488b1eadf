//! The virtual hypercube of VCube and Hi-ADSD: the clusters by which processes send and test.
//!
//! Process `i` sees the others as clusters `c(i,1) .. c(i,log2 n)`; cluster `s` has `2^(s-1)`
//! places and is walked from its head `i xor 2^(s-1)`. Both papers write the same recursion and
//! differ in the order of its parts (vcube-2018 equation 1; robust-2012 section 3.1):
//!
//! ```text
//! c(i,s) = h, c(h,1), c(h,2), .., c(h,s-1)      h = i xor 2^(s-1)      VCube:    c(0,3) = 4,5,6,7
//! C(i,s) = h, C(h,s-1), .., C(h,2), C(h,1)                             Hi-ADSD:  C(0,3) = 4,6,7,5
//! ```
//!
//! n need not be a power of two: places without a process are left out, as if they had always been
//! faulty. A walk skips a whole empty block at once, so the first member of a cluster is found in
//! O(log n) steps.

pub mod graphs;
mod members;
mod testers;
mod walk;

pub use members::Members;
pub use testers::tests_of;
pub use walk::{ClusterOrder, Walk, first_member};

use kgate_core::NodeId;

/// The number of clusters of a process: log2 n, rounded up.
pub fn dimension(nodes: u32) -> u32 {
    nodes.next_power_of_two().trailing_zeros()
}

/// The cluster of `i` that contains `j`, counted from 1. Symmetric (vcube-2018 section 5.1,
/// `cluster_i(j)`).
pub fn cluster_of(i: NodeId, j: NodeId) -> u32 {
    assert_ne!(i, j, "a process is in no cluster of its own");
    u32::BITS - (i.0 ^ j.0).leading_zeros()
}

#[cfg(test)]
mod tests;
