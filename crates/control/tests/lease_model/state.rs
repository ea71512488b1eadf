//! The model's state: the log, what each node has of it, and the shares in p's lease.

use std::collections::BTreeSet;

use kgate_control::lease::Proposal;
use kgate_control::membership::{Eviction, Membership, MembershipChange};
use kgate_control::voters::Voters;
use kgate_core::NodeId;

use crate::decide::{self, INCARNATION, Memo, P, TERMS};

pub(crate) const NODES: usize = 3;

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// E4: EVICT is applied whatever has happened since.
    EvictBlindly,
    /// N2: p answers itself although it is suspected.
    SelfAnswer,
    /// E4: EVICT is applied although the voters have changed since.
    OtherVotersEvict,
    /// N4: a voter answers although its log has newer voters than it has applied, and shows the
    /// newer ones.
    BehindAnswers,
    /// N4: the same, and it shows the applied ones.
    AppliedShown,
    /// E3: the wait counts although it began before the voters in force were applied.
    WaitBeforeVoters,
}

/// An entry of the log, after the first two, which set the voters and add p.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Entry {
    Suspect,
    /// Clears p of the first suspicion.
    Unsuspect,
    /// The old voters and the new ones.
    Joint,
    /// The new voters.
    Final,
    Evict {
        at: u64,
        voters_at: u64,
    },
}

/// A share of a voter in p's lease that has not lapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Share {
    /// The entry of the voters that the answer shows.
    pub(crate) shown: u64,
    /// The nodes that applied their present voters after it was given, one bit per node.
    pub(crate) before: u8,
}

/// The shares of one voter, the oldest first. `kept` belongs to a lease that was reached with
/// former voters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shares {
    pub(crate) kept: Option<Share>,
    pub(crate) arrived: Option<Share>,
    pub(crate) flying: Option<Share>,
}

impl Shares {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Share> {
        self.kept.iter().chain(&self.arrived).chain(&self.flying)
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Share> {
        [&mut self.kept, &mut self.arrived, &mut self.flying].into_iter().flatten()
    }
}

/// A lease that p reached before it heard of newer voters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reached {
    by: BTreeSet<NodeId>,
    /// The entries of the voters of which a quorum was needed.
    binding: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The entries, in order.
    pub(crate) log: Vec<Entry>,
    pub(crate) appended: [usize; NODES],
    pub(crate) applied: [usize; NODES],
    pub(crate) shares: [Shares; NODES],
    pub(crate) reached: Option<Reached>,
    /// Evictions on their way to the log: (suspicion, voters).
    pub(crate) proposals: BTreeSet<(u64, u64)>,
    /// The steps of the script that are done.
    pub(crate) scripted: usize,
    /// The steps of the change of voters that are done.
    pub(crate) changed: usize,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The next step of the script is appended to the log: a suspicion, or a clearing.
    Script,
    /// The next step of the change of voters is.
    Change,
    /// A proposed eviction is.
    Log(u64, u64),
    Append(usize),
    Apply(usize),
    Answer(usize),
    Arrive(usize),
    Lapse(usize),
    Evict(usize),
}

/// The model that is explored.
pub(crate) struct LeaseModel {
    first: BTreeSet<NodeId>,
    pub(crate) script: Vec<Entry>,
    pub(crate) target: Option<BTreeSet<NodeId>>,
    pub(crate) mutation: Option<Mutation>,
    /// Whether answers take time.
    pub(crate) late_answers: bool,
    pub(crate) memo: Memo,
}

fn set(nodes: &[u32]) -> BTreeSet<NodeId> {
    nodes.iter().copied().map(NodeId).collect()
}

/// The number of first entries: the voters, and p as a member.
pub(crate) const BASE: usize = 2;
/// The most evictions in the log.
pub(crate) const EVICTIONS: usize = 1;

impl LeaseModel {
    pub(crate) fn new(first: &[u32], script: &[Entry], target: Option<&[u32]>) -> Self {
        Self {
            first: set(first),
            script: script.to_vec(),
            target: target.map(set),
            mutation: None,
            late_answers: true,
            memo: Memo::default(),
        }
    }

    pub(crate) fn with(mut self, mutation: Mutation) -> Self {
        self.mutation = Some(mutation);
        self
    }

    /// Answers arrive at once, or never.
    pub(crate) fn prompt(mut self) -> Self {
        self.late_answers = false;
        self
    }

    /// The newest voters within so many entries.
    pub(crate) fn voters(&self, log: &[Entry], length: usize) -> Voters {
        let mut voters = Voters { at: 1, sets: vec![self.first.clone()] };
        for (position, entry) in log.iter().enumerate().take(length.saturating_sub(BASE)) {
            let target = || self.target.clone().unwrap_or_default();
            let sets = match entry {
                Entry::Joint => vec![self.first.clone(), target()],
                Entry::Final => vec![target()],
                Entry::Suspect | Entry::Unsuspect | Entry::Evict { .. } => continue,
            };
            voters = Voters { at: (position + BASE + 1) as u64, sets };
        }
        voters
    }

