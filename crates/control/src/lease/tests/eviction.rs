//! The rules of suspicion and eviction, one by one: E1 to E5, R2, R3.

use kgate_core::{Incarnation, NodeId, Span, Time};

use super::fixture::{
    BEGIN, Fixture, INCARNATION, TIMING, answer, deliver, joint, leases, ms, node, ping,
    reply_to_ping, terms, tick, voters,
};
use crate::lease::{LeaseEffect, LeaseMessage, Leases, Proposal, Refusal};
use crate::membership::{Eviction, MembershipChange, StoreId};

const THREE: [u32; 3] = [0, 1, 2];
const SUSPECT_5: Proposal = Proposal::Suspect { node: NodeId(5), incarnation: INCARNATION };

fn wait() -> Span {
    TIMING.wait()
}

fn proposals(effects: &[LeaseEffect]) -> Vec<Proposal> {
    let proposal = |effect: &LeaseEffect| match effect {
        LeaseEffect::Propose(proposal) => Some(*proposal),
        LeaseEffect::Send(..) => None,
    };
    effects.iter().filter_map(proposal).collect()
}

/// E1: a node that a majority of voters has not heard from for Q is suspected. The leader proposes
/// it at once, other voters later.
#[test]
fn e1_a_silent_node_is_suspected() {
    let mut fixture = Fixture::new(6, &THREE);
    fixture.node(1).set_leader(true);
    fixture.advance(ms(3000));
    assert_eq!(fixture.proposals, []);
    fixture.cut.insert(node(5));
    let silent_since = fixture.now;
    fixture.advance(ms(3600));
    let (when, who, what) = fixture.proposals[0];
    assert_eq!((who, what), (node(1), SUSPECT_5));
    assert!(when.since(silent_since) <= TIMING.suspect_after + TIMING.node_ping);
    assert!(fixture.proposals.iter().all(|(_, _, proposal)| *proposal == SUSPECT_5));
    assert!(
        fixture
            .proposals
            .iter()
            .filter(|(_, who, _)| *who != node(1))
            .all(|(then, ..)| then.since(when) >= ms(500))
    );
}

/// E1: one voter alone that does not hear a node is no reason for a suspicion, whichever node hints
/// at it.
#[test]
fn e1_a_suspicion_needs_a_majority() {
    let mut fixture = Fixture::new(6, &THREE);
    fixture.cut.insert(node(0));
    fixture.advance(ms(1000));
    let now = fixture.now;
    fixture.node(4).on_silence_hint(now, node(5));
    fixture.advance(ms(4000));
    let about_5 = |(_, _, proposal): &&(Time, NodeId, Proposal)| *proposal == SUSPECT_5;
    assert_eq!(fixture.proposals.iter().filter(about_5).count(), 0);
    fixture.cut.insert(node(5));
    fixture.advance(ms(2000));
    let now = fixture.now;
    fixture.cut.remove(&node(0));
    fixture.node(4).on_silence_hint(now, node(5));
    fixture.advance(ms(4000));
    assert!(
        fixture.proposals.iter().filter(about_5).any(|(_, who, _)| *who == node(4)),
        "a hint from a node that does not vote"
    );
}

/// E1: removed voters that do not know of their removal believe that every node is silent. Their
/// proposals back off.
#[test]
fn e1_proposals_back_off() {
    let mut fixture = Fixture::new(6, &THREE);
    fixture.cut.insert(node(5));
    fixture.advance(ms(120_000));
    assert!(
        fixture.proposals.len() < 40,
        "{} proposals in two minutes of three voters",
        fixture.proposals.len()
    );
}

