//! Two rules whose absence the random simulations do not find: what happens without each, step by
//! step.

use kgate_core::Time;

use super::fixture::{
    BEGIN, INCARNATION, TIMING, deliver, joint, leases, ms, node, ping, reply_to_ping, tick, voters,
};
use crate::lease::{LeaseEffect, LeaseMessage, Leases, Proposal};
use crate::membership::{EvictionError, MembershipChange};
use crate::voters::Voters;

const OLD: [u32; 3] = [0, 1, 2];

fn apply_voters(leases: &mut Leases, now: Time, voters: Voters) {
    let at = voters.at;
    leases.voters_appended(now, voters.clone());
    leases.voters_applied(now, voters);
    leases.applied(now, at);
}

/// p pings that voter and gets its reply.
fn share(p: &mut Leases, voter: &mut Leases, id: u32, now: Time) {
    let seq = ping(p, now);
    let reply = reply_to_ping(voter, now, 5, seq);
    deliver(p, now, id, reply);
}

/// E4, the voters in EVICT. p is cut off from 0 and 1, which promise; 2 lags and answers p. Then
/// the voters become {2} alone, and p counts the share that 2 gave before. An eviction by the
/// promises of 0 and 1 comes late and finds other voters in force: it must have no effect.
#[test]
fn an_eviction_by_former_voters_has_no_effect() {
    let (mut p, mut two) = (leases(BEGIN, 5, &OLD, &[5]), leases(BEGIN, 2, &OLD, &[5]));
    let mut zero = leases(Time(0), 0, &OLD, &[5]);
    // The last answers of 0 and 1: p has a lease.
    let seq = ping(&mut p, BEGIN);
    for id in [0, 1] {
        let reply = reply_to_ping(&mut leases(BEGIN, id, &OLD, &[5]), BEGIN, 5, seq);
        deliver(&mut p, BEGIN, id, reply);
    }
    reply_to_ping(&mut zero, BEGIN, 5, seq);
    // SUSPECT is entry 10; 0 and 1 apply it, and 0 collects their promises.
    zero.set_leader(true);
    zero.membership_changed(BEGIN + ms(10), MembershipChange::Suspected(node(5), INCARNATION, 10));
    zero.applied(BEGIN + ms(10), 10);
    tick(&mut zero, BEGIN + ms(10));
    let promise =
        LeaseMessage::Promise { node: node(5), incarnation: INCARNATION, at: 10, age: ms(10) };
    deliver(&mut zero, BEGIN + ms(10), 1, promise);
    // 2 has not applied it, and answers p this late. Then the voters change; p has applied all of
    // that, but no eviction.
    let late = BEGIN + ms(3800);
    share(&mut p, &mut two, 2, late);
    p.membership_changed(late, MembershipChange::Suspected(node(5), INCARNATION, 10));
    apply_voters(&mut p, late, joint(11, &OLD, &[2]));
    apply_voters(&mut p, late, voters(12, &[2]));
    assert_eq!(p.end(), late + TIMING.lease, "a lease by the new voters");
    // 0 does not know of the new voters, and W has passed for it.
    let ripe = BEGIN + TIMING.wait();
    let effects = tick(&mut zero, ripe);
    let evict = effects.iter().find_map(|effect| match effect {
        LeaseEffect::Propose(Proposal::Evict(eviction)) => Some(*eviction),
        LeaseEffect::Propose(_) | LeaseEffect::Send(..) => None,
    });
    let evict = evict.expect("W has passed");
    assert!(p.holds(ripe), "a child of p's client may be running");
    assert_eq!(
        p.membership().may_evict(evict, 12),
        Err(EvictionError::OtherVoters { counted: 1, in_force: 12 })
    );
    assert_eq!(
        p.membership().may_evict(evict, evict.voters_at),
        Ok(()),
        "without the rule p would be evicted with a lease"
    );
}

/// N4, a voter that is behind gives no share. p is evicted by {0, 1, 2}. After that the voters
/// become {3, 4}, which have all these entries in their logs and none applied, so they know neither
/// the suspicion nor the eviction. If they answered, p would have a lease again.
#[test]
fn voters_that_are_behind_give_no_share() {
    let new = || voters(23, &[3, 4]);
    for rule in [true, false] {
        let mut p = leases(BEGIN, 5, &OLD, &[5]);
        // SUSPECT is entry 20, EVICT is entry 21, the change of voters 22 and 23. p has heard of
        // the voters, and pings them.
        p.voters_appended(BEGIN, new());
        let seq = ping(&mut p, BEGIN);
        for id in [3, 4] {
            let mut voter = leases(BEGIN, id, &[3, 4], &[5]);
            if rule {
                voter.voters_appended(BEGIN, new());
            }
            let mut reply = reply_to_ping(&mut voter, BEGIN, 5, seq);
            if let LeaseMessage::Answer { voters, .. } = &mut reply {
                *voters = new();
            }
            deliver(&mut p, BEGIN, id, reply);
        }
        assert_eq!(
            p.may_grant(BEGIN),
            !rule,
            "with the rule nothing, without it a lease after the eviction"
        );
    }
}
