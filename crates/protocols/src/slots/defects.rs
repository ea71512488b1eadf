//! The counterexamples to the protocol without one of its rules, each a switch at the line that
//! differs. They were found while the protocol was designed; none is published.

use kgate_core::Defects;

use crate::defects::Defect;

/// The last report to arrive counts, not the newest.
pub const S1: Defects = Defects::bit(1);
/// A returning process requests at once, with a clock of 0.
pub const S2: Defects = Defects::bit(2);
/// Without a log: one round of JOIN.
pub const S3: Defects = Defects::bit(3);
/// JOIN instead of the log, though no process is left that remembers.
pub const S4: Defects = Defects::bit(4);
/// Without a log: any message of a new incarnation exempts it from being asked, and the crash of an
/// earlier incarnation counts as one of the present incarnation.
pub const S5: Defects = Defects::bit(5);
/// The clock is not raised by the view.
pub const S6: Defects = Defects::bit(6);
/// A withdrawal is not announced.
pub const S7: Defects = Defects::bit(7);
/// A relay that receives a request too late gets no answer from its children.
pub const S8: Defects = Defects::bit(8);
/// A decision that was not announced stays unannounced when k grows.
pub const S9: Defects = Defects::bit(9);
/// A slot stays cached while a request of the same process is out.
pub const S10: Defects = Defects::bit(10);
/// A request whose weight exceeds k stays.
pub const S11: Defects = Defects::bit(11);
/// Messages of earlier incarnations count.
pub const S12: Defects = Defects::bit(12);
/// A process that no relay has reached is not asked.
pub const S13: Defects = Defects::bit(13);
/// Planted: a requester does not wait for processes that are ahead.
pub const SP1: Defects = Defects::bit(14);
/// Planted: a request does not move the receiver's clock.
pub const SP2: Defects = Defects::bit(15);
/// Planted, for the test harness alone: slots that the log holds are not reported.
pub(super) const SP3: Defects = Defects::bit(17);
/// Planted, for the test harness alone: slots that the log holds are free to the process that
/// decides.
pub(super) const SP4: Defects = Defects::bit(18);

/// A decision is not announced: any k slots held, not the first k.
pub const S15: Defects = Defects::bit(16);

/// All, in order.
pub const ALL: [Defect; 16] = [
    Defect {
        id: "S1",
        switch: S1,
        place: "slots, reports",
        description: "an UPDATE overtakes the answer that it corrects, and the last to arrive \
                counts: the requester waits for ever for a process that has finished. \
                Repair: reports are snapshots with a version, and the newest counts",
    },
    Defect {
        id: "S2",
        switch: S2,
        place: "slots, restart",
        description: "a process returns without state and requests at once: its stamps are lower \
                than those of requests that are out and never asked it; a slot has two \
                holders. Repair: it requests once it has installed the view that adds it, \
                and clocks continue above all earlier ones in each view",
    },
    Defect {
        id: "S3",
        switch: S3,
        place: "slots, JOIN",
        description: "an answer to JOIN is given before its sender has seen a request that is \
                decided without the joiner; its owner crashes, and the joiner's fence is \
                lower. Repair: a second round, or views",
    },
    Defect {
        id: "S4",
        switch: S4,
        place: "slots, JOIN",
        description: "all processes return and only announce themselves to each other: no process \
                remembers the last fence. Nothing repairs that without a log or stable \
                storage; views do",
    },
    Defect {
        id: "S5",
        switch: S5,
        place: "slots, JOIN",
        description: "the crash of an earlier incarnation counts as one of the present \
                incarnation: the returned process is removed, its second JOIN is not \
                answered, and it waits for ever. Besides, any message of a new incarnation \
                exempts it from being asked, though its clock may be low. Repair: a detector \
                names the incarnation, and only JOIN or the log exempts",
    },
    Defect {
        id: "S6",
        switch: S6,
        place: "slots, views",
        description: "clocks continue unchanged when a view is installed: a new member may have a \
                lower stamp than requests that did not ask it. Repair: the view is the high \
                part of the clock",
    },
    Defect {
        id: "S7",
        switch: S7,
        place: "slots, withdraw",
        description: "a withdrawal is not announced: the requests behind it wait for ever. Repair: \
                it is announced as every change is",
    },
    Defect {
        id: "S8",
        switch: S8,
        place: "slots, tree",
        description: "a request reaches a relay late, its children have seen a newer one and \
                ignore it: the relay waits for ever. Repair: an empty answer",
    },
    Defect {
        id: "S9",
        switch: S9,
        place: "slots, quiet",
        description: "a decision that left no slot free was not announced, then k grows: no \
                process learns that a slot is free now. Repair: check again when k changes",
    },
    Defect {
        id: "S10",
        switch: S10,
        place: "slots, idle keep",
        description: "a process caches a slot that no other one requested while its own request is \
                out, and that request needs the slot: it waits for itself. Repair: cache \
                only without a request",
    },
    Defect {
        id: "S11",
        switch: S11,
        place: "slots, resize",
        description: "k becomes less than the weight of a request: it waits for ever, and so do \
                all behind it. Repair: it fails",
    },
    Defect {
        id: "S12",
        switch: S12,
        place: "slots, incarnations",
        description: "a request of an earlier incarnation counts as one of the present \
                incarnation. Without a log the clock may begin again below it: the present \
                request seems to be an old one, and no process answers it. Repair: each \
                message names the incarnation of its sender. (With the log, views keep the \
                clocks apart; and a late report does no harm, since a returned process is \
                exempt, and an empty answer is final)",
    },
    Defect {
        id: "S13",
        switch: S13,
        place: "slots, tree",
        description: "a member that no relay knew of, or that was below one that crashed, is never \
                asked. Repair: when the tree is complete, the processes that have not \
                answered are asked directly",
    },
    Defect {
        id: "S15",
        switch: S15,
        place: "slots, quiet",
        description: "k has shrunk, and the decided process has as many slots as there are, but \
                some beyond k: it takes that for all of them and announces nothing, though \
                one below k is free. Repair: no announcement only if every slot below k is \
                held",
    },
    Defect {
        id: "SP1",
        switch: SP1,
        place: "slots, planted",
        description: "a requester does not wait for processes that are ahead: planted, to show \
                that the checkers work",
    },
    Defect {
        id: "SP2",
        switch: SP2,
        place: "slots, planted",
        description: "a request does not move the clock of its receiver: planted, to show that the \
                checkers work",
    },
];
