//! The rules of a lease, one by one: N1 to N7, R4, and a node alone.

use kgate_core::{Incarnation, Span, Time};

use super::fixture::{
    BEGIN, Fixture, INCARNATION, TIMING, answer, deliver, joint, leases, ms, node, ping,
    reply_to_ping, terms, tick, voters,
};
use crate::lease::{LeaseEffect, LeaseMessage, Leases, MissingShare, Refusal};
use crate::membership::{LeaseTerms, MembershipChange, StoreId};
use crate::voters::Voters;

const THREE: [u32; 3] = [0, 1, 2];

/// A member that does not vote, and the numbers of two pings that it sent half a second apart.
fn pinged_twice() -> (Leases, u64, u64) {
    let mut p = leases(BEGIN, 5, &THREE, &[5]);
    let first = ping(&mut p, BEGIN);
    let second = ping(&mut p, BEGIN + ms(500));
    (p, first, second)
}

/// N1: an answer counts from the sending of its ping, however late it comes. Lost, duplicated and
/// foreign answers do no harm.
#[test]
fn n1_an_answer_counts_from_the_sending() {
    let (mut p, first, _) = pinged_twice();
    let late = BEGIN + ms(3000);
    deliver(&mut p, late, 0, answer(0, first, voters(1, &THREE)));
    deliver(&mut p, late, 0, answer(0, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO, "one voter twice is no quorum");
    deliver(&mut p, late, 1, answer(1, first + 100, voters(1, &THREE)));
    deliver(&mut p, late, 9, answer(9, first, voters(1, &THREE)));
    let former = LeaseMessage::Answer {
        incarnation: Incarnation(0),
        seq: first,
        store: StoreId(1),
        voters: voters(1, &THREE),
        committed: 2,
    };
    deliver(&mut p, late, 1, former);
    assert_eq!(p.end(), Time::ZERO, "a ping never sent, a node never asked, another incarnation");
    deliver(&mut p, late, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
}

/// N2: the lease ends L after the greatest t such that a quorum has answered pings sent at or after
/// t. N5: it ends at exactly that instant.
#[test]
fn n2_the_best_quorum_counts() {
    let (mut p, first, second) = pinged_twice();
    let now = BEGIN + ms(600);
    deliver(&mut p, now, 0, answer(0, second, voters(1, &THREE)));
    deliver(&mut p, now, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
    deliver(&mut p, now, 2, answer(2, second, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4500));
    deliver(&mut p, now, 2, answer(2, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4500), "an older answer does not shorten the lease");
    assert!(p.holds(Time(p.end().0 - 1)) && !p.holds(p.end()) && p.may_grant(now));
}

/// N2: a voter answers itself by the same rules. With one other of three voters it has a lease; if
/// it is suspected it has none.
#[test]
fn n2_a_voter_answers_itself() {
    let mut p = leases(BEGIN, 0, &THREE, &[0]);
    let first = ping(&mut p, BEGIN);
    deliver(&mut p, BEGIN, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
    let mut p = leases(BEGIN, 0, &THREE, &[0]);
    p.membership_changed(BEGIN, MembershipChange::Suspected(node(0), INCARNATION, 3));
    let first = ping(&mut p, BEGIN);
    deliver(&mut p, BEGIN, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO);
}

/// N3: a voter answers only an incarnation that is a member and not suspected.
#[test]
fn n3_only_trusted_members_are_answered() {
    let mut voter = leases(BEGIN, 0, &THREE, &[5]);
    let refused = |voter: &mut Leases, from| match reply_to_ping(voter, BEGIN, from, 7) {
        LeaseMessage::Refusal { reason, seq: 7, .. } => Some(reason),
        LeaseMessage::Answer { seq: 7, .. } => None,
        LeaseMessage::Ping { .. }
        | LeaseMessage::Answer { .. }
        | LeaseMessage::Refusal { .. }
        | LeaseMessage::Promise { .. }
        | LeaseMessage::SilenceQuery { .. }
        | LeaseMessage::SilenceReply { .. } => panic!("not a reply to that ping"),
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
    assert_eq!(
        refused(&mut voter, 5),
        Some(Refusal::NotMember),
        "another incarnation is the member"
    );
}

/// N4: a voter whose log has newer voters than it has applied gives no share; once it has applied
/// them it shows them. N7: a node that does not vote gives no share.
#[test]
fn n4_a_voter_that_is_behind_gives_no_share() {
    let mut voter = leases(BEGIN, 0, &THREE, &[5]);
    voter.voters_appended(BEGIN, joint(3, &THREE, &[0, 3, 4]));
    let behind =
        LeaseMessage::Refusal { incarnation: INCARNATION, seq: 7, reason: Refusal::Behind };
    assert_eq!(reply_to_ping(&mut voter, BEGIN, 5, 7), behind);
    voter.voters_applied(BEGIN, joint(3, &THREE, &[0, 3, 4]));
    voter.applied(BEGIN, 3);
    assert_eq!(
        reply_to_ping(&mut voter, BEGIN, 5, 7),
        with_committed(answer(0, 7, joint(3, &THREE, &[0, 3, 4])), 3)
    );
    voter.voters_appended(BEGIN, voters(4, &[3, 4]));
    voter.voters_applied(BEGIN, voters(4, &[3, 4]));
    voter.applied(BEGIN, 4);
    let out = LeaseMessage::Refusal {
        incarnation: INCARNATION,
        seq: 7,
        reason: Refusal::NotVoter(voters(4, &[3, 4])),
    };
    assert_eq!(reply_to_ping(&mut voter, BEGIN, 5, 7), out);
    let mut empty = Leases::new(BEGIN, node(0), INCARNATION, StoreId(0), TIMING);
    assert_eq!(reply_to_ping(&mut empty, BEGIN, 5, 7), behind);
}

fn with_committed(mut answer: LeaseMessage, index: u64) -> LeaseMessage {
    if let LeaseMessage::Answer { committed, .. } = &mut answer {
        *committed = index;
    }
    answer
}

/// N4: the lease needs a quorum of the newest voters that any answer shows; of both sets, while
/// they change. New voters are pinged at once.
#[test]
fn n4_the_newest_voters_count() {
    let (mut p, first, _) = pinged_twice();
    let now = BEGIN + ms(600);
    deliver(&mut p, now, 0, answer(0, first, voters(1, &THREE)));
    deliver(&mut p, now, 2, answer(2, first, joint(3, &THREE, &[2, 3, 4])));
    assert_eq!(p.end(), Time::ZERO, "two of three old voters, one of three new ones");
    let to_new = |effects: &[LeaseEffect]| {
        effects.iter().any(|effect| matches!(effect, LeaseEffect::Send(to, _) if *to == node(4)))
    };
    assert!(to_new(&tick(&mut p, now)));
    deliver(&mut p, now, 3, answer(3, first, joint(3, &THREE, &[2, 3, 4])));
    assert_eq!(p.end(), BEGIN + ms(4000));
}

/// N4: newer voters in p's own log add to the committed ones, and must not replace them: a quorum
/// of them alone proves nothing, because the shares may be older than they are.
#[test]
fn n4_own_appended_voters_add() {
    let (mut p, first, _) = pinged_twice();
    let now = BEGIN + ms(600);
    p.voters_appended(now, voters(4, &[2]));
    deliver(&mut p, now, 2, answer(2, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO, "a majority of the new voters, not of the old ones");
    deliver(&mut p, now, 0, answer(0, first, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
    let (mut p, first, _) = pinged_twice();
    p.voters_appended(now, voters(4, &[2]));
    deliver(&mut p, now, 0, answer(0, first, voters(1, &THREE)));
    deliver(&mut p, now, 1, answer(1, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO, "a majority of the old voters, not of the new ones");
    p.voters_appended(now, voters(1, &THREE));
    assert_eq!(p.end(), BEGIN + ms(4000), "the new ones were overwritten: never committed");
}

/// N4: voters that a refusal names are pinged, never counted: they may be newer than p's own
/// eviction.
#[test]
fn n4_voters_in_refusals_do_not_count() {
    let (mut p, first, _) = pinged_twice();
    let now = BEGIN + ms(600);
    let out = LeaseMessage::Refusal {
        incarnation: INCARNATION,
        seq: first,
        reason: Refusal::NotVoter(voters(9, &[2])),
    };
    deliver(&mut p, now, 0, out);
    deliver(&mut p, now, 2, answer(2, first, voters(1, &THREE)));
    assert_eq!(p.end(), Time::ZERO);
}

/// N6: a node that stays behind an index that it heard of more than a second ago grants nothing
/// new, and keeps what it has.
#[test]
fn n6_a_node_that_is_behind_grants_nothing() {
    let (mut p, first, _) = pinged_twice();
    let now = BEGIN + ms(600);
    deliver(&mut p, now, 0, with_committed(answer(0, first, voters(1, &THREE)), 9));
    deliver(&mut p, now, 1, with_committed(answer(1, first, voters(1, &THREE)), 12));
    assert!(p.may_grant(now + ms(1000)) && !p.may_grant(now + ms(1001)) && p.holds(now + ms(1001)));
    p.applied(now + ms(1100), 9);
    assert!(!p.may_grant(now + ms(1101)), "it heard of 12 as long ago");
    p.applied(now + ms(1200), 12);
    assert!(p.may_grant(now + ms(1201)));
    assert_eq!(p.status(now).behind, None);
}

/// Section 1: after the clock jumped nothing is granted until a quorum answers pings sent since.
/// What was granted is kept.
#[test]
fn a_clock_jump_puts_the_lease_in_doubt() {
    let (mut p, first, second) = pinged_twice();
    for voter in [0, 1] {
        deliver(&mut p, BEGIN + ms(600), voter, answer(voter, second, voters(1, &THREE)));
    }
    let jump = BEGIN + ms(700);
    p.clock_jumped(jump);
    assert!(!p.may_grant(jump) && p.holds(jump) && p.status(jump).doubt);
    deliver(&mut p, jump, 2, answer(2, first, voters(1, &THREE)));
    assert!(!p.may_grant(jump));
    let third = ping(&mut p, jump);
    for voter in [0, 1] {
        deliver(&mut p, jump + ms(5), voter, answer(voter, third, voters(1, &THREE)));
    }
    assert!(p.may_grant(jump + ms(5)));
}

/// R4: a voter that comes back with another store has forgotten what it promised: its answers must
/// not be counted.
#[test]
fn r4_answers_from_another_store_do_not_count() {
    let (mut p, first, second) = pinged_twice();
    let now = BEGIN + ms(600);
    deliver(&mut p, now, 0, answer(0, first, voters(1, &THREE)));
    deliver(&mut p, now, 1, answer(1, first, voters(1, &THREE)));
    let other_store = LeaseMessage::Answer {
        incarnation: INCARNATION,
        seq: second,
        store: StoreId(77),
        voters: voters(1, &THREE),
        committed: 2,
    };
    deliver(&mut p, now, 0, other_store);
    deliver(&mut p, now, 1, answer(1, second, voters(1, &THREE)));
    assert_eq!(p.end(), BEGIN + ms(4000));
    let later = p.status(BEGIN + ms(4100));
    assert!(later.missing.contains(&(node(0), MissingShare::OtherStore)), "{later}");
}

/// The lease has the length that the log has for that incarnation, whatever the configuration says
/// now.
#[test]
fn the_terms_in_the_log_count() {
    let mut p = Leases::new(BEGIN, node(5), INCARNATION, StoreId(5), TIMING);
    p.voters_applied(BEGIN, voters(1, &THREE));
    p.voters_appended(BEGIN, voters(1, &THREE));
    let short = LeaseTerms { lease: ms(1000), ..terms() };
    let first = ping(&mut p, BEGIN);
    for voter in [0, 1] {
        deliver(&mut p, BEGIN, voter, answer(voter, first, voters(1, &THREE)));
    }
    assert_eq!(p.end(), Time::ZERO, "not a member yet, as far as it knows");
    p.membership_changed(BEGIN, MembershipChange::Added(node(5), INCARNATION, short));
    assert_eq!(p.end(), BEGIN + ms(1000));
    p.membership_changed(BEGIN, MembershipChange::Gone(node(5), INCARNATION));
    assert_eq!(p.end(), Time::ZERO, "an evicted incarnation has no lease");
}

/// The only voter has an endless lease by its own vote, until it is suspected or others vote too.
/// Then it has L from that instant.
#[test]
fn the_only_voter_has_an_endless_lease() {
    let mut p = leases(BEGIN, 0, &[0], &[0]);
    let much_later = BEGIN + ms(3_600_000);
    assert!(p.end() == Time::NEVER && p.may_grant(much_later));
    p.clock_jumped(much_later);
    assert!(p.may_grant(much_later));
    assert_eq!(
        p.status(much_later).to_string(),
        "endless lease by its own vote; 1 of 1 voters answer"
    );
    let mut suspected = p.clone();
    suspected.membership_changed(much_later, MembershipChange::Suspected(node(0), INCARNATION, 3));
    assert_eq!(suspected.end(), much_later + ms(4000));
    p.voters_appended(much_later, joint(3, &[0], &[0, 1]));
    assert_eq!(p.end(), much_later + ms(4000));
}

/// Of two voters both are needed.
#[test]
fn two_voters() {
    let mut fixture = Fixture::new(2, &[0, 1]);
    fixture.advance(ms(1000));
    let now = fixture.now;
    assert!(fixture.node(0).may_grant(now) && fixture.node(1).may_grant(now));
    fixture.cut.insert(node(1));
    fixture.advance(ms(4000));
    let now = fixture.now;
    assert!(!fixture.node(0).holds(now) && !fixture.node(1).holds(now));
    assert_eq!(
        fixture.node(0).status(now).to_string(),
        "no lease; 1 of 2 voters answer, p1 does not answer"
    );
}

/// Every node has a lease as long as a majority of the voters answers, and only then.
#[test]
fn a_majority_is_needed_and_enough() {
    for votes in [&[0][..], &THREE, &[0, 1, 2, 3, 4]] {
        let mut fixture = Fixture::new(6, votes);
        let minority = (votes.len() - 1) / 2;
        fixture.cut.extend(votes.iter().take(minority).map(|id| node(*id)));
        fixture.advance(ms(6000));
        let now = fixture.now;
        assert!(fixture.node(5).may_grant(now));
        fixture.cut.extend(votes.iter().map(|id| node(*id)));
        fixture.advance(ms(4010));
        let now = fixture.now;
        assert!(!fixture.node(5).holds(now));
    }
}

/// Malformed messages are dropped: too many voters, and messages of nodes that do not vote. Nothing
/// is stored about nodes that were never pinged.
#[test]
fn malformed_messages_are_dropped() {
    let (mut p, first, _) = pinged_twice();
    let before = p.clone();
    let absurd = Voters { at: 99, sets: vec![(0..100).map(node).collect()] };
    let many = Voters { at: 99, sets: vec![[node(0)].into(); 3] };
    for shown in [absurd.clone(), many] {
        deliver(&mut p, BEGIN, 0, answer(0, first, shown));
    }
    for unknown in 10..200 {
        deliver(&mut p, BEGIN, unknown, answer(unknown, first, voters(1, &THREE)));
        let reason = Refusal::NotVoter(absurd.clone());
        deliver(
            &mut p,
            BEGIN,
            unknown,
            LeaseMessage::Refusal { incarnation: INCARNATION, seq: first, reason },
        );
        let promise = LeaseMessage::Promise {
            node: node(5),
            incarnation: INCARNATION,
            at: 3,
            age: Span(u64::MAX),
        };
        deliver(&mut p, BEGIN, unknown, promise);
        let reply = LeaseMessage::SilenceReply {
            node: node(5),
            incarnation: INCARNATION,
            silence: Span(u64::MAX),
        };
        deliver(&mut p, BEGIN, unknown, reply);
        deliver(
            &mut p,
            BEGIN,
            unknown,
            LeaseMessage::SilenceQuery { node: node(unknown), incarnation: INCARNATION },
        );
    }
    assert_eq!(p, before);
}
