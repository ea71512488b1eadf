//! The shipped code, put into a situation of the room: what does it decide?

use kgate_control::lease::{LeaseDeed, LeaseMessage, Leases};
use kgate_control::roll::{LeaseTerms, RollChange, StoreId};
use kgate_control::timing::Timing;
use kgate_control::voters::Voters;
use kgate_core::{Incarnation, NodeId, Time};

use crate::state::{Flaw, NODES, Room, State, node_id, wish};

/// The node that has a lease, in its one life.
pub(crate) const P: NodeId = NodeId(0);
pub(crate) const LIFE: Incarnation = Incarnation(1);
pub(crate) const TERMS: LeaseTerms = LeaseTerms {
    lease: Timing::DEFAULT.lease,
    clock_error: Timing::DEFAULT.clock_error,
    margin: Timing::DEFAULT.margin,
};
/// Everything happens at this time; what is long ago, at zero.
const NOW: Time = Time(1_000_000_000_000);

/// A node that knows what it has applied and appended. What it gave has lapsed: it gave it long ago, else just now.
fn leases(room: &Room, state: &State, node: usize, settled: bool) -> Leases {
    let since = if settled { Time::ZERO } else { NOW };
    let start = if state.is_ripe(node) { Time::ZERO } else { NOW };
    let mut leases = Leases::new(start, node_id(node), LIFE, StoreId(node as u64), Timing::DEFAULT);
    let applied = state.applied[node];
    leases.voters_applied(since, room.voters(&state.log, applied));
    leases.voters_appended(since, appended(room, state, node));
    for (member, life) in room.roll(&state.log, applied).iter() {
        leases.roll_changed(Time::ZERO, RollChange::Added(member, life.incarnation, life.terms));
        if let Some(at) = life.suspected {
            leases.roll_changed(Time::ZERO, RollChange::Suspected(member, life.incarnation, at));
        }
    }
    leases.applied(NOW, applied as u64);
    leases
}

/// What a node is told of the newest voters in its log.
fn appended(room: &Room, state: &State, node: usize) -> Voters {
    let length = match room.flaw {
        Some(Flaw::BehindAnswers | Flaw::AppliedShown) => state.applied[node],
        _ => state.appended[node],
    };
    room.voters(&state.log, length)
}

/// The voters that this node shows, if it answers p.
pub(crate) fn share(room: &Room, state: &State, node: usize) -> Option<Voters> {
    if node_id(node) == P && room.flaw == Some(Flaw::SelfAnswer) {
        let own = room.voters(&state.log, state.applied[node]);
        return own.has(P).then_some(own);
    }
    let (mut voter, mut deeds) = (leases(room, state, node, true), Vec::new());
    if node_id(node) == P {
        // It answers itself by the same rules, at once: asked here as anybody would be, by its standing.
        let answers = voter.standing(NOW).answering.contains(&P);
        return answers.then(|| room.voters(&state.log, state.applied[node]));
    }
    voter.hear(NOW, P, LeaseMessage::Ping { incarnation: LIFE, seq: 1 }, &mut deeds);
    match deeds.as_slice() {
        [LeaseDeed::Send(P, LeaseMessage::Answer { voters, .. })] => Some(match room.flaw {
            Some(Flaw::BehindAnswers) => room.voters(&state.log, state.appended[node]),
            _ => voters.clone(),
        }),
        _ => None,
    }
}

/// Whether the shares that p has are a lease.
pub(crate) fn is_lease(room: &Room, state: &State) -> bool {
    let (mut p, mut deeds) = (leases(room, state, P.index(), true), Vec::new());
    // Suspected, it gives itself no share by itself: here that comes, and lapses, as any other.
    p.roll_changed(NOW, RollChange::Suspected(P, LIFE, 1));
    p.tick(NOW, &mut deeds);
    let seq = deeds.iter().find_map(|deed| match deed {
        LeaseDeed::Send(_, LeaseMessage::Ping { seq, .. }) => Some(*seq),
        LeaseDeed::Send(..) | LeaseDeed::Propose(_) => None,
    });
    let Some(seq) = seq else { return false };
    // Twice: an answer may name voters that have answered too.
    for (node, shares) in state.shares.iter().enumerate().chain(state.shares.iter().enumerate()) {
        if let Some(share) = &shares.arrived {
            let (incarnation, store, voters) = (LIFE, StoreId(node as u64), share.shown.clone());
            let answer = LeaseMessage::Answer { incarnation, seq, store, voters, committed: 0 };
            p.hear(NOW, node_id(node), answer, &mut deeds);
        }
    }
    p.holds(NOW)
}

/// N4: the voters of whom p needs a quorum: what a lease that was reached once goes on to be counted by.
pub(crate) fn binding(room: &Room, state: &State) -> Vec<Voters> {
    let shown = state.shares.iter().filter_map(|shares| shares.arrived.as_ref()).map(|share| &share.shown);
    let applied = room.voters(&state.log, state.applied[P.index()]);
    let committed = shown.cloned().chain([applied]).max_by_key(|voters| voters.at).expect("its own");
    let appended = Some(appended(room, state, P.index())).filter(|appended| appended.at > committed.at);
    [committed].into_iter().chain(appended).collect()
}

/// The eviction that this node proposes now: (suspicion, voters).
pub(crate) fn eviction(room: &Room, state: &State, node: usize) -> Option<(u64, u64)> {
    let settled = state.is_settled(node) || room.flaw == Some(Flaw::WaitBeforeVoters);
    let (mut evictor, mut deeds) = (leases(room, state, node, settled), Vec::new());
    let at = evictor.roll().life(P, LIFE)?.suspected?;
    evictor.leading(true);
    for voter in (0..NODES).filter(|voter| state.is_ripe(*voter)) {
        let suspected =
            room.roll(&state.log, state.applied[voter]).life(P, LIFE).and_then(|member| member.suspected);
        if suspected == Some(at) {
            let promise = LeaseMessage::Promise { node: P, incarnation: LIFE, at, age: TERMS.wait() };
            evictor.hear(NOW, node_id(voter), promise, &mut deeds);
        }
    }
    deeds.clear();
    evictor.tick(NOW, &mut deeds);
    deeds.into_iter().find_map(|deed| match deed {
        LeaseDeed::Propose(proposal) => wish(proposal),
        LeaseDeed::Send(..) => None,
    })
}
