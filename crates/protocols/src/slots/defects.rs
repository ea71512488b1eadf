//! What goes wrong without one of the rules, each a switch at the line that differs. These are
//! counterexamples that were found while the protocol was made; nobody has published them.

use kgate_core::Defects;

use crate::defects::Defect;

/// The last report that arrives counts, not the newest.
pub const S1: Defects = Defects::bit(1);
/// A process that comes back asks at once, with a clock of 0.
pub const S2: Defects = Defects::bit(2);
/// Without a log: one round of JOIN.
pub const S3: Defects = Defects::bit(3);
/// JOIN instead of the log, though nobody is left who remembers.
pub const S4: Defects = Defects::bit(4);
/// Without a log: any message of a new incarnation exempts it from being asked, and news of an
/// earlier incarnation are taken for news of this one.
pub const S5: Defects = Defects::bit(5);
/// The clock is not raised by the view.
pub const S6: Defects = Defects::bit(6);
/// Who withdraws tells nobody.
pub const S7: Defects = Defects::bit(7);
/// A relay that hears of a request too late gets no answer from its children.
pub const S8: Defects = Defects::bit(8);
/// What was kept quiet is not told when k grows.
pub const S9: Defects = Defects::bit(9);
/// A slot is kept while a request of the same process is out.
pub const S10: Defects = Defects::bit(10);
/// A request that no longer fits into k stays.
pub const S11: Defects = Defects::bit(11);
/// Messages of earlier incarnations count.
pub const S12: Defects = Defects::bit(12);
/// Whoever no relay has reached is not asked.
pub const S13: Defects = Defects::bit(13);
/// Planted: whoever is ahead is not waited for.
pub const SP1: Defects = Defects::bit(14);
/// Planted: a request does not move the receiver's clock.
pub const SP2: Defects = Defects::bit(15);
/// Planted, for the world of the tests alone: what the log holds is not reported.
pub(super) const SP3: Defects = Defects::bit(17);
/// Planted, for the world of the tests alone: what the log holds is free to whoever decides.
pub(super) const SP4: Defects = Defects::bit(18);

/// What was kept quiet: any k slots held, not the first k.
pub const S15: Defects = Defects::bit(16);

/// All, in order.
pub const ALL: [Defect; 16] = [
    Defect {
        id: "S1",
        switch: S1,
        place: "slots, reports",
        description: "an UPDATE overtakes the answer that it corrects, and the last that arrives counts: the asker waits for ever for somebody \
                who is done. Repair: reports are snapshots with a version, and the newest counts",
    },
    Defect {
        id: "S2",
        switch: S2,
        place: "slots, restart",
        description: "a process comes back with nothing and asks at once: its stamps are lower than those of requests that are out and never \
                asked it; two have a slot. Repair: it asks once it has installed the view that adds it, and clocks begin above in each view",
    },
    Defect {
        id: "S3",
        switch: S3,
        place: "slots, JOIN",
        description: "an answer to JOIN is given before its sender has seen a request that is decided without the joiner; its owner dies, and the \
                joiner's fence is lower. Repair: a second round, or views",
    },
    Defect {
        id: "S4",
        switch: S4,
        place: "slots, JOIN",
        description: "all processes come back and only tell each other so: nobody remembers the last fence. Nothing helps without a log or a \
                stable store; views pass",
    },
    Defect {
        id: "S5",
        switch: S5,
        place: "slots, JOIN",
        description: "news that an earlier incarnation has crashed are taken for news of the present one: who is back is struck off, its second JOIN is not \
                answered, and it waits for ever. Besides, any message of a new incarnation exempts it from being asked, though its clock may be low. \
                Repair: a detector speaks of a process in one incarnation, and only JOIN or the log exempts",
    },
    Defect {
        id: "S6",
        switch: S6,
        place: "slots, views",
        description: "clocks go on as they were when a view is installed: who is added may have a lower stamp than requests that did not ask it. \
                Repair: the view is the high part of the clock",
    },
    Defect {
        id: "S7",
        switch: S7,
        place: "slots, withdraw",
        description: "who gives up tells nobody: those behind wait for it for ever. Repair: it is told as every change is",
    },
    Defect {
        id: "S8",
        switch: S8,
        place: "slots, tree",
        description: "a request reaches a relay late, its children have heard of a newer one and ignore it: the relay waits for ever. Repair: an \
                empty answer",
    },
    Defect {
        id: "S9",
        switch: S9,
        place: "slots, quiet",
        description: "a decision that left nothing free was not told, then k grows: nobody learns that there is something now. Repair: look \
                again when k changes",
    },
    Defect {
        id: "S10",
        switch: S10,
        place: "slots, idle keep",
        description: "a process keeps a slot that nobody asked for while its own request is out, and that needs the slot: it waits for itself. \
                Repair: keep only without a request",
    },
    Defect {
        id: "S11",
        switch: S11,
        place: "slots, resize",
        description: "k becomes less than a request wants: it waits for ever, and everybody behind it. Repair: it fails",
    },
    Defect {
        id: "S12",
        switch: S12,
        place: "slots, incarnations",
        description: "a request of an earlier incarnation counts for one of the present incarnation. Without a log the clock may begin again below it: the present \
                request seems to be an old one, and nobody answers it. Repair: each message says which incarnation speaks. (With the log, \
                views keep the clocks apart; and a late report does no harm, since whoever is back is exempt, and an empty answer is final)",
    },
    Defect {
        id: "S13",
        switch: S13,
        place: "slots, tree",
        description: "a member that no relay knew of, or that was below one that died, is never asked. Repair: when the tree is done, whoever \
                has not answered is asked directly",
    },
    Defect {
        id: "S15",
        switch: S15,
        place: "slots, quiet",
        description: "k has shrunk, and who is decided has as many slots as there are, but some beyond k: it takes that for all of them and tells \
                nobody, though one below k is free. Repair: quiet only if every slot below k is held",
    },
    Defect {
        id: "SP1",
        switch: SP1,
        place: "slots, planted",
        description: "whoever is ahead is not waited for: planted, to see that the checkers work",
    },
    Defect {
        id: "SP2",
        switch: SP2,
        place: "slots, planted",
        description: "a request does not move the clock of who receives it: planted, to see that the checkers work",
    },
];
