//! The published defects of tree-token-2019, each a switch at the line that differs.

use kgate_core::Defects;

use crate::defects::Defect;

/// `using` is never set.
pub const R1: Defects = Defects::bit(33);
/// The own entry stays in the queue.
pub const R2: Defects = Defects::bit(34);
/// An empty queue is popped.
pub const R3: Defects = Defects::bit(35);
/// Algorithm 2 ignores `using`.
pub const R4: Defects = Defects::bit(36);
/// An own request that was queued inside is never served.
pub const R5: Defects = Defects::bit(37);
/// Algorithm 4 does not set `asked`.
pub const R6: Defects = Defects::bit(38);
/// The holder is not on stable storage.
pub const R7: Defects = Defects::bit(39);
/// Nothing goes on at the end of recovery.
pub const R8: Defects = Defects::bit(40);
/// The own request is forgotten in a crash.
pub const R9: Defects = Defects::bit(41);
/// A stashed request is queued beside the rebuilt one.
pub const R10: Defects = Defects::bit(42);
/// A RESTART is lost at a neighbour that is down.
pub const R11: Defects = Defects::bit(43);

/// All of them, in order.
pub const ALL: [Defect; 11] = [
    Defect {
        id: "R1",
        switch: R1,
        place: "tree-token-2019, section V-A-4",
        description: "EnterCriticalSection sets `asked` and nothing sets `using`: a token in use \
                is passed on, and two are inside (no fault, n = 2). Repair: the token of a \
                client that is inside is in use",
    },
    Defect {
        id: "R2",
        switch: R2,
        place: "tree-token-2019, section V-A-4",
        description: "an entering process stays at the head of its own REQUEST_Q, where Algorithm \
                3 never passes the token on: it is stuck after the first entry (no fault, n \
                = 2). Repair: the entry goes when it is served",
    },
    Defect {
        id: "R3",
        switch: R3,
        place: "tree-token-2019, Algorithm 3 line 2",
        description: "on exit the head of REQUEST_Q becomes the holder though the queue may be \
                empty: no process is, and all wait for ever (no fault, n = 2). Repair: the \
                token stays where nobody waits",
    },
    Defect {
        id: "R4",
        switch: R4,
        place: "tree-token-2019, Algorithm 2",
        description: "a request made inside finds the token here and enters at once: two of one \
                process inside (no fault, n = 1). Repair: it waits until the token is not in \
                use",
    },
    Defect {
        id: "R5",
        switch: R5,
        place: "tree-token-2019, section V-A-5 with Algorithm 3 line 1",
        description: "on exit nothing but InvokePrivilegeSend happens, which does nothing if this \
                process is first in its own REQUEST_Q: its request made inside is never \
                served, nor any behind it (no fault, n = 1). Repair: assign the privilege on \
                exit",
    },
    Defect {
        id: "R6",
        switch: R6,
        place: "tree-token-2019, Algorithm 4",
        description: "the token is asked back without noting it, so the next request asks again: \
                more messages (no fault, n = 4). Repair: set `asked`",
    },
    Defect {
        id: "R7",
        switch: R7,
        place: "tree-token-2019, section V-B",
        description: "the holder is rebuilt from what neighbours say, and one that is recovering \
                itself, or has sent the token or not yet got it, says wrong things: two \
                tokens, none, or a cycle of holders (n = 2, one or two crashes). Repair: the \
                holder is on stable storage, and an old copy of a token is known by its \
                revision",
    },
    Defect {
        id: "R8",
        switch: R8,
        place: "tree-token-2019, section V-B-3",
        description: "at the end of recovery nobody looks whether the token can be passed on or \
                must be asked for: if the requests of before were lost, they wait for ever \
                (n = 2, one crash). Repair: do both",
    },
    Defect {
        id: "R9",
        switch: R9,
        place: "tree-token-2019, section V-C",
        description: "a process does not know that its client waited before the crash; it is never \
                served (n = 2, one crash). Repair: stable storage \
                says whether the client waits",
    },
    Defect {
        id: "R10",
        switch: R10,
        place: "tree-token-2019, section V-B",
        description: "a request that was stashed while recovering is queued although ADVISE has \
                rebuilt it: the token travels for nobody (n = 2, one crash). Repair: \
                messages tell which is alive they belong to",
    },
    Defect {
        id: "R11",
        switch: R11,
        place: "tree-token-2019, section V-B-2",
        description: "a RESTART to a neighbour that is down is lost, and its ADVISE never comes: \
                recovery never ends (n = 2, two crashes). Repair: the RESTART of that \
                neighbour, when it is back, does as well",
    },
];
