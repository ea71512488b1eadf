//! The room: what can happen next, and what it does.

use std::collections::BTreeSet;

use kgate_control::lease::Proposal;
use kgate_control::roll::{Eviction, Roll, RollChange};
use kgate_control::voters::Voters;
use kgate_core::NodeId;
use stateright::{Model, Property};

use crate::decide::{self, LIFE, P, TERMS};

pub(crate) const NODES: usize = 3;

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// E4: EVICT is applied whatever has happened since.
    EvictBlindly,
    /// N2: p answers itself although it is suspected.
    SelfAnswer,
    /// E4: EVICT is applied although the voters have changed since.
    OtherVotersEvict,
    /// N4: a voter answers although newer voters are in its log than it has applied; it shows them.
    BehindAnswers,
    /// N4: the same, and it shows those applied.
    AppliedShown,
    /// E3: what was waited before the present voters were applied counts.
    WaitBeforeVoters,
}

/// An entry of the log, after the first that make the voters and the member p.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    Suspect,
    /// Of the first suspicion.
    Unsuspect,
    Voters(Vec<BTreeSet<NodeId>>),
    Evict {
        at: u64,
        voters_at: u64,
    },
}

/// A share of a voter in p's lease, not lapsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Share {
    /// The voters that it shows.
    pub(crate) shown: Voters,
    /// It was given before these nodes applied their present voters (a bit a node).
    before: u8,
}

/// The shares of one voter, the oldest first. `kept` belongs to a lease that was reached by voters of the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shares {
    kept: Option<Share>,
    pub(crate) arrived: Option<Share>,
    flying: Option<Share>,
}

impl Shares {
    fn all(&self) -> impl Iterator<Item = &Share> {
        self.kept.iter().chain(&self.arrived).chain(&self.flying)
    }
}

/// A lease that p reached before it heard of newer voters: whoever is still in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reached {
    by: BTreeSet<NodeId>,
    binding: Vec<Voters>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// What was proposed so far, in its order.
    pub(crate) log: Vec<Entry>,
    pub(crate) appended: [usize; NODES],
    pub(crate) applied: [usize; NODES],
    pub(crate) shares: [Shares; NODES],
    reached: Option<Reached>,
    /// Evictions on their way to the log: (suspicion, voters).
    wishes: BTreeSet<(u64, u64)>,
    /// How much of what the outside does is done.
    scripted: usize,
    changed: usize,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// The next suspicion or clearing comes into the log.
    Script,
    /// The next step of the change of voters does.
    Change,
    /// An eviction does.
    Log(u64, u64),
    Append(usize),
    Apply(usize),
    Answer(usize),
    Arrive(usize),
    Lapse(usize),
    Evict(usize),
}

/// What is explored.
pub(crate) struct Room {
    first: BTreeSet<NodeId>,
    script: Vec<Entry>,
    target: Option<BTreeSet<NodeId>>,
    pub(crate) flaw: Option<Flaw>,
    /// Whether answers take time.
    pub(crate) late_answers: bool,
}

fn set(nodes: &[u32]) -> BTreeSet<NodeId> {
    nodes.iter().copied().map(NodeId).collect()
}

/// The first entries: the voters, and p as a member.
const BASE: usize = 2;
/// Evictions in the log at most.
const EVICTIONS: usize = 1;

impl Room {
    pub(crate) fn new(first: &[u32], script: &[Entry], target: Option<&[u32]>) -> Self {
        Self {
            first: set(first),
            script: script.to_vec(),
            target: target.map(set),
            flaw: None,
            late_answers: true,
        }
    }

    pub(crate) fn with(mut self, flaw: Flaw) -> Self {
        self.flaw = Some(flaw);
        self
    }

    /// Answers arrive at once or never.
    pub(crate) fn prompt(mut self) -> Self {
        self.late_answers = false;
        self
    }

    /// The newest voters within so many entries.
    pub(crate) fn voters(&self, log: &[Entry], length: usize) -> Voters {
        let mut voters = Voters { at: 1, sets: vec![self.first.clone()] };
        for (position, entry) in log.iter().enumerate().take(length.saturating_sub(BASE)) {
            if let Entry::Voters(sets) = entry {
                voters = Voters { at: (position + BASE + 1) as u64, sets: sets.clone() };
            }
        }
        voters
    }