    /// The membership after so many entries.
    pub(crate) fn membership(&self, log: &[Entry], length: usize) -> Membership {
        let mut membership = Membership::default();
        membership.apply(MembershipChange::Added(P, INCARNATION, TERMS));
        let mut first_suspicion = None;
        for (position, entry) in log.iter().enumerate().take(length.saturating_sub(BASE)) {
            let index = (position + BASE + 1) as u64;
            match entry {
                Entry::Suspect if membership.is_trusted(P, INCARNATION) => {
                    first_suspicion = first_suspicion.or(Some(index));
                    membership.apply(MembershipChange::Suspected(P, INCARNATION, index));
                }
                Entry::Unsuspect => {
                    let present =
                        membership.incarnation(P, INCARNATION).and_then(|member| member.suspected);
                    if present.is_some() && present == first_suspicion {
                        membership.apply(MembershipChange::Unsuspected(P, INCARNATION));
                    }
                }
                Entry::Evict { at, voters_at } => {
                    let blind = self.mutation == Some(Mutation::OtherVotersEvict);
                    let in_force =
                        if blind { *voters_at } else { self.voters(log, position + BASE).at };
                    let eviction = Eviction {
                        node: P,
                        incarnation: INCARNATION,
                        at: *at,
                        voters_at: *voters_at,
                        waited: TERMS.wait(),
                    };
                    if self.mutation == Some(Mutation::EvictBlindly)
                        || membership.may_evict(eviction, in_force).is_ok()
                    {
                        membership.apply(MembershipChange::Gone(P, INCARNATION));
                    }
                }
                Entry::Suspect | Entry::Joint | Entry::Final => {}
            }
        }
        membership
    }

    pub(crate) fn length(state: &State) -> usize {
        BASE + state.log.len()
    }

    pub(crate) fn committed(&self, state: &State) -> usize {
        let newest = self.voters(&state.log, Self::length(state));
        let reached =
            newest.reached(|node| state.appended.get(node.index()).copied()).unwrap_or(BASE);
        reached.max(state.applied.iter().copied().max().unwrap_or(BASE))
    }

    /// The next step of the change of voters, if there is one and the last is committed.
    pub(crate) fn next_voters(&self, state: &State) -> Option<Entry> {
        self.target.as_ref()?;
        let newest = self.voters(&state.log, Self::length(state));
        match state.changed {
            0 => Some(Entry::Joint),
            1 if newest.at <= self.committed(state) as u64 => Some(Entry::Final),
            _ => None,
        }
    }

    /// Whether p has a lease, by its shares or by one reached before.
    pub(crate) fn holds(&self, state: &State) -> bool {
        let member = self
            .membership(&state.log, state.applied[P.index()])
            .incarnation(P, INCARNATION)
            .is_some();
        member && (self.is_kept(state) || decide::is_lease(self, state))
    }

    /// Whether a lease that was reached with former voters is still valid.
    fn is_kept(&self, state: &State) -> bool {
        let quorum = |reached: &Reached, at: &u64| {
            let at = usize::try_from(*at).expect("short");
            self.voters(&state.log, at).is_quorum(|node| reached.by.contains(&node))
        };
        state
            .reached
            .as_ref()
            .is_some_and(|reached| reached.binding.iter().all(|at| quorum(reached, at)))
    }

    pub(crate) fn evicted(&self, state: &State) -> bool {
        let gone = |applied: &usize| {
            self.membership(&state.log, *applied).incarnation(P, INCARNATION).is_none()
        };
        state.applied.iter().any(gone)
    }

    /// Applies a change by which p may learn of newer voters. A lease that p has stays valid.
    pub(crate) fn keep_lease(&self, state: &mut State, change: impl FnOnce(&mut State)) {
        let had = decide::is_lease(self, state);
        let by =
            (0..NODES).filter(|node| state.shares[*node].arrived.is_some()).map(node_id).collect();
        let binding = decide::binding(self, state);
        let before: Vec<_> = state.shares.iter().map(|shares| shares.arrived).collect();
        change(state);
        if had && !decide::is_lease(self, state) {
            for (shares, before) in state.shares.iter_mut().zip(before) {
                let same = |before: &Share| {
                    shares.arrived.as_ref().is_some_and(|share| share.shown == before.shown)
                };
                shares.kept = before.filter(|before| !same(before));
            }
            state.reached = Some(Reached { by, binding });
        }
    }

    /// The oldest share of that voter lapses.
    pub(crate) fn lapse(&self, state: &mut State, node: usize) {
        let shares = &mut state.shares[node];
        let oldest = [&mut shares.kept, &mut shares.arrived, &mut shares.flying];
        let Some((which, share)) =
            oldest.into_iter().enumerate().find(|(_, share)| share.is_some())
        else {
            return;
        };
        *share = None;
        if let (true, Some(reached)) = (which < 2, &mut state.reached) {
            reached.by.remove(&node_id(node));
        }
        if !self.is_kept(state) {
            state.reached = None;
            for shares in &mut state.shares {
                shares.kept = None;
            }
        }
    }

    pub(crate) fn arrive(state: &mut State, node: usize) {
        let kept =
            state.reached.as_ref().is_some_and(|reached| reached.by.contains(&node_id(node)));
        let shares = &mut state.shares[node];
        let before = shares.arrived.take();
        if kept && shares.kept.is_none() {
            shares.kept = before;
        }
        shares.arrived = shares.flying.take();
    }
}

pub(crate) fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index).expect("three"))
}

impl State {
    /// Every share that this voter gave has lapsed.
    pub(crate) fn is_ripe(&self, node: usize) -> bool {
        self.shares[node].all().next().is_none()
    }

    /// Every share that was given before this node applied its voters has lapsed.
    pub(crate) fn is_settled(&self, node: usize) -> bool {
        self.shares.iter().flat_map(Shares::all).all(|share| share.before & (1 << node) == 0)
    }
}

/// The eviction in a proposal, if it is one.
pub(crate) fn eviction_in(proposal: Proposal) -> Option<(u64, u64)> {
    match proposal {
        Proposal::Evict(Eviction { at, voters_at, .. }) => Some((at, voters_at)),
        Proposal::Suspect { .. } | Proposal::Unsuspect { .. } => None,
    }
}
