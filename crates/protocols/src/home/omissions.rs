//! The omissions by name, for the laboratory: what each rule that is left out breaks.

use super::defects::*;
use crate::defects::Defect;

/// All, in order.
pub const ALL: [Defect; 31] = [
    Defect {
        id: "H1",
        switch: H1,
        place: "home, H1",
        description: "an assignment of an older term is taken in: a slot of the term before and \
            the same slot of this one have two holders. Repair: a member takes in only \
            assignments of its own term",
    },
    Defect {
        id: "H2",
        switch: H2,
        place: "home, H2",
        description: "a report is taken in by a home that is behind in the log: it grants a slot \
            that the log has reserved meanwhile. Repair: a report counts only when its home has \
            applied as much of the log",
    },
    Defect {
        id: "H3",
        switch: H3,
        place: "home, H3",
        description: "incarnations are not looked at: messages to and from a process that has \
            died count, and a fence does not grow. Repair: messages name both incarnations",
    },
    Defect {
        id: "H4A",
        switch: H4_REPORTS,
        place: "home, H4",
        description: "older reports count: a request that is long gone, or missing, stays so for \
            ever. Repair: reports have versions, and only newer ones count",
    },
    Defect {
        id: "H4B",
        switch: H4_ASSIGNMENTS,
        place: "home, H4",
        description: "older assignments count: a recall is forgotten, or never ends. Repair: \
            assignments have versions, and only newer ones count",
    },
    Defect {
        id: "H5",
        switch: H5,
        place: "home, H5",
        description: "a new home takes for free what nobody has claimed: two holders. Repair: a \
            slot is granted only if every founder of the term has said what it has",
    },
    Defect {
        id: "H6A",
        switch: H6_EARLY,
        place: "home, H6",
        description: "a report that was made before the grant was seen counts as its return: two \
            holders. Repair: a grant is returned by a report that was made after its assignment",
    },
    Defect {
        id: "H6B",
        switch: H6_LATE,
        place: "home, H6",
        description: "a grant that was refused is taken out of a later assignment: two holders. \
            Repair: a grant is taken out of the first assignment that lists it, or never",
    },
    Defect {
        id: "H6C",
        switch: H6_SILENT,
        place: "home, H6",
        description: "a grant that nobody waits for is not answered: its slot stays behind. \
            Repair: a member says that it has not taken a grant",
    },
    Defect {
        id: "H7",
        switch: H7,
        place: "home, H7",
        description: "a member drops what the home does not list: a client still uses it. Repair: \
            only its client, or its deadline, ends a hold",
    },
    Defect {
        id: "H8A",
        switch: H8_UNSURE,
        place: "home, H8",
        description: "what the old home was not sure of passes for free in its closing table: two \
            holders. Repair: it is left out of the table",
    },
    Defect {
        id: "H8B",
        switch: H8_ADOPTED,
        place: "home, H8",
        description: "an adoption that was not seen taken is in the closing table: its client is \
            still elsewhere, and the slot is freed. Repair: it counts as unknown",
    },
    Defect {
        id: "H9A",
        switch: H9_STALE,
        place: "home, H9",
        description: "what was returned in one term counts in the next, where the slot may have \
            been granted since: two holders. Repair: it is forgotten with its term",
    },
    Defect {
        id: "H9B",
        switch: H9_ANY,
        place: "home, H9",
        description: "whatever is not listed any more is free, although another process has \
            adopted it: two holders. Repair: only what its client has returned is free",
    },
    Defect {
        id: "H9C",
        switch: H9_LAPSE,
        place: "home, H9, H12",
        description: "a lapse is called a return, although the client has been adopted elsewhere: \
            two holders. Repair: a lapse leaves the slot unknown",
    },
    Defect {
        id: "H10",
        switch: H10,
        place: "home, H10",
        description: "cached slots are not given back when others wait: those wait for ever. \
            Repair: a recall returns them",
    },
    Defect {
        id: "H11A",
        switch: H11_FIRST,
        place: "home, H11",
        description: "the first claim to a slot wins instead of the greatest grant: two holders. \
            Repair: the greatest wins",
    },
    Defect {
        id: "H11B",
        switch: H11_LAST,
        place: "home, H11",
        description: "the last claim to a slot wins instead of the greatest grant: two holders. \
            Repair: the greatest wins",
    },
    Defect {
        id: "H11C",
        switch: H11_SURE,
        place: "home, H11",
        description: "an adoption without proof passes for certain: the true holder is not heard \
            any more. Repair: the slot stays uncertain",
    },
    Defect {
        id: "H11D",
        switch: H11_LATEST,
        place: "home, H11",
        description: "only the latest attempt is taken: an earlier one is returned while its \
            client is inside. Repair: every attempt up to the latest is taken",
    },
    Defect {
        id: "H11E",
        switch: H11_PAST,
        place: "home, H11",
        description: "an adoption request counts at a process that is behind the one that let the \
            client in. Repair: it waits until as much of the log has been applied",
    },
    Defect {
        id: "H11F",
        switch: H11_TWO,
        place: "home, H11",
        description: "one permit is listed twice at a process, and the wrong one is used. Repair: \
            it is listed once, by its latest attempt",
    },
    Defect {
        id: "H12",
        switch: H12,
        place: "home, H12",
        description: "a slot whose client is gone is used again at its process: its client is \
            inside elsewhere. Repair: only what its client has released is used again",
    },
    Defect {
        id: "H13",
        switch: H13,
        place: "home, H13, the driver",
        description: "a session lapses at its deadline, before all is applied that the log had \
            decided by then: its slot is freed by a home that does not know of the client's \
            adoption. Repair: it lapses behind a barrier",
    },
    Defect {
        id: "H14",
        switch: H14,
        place: "home, H14, the driver",
        description: "a grant is released when its durable permit is proposed: others get its \
            slots before the log holds them. Repair: it is released after the log holds it",
    },
    Defect {
        id: "H15",
        switch: H15,
        place: "home, H15",
        description: "slots at or above k are cached and handed over. Repair: they are returned",
    },
    Defect {
        id: "H17",
        switch: H17,
        place: "home, H17",
        description: "clients are let in without a lease: they believe although their process is \
            evicted. Repair: a lease is needed at that instant",
    },
    Defect {
        id: "H18",
        switch: H18,
        place: "home, H18, the driver",
        description: "a process is evicted while clients believe by its lease: two holders. \
            Repair: it is evicted only when none does",
    },
    Defect {
        id: "HP2",
        switch: H_FENCE,
        place: "home, P2",
        description: "the fence leaves out the term: it does not grow from term to term. Repair: \
            it begins with the term",
    },
    Defect {
        id: "HP3",
        switch: H_FIFO,
        place: "home, P3",
        description: "a request of smaller weight passes the first. Repair: only the first \
            request is served",
    },
    Defect {
        id: "HP5",
        switch: H_WITHDRAW,
        place: "home, P5",
        description: "a withdrawal is not reported: the request stays in the queue. Repair: it is \
            reported",
    },
];
