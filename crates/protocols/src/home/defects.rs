//! The protocol without one of its rules, each a switch at the line that differs. What goes wrong
//! was found while the protocol was designed; none is published. The protocol does
//! not look at the rules that its driver keeps (H13, H14, H18).

use kgate_core::Defects;

/// H1: an assignment of an older term is taken in.
pub const H1: Defects = Defects::bit(1);
/// H2: a report is taken in by a home that is behind in the log.
pub const H2: Defects = Defects::bit(2);
/// H3: incarnations are not looked at.
pub const H3: Defects = Defects::bit(3);
/// H4: older reports count.
pub const H4_REPORTS: Defects = Defects::bit(4);
/// H4: older assignments count.
pub const H4_ASSIGNMENTS: Defects = Defects::bit(5);
/// H5: a new home takes what nobody has claimed for free.
pub const H5: Defects = Defects::bit(6);
/// H6: a report that was made before the grant was seen counts as its return.
pub const H6_EARLY: Defects = Defects::bit(7);
/// H6: a grant that was once refused is taken out of a later assignment.
pub const H6_LATE: Defects = Defects::bit(8);
/// H6: a grant that nobody waits for is not answered.
pub const H6_SILENT: Defects = Defects::bit(9);
/// H7: a member drops what the home does not list.
pub const H7: Defects = Defects::bit(10);
/// H8: what is not certain passes for free in the closing table.
pub const H8_UNSURE: Defects = Defects::bit(11);
/// H8: an adoption that was not seen taken is in the closing table.
pub const H8_ADOPTED: Defects = Defects::bit(12);
/// H9: what was returned in one term counts in the next.
pub const H9_STALE: Defects = Defects::bit(13);
/// H9: whatever is not listed any more is free.
pub const H9_ANY: Defects = Defects::bit(14);
/// H9, H12: a lapse is called a return.
pub const H9_LAPSE: Defects = Defects::bit(15);
/// H10: cached slots are not given back.
pub const H10: Defects = Defects::bit(16);
/// H11: the first claim wins instead of the greatest.
pub const H11_FIRST: Defects = Defects::bit(17);
/// H11: the last claim wins instead of the greatest.
pub const H11_LAST: Defects = Defects::bit(18);
/// H11: an unproved adoption passes for certain.
pub const H11_SURE: Defects = Defects::bit(19);
/// H11: only the latest attempt is taken.
pub const H11_LATEST: Defects = Defects::bit(20);
/// H11: an adoption request counts also at a node that is behind the one that let the client in.
pub const H11_PAST: Defects = Defects::bit(21);
/// H11: one permit is listed twice at a node.
pub const H11_TWO: Defects = Defects::bit(22);
/// H12: a slot whose client is gone is used again here.
pub const H12: Defects = Defects::bit(23);
/// H13: the driver lets sessions lapse at once.
pub const H13: Defects = Defects::LAPSES_EARLY;
/// H14: the driver releases a grant when its durable permit is proposed.
pub const H14: Defects = Defects::RELEASES_EARLY;
/// H15: slots at or above k are cached and handed over.
pub const H15: Defects = Defects::bit(24);
/// H17: clients are let in without a lease.
pub const H17: Defects = Defects::bit(25);
/// H18: the driver evicts a process while clients believe by its lease.
pub const H18: Defects = Defects::EVICTS_EARLY;
/// The fence leaves out the term.
pub const H_FENCE: Defects = Defects::bit(26);
/// A request of smaller weight passes the first.
pub const H_FIFO: Defects = Defects::bit(27);
/// A withdrawal is not reported.
pub const H_WITHDRAW: Defects = Defects::bit(28);
/// H20: a slot is promised though the home is not sure of it.
pub const H20_UNSURE: Defects = Defects::bit(29);
/// H20: a slot whose client has lapsed is passed on.
pub const H20_LAPSE: Defects = Defects::bit(30);
/// H20: a slot that went to the log is passed on.
pub const H20_HELD: Defects = Defects::bit(31);
/// H20: the holder passes on in a later term.
pub const H20_FORGET: Defects = Defects::bit(32);
/// H20: a pass of another term is taken.
pub const H20_TERM: Defects = Defects::bit(33);
/// H20: a pass is taken although an assignment has listed its grant, which was refused.
pub const H20_TOP: Defects = Defects::bit(34);
/// H20: the promised slot becomes free at the home.
pub const H20_FREE: Defects = Defects::bit(35);
/// H20: the promised slot is granted though the log holds it.
pub const H20_RESERVED: Defects = Defects::bit(36);
/// H20: a report that lists the promised grant proves nothing.
pub const H20_PROOF: Defects = Defects::bit(37);
/// H20: a promise outlives the eviction of its member.
pub const H20_EVICT: Defects = Defects::bit(38);
/// H20: when k grows, the promise ends before the holder has answered.
pub const H20_CANCEL: Defects = Defects::bit(39);
/// H20: the closing table has the slot as the former holder's.
pub const H20_CLOSING: Defects = Defects::bit(40);
/// H21: clients of the home are let in before the witness knows.
pub const H21_EARLY: Defects = Defects::bit(41);
/// H21: adoptions are taken at the home before the witness knows.
pub const H21_ADOPTED: Defects = Defects::bit(42);
/// H21: notes of other periods are acknowledged, and such acknowledgements count.
pub const H21_PERIOD: Defects = Defects::bit(43);
/// H21: the note of an earlier period counts.
pub const H21_LAST: Defects = Defects::bit(44);
/// H21: slots outside of the note are sure before the other founders have reported.
pub const H21_OTHERS: Defects = Defects::bit(45);
/// H21: the slots in the note are sure, too.
pub const H21_NOTED: Defects = Defects::bit(46);
/// H19: no message takes a relay.
pub const H19: Defects = Defects::bit(47);
/// H19: an answer does not take the relay of what it answers.
pub const H19_ANSWER: Defects = Defects::bit(48);
/// H19: only the first relay is tried.
pub const H19_TURN: Defects = Defects::bit(49);
/// H19: of a relayed message the incarnations are not looked at.
pub const H19_INCARNATION: Defects = Defects::bit(50);
