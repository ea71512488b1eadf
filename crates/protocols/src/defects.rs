//! The published defects, each a switch at the line that differs: here those of the
//! permission-based papers, the others beside their protocols.
//!
//! Every protocol runs repaired unless [`Setup::defects`](kgate_core::Setup) says otherwise; at a
//! node that set is always empty.

use kgate_core::Defects;

use crate::{home, slots, stabilizing, timer_free, tree_token};

/// A published defect: its number, what the paper prints, and what it breaks.
#[derive(Clone, Copy, Debug)]
pub struct Defect {
    /// Number on the command line.
    pub id: &'static str,
    /// The switch.
    pub switch: Defects,
    /// Place in the publication.
    pub place: &'static str,
    /// The printed text, what it breaks, and the repair.
    pub description: &'static str,
}

/// vcube-2018: Lamport timestamps used as sequence numbers.
pub const D1: Defects = Defects::bit(1);
/// vcube-2018: a late REPLY counts for the next request.
pub const D2: Defects = Defects::bit(2);
/// vcube-2018: permissions as a bare count, which a crash can push below zero.
pub const D3: Defects = Defects::bit(3);
/// Both papers: the correct set shrinks before the permission is withdrawn.
pub const D4: Defects = Defects::bit(4);
/// vcube-2018: one ACK clears one pending parent only.
pub const D5: Defects = Defects::bit(5);
/// robust-2012: the clock is not advanced by a request.
pub const D6: Defects = Defects::bit(6);
/// robust-2012: duplicates are keyed by the forwarder.
pub const D7: Defects = Defects::bit(7);
/// robust-2012: "different" instead of "newer".
pub const D8: Defects = Defects::bit(8);
/// robust-2012: the priority of the prose is reversed.
pub const D9: Defects = Defects::bit(9);

/// Every defect of every paper, in order.
pub fn all() -> impl Iterator<Item = &'static Defect> {
    ALL.iter()
        .chain(&timer_free::defects::ALL)
        .chain(&tree_token::defects::ALL)
        .chain(&stabilizing::defects::ALL)
        .chain(&slots::defects::ALL)
        .chain(&home::omissions::ALL)
}

/// Those of the permission-based papers, in order.
pub const ALL: [Defect; 9] = [
    Defect {
        id: "D1",
        switch: D1,
        place: "vcube-2018, Algorithm 6.1 line 19",
        description: "a broadcast is new only if its timestamp is the last one plus 1, but Lamport \
                clocks jump: it is dropped and its source waits for ever (no fault, n = 2). \
                Repair: new means greater",
    },
    Defect {
        id: "D2",
        switch: D2,
        place: "vcube-2018, Algorithm 7.1 lines 9-14 with 6.1 line 5",
        description: "while a request waits for the ACKs of the one before, a late REPLY to the \
                old one counts for the new one: more than k inside (no fault, n = 4, k = 2). \
                Repair: a REPLY names its request",
    },
    Defect {
        id: "D3",
        switch: D3,
        place: "vcube-2018, Algorithm 7.1 lines 36-37 while blocked in 6.1 line 5",
        description: "a crash takes back a permission that was never counted; the count becomes -1 \
                and its owner waits for ever (one crash, n = 4, k = 1). Repair: keep the set \
                of permissions, not their number",
    },
    Defect {
        id: "D4",
        switch: D4,
        place: "vcube-2018, Algorithms 6.1 and 7.1, and robust-2012, Algorithm 2: order of the \
                crash handlers",
        description: "the set of correct processes shrinks while the crashed process's permission \
                still counts: more than k inside (one crash, n = 3, k = 1). Repair: one \
                handler, permission first",
    },
    Defect {
        id: "D5",
        switch: D5,
        place: "vcube-2018, Algorithm 6.1 lines 28-29",
        description: "two parents wait for one child's single ACK, and it clears one of them: the \
                broadcast never ends (n = 16). Repair: an ACK from j for m clears every <x, \
                j, m>",
    },
    Defect {
        id: "D6",
        switch: D6,
        place: "robust-2012, Algorithm 2 line 8",
        description: "the request's stamp is clock + 1 but the clock stays: a lone requester's \
                second request looks like the first and is dropped everywhere. Repair: \
                advance the clock",
    },
    Defect {
        id: "D7",
        switch: D7,
        place: "robust-2012, Algorithm 1 line 12",
        description: "duplicates are recognised by the forwarder: the same request by another \
                route is delivered again, and another by the same route may be lost. Repair: \
                recognise them by the root",
    },
    Defect {
        id: "D8",
        switch: D8,
        place: "robust-2012, Algorithm 1 line 12, even if keyed by the root",
        description: "new means different from the last: an old copy that comes late, by another \
                route or on a channel that reorders, is delivered again (one crash). Repair: \
                new means greater",
    },
    Defect {
        id: "D9",
        switch: D9,
        place: "robust-2012, section 4, prose",
        description: "permission goes to the later request: more than k inside (no fault, n = 3). \
                Repair: to the earlier",
    },
];
