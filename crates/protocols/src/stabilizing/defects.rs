//! Errors of the printed Algorithm 3.1, as far as they can be switched back on; [`super`] has the
//! whole list.

use kgate_core::Defects;

use crate::defects::Defect;

/// The root waits for the feedback of all neighbours.
pub const C1: Defects = correction(1);
/// a9 in any phase.
pub const C3: Defects = correction(3);
/// a10 without a parent.
pub const C5: Defects = correction(5);
/// Levels up to the diameter.
pub const C6: Defects = correction(6);
/// a9 waits for a process that the token will not reach.
pub const C7: Defects = correction(7);
/// a2 and a3 do not check the parent.
pub const C8: Defects = correction(8);
/// No pause between two tokens to one neighbour.
pub const C9: Defects = correction(9);
/// Any neighbour's offer counts.
pub const C10: Defects = correction(10);
/// A token among children in feedback.
pub const C11: Defects = correction(11);
/// Any token of the root's may take a process from its parent.
pub const C14: Defects = correction(14);

const fn correction(number: u32) -> Defects {
    Defects::bit(48 + number)
}

/// All that have a switch, in order.
pub const ALL: [Defect; 10] = [
    Defect {
        id: "C1",
        switch: C1,
        place: "stabilizing-2014, Algorithm 3.1, Cleaning of the root (a5)",
        description: "the root waits until all its neighbours are in F, but the broadcast goes to \
                its children only: deadlock from a clean start (star of 4, l = 2). Repair: \
                all its children",
    },
    Defect {
        id: "C3",
        switch: C3,
        place: "stabilizing-2014, Algorithm 3.1, Cleaning (a9)",
        description: "nothing is asked of T, so a clean process may clean itself for ever and one \
                in B may leave its broadcast: livelock (n = 2). Repair: T in {F, Tok}",
    },
    Defect {
        id: "C5",
        switch: C5,
        place: "stabilizing-2014, Algorithm 3.1, AbnPath (a10)",
        description: "its implication is true of a process without a parent, which may then drop \
                its parent for ever: livelock (n = 2). Repair: it has one",
    },
    Defect {
        id: "C6",
        switch: C6,
        place: "stabilizing-2014, sections 2 and 4: D is the diameter; Algorithm 3.1 itself says \
                n-1",
        description: "a token's way can be longer than the diameter, and the processes behind it \
                are never reached (n = 6). Repair: n-1",
    },
    Defect {
        id: "C7",
        switch: C7,
        place: "stabilizing-2014, Algorithm 3.1, Cleaning (a9), its part for Tok",
        description: "a process waits until the next one is in Tok, but that may have another \
                parent and never take the token: terminal from a corrupted start (star of \
                3). Repair: or it is somebody else's child",
    },
    Defect {
        id: "C8",
        switch: C8,
        place: "stabilizing-2014, Algorithm 3.1, TthToken (a2) and Ready-To-Broadcast (a3)",
        description: "the Tok of a neighbour may be of another token than the root's, and a \
                neighbour that is not clean may wait for the root: deadlock from a clean \
                start (triangle, l = 2). Repair: the last one must be in Tok as a child; the \
                next one must be clean unless it is none",
    },
    Defect {
        id: "C9",
        switch: C9,
        place: "stabilizing-2014, section 3: a root with one neighbour is 'a simple version'",
        description: "the second token waits until the neighbour is clean, which waits until the \
                root goes on: deadlock from a clean start (n = 2, l = 2). Repair: states g_i \
                between two tokens",
    },
    Defect {
        id: "C10",
        switch: C10,
        place: "stabilizing-2014, Algorithm 3.1, Potential",
        description: "a token of a process outside the tree is taken, and one leaves its parent \
                for anybody: more than n rounds until normal (complete graph of 10). Repair: \
                only from the tree; only for the root",
    },
    Defect {
        id: "C11",
        switch: C11,
        place: "stabilizing-2014, Algorithm 3.1, Token (a6)",
        description: "a token comes to a process whose child is still in F, which is abnormal \
                below Tok: Corollary 4.1 fails even on a path of 3. Repair: no child in {F, \
                B}",
    },
    Defect {
        id: "C14",
        switch: C14,
        place: "stabilizing-2014, section 3: the root sends to any neighbour, 'even if this \
                process is already a child'",
        description: "the process that the root takes cuts off all below it, with the tokens \
                there; the broadcast does not reach them, and the next wave adds l: more \
                than l inside from a clean start (n = 7, l = 2). Repair: only the first \
                token of a wave takes a process from its parent",
    },
];
