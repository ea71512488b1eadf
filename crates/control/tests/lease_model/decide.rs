//! The decisions of the shipped code in a situation of the model. Each situation is decided once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kgate_control::lease::{LeaseEffect, LeaseMessage, Leases};
use kgate_control::membership::{LeaseTerms, MembershipChange, StoreId};
use kgate_control::timing::Timing;
use kgate_control::voters::Voters;
use kgate_core::{Incarnation, NodeId, Time};

use crate::state::{Entry, LeaseModel, Mutation, NODES, State, eviction_in, node_id};

/// The node that has a lease, in its one incarnation.
pub(crate) const P: NodeId = NodeId(0);
pub(crate) const INCARNATION: Incarnation = Incarnation(1);
pub(crate) const TERMS: LeaseTerms = LeaseTerms {
    lease: Timing::DEFAULT.lease,
    clock_error: Timing::DEFAULT.clock_error,
    margin: Timing::DEFAULT.margin,
};
/// The present. Everything that is long ago happened at zero.
const NOW: Time = Time(1_000_000_000_000);

/// The decisions so far: the same situation always gets the same decision. The keys are the log and
/// what else the decision depends on.
#[derive(Default)]
pub(crate) struct Memo {
    shares: Decisions<Option<u64>>,
    leases: Decisions<bool>,
    evictions: Decisions<Option<(u64, u64)>>,
}

type Situation = (Vec<Entry>, [u64; 8]);
type Decisions<T> = Mutex<BTreeMap<Situation, T>>;

fn memoized<T: Copy>(
    memo: &Decisions<T>,
    log: &[Entry],
    rest: [u64; 8],
    decide: impl FnOnce() -> T,
) -> T {
    let situation = (log.to_vec(), rest);
    let before = memo.lock().unwrap_or_else(PoisonError::into_inner).get(&situation).copied();
    before.unwrap_or_else(|| {
        let decision = decide();
        memo.lock().unwrap_or_else(PoisonError::into_inner).insert(situation, decision);
        decision
    })
}

/// A node that knows what it has applied and appended. If every share that it gave has lapsed, it
/// started long ago; otherwise it started just now.
fn leases(model: &LeaseModel, state: &State, node: usize, settled: bool) -> Leases {
    let since = if settled { Time::ZERO } else { NOW };
    let start = if state.is_ripe(node) { Time::ZERO } else { NOW };
    let mut leases =
        Leases::new(start, node_id(node), INCARNATION, StoreId(node as u64), Timing::DEFAULT);
    let applied = state.applied[node];
    leases.voters_applied(since, model.voters(&state.log, applied));
    leases.voters_appended(since, model.voters(&state.log, state.appended[node]));
    for (member, incarnation) in model.membership(&state.log, applied).iter() {
        leases.membership_changed(
            Time::ZERO,
            MembershipChange::Added(member, incarnation.incarnation, incarnation.terms),
        );
        if let Some(at) = incarnation.suspected {
            leases.membership_changed(
                Time::ZERO,
                MembershipChange::Suspected(member, incarnation.incarnation, at),
            );
        }
    }
    leases.applied(NOW, applied as u64);
    leases
}

/// The entry of the voters that this node shows p, if it answers.
pub(crate) fn share(model: &LeaseModel, state: &State, node: usize) -> Option<u64> {
    let (applied, appended) = (state.applied[node] as u64, state.appended[node] as u64);
    let rest = [node as u64, applied, appended, 0, 0, 0, 0, 0];
    memoized(&model.memo.shares, &state.log, rest, || decide_share(model, state, node))
}

fn decide_share(model: &LeaseModel, state: &State, node: usize) -> Option<u64> {
    let of = |length: usize| model.voters(&state.log, length);
    let (applied, appended) = (of(state.applied[node]), of(state.appended[node]));
    if node_id(node) == P && model.mutation == Some(Mutation::SelfAnswer) {
        return applied.has(P).then_some(applied.at);
    }
    let mut voter = leases(model, state, node, true);
    let mut shown = applied.at;
    match model.mutation {
        // As if it had not received them yet.
        Some(Mutation::AppliedShown) => voter.voters_appended(NOW, applied),
        // As if it had applied them long ago.
        Some(Mutation::BehindAnswers) => {
            shown = appended.at;
            let long_ago = Voters { at: 1, sets: appended.sets };
            voter.voters_applied(NOW, long_ago.clone());
            voter.voters_appended(NOW, long_ago);
        }
        Some(
            Mutation::EvictBlindly
            | Mutation::SelfAnswer
            | Mutation::OtherVotersEvict
            | Mutation::WaitBeforeVoters,
        )
        | None => {}
    }
    if node_id(node) == P {
        // A voter answers itself by the same rules.
        return voter.status(NOW).answering.contains(&P).then_some(shown);
    }
    let mut effects = Vec::new();
    voter.on_message(NOW, P, LeaseMessage::Ping { incarnation: INCARNATION, seq: 1 }, &mut effects);
    match effects.as_slice() {
        [LeaseEffect::Send(P, LeaseMessage::Answer { voters, .. })] => {
            assert!(
                model.mutation.is_some() || voters.at == shown,
                "an answer shows what was applied: it is not behind"
            );
            Some(shown)
        }
        _ => None,
    }
}