/// E2: every voter gets a promise. Its age counts from the last answer, or from the voter's own
/// start if that is later or there was no answer.
#[test]
fn e2_the_age_of_a_promise() {
    let age = |effects: &[LeaseEffect], to: u32| {
        effects.iter().find_map(|effect| match effect {
            LeaseEffect::Send(receiver, LeaseMessage::Promise { age, at: 3, .. })
                if *receiver == node(to) =>
            {
                Some(*age)
            }
            LeaseEffect::Send(..) | LeaseEffect::Propose(_) => None,
        })
    };
    let mut voter = leases(BEGIN, 0, &THREE, &[5]);
    let mut restarted = leases(BEGIN + ms(1000), 0, &THREE, &[5]);
    reply_to_ping(&mut voter, BEGIN + ms(700), 5, 1);
    for (leases, old) in [(&mut voter, 1300), (&mut restarted, 1000)] {
        let now = BEGIN + ms(2000);
        leases.membership_changed(now, MembershipChange::Suspected(node(5), INCARNATION, 3));
        reply_to_ping(leases, now, 5, 2);
        assert!(leases.next_due(now) <= Some(now), "sent at once");
        let effects = tick(leases, now);
        assert_eq!((age(&effects, 1), age(&effects, 2)), (Some(ms(old)), Some(ms(old))));
        let effects = tick(leases, now + ms(500));
        assert_eq!(age(&effects, 1), Some(ms(old + 500)), "and again");
        leases.membership_changed(now, MembershipChange::Unsuspected(node(5), INCARNATION));
        assert_eq!(age(&tick(leases, now + ms(1000)), 1), None);
    }
}

/// A leader among three voters that has applied the suspicion of node 5, and its own promise.
fn evictor(suspected: Time) -> Leases {
    let mut leases = leases(BEGIN, 0, &THREE, &[5]);
    leases.set_leader(true);
    leases.membership_changed(suspected, MembershipChange::Suspected(node(5), INCARNATION, 3));
    leases.applied(suspected, 3);
    tick(&mut leases, suspected);
    leases
}

fn promise(at: u64, age: Span) -> LeaseMessage {
    LeaseMessage::Promise { node: node(5), incarnation: INCARNATION, at, age }
}

/// E3: a voter is ripe when its age and what the evictor's clock has counted since make W, and not
/// a nanosecond earlier.
#[test]
fn e3_a_quorum_is_ripe_after_w() {
    let suspected = BEGIN + ms(60_000);
    let mut leases = evictor(suspected);
    let received = suspected + ms(100);
    deliver(&mut leases, received, 1, promise(3, ms(1000)));
    let ripe = received + Span(wait().0 - ms(1000).0);
    assert_eq!(proposals(&tick(&mut leases, Time(ripe.0 - 1))), []);
    let evict = Proposal::Evict(Eviction {
        node: node(5),
        incarnation: INCARNATION,
        at: 3,
        voters_at: 1,
        waited: wait(),
    });
    assert_eq!(proposals(&tick(&mut leases, ripe)), [evict]);
    assert_eq!(proposals(&tick(&mut leases, ripe)), [], "once, then with backoff");
    assert_eq!(proposals(&tick(&mut leases, ripe + ms(1000))).len(), 1);
}

/// E3: promises of nodes that do not vote, for another suspicion or another incarnation are not
/// counted. Of two promises the one with the greater age counts.
#[test]
fn e3_which_promises_count() {
    let suspected = BEGIN + ms(60_000);
    let late = suspected + wait();
    for (from, message) in [
        (7, promise(3, wait())),
        (1, promise(2, wait())),
        (1, promise(4, wait())),
        (
            1,
            LeaseMessage::Promise {
                node: node(5),
                incarnation: Incarnation(0),
                at: 3,
                age: wait(),
            },
        ),
        (0, promise(3, wait())),
    ] {
        let mut leases = evictor(suspected);
        deliver(&mut leases, suspected, from, message);
        assert_eq!(proposals(&tick(&mut leases, late)), []);
    }
    let mut leases = evictor(suspected);
    deliver(&mut leases, suspected, 1, promise(3, ms(4000)));
    deliver(&mut leases, suspected + ms(10), 1, promise(3, ms(5)));
    assert_eq!(proposals(&tick(&mut leases, suspected + ms(131))).len(), 1);
}