    /// The roll after so many entries.
    pub(crate) fn roll(&self, log: &[Entry], length: usize) -> Roll {
        let mut roll = Roll::default();
        roll.apply(RollChange::Added(P, LIFE, TERMS));
        let mut first_suspicion = None;
        for (position, entry) in log.iter().enumerate().take(length.saturating_sub(BASE)) {
            let index = (position + BASE + 1) as u64;
            match entry {
                Entry::Suspect if roll.is_trusted(P, LIFE) => {
                    first_suspicion = first_suspicion.or(Some(index));
                    roll.apply(RollChange::Suspected(P, LIFE, index));
                }
                Entry::Unsuspect => {
                    let present = roll.life(P, LIFE).and_then(|member| member.suspected);
                    if present.is_some() && present == first_suspicion {
                        roll.apply(RollChange::Unsuspected(P, LIFE));
                    }
                }
                Entry::Evict { at, voters_at } => {
                    let in_force = match self.flaw {
                        Some(Flaw::OtherVotersEvict) => *voters_at,
                        _ => self.voters(log, position + BASE).at,
                    };
                    let eviction = Eviction {
                        node: P,
                        incarnation: LIFE,
                        at: *at,
                        voters_at: *voters_at,
                        waited: TERMS.wait(),
                    };
                    if self.flaw == Some(Flaw::EvictBlindly) || roll.may_evict(eviction, in_force).is_ok() {
                        roll.apply(RollChange::Gone(P, LIFE));
                    }
                }
                Entry::Suspect | Entry::Voters(_) => {}
            }
        }
        roll
    }

    fn length(state: &State) -> usize {
        BASE + state.log.len()
    }

    fn committed(&self, state: &State) -> usize {
        let newest = self.voters(&state.log, Self::length(state));
        let reached = newest.reached(|node| state.appended.get(node.index()).copied()).unwrap_or(BASE);
        reached.max(state.applied.iter().copied().max().unwrap_or(BASE))
    }

    /// The next step of the change of voters, if there is one and the last is committed.
    fn next_voters(&self, state: &State) -> Option<Vec<BTreeSet<NodeId>>> {
        let target = self.target.clone()?;
        let newest = self.voters(&state.log, Self::length(state));
        match state.changed {
            0 => Some(vec![self.first.clone(), target]),
            1 if newest.at <= self.committed(state) as u64 => Some(vec![target]),
            _ => None,
        }
    }

    /// Whether p has a lease, by its shares or by one reached before.
    fn holds(&self, state: &State) -> bool {
        let quorum = |reached: &Reached| {
            reached.binding.iter().all(|voters| voters.is_quorum(|node| reached.by.contains(&node)))
        };
        let member = self.roll(&state.log, state.applied[P.index()]).life(P, LIFE).is_some();
        member && (state.reached.as_ref().is_some_and(quorum) || decide::is_lease(self, state))
    }

    fn evicted(&self, state: &State) -> bool {
        let gone = |applied: &usize| self.roll(&state.log, *applied).life(P, LIFE).is_none();
        state.applied.iter().any(gone)
    }

    /// A lease that is there stays, though p hears of newer voters by this.
    fn keep_lease(&self, state: &mut State, change: impl FnOnce(&mut State)) {
        let had = decide::is_lease(self, state);
        let by = (0..NODES).filter(|node| state.shares[*node].arrived.is_some()).map(node_id).collect();
        let binding = decide::binding(self, state);
        let before: Vec<_> = state.shares.iter().map(|shares| shares.arrived.clone()).collect();
        change(state);
        if had && !decide::is_lease(self, state) {
            for (shares, before) in state.shares.iter_mut().zip(before) {
                let same =
                    |before: &Share| shares.arrived.as_ref().is_some_and(|share| share.shown == before.shown);
                shares.kept = before.filter(|before| !same(before));
            }
            state.reached = Some(Reached { by, binding });
        }
    }

    fn lapse(state: &mut State, node: usize) {
        let shares = &mut state.shares[node];
        let oldest = [&mut shares.kept, &mut shares.arrived, &mut shares.flying];
        let Some((which, share)) = oldest.into_iter().enumerate().find(|(_, share)| share.is_some()) else {
            return;
        };
        *share = None;
        if which < 2
            && let Some(reached) = &mut state.reached
        {
            reached.by.remove(&node_id(node));
            if !reached.binding.iter().all(|voters| voters.is_quorum(|node| reached.by.contains(&node))) {
                state.reached = None;
                for shares in &mut state.shares {
                    shares.kept = None;
                }
            }
        }
    }