/// Whether the shares that p has are a lease.
pub(crate) fn is_lease(model: &LeaseModel, state: &State) -> bool {
    let shown = |node: usize| state.shares[node].arrived.map_or(0, |share| share.shown);
    let (applied, appended) = (state.applied[P.index()] as u64, state.appended[P.index()] as u64);
    let rest = [applied, appended, shown(0), shown(1), shown(2), 0, 0, 0];
    memoized(&model.memo.leases, &state.log, rest, || decide_lease(model, state))
}

fn decide_lease(model: &LeaseModel, state: &State) -> bool {
    let (mut p, mut effects) = (leases(model, state, P.index(), true), Vec::new());
    // Suspected, it gives itself no share here: in the model its own share arrives and lapses as
    // any other.
    p.membership_changed(NOW, MembershipChange::Suspected(P, INCARNATION, 1));
    p.tick(NOW, &mut effects);
    let seq = effects.iter().find_map(|effect| match effect {
        LeaseEffect::Send(_, LeaseMessage::Ping { seq, .. }) => Some(*seq),
        LeaseEffect::Send(..) | LeaseEffect::Propose(_) => None,
    });
    let Some(seq) = seq else { return false };
    // Twice, because an answer may show voters whose answers came before.
    for (node, shares) in state.shares.iter().enumerate().chain(state.shares.iter().enumerate()) {
        if let Some(share) = &shares.arrived {
            let (incarnation, store, voters) = (
                INCARNATION,
                StoreId(node as u64),
                model.voters(&state.log, usize::try_from(share.shown).expect("short")),
            );
            let answer = LeaseMessage::Answer { incarnation, seq, store, voters, committed: 0 };
            p.on_message(NOW, node_id(node), answer, &mut effects);
        }
    }
    p.holds(NOW)
}

/// N4: the entries of the voters of which p needs a quorum. A lease that was reached is counted by
/// these from then on.
pub(crate) fn binding(model: &LeaseModel, state: &State) -> Vec<u64> {
    let shown = state.shares.iter().filter_map(|shares| shares.arrived).map(|share| share.shown);
    let of = |length: usize| model.voters(&state.log, length).at;
    let committed = shown.max().unwrap_or(0).max(of(state.applied[P.index()]));
    let appended = Some(of(state.appended[P.index()])).filter(|appended| *appended > committed);
    [committed].into_iter().chain(appended).collect()
}

/// The eviction that this node proposes now, if it does: (suspicion, voters).
pub(crate) fn eviction(model: &LeaseModel, state: &State, node: usize) -> Option<(u64, u64)> {
    let ripe = (0..NODES).map(|voter| u64::from(state.is_ripe(voter)) << voter).sum();
    let [zero, one, two] = state.applied.map(|applied| applied as u64);
    let settled = u64::from(state.is_settled(node));
    let rest = [node as u64, zero, one, two, state.appended[node] as u64, ripe, settled, 0];
    memoized(&model.memo.evictions, &state.log, rest, || decide_eviction(model, state, node))
}

fn decide_eviction(model: &LeaseModel, state: &State, node: usize) -> Option<(u64, u64)> {
    let settled = state.is_settled(node) || model.mutation == Some(Mutation::WaitBeforeVoters);
    let (mut evictor, mut effects) = (leases(model, state, node, settled), Vec::new());
    let at = evictor.membership().incarnation(P, INCARNATION)?.suspected?;
    evictor.set_leader(true);
    for voter in (0..NODES).filter(|voter| state.is_ripe(*voter)) {
        let suspected = model
            .membership(&state.log, state.applied[voter])
            .incarnation(P, INCARNATION)
            .and_then(|member| member.suspected);
        if suspected == Some(at) {
            let promise =
                LeaseMessage::Promise { node: P, incarnation: INCARNATION, at, age: TERMS.wait() };
            evictor.on_message(NOW, node_id(voter), promise, &mut effects);
        }
    }
    effects.clear();
    evictor.tick(NOW, &mut effects);
    effects.into_iter().find_map(|effect| match effect {
        LeaseEffect::Propose(proposal) => eviction_in(proposal),
        LeaseEffect::Send(..) => None,
    })
}