/// E3: W must also have passed since the evictor applied the voters, and its log must not have
/// newer ones.
#[test]
fn e3_w_passes_after_a_change_of_voters() {
    let changed = BEGIN + ms(60_000);
    let mut leases = evictor(changed);
    leases.voters_appended(changed, joint(4, &THREE, &[0, 3, 4]));
    leases.voters_applied(changed, joint(4, &THREE, &[0, 3, 4]));
    leases.applied(changed, 4);
    for from in [1, 3, 4] {
        deliver(&mut leases, changed, from, promise(3, wait()));
    }
    assert_eq!(proposals(&tick(&mut leases, changed + Span(wait().0 - 1))), []);
    let mut newer = leases.clone();
    newer.voters_appended(changed, voters(5, &[0, 3, 4]));
    assert_eq!(proposals(&tick(&mut newer, changed + wait())), []);
    assert_eq!(proposals(&tick(&mut leases, changed + wait())).len(), 1);
}

/// E3: any voter evicts, if the leader does not. A node that does not vote never does, and no node
/// evicts itself.
#[test]
fn e3_any_voter_evicts() {
    let mut fixture = Fixture::new(6, &THREE);
    fixture.cut.insert(node(5));
    fixture.advance(ms(2000));
    let at = fixture.next_index();
    fixture.apply(MembershipChange::Suspected(node(5), INCARNATION, at), &[]);
    fixture.proposals.clear();
    fixture.advance(ms(6500));
    let who: Vec<NodeId> = fixture.proposals.iter().map(|(_, who, _)| *who).collect();
    assert!(THREE.iter().all(|id| who.contains(&node(*id))) && who.len() < 12, "{who:?}");
    let mut own = leases(BEGIN, 0, &THREE, &[0]);
    own.set_leader(true);
    own.membership_changed(BEGIN, MembershipChange::Suspected(node(0), INCARNATION, 3));
    own.applied(BEGIN, 3);
    let own_promise =
        LeaseMessage::Promise { node: node(0), incarnation: INCARNATION, at: 3, age: wait() };
    for from in THREE {
        deliver(&mut own, BEGIN, from, own_promise.clone());
    }
    assert_eq!(proposals(&tick(&mut own, BEGIN + wait())), []);
}

/// E5: a suspected node that a quorum hears asks to be cleared. It grants nothing until it has a
/// fresh lease, and keeps what it holds.
#[test]
fn e5_a_suspected_node_is_cleared() {
    let mut fixture = Fixture::new(6, &THREE);
    fixture.advance(ms(1000));
    let at = fixture.next_index();
    fixture.apply(MembershipChange::Suspected(node(5), INCARNATION, at), &[]);
    fixture.advance(ms(600));
    let cleared = Proposal::Unsuspect { node: node(5), incarnation: INCARNATION, at };
    assert_eq!(
        fixture.proposals.first().map(|(_, who, what)| (*who, *what)),
        Some((node(5), cleared))
    );
    let now = fixture.now;
    assert!(fixture.node(5).holds(now) && !fixture.node(5).may_grant(now));
    fixture.apply(MembershipChange::Unsuspected(node(5), INCARNATION), &[]);
    assert!(fixture.node(5).holds(now) && !fixture.node(5).may_grant(now), "no answer yet");
    fixture.proposals.clear();
    fixture.advance(ms(5000));
    let now = fixture.now;
    assert!(fixture.node(5).may_grant(now));
    assert_eq!(fixture.proposals, []);
}

