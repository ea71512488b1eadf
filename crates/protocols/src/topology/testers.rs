//! VCube's rule for the tests of a process.

use alloc::vec::Vec;

use kgate_core::NodeId;

use super::{Members, dimension};

/// The processes that `i` tests: every member `j` of a cluster `c(i,s)` in whose own cluster
/// `c(j,s)` the process `i` is the first member (vcube-2018 section 4).
///
/// In VCube's order place `t` of `c(j,s)` is `j xor 2^(s-1) xor t`. So `i` comes first there
/// exactly if, for each bit `b` of the place's number, the block of `2^b` places beside `i` is
/// empty: the places before `i` are those blocks. The tested are found from these free bits,
/// without trying every `j`.
pub fn tests_of(i: NodeId, members: &Members<'_>) -> Vec<NodeId> {
    let mut tested = Vec::new();
    let mut free_bits = 0;
    for s in 1..=dimension(members.nodes()) {
        let level = s - 1;
        collect(NodeId(i.0 ^ (1 << level)), level, free_bits, members, &mut tested);
        if members.none_near(NodeId(i.0 ^ (1 << level)), level) {
            free_bits |= 1 << level;
        }
    }
    tested
}

/// All members that differ from `j` only in `free_bits` below `level`.
fn collect(j: NodeId, level: u32, free_bits: u32, members: &Members<'_>, tested: &mut Vec<NodeId>) {
    if members.none_near(j, level) {
        return;
    }
    if level == 0 {
        tested.push(j);
        return;
    }
    let bit = 1 << (level - 1);
    collect(j, level - 1, free_bits, members, tested);
    if free_bits & bit != 0 {
        collect(NodeId(j.0 ^ bit), level - 1, free_bits, members, tested);
    }
}