    fn arrive(state: &mut State, node: usize) {
        let kept = state.reached.as_ref().is_some_and(|reached| reached.by.contains(&node_id(node)));
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

impl Model for Room {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            log: Vec::new(),
            appended: [BASE; NODES],
            applied: [BASE; NODES],
            shares: Default::default(),
            reached: None,
            wishes: BTreeSet::new(),
            scripted: 0,
            changed: 0,
        }]
    }

    fn actions(&self, state: &State, acts: &mut Vec<Act>) {
        if state.scripted < self.script.len() {
            acts.push(Act::Script);
        }
        if self.next_voters(state).is_some() {
            acts.push(Act::Change);
        }
        let evictions = state.log.iter().filter(|entry| matches!(entry, Entry::Evict { .. })).count();
        if evictions < EVICTIONS {
            acts.extend(state.wishes.iter().map(|(at, voters_at)| Act::Log(*at, *voters_at)));
        }
        let committed = self.committed(state);
        for node in 0..NODES {
            if state.appended[node] < Self::length(state) {
                acts.push(Act::Append(node));
            }
            if state.applied[node] < committed.min(state.appended[node]) {
                acts.push(Act::Apply(node));
            }
            let shares = &state.shares[node];
            // The same share once more is the same as one that has not lapsed.
            let news = |shown: Voters| shares.arrived != Some(Share { shown, before: 0 });
            if shares.flying.is_none() && decide::share(self, state, node).is_some_and(news) {
                acts.push(Act::Answer(node));
            }
            if shares.flying.is_some() {
                acts.push(Act::Arrive(node));
            }
            if shares.all().next().is_some() {
                acts.push(Act::Lapse(node));
            }
            if evictions == 0
                && decide::eviction(self, state, node).is_some_and(|wish| !state.wishes.contains(&wish))
            {
                acts.push(Act::Evict(node));
            }
        }
    }

    fn next_state(&self, last: &State, act: Act) -> Option<State> {
        let mut state = last.clone();
        match act {
            Act::Script => {
                state.log.push(self.script[state.scripted].clone());
                state.scripted += 1;
            }
            Act::Change => {
                state.log.push(Entry::Voters(self.next_voters(last)?));
                state.changed += 1;
            }
            Act::Log(at, voters_at) => {
                state.wishes.remove(&(at, voters_at));
                state.log.push(Entry::Evict { at, voters_at });
            }
            Act::Append(node) => self.keep_lease(&mut state, |state| state.appended[node] += 1),
            Act::Apply(node) => self.keep_lease(&mut state, |state| {
                state.applied[node] += 1;
                if self.voters(&state.log, state.applied[node]).at == state.applied[node] as u64 {
                    // What was given before this has to lapse before that node evicts by these voters.
                    for shares in &mut state.shares {
                        for share in
                            [&mut shares.kept, &mut shares.arrived, &mut shares.flying].into_iter().flatten()
                        {
                            share.before |= 1 << node;
                        }
                    }
                }
            }),
            Act::Answer(node) => {
                let shown = decide::share(self, last, node)?;
                state.shares[node].flying = Some(Share { shown, before: 0 });
                if !self.late_answers {
                    self.keep_lease(&mut state, |state| Self::arrive(state, node));
                }
            }
            Act::Arrive(node) => self.keep_lease(&mut state, |state| Self::arrive(state, node)),
            Act::Lapse(node) => Self::lapse(&mut state, node),
            Act::Evict(node) => {
                state.wishes.insert(decide::eviction(self, last, node)?);
            }
        }
        Some(state)
    }

    /// Where nothing can go wrong any more is not looked at: p knows that it is evicted, or the only eviction was void.
    fn within_boundary(&self, state: &State) -> bool {
        let gone = |length| self.roll(&state.log, length).life(P, LIFE).is_none();
        let decided = state.log.iter().any(|entry| matches!(entry, Entry::Evict { .. }));
        !(decided && !gone(Self::length(state)) || gone(state.applied[P.index()]))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no lease after the eviction", |room: &Room, state: &State| {
                !(room.evicted(state) && room.holds(state))
            }),
            Property::sometimes("evicted", |room: &Room, state: &State| room.evicted(state)),
            Property::sometimes("a lease while suspected", |room: &Room, state: &State| {
                let suspected = |applied: &usize| !room.roll(&state.log, *applied).is_trusted(P, LIFE);
                room.holds(state) && state.applied.iter().any(suspected)
            }),
        ];
        if self.target.is_some() {
            properties.push(Property::sometimes("evicted by other voters", |room: &Room, state: &State| {
                room.evicted(state)
                    && state
                        .log
                        .iter()
                        .any(|entry| matches!(entry, Entry::Evict { voters_at, .. } if *voters_at > 1))
            }));
        }
        properties
    }
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

/// What an evictor wants, if it is this.
pub(crate) fn wish(proposal: Proposal) -> Option<(u64, u64)> {
    match proposal {
        Proposal::Evict { at, voters_at, .. } => Some((at, voters_at)),
        Proposal::Suspect { .. } | Proposal::Unsuspect { .. } => None,
    }
}
