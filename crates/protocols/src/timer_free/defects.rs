//! The published defects of timer-free-2009 that can be switched back on.
//!
//! T5 (f >= k blocks) is refused by the driver, T6 (responsiveness violated) cannot be repaired,
//! and T8 (idle processes detect nothing) is repaired by a setting, not by a line: see the head of
//! [`timer_free`](super).

use kgate_core::Defects;

use crate::defects::Defect;

/// Equal clocks: no process comes first.
pub const T1: Defects = Defects::bit(17);
/// A REPLY does not say which request it answers.
pub const T2: Defects = Defects::bit(18);
/// The first request of each pending process is answered, not the newest.
pub const T3: Defects = Defects::bit(19);
/// A request takes its stamp some time after it has begun.
pub const T4: Defects = Defects::bit(20);
/// A release does not answer processes that are considered crashed.
pub const T7: Defects = Defects::bit(23);

/// All of them, in order.
pub const ALL: [Defect; 5] = [
    Defect {
        id: "T1",
        switch: T1,
        place: "timer-free-2009, footnote 1",
        description: "equal clocks are ordered by `i = j`, which no two processes are: both permit \
                each other and enter (no fault, n = 2, k = 1). Repair: the smaller id comes \
                first",
    },
    Defect {
        id: "T2",
        switch: T2,
        place: "timer-free-2009, Algorithm 1 lines 18, 29, 32 and 33",
        description: "a REPLY does not carry the clock of its request (the text says that it \
                should, the code does not): a late PERM counts for the next request, more \
                than k inside (no fault, n = 3, k = 2). Repair: it does",
    },
    Defect {
        id: "T3",
        switch: T3,
        place: "timer-free-2009, Algorithm 1 lines 19 and 30",
        description: "pending is a set: once a process is in, its next request adds nothing, and \
                the release permits one that is long over. Its owner waits for ever (one \
                crash, n = 3, k = 2). Repair: keep the newest clock of each",
    },
    Defect {
        id: "T4",
        switch: T4,
        place: "timer-free-2009, Algorithm 1 lines 7-14",
        description: "between line 7 and line 10 a request comes in and is compared with the stamp \
                of our last one: both put each other off and wait for ever (no fault, n = 2, \
                k = 1). Repair: lines 7-14 are one step",
    },
    Defect {
        id: "T7",
        switch: T7,
        place: "timer-free-2009, Algorithm 1 line 17",
        description: "a release does not answer those in crashed_i: a process that is suspected \
                wrongly waits for ever. Repair: every pending process is answered; a crashed \
                one ignores it",
    },
];