/// E5: a suspected node that only a minority hears does not ask: it would be suspected again at
/// once.
#[test]
fn e5_a_minority_is_not_enough() {
    let mut p = leases(BEGIN, 5, &THREE, &[5]);
    let first = ping(&mut p, BEGIN);
    let refusal = |seq| LeaseMessage::Refusal {
        incarnation: INCARNATION,
        seq,
        reason: Refusal::Suspected(3),
    };
    deliver(&mut p, BEGIN, 0, refusal(first));
    assert_eq!(proposals(&tick(&mut p, BEGIN + ms(1))), []);
    deliver(&mut p, BEGIN + ms(2), 1, refusal(first));
    let cleared = Proposal::Unsuspect { node: node(5), incarnation: INCARNATION, at: 3 };
    assert_eq!(proposals(&tick(&mut p, BEGIN + ms(3))), [cleared]);
    let mut p = leases(BEGIN, 5, &THREE, &[5]);
    let first = ping(&mut p, BEGIN);
    deliver(&mut p, BEGIN, 0, refusal(first));
    deliver(&mut p, BEGIN + ms(2000), 1, refusal(first));
    assert_eq!(
        proposals(&tick(&mut p, BEGIN + ms(2000))),
        [],
        "the other voter heard it too long ago"
    );
    deliver(&mut p, BEGIN + ms(2000), 1, answer(1, first, voters(1, &THREE)));
}

/// R2: a new incarnation has its predecessor suspected, once the log shows it as a member, and
/// evicts it as any other node. Then it stops.
#[test]
fn r2_a_predecessor_is_evicted() {
    let second = Incarnation(2);
    let mut p = Leases::new(BEGIN, node(0), second, StoreId(0), TIMING);
    p.set_predecessor(BEGIN, INCARNATION);
    assert_eq!(proposals(&tick(&mut p, BEGIN)), [], "the log does not show it yet");
    p.voters_applied(BEGIN, voters(1, &[0]));
    p.voters_appended(BEGIN, voters(1, &[0]));
    p.membership_changed(BEGIN, MembershipChange::Added(node(0), INCARNATION, terms()));
    p.applied(BEGIN, 2);
    assert!(p.next_due(BEGIN) <= Some(BEGIN));
    assert_eq!(
        proposals(&tick(&mut p, BEGIN)),
        [Proposal::Suspect { node: node(0), incarnation: INCARNATION }]
    );
    let suspected = BEGIN + ms(100);
    p.membership_changed(suspected, MembershipChange::Suspected(node(0), INCARNATION, 3));
    p.applied(suspected, 3);
    p.set_leader(true);
    // R3: the age counts from the start, because the answers to the predecessor are forgotten.
    assert_eq!(proposals(&tick(&mut p, suspected)), []);
    assert_eq!(proposals(&tick(&mut p, BEGIN + Span(wait().0 - 1))), []);
    let evict = Proposal::Evict(Eviction {
        node: node(0),
        incarnation: INCARNATION,
        at: 3,
        voters_at: 1,
        waited: wait(),
    });
    assert_eq!(proposals(&tick(&mut p, BEGIN + wait())), [evict]);
    p.membership_changed(BEGIN + wait(), MembershipChange::Gone(node(0), INCARNATION));
    p.applied(BEGIN + wait(), 4);
    assert!(!p.may_grant(BEGIN + wait()));
    p.membership_changed(BEGIN + wait(), MembershipChange::Added(node(0), second, terms()));
    assert!(p.may_grant(BEGIN + wait()), "its own vote is a quorum");
    assert_eq!(proposals(&tick(&mut p, BEGIN + wait() + ms(60_000))), []);
}

/// Section 1: a killed node is evicted within W and the time of a few messages, counted from the
/// last answer it got.
#[test]
fn a_failover_takes_w() {
    let mut fixture = Fixture::new(6, &THREE);
    fixture.node(1).set_leader(true);
    fixture.advance(ms(10_000));
    let killed = fixture.now;
    fixture.cut.insert(node(5));
    while fixture.proposals.is_empty() {
        fixture.advance(ms(10));
    }
    let at = fixture.next_index();
    fixture.apply(MembershipChange::Suspected(node(5), INCARNATION, at), &[]);
    fixture.proposals.clear();
    while fixture.proposals.is_empty() {
        fixture.advance(ms(10));
    }
    assert!(matches!(fixture.proposals[..], [(_, _, Proposal::Evict(_))]));
    let took = fixture.now.since(killed);
    assert!(took <= wait() + ms(20) && took + TIMING.node_ping >= wait(), "{took}");
}
