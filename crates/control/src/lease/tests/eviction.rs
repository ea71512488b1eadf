//! The rules of suspicion and eviction, one by one: E1 to E5, R2, R3.

use kgate_core::{Incarnation, NodeId, Span, Time};

use super::hall::{
    BEGIN, Hall, INCARNATION, TIMING, answer, asked, hear, joint, leases, ms, node, ping, terms,
    tick, voters,
};
use crate::lease::{LeaseEffect, LeaseMessage, Leases, Proposal, Refusal};
use crate::membership::{MembershipChange, StoreId};

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

/// E1: a node that a majority of voters has not heard for Q is proposed for suspicion, by the
/// leader at once, by others later.
#[test]
fn e1_silence() {
    let mut hall = Hall::new(6, &THREE);
    hall.of(1).set_leader(true);
    hall.pass(ms(3000));
    assert_eq!(hall.proposals, []);
    hall.cut.insert(node(5));
    let silent_since = hall.now;
    hall.pass(ms(3600));
    let (when, who, what) = hall.proposals[0];
    assert_eq!((who, what), (node(1), SUSPECT_5));
    assert!(when.since(silent_since) <= TIMING.suspect_after + TIMING.node_ping);
    assert!(hall.proposals.iter().all(|(_, _, proposal)| *proposal == SUSPECT_5));
    assert!(
        hall.proposals
            .iter()
            .filter(|(_, who, _)| *who != node(1))
            .all(|(then, ..)| then.since(when) >= ms(500))
    );
}

/// E1: what one voter alone does not hear is no reason, whoever hints at it.
#[test]
fn e1_needs_a_majority() {
    let mut hall = Hall::new(6, &THREE);
    hall.cut.insert(node(0));
    hall.pass(ms(1000));
    let now = hall.now;
    hall.of(4).on_silence_hint(now, node(5));
    hall.pass(ms(4000));
    let about_5 = |(_, _, proposal): &&(Time, NodeId, Proposal)| *proposal == SUSPECT_5;
    assert_eq!(hall.proposals.iter().filter(about_5).count(), 0);
    hall.cut.insert(node(5));
    hall.pass(ms(2000));
    let now = hall.now;
    hall.cut.remove(&node(0));
    hall.of(4).on_silence_hint(now, node(5));
    hall.pass(ms(4000));
    assert!(
        hall.proposals.iter().filter(about_5).any(|(_, who, _)| *who == node(4)),
        "a hint from a node that does not vote"
    );
}

/// E1: voters that were removed and never told hold everybody for silent: they say so rarer and
/// rarer.
#[test]
fn e1_rarer_and_rarer() {
    let mut hall = Hall::new(6, &THREE);
    hall.cut.insert(node(5));
    hall.pass(ms(120_000));
    assert!(
        hall.proposals.len() < 40,
        "{} proposals in two minutes of three voters",
        hall.proposals.len()
    );
}

