//! The rules of a lease, one by one: N1 to N7, R4, and a node alone.

use kgate_core::{Incarnation, Span, Time};

use super::hall::{
    BEGIN, Hall, INCARNATION, TIMING, answer, asked, hear, joint, leases, ms, node, ping, terms,
    tick, voters,
};
use crate::lease::{LeaseEffect, LeaseMessage, Leases, MissingShare, Refusal};
use crate::membership::{LeaseTerms, MembershipChange, StoreId};
use crate::voters::Voters;

const THREE: [u32; 3] = [0, 1, 2];

/// A member that does not vote, and the numbers of two pings of it, half a second apart.
fn pinged_twice() -> (Leases, u64, u64) {
    let mut p = leases(BEGIN, 5, &THREE, &[5]);
    let first = ping(&mut p, BEGIN);
    let second = ping(&mut p, BEGIN + ms(500));
    (p, first, second)
}

/// N1: an answer counts from the sending of its ping, however late it comes; lost, doubled and
/// foreign ones do no harm.
#[test]
fn n1_from_the_sending() {
    let (mut p, first, _) = pinged_twice();
    let late = BEGIN + ms(3000);
    hear(&mut p, late, 0, answer(0, first, voters(1, &THREE)));
    hear(&mut p, late, 0, answer(0, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO, "one voter twice is no quorum");
    hear(&mut p, late, 1, answer(1, first + 100, voters(1, &THREE)));
    hear(&mut p, late, 9, answer(9, first, voters(1, &THREE)));
    let former = LeaseMessage::Answer {
        incarnation: Incarnation(0),
        seq: first,
        store: StoreId(1),
        voters: voters(1, &THREE),
        committed: 2,
    };
    hear(&mut p, late, 1, former);
    assert_eq!(p.end(), Time::ZERO, "a ping never sent, a node never asked, another incarnation");
    hear(&mut p, late, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
}

/// N2: the lease ends L after the greatest t such that a quorum has answered pings sent at or after
/// t. N5: exactly then.
#[test]
fn n2_the_best_quorum() {
    let (mut p, first, second) = pinged_twice();
    let now = BEGIN + ms(600);
    hear(&mut p, now, 0, answer(0, second, voters(1, &THREE)));
    hear(&mut p, now, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
    hear(&mut p, now, 2, answer(2, second, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4500));
    hear(&mut p, now, 2, answer(2, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4500), "an older answer takes nothing back");
    assert!(p.holds(Time(p.end().0 - 1)) && !p.holds(p.end()) && p.may_grant(now));
}

/// N2: a voter answers itself, by the same rules: with one other of three it has a lease, suspected
/// it has none.
#[test]
fn n2_the_own_vote() {
    let mut p = leases(BEGIN, 0, &THREE, &[0]);
    let first = ping(&mut p, BEGIN);
    hear(&mut p, BEGIN, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
    let mut p = leases(BEGIN, 0, &THREE, &[0]);
    p.membership_changed(BEGIN, MembershipChange::Suspected(node(0), INCARNATION, 3));
    let first = ping(&mut p, BEGIN);
    hear(&mut p, BEGIN, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO);
}

/// N3: only a member that is not suspected is answered, in that very incarnation.
#[test]
fn n3_who_is_answered() {
    let mut voter = leases(BEGIN, 0, &THREE, &[5]);
    let refused = |voter: &mut Leases, from| match asked(voter, BEGIN, from, 7) {
        LeaseMessage::Refusal { why, seq: 7, .. } => Some(why),
        LeaseMessage::Answer { seq: 7, .. } => None,
        LeaseMessage::Ping { .. }
        | LeaseMessage::Answer { .. }
        | LeaseMessage::Refusal { .. }
        | LeaseMessage::Promise { .. }
        | LeaseMessage::SilenceQuery { .. }
        | LeaseMessage::SilenceReply { .. } => panic!("no reply to that ping"),
    };
    assert_eq!(refused(&mut voter, 5), None);
    assert_eq!(refused(&mut voter, 6), Some(Refusal::NotMember));
    voter.membership_changed(BEGIN, MembershipChange::Suspected(node(5), INCARNATION, 3));
    assert_eq!(refused(&mut voter, 5), Some(Refusal::Suspected(3)));
    voter.membership_changed(BEGIN, MembershipChange::Unsuspected(node(5), INCARNATION));
    assert_eq!(refused(&mut voter, 5), None);
    voter.membership_changed(BEGIN, MembershipChange::Gone(node(5), INCARNATION));
    assert_eq!(refused(&mut voter, 5), Some(Refusal::NotMember));
    voter.membership_changed(BEGIN, MembershipChange::Added(node(5), Incarnation(2), terms()));
    assert_eq!(refused(&mut voter, 5), Some(Refusal::NotMember), "that is another incarnation");
}

/// N4: a voter with newer voters in its log than it has applied is silent; then it shows them. N7:
/// who does not vote gives no share.
#[test]
fn n4_who_may_answer() {
    let mut voter = leases(BEGIN, 0, &THREE, &[5]);
    voter.voters_appended(BEGIN, joint(3, &THREE, &[0, 3, 4]));
    let behind = LeaseMessage::Refusal { incarnation: INCARNATION, seq: 7, why: Refusal::Behind };
    assert_eq!(asked(&mut voter, BEGIN, 5, 7), behind);
    voter.voters_applied(BEGIN, joint(3, &THREE, &[0, 3, 4]));
    voter.applied(BEGIN, 3);
    assert_eq!(asked(&mut voter, BEGIN, 5, 7), with(answer(0, 7, joint(3, &THREE, &[0, 3, 4])), 3));
    voter.voters_appended(BEGIN, voters(4, &[3, 4]));
    voter.voters_applied(BEGIN, voters(4, &[3, 4]));
    voter.applied(BEGIN, 4);
    let out = LeaseMessage::Refusal {
        incarnation: INCARNATION,
        seq: 7,
        why: Refusal::NotVoter(voters(4, &[3, 4])),
    };
    assert_eq!(asked(&mut voter, BEGIN, 5, 7), out);
    let mut unknowing = Leases::new(BEGIN, node(0), INCARNATION, StoreId(0), TIMING);
    assert_eq!(asked(&mut unknowing, BEGIN, 5, 7), behind);
}

fn with(mut answer: LeaseMessage, index: u64) -> LeaseMessage {
    if let LeaseMessage::Answer { committed, .. } = &mut answer {
        *committed = index;
    }
    answer
}

/// N4: the quorum is one of the newest voters that any answer shows, of both sets while they
/// change; they are pinged at once.
#[test]
fn n4_the_newest_voters_count() {
    let (mut p, first, _) = pinged_twice();
    let now = BEGIN + ms(600);
    hear(&mut p, now, 0, answer(0, first, voters(1, &THREE)));
    hear(&mut p, now, 2, answer(2, first, joint(3, &THREE, &[2, 3, 4])));
    assert_eq!(p.end(), Time::ZERO, "two of three old ones, one of three new ones");
    let to_new = |effects: &[LeaseEffect]| {
        effects.iter().any(|effect| matches!(effect, LeaseEffect::Send(to, _) if *to == node(4)))
    };
    assert!(to_new(&tick(&mut p, now)));
    hear(&mut p, now, 3, answer(3, first, joint(3, &THREE, &[2, 3, 4])));
    assert_eq!(p.end(), BEGIN + ms(4000));
}

/// N4: the voters in p's own log count too, applied or not. Those not applied add to the others:
/// alone they prove nothing, for the shares may be older than they are.
#[test]
fn n4_own_voters_add() {
    let (mut p, first, _) = pinged_twice();
    let now = BEGIN + ms(600);
    p.voters_appended(now, voters(4, &[2]));
    hear(&mut p, now, 2, answer(2, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO, "a majority of the new ones, not of the old ones");
    hear(&mut p, now, 0, answer(0, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
    let (mut p, first, _) = pinged_twice();
    p.voters_appended(now, voters(4, &[2]));
    hear(&mut p, now, 0, answer(0, first, voters(1, &THREE)));
    hear(&mut p, now, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO, "a majority of the old ones, not of the new ones");
    p.voters_appended(now, voters(1, &THREE));
    assert_eq!(p.end(), BEGIN + ms(4000), "they were overwritten: never committed");
}

/// N4: voters that a refusal names are pinged, never counted: they may be newer than p's own
/// eviction.
#[test]
fn n4_refusals_count_nothing() {
    let (mut p, first, _) = pinged_twice();
    let now = BEGIN + ms(600);
    let out = LeaseMessage::Refusal {
        incarnation: INCARNATION,
        seq: first,
        why: Refusal::NotVoter(voters(9, &[2])),
    };
    hear(&mut p, now, 0, out);
    hear(&mut p, now, 2, answer(2, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO);
}

/// N6: a node that stays behind an index heard of more than a second ago grants nothing new, and
/// keeps what it has.
#[test]
fn n6_behind() {
    let (mut p, first, _) = pinged_twice();
    let now = BEGIN + ms(600);
    hear(&mut p, now, 0, with(answer(0, first, voters(1, &THREE)), 9));
    hear(&mut p, now, 1, with(answer(1, first, voters(1, &THREE)), 12));
    assert!(p.may_grant(now + ms(1000)) && !p.may_grant(now + ms(1001)) && p.holds(now + ms(1001)));
    p.applied(now + ms(1100), 9);
    assert!(!p.may_grant(now + ms(1101)), "12 was heard of as long ago");
    p.applied(now + ms(1200), 12);
    assert!(p.may_grant(now + ms(1201)));
    assert_eq!(p.status(now).behind, None);
}

/// Section 1: after a jump of the clock nothing is granted until a quorum answers pings sent since;
/// what was granted stays.
#[test]
fn a_jump_of_the_clock() {
    let (mut p, first, second) = pinged_twice();
    for voter in [0, 1] {
        hear(&mut p, BEGIN + ms(600), voter, answer(voter, second, voters(1, &THREE)));
    }
    let jump = BEGIN + ms(700);
    p.clock_jumped(jump);
    assert!(!p.may_grant(jump) && p.holds(jump) && p.status(jump).doubt);
    hear(&mut p, jump, 2, answer(2, first, voters(1, &THREE)));
    assert!(!p.may_grant(jump));
    let third = ping(&mut p, jump);
    for voter in [0, 1] {
        hear(&mut p, jump + ms(5), voter, answer(voter, third, voters(1, &THREE)));
    }
    assert!(p.may_grant(jump + ms(5)));
}

/// R4: a voter that comes back with another store has forgotten what it promised: its answers do
/// not count.
#[test]
fn r4_a_foreign_store() {
    let (mut p, first, second) = pinged_twice();
    let now = BEGIN + ms(600);
    hear(&mut p, now, 0, answer(0, first, voters(1, &THREE)));
    hear(&mut p, now, 1, answer(1, first, voters(1, &THREE)));
    let forgotten = LeaseMessage::Answer {
        incarnation: INCARNATION,
        seq: second,
        store: StoreId(77),
        voters: voters(1, &THREE),
        committed: 2,
    };
    hear(&mut p, now, 0, forgotten);
    hear(&mut p, now, 1, answer(1, second, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
    let later = p.status(BEGIN + ms(4100));
    assert!(later.missing.contains(&(node(0), MissingShare::OtherStore)), "{later}");
}

/// The length of a lease is what the log says of that incarnation, whatever the configuration says
/// now.
#[test]
fn the_terms_of_the_log() {
    let mut p = Leases::new(BEGIN, node(5), INCARNATION, StoreId(5), TIMING);
    p.voters_applied(BEGIN, voters(1, &THREE));
    p.voters_appended(BEGIN, voters(1, &THREE));
    let short = LeaseTerms { lease: ms(1000), ..terms() };
    let first = ping(&mut p, BEGIN);
    for voter in [0, 1] {
        hear(&mut p, BEGIN, voter, answer(voter, first, voters(1, &THREE)));
    }
    assert_eq!(p.end(), Time::ZERO, "not a member yet, as far as it knows");
    p.membership_changed(BEGIN, MembershipChange::Added(node(5), INCARNATION, short));
    assert_eq!(p.end(), BEGIN + ms(1000));
    p.membership_changed(BEGIN, MembershipChange::Gone(node(5), INCARNATION));
    assert_eq!(p.end(), Time::ZERO, "an evicted incarnation has no lease");
}

/// Section 6: one voter has an endless lease by its own vote, until it is suspected or others vote
/// too; then it has L from that instant.
#[test]
fn alone() {
    let mut p = leases(BEGIN, 0, &[0], &[0]);
    let much_later = BEGIN + ms(3_600_000);
    assert!(p.end() == Time::NEVER && p.may_grant(much_later));
    p.clock_jumped(much_later);
    assert!(p.may_grant(much_later));
    assert_eq!(p.status(much_later).to_string(), "own vote, endless lease; 1 of 1 voters answer");
    let mut suspected = p.clone();
    suspected.membership_changed(much_later, MembershipChange::Suspected(node(0), INCARNATION, 3));
    assert_eq!(suspected.end(), much_later + ms(4000));
    p.voters_appended(much_later, joint(3, &[0], &[0, 1]));
    assert_eq!(p.end(), much_later + ms(4000));
}

/// Section 6: of two voters both are needed.
#[test]
fn two_voters() {
    let mut hall = Hall::new(2, &[0, 1]);
    hall.pass(ms(1000));
    let now = hall.now;
    assert!(hall.of(0).may_grant(now) && hall.of(1).may_grant(now));
    hall.cut.insert(node(1));
    hall.pass(ms(4000));
    let now = hall.now;
    assert!(!hall.of(0).holds(now) && !hall.of(1).holds(now));
    assert_eq!(
        hall.of(0).status(now).to_string(),
        "no lease; 1 of 2 voters answer, p1 does not answer"
    );
}

/// Whatever the voters of a cluster, everybody has a lease as long as a majority is there, and only
/// then.
#[test]
fn majorities_suffice() {
    for votes in [&[0][..], &THREE, &[0, 1, 2, 3, 4]] {
        let mut hall = Hall::new(6, votes);
        let minority = (votes.len() - 1) / 2;
        hall.cut.extend(votes.iter().take(minority).map(|id| node(*id)));
        hall.pass(ms(6000));
        let now = hall.now;
        assert!(hall.of(5).may_grant(now));
        hall.cut.extend(votes.iter().map(|id| node(*id)));
        hall.pass(ms(4010));
        let now = hall.now;
        assert!(!hall.of(5).holds(now));
    }
}

/// Junk is dropped: voters beyond measure, answers and promises of strangers. Nothing is kept of
/// who was never asked.
#[test]
fn junk() {
    let (mut p, first, _) = pinged_twice();
    let before = p.clone();
    let absurd = Voters { at: 99, sets: vec![(0..100).map(node).collect()] };
    let many = Voters { at: 99, sets: vec![[node(0)].into(); 3] };
    for shown in [absurd.clone(), many] {
        hear(&mut p, BEGIN, 0, answer(0, first, shown));
    }
    for stranger in 10..200 {
        hear(&mut p, BEGIN, stranger, answer(stranger, first, voters(1, &THREE)));
        let why = Refusal::NotVoter(absurd.clone());
        hear(
            &mut p,
            BEGIN,
            stranger,
            LeaseMessage::Refusal { incarnation: INCARNATION, seq: first, why },
        );
        let promise = LeaseMessage::Promise {
            node: node(5),
            incarnation: INCARNATION,
            at: 3,
            age: Span(u64::MAX),
        };
        hear(&mut p, BEGIN, stranger, promise);
        let unheard = LeaseMessage::SilenceReply {
            node: node(5),
            incarnation: INCARNATION,
            silence: Span(u64::MAX),
        };
        hear(&mut p, BEGIN, stranger, unheard);
        hear(
            &mut p,
            BEGIN,
            stranger,
            LeaseMessage::SilenceQuery { node: node(stranger), incarnation: INCARNATION },
        );
    }
    assert_eq!(p, before);
}