/// E2: a promise has the age of the last answer, or of the own start if that is later or there was
/// none; every voter gets it.
#[test]
fn e2_promises() {
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
    asked(&mut voter, BEGIN + ms(700), 5, 1);
    for (leases, old) in [(&mut voter, 1300), (&mut restarted, 1000)] {
        let now = BEGIN + ms(2000);
        leases.membership_changed(now, MembershipChange::Suspected(node(5), INCARNATION, 3));
        asked(leases, now, 5, 2);
        assert!(leases.next_due(now) <= Some(now), "said at once");
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

/// E3: a quorum is ripe when what they say and what the own clock has counted since is W: not a
/// nanosecond earlier.
#[test]
fn e3_ripe() {
    let suspected = BEGIN + ms(60_000);
    let mut leases = evictor(suspected);
    let received = suspected + ms(100);
    hear(&mut leases, received, 1, promise(3, ms(1000)));
    let ripe = received + Span(wait().0 - ms(1000).0);
    assert_eq!(proposals(&tick(&mut leases, Time(ripe.0 - 1))), []);
    let evict = Proposal::Evict {
        node: node(5),
        incarnation: INCARNATION,
        at: 3,
        voters_at: 1,
        waited: wait(),
    };
    assert_eq!(proposals(&tick(&mut leases, ripe)), [evict]);
    assert_eq!(proposals(&tick(&mut leases, ripe)), [], "once, then rarer and rarer");
    assert_eq!(proposals(&tick(&mut leases, ripe + ms(1000))).len(), 1);
}

/// E3: promises of strangers, of another suspicion, of another incarnation prove nothing. One that
/// is older than the last one counts for more.
#[test]
fn e3_which_promises() {
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
        hear(&mut leases, suspected, from, message);
        assert_eq!(proposals(&tick(&mut leases, late)), []);
    }
    let mut leases = evictor(suspected);
    hear(&mut leases, suspected, 1, promise(3, ms(4000)));
    hear(&mut leases, suspected + ms(10), 1, promise(3, ms(5)));
    assert_eq!(proposals(&tick(&mut leases, suspected + ms(131))).len(), 1);
}

/// E3: W must also have passed since the evictor applied its voters, and no newer ones may be in
/// its log.
#[test]
fn e3_the_voters_settle() {
    let changed = BEGIN + ms(60_000);
    let mut leases = evictor(changed);
    leases.voters_appended(changed, joint(4, &THREE, &[0, 3, 4]));
    leases.voters_applied(changed, joint(4, &THREE, &[0, 3, 4]));
    leases.applied(changed, 4);
    for from in [1, 3, 4] {
        hear(&mut leases, changed, from, promise(3, wait()));
    }
    assert_eq!(proposals(&tick(&mut leases, changed + Span(wait().0 - 1))), []);
    let mut newer = leases.clone();
    newer.voters_appended(changed, voters(5, &[0, 3, 4]));
    assert_eq!(proposals(&tick(&mut newer, changed + wait())), []);
    assert_eq!(proposals(&tick(&mut leases, changed + wait())).len(), 1);
}

/// E3: any voter evicts, if the leader does not; who does not vote never does. Nobody evicts
/// itself.
#[test]
fn e3_any_voter() {
    let mut hall = Hall::new(6, &THREE);
    hall.cut.insert(node(5));
    hall.pass(ms(2000));
    let at = hall.next_index();
    hall.apply(MembershipChange::Suspected(node(5), INCARNATION, at), &[]);
    hall.proposals.clear();
    hall.pass(ms(6500));
    let who: Vec<NodeId> = hall.proposals.iter().map(|(_, who, _)| *who).collect();
    assert!(THREE.iter().all(|id| who.contains(&node(*id))) && who.len() < 12, "{who:?}");
    let mut own = leases(BEGIN, 0, &THREE, &[0]);
    own.set_leader(true);
    own.membership_changed(BEGIN, MembershipChange::Suspected(node(0), INCARNATION, 3));
    own.applied(BEGIN, 3);
    let own_promise =
        LeaseMessage::Promise { node: node(0), incarnation: INCARNATION, at: 3, age: wait() };
    for from in THREE {
        hear(&mut own, BEGIN, from, own_promise.clone());
    }
    assert_eq!(proposals(&tick(&mut own, BEGIN + wait())), []);
}

/// E5: a suspected node that a quorum hears asks to be cleared, and grants nothing until it has a
/// fresh lease; what it holds it keeps.
#[test]
fn e5_cleared() {
    let mut hall = Hall::new(6, &THREE);
    hall.pass(ms(1000));
    let at = hall.next_index();
    hall.apply(MembershipChange::Suspected(node(5), INCARNATION, at), &[]);
    hall.pass(ms(600));
    let cleared = Proposal::Unsuspect { node: node(5), incarnation: INCARNATION, at };
    assert_eq!(
        hall.proposals.first().map(|(_, who, what)| (*who, *what)),
        Some((node(5), cleared))
    );
    let now = hall.now;
    assert!(hall.of(5).holds(now) && !hall.of(5).may_grant(now));
    hall.apply(MembershipChange::Unsuspected(node(5), INCARNATION), &[]);
    assert!(hall.of(5).holds(now) && !hall.of(5).may_grant(now), "no answer yet");
    hall.proposals.clear();
    hall.pass(ms(5000));
    let now = hall.now;
    assert!(hall.of(5).may_grant(now));
    assert_eq!(hall.proposals, []);
}

/// E5: heard by a minority alone it does not ask: it would be suspected again at once.
#[test]
fn e5_not_by_a_minority() {
    let mut p = leases(BEGIN, 5, &THREE, &[5]);
    let first = ping(&mut p, BEGIN);
    let refusal =
        |seq| LeaseMessage::Refusal { incarnation: INCARNATION, seq, why: Refusal::Suspected(3) };
    hear(&mut p, BEGIN, 0, refusal(first));
    assert_eq!(proposals(&tick(&mut p, BEGIN + ms(1))), []);
    hear(&mut p, BEGIN + ms(2), 1, refusal(first));
    let cleared = Proposal::Unsuspect { node: node(5), incarnation: INCARNATION, at: 3 };
    assert_eq!(proposals(&tick(&mut p, BEGIN + ms(3))), [cleared]);
    let mut p = leases(BEGIN, 5, &THREE, &[5]);
    let first = ping(&mut p, BEGIN);
    hear(&mut p, BEGIN, 0, refusal(first));
    hear(&mut p, BEGIN + ms(2000), 1, refusal(first));
    assert_eq!(proposals(&tick(&mut p, BEGIN + ms(2000))), [], "long ago");
    hear(&mut p, BEGIN + ms(2000), 1, answer(1, first, voters(1, &THREE)));
}

/// R2: a new incarnation has its former one suspected, once the log shows it as a member, and
/// evicts it like any other; then it stops.
#[test]
fn r2_the_next_incarnation() {
    let second = Incarnation(2);
    let mut p = Leases::new(BEGIN, node(0), second, StoreId(0), TIMING);
    p.set_predecessor(BEGIN, INCARNATION);
    assert_eq!(proposals(&tick(&mut p, BEGIN)), [], "it does not know yet");
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
    // R3: the age counts from the start: what the earlier incarnation was answered is forgotten.
    assert_eq!(proposals(&tick(&mut p, suspected)), []);
    assert_eq!(proposals(&tick(&mut p, BEGIN + Span(wait().0 - 1))), []);
    let evict = Proposal::Evict {
        node: node(0),
        incarnation: INCARNATION,
        at: 3,
        voters_at: 1,
        waited: wait(),
    };
    assert_eq!(proposals(&tick(&mut p, BEGIN + wait())), [evict]);
    p.membership_changed(BEGIN + wait(), MembershipChange::Gone(node(0), INCARNATION));
    p.applied(BEGIN + wait(), 4);
    assert!(!p.may_grant(BEGIN + wait()));
    p.membership_changed(BEGIN + wait(), MembershipChange::Added(node(0), second, terms()));
    assert!(p.may_grant(BEGIN + wait()), "the own vote");
    assert_eq!(proposals(&tick(&mut p, BEGIN + wait() + ms(60_000))), []);
}

/// Section 1: a node that is killed is evicted within W and what a few messages take, counted from
/// its last answer.
#[test]
fn a_fail_over_takes_w() {
    let mut hall = Hall::new(6, &THREE);
    hall.of(1).set_leader(true);
    hall.pass(ms(10_000));
    let killed = hall.now;
    hall.cut.insert(node(5));
    while hall.proposals.is_empty() {
        hall.pass(ms(10));
    }
    let at = hall.next_index();
    hall.apply(MembershipChange::Suspected(node(5), INCARNATION, at), &[]);
    hall.proposals.clear();
    while hall.proposals.is_empty() {
        hall.pass(ms(10));
    }
    assert!(matches!(hall.proposals[..], [(_, _, Proposal::Evict { .. })]));
    let took = hall.now.since(killed);
    assert!(took <= wait() + ms(20) && took + TIMING.node_ping >= wait(), "{took}");
}
